//! Addresses that a pod has before it asks.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use berth_core::block::BlockKey;
use berth_core::holder::Holder;
use berth_core::ipam::{Entropy, Given, Ipam, Outcome, Request};
use common::*;
use std::net::IpAddr;

fn asks(id: &str, uid: &str, pools: &[&str]) -> Request {
    let holder = Holder { node: "n1".into(), ..pod(id, "shop", uid, uid) };
    request(holder, vec![from(pools)])
}

fn promised(uids: &[&str]) -> Ipam {
    let mut ipam = ipam([pool("p", &["10.0.0.0/29"]), pool("q", &["10.0.1.0/29"])]);
    for uid in uids {
        ipam.promise(&asks("", uid, &["p"]), NOW, &mut Entropy(7)).unwrap().unwrap();
    }
    ipam.commit();
    ipam
}

fn addresses(outcome: &Outcome) -> Vec<IpAddr> {
    outcome.given.iter().map(Given::address).collect()
}

fn used(ipam: &Ipam) -> usize {
    ipam.slots().filter(|(.., view)| view.holder().is_some()).count()
}

#[test]
fn the_first_container_of_a_pod_takes_up_what_the_pod_was_promised() {
    let mut ipam = promised(&["a", "b"]);
    let own = ipam.of_attachment(asks("pod-b", "b", &["p"]).holder.attachment());
    assert_eq!(addresses(&ipam.allocate(&asks("c1", "b", &["p"]), NOW, &mut Entropy(7)).unwrap()), own);
    assert!(ipam.changes().iter().all(berth_core::ipam::Change::is_arrival), "nobody else is concerned");
    assert_eq!((ipam.changes().len(), used(&ipam)), (1, 2));
    assert_sound(&ipam);
    let again = addresses(&ipam.allocate(&asks("c1", "b", &["p"]), NOW, &mut Entropy(7)).unwrap());
    assert_eq!(again, own, "the same ADD, the same answer");
    assert!(ipam.break_promise("b", "net", "eth0", NOW).is_empty(), "it is the container's now");
    assert_eq!(ipam.release(asks("c1", "b", &["p"]).holder.attachment(), NOW), own);
    assert!(ipam.changes().iter().any(|change| !change.is_arrival()), "that it is free concerns everybody");
}

#[test]
fn who_asks_for_something_else_gets_that_and_the_promise_is_taken_back() {
    let mut ipam = promised(&["a"]);
    let other = addresses(&ipam.allocate(&asks("c1", "a", &["q"]), NOW, &mut Entropy(7)).unwrap());
    assert!(other[0].to_string().starts_with("10.0.1."), "{other:?}");
    assert_eq!(used(&ipam), 1);
    assert_sound(&ipam);
}

#[test]
fn nobody_is_promised_what_he_has_already() {
    let mut ipam = promised(&["a"]);
    let promise = |ipam: &mut Ipam, uid: &str| ipam.promise(&asks("", uid, &["p"]), NOW, &mut Entropy(7));
    assert!(promise(&mut ipam, "a").unwrap().is_none(), "one promise is enough");
    ipam.allocate(&asks("c1", "b", &["p"]), NOW, &mut Entropy(7)).unwrap();
    assert!(promise(&mut ipam, "b").unwrap().is_none(), "its container was quicker");
    assert!(promise(&mut ipam, "").is_err(), "a pod that cannot be told from others");
    assert_eq!(used(&ipam), 2);
}

#[test]
fn a_promise_ends_with_the_pod_and_not_with_a_list_of_containers() {
    let mut ipam = promised(&["a", "b"]);
    assert!(ipam.collect_garbage("net", "n1", &[], NOW, |_| false).is_empty());
    assert_eq!(ipam.break_promise("a", "net", "eth0", NOW).len(), 1);
    assert_eq!(used(&ipam), 1);
    assert_sound(&ipam);
}

#[test]
fn a_second_sandbox_gets_what_it_would_without_promises() {
    let mut ipam = promised(&["a"]);
    let first = addresses(&ipam.allocate(&asks("c1", "a", &["p"]), NOW, &mut Entropy(7)).unwrap());
    let second = addresses(&ipam.allocate(&asks("c2", "a", &["p"]), NOW, &mut Entropy(7)).unwrap());
    assert_ne!(first, second, "the first may be alive still");
    assert_eq!(ipam.release(asks("c1", "a", &["p"]).holder.attachment(), NOW), first);
    assert_eq!(ipam.of_attachment(asks("c2", "a", &["p"]).holder.attachment()), second);
}

#[test]
fn what_is_recorded_anew_is_written_as_it_is() {
    let mut ipam = promised(&["a"]);
    let (key, slot) = ipam.slots().map(|(plane, unit, _)| BlockKey::of(plane, unit)).next().unwrap();
    ipam.record_anew(&key, 1 << slot | 1 << 60);
    let [change] = ipam.changes() else { panic!("{:?}", ipam.changes()) };
    assert!(change.before == change.after && !change.is_arrival());
}
