//! Addresses that were given along with another interface of the container, and await their own ADD.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use berth_core::holder::{Holder, Sticky};
use berth_core::ipam::{Entropy, Ipam, Request};
use common::*;

fn nic(id: &str, ifname: &str, awaited: bool) -> Request {
    let holder = Holder { ifname: ifname.into(), network: format!("cni-{ifname}"), awaited, ..pod(id, "ns", id, id) };
    request(holder, vec![from(&["p"])])
}

/// ADD of `eth0` of these containers, with `net1` along.
fn given_along(ids: &[&str]) -> Ipam {
    let mut ipam = ipam([pool("p", &["10.0.0.0/24"])]);
    for id in ids {
        ipam.allocate_all(&[nic(id, "eth0", false), nic(id, "net1", true)], NOW, &mut Entropy(7)).unwrap();
    }
    ipam.commit();
    ipam
}

fn awaiting(ipam: &Ipam, id: &str) -> Vec<String> {
    ipam.awaited(id).into_iter().map(|holder| holder.ifname).collect()
}

#[test]
fn what_was_given_along_awaits_its_own_add() {
    let mut ipam = given_along(&["a"]);
    let along = ipam.of_attachment(nic("a", "net1", false).holder.attachment());
    assert_eq!(awaiting(&ipam, "a"), ["net1"]);
    assert_sound(&ipam);
    // The same again, as an ADD that is decided anew: it still waits.
    ipam.allocate(&nic("a", "net1", true), NOW, &mut Entropy(7)).unwrap();
    assert_eq!((awaiting(&ipam, "a").len(), ipam.changes().len()), (1, 0));
    let own = ipam.allocate(&nic("a", "net1", false), NOW, &mut Entropy(7)).unwrap();
    assert_eq!(
        own.given.iter().map(berth_core::ipam::Given::address).collect::<Vec<_>>(),
        along,
        "its own ADD finds it"
    );
    assert!(awaiting(&ipam, "a").is_empty());
    // And whoever asks for eth0 later gives nothing along that is somebody's.
    ipam.allocate(&nic("a", "net1", true), NOW, &mut Entropy(7)).unwrap();
    assert!(awaiting(&ipam, "a").is_empty());
    assert_sound(&ipam);
}

#[test]
fn one_that_is_kept_for_its_pod_no_longer_waits() {
    let mut ipam = given_along(&[]);
    let mut along = nic("a", "net1", true);
    along.holder.sticky = Some(Sticky { identity: "pod/ns/a/net1".into(), keep: None });
    let first = given(&ipam.allocate(&along, NOW, &mut Entropy(7)).unwrap());
    ipam.release(along.holder.attachment(), NOW);
    ipam.commit();
    assert!(awaiting(&ipam, "").is_empty() && awaiting(&ipam, "a").is_empty());
    assert_sound(&ipam);
    let mut again = nic("b", "net1", true);
    again.holder.sticky = along.holder.sticky;
    assert_eq!(given(&ipam.allocate(&again, NOW, &mut Entropy(7)).unwrap()), first);
    assert_eq!(awaiting(&ipam, "b"), ["net1"]);
}

#[test]
fn garbage_collection_takes_what_was_given_along_with_the_rest_of_the_container_and_not_before() {
    let mut ipam = given_along(&["lives", "gone"]);
    let none = |_: berth_core::holder::Attachment<'_>| false;
    // The network of net1 has not heard of it yet: that is no reason to take it.
    assert!(ipam.collect_garbage("cni-net1", "", &[], NOW, none).is_empty());
    let valid = [("lives".to_owned(), "eth0".to_owned())];
    let newer = |key: berth_core::holder::Attachment<'_>| key.ifname == "net1";
    assert_eq!(ipam.collect_garbage("cni-eth0", "", &valid, NOW, newer).len(), 1, "the list is older than net1");
    assert_eq!(ipam.collect_garbage("cni-net1", "", &[], NOW, none).len(), 1, "nothing else of it is left now");
    assert_eq!(awaiting(&ipam, "lives"), ["net1"]);
    assert_eq!(ipam.collect_garbage("cni-eth0", "", &[], NOW, none).len(), 2, "both of a container at once");
    assert!(ipam.slots().all(|(_, _, view)| view.holder().is_none()));
    assert_sound(&ipam);
}

/// Nodes meet in blocks, and a runtime knows the containers of its own.
#[test]
fn garbage_collection_is_of_one_node() {
    let mut ipam = ipam([pool("p", &["10.0.0.0/24"])]);
    for node in ["n1", "n2"] {
        for awaited in [false, true] {
            let mut one = nic(node, if awaited { "net1" } else { "eth0" }, awaited);
            one.holder.node = node.into();
            ipam.allocate(&one, NOW, &mut Entropy(7)).unwrap();
        }
    }
    let freed = ipam.collect_garbage("cni-eth0", "n1", &[], NOW, |_| false);
    assert_eq!(freed.len(), 2);
    assert!(ipam.slots().filter_map(|(_, _, view)| view.holder()).all(|holder| holder.node == "n2"));
    assert_sound(&ipam);
}
