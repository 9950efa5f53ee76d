//! Strangers on the wire: what they use is set apart, and the container gets something else or nothing.

mod common;

use berth_core::block::State;
use berth_core::detect::QUARANTINE;
use berth_core::error::Error;
use berth_core::holder::{Holder, Sticky};
use berth_core::ipam::{Entropy, Group, Ipam, Replaced};
use berth_core::model::{Pick, Pool, StickyPolicy};
use common::*;
use std::net::IpAddr;

fn replace(ipam: &mut Ipam, holder: Holder, group: Group, strangers: &[&str]) -> Replaced {
    let strangers: Vec<IpAddr> = strangers.iter().map(|text| ip(text)).collect();
    let until = NOW.after(QUARANTINE);
    let replaced = ipam.replace(&request(holder, vec![group]), &strangers, until, NOW, &mut Entropy(7));
    ipam.commit();
    assert_sound(ipam);
    replaced
}

fn quarantined(ipam: &Ipam) -> Vec<String> {
    let apart = ipam.slots().filter(|(_, _, view)| view.state == State::Quarantined);
    apart.map(|(plane, unit, _)| plane.addr(unit).to_string()).collect()
}

fn dual() -> Ipam {
    ipam([whole("four", &["10.0.0.0/29"]), whole("six", &["fd00::/125"])])
}

#[test]
fn only_what_a_stranger_uses_is_replaced_and_again_changes_nothing() {
    let mut ipam = dual();
    let first = given(&add(&mut ipam, container("a"), Group::default()).unwrap());
    assert_eq!(first, ["10.0.0.0", "fd00::"]);
    let replaced = replace(&mut ipam, container("a"), Group::default(), &["10.0.0.0"]);
    assert_eq!(replaced.quarantined, [ip("10.0.0.0")]);
    assert_eq!(given(&replaced.outcome.unwrap()), ["10.0.0.1", "fd00::"]);
    assert_eq!(quarantined(&ipam), ["10.0.0.0"]);
    let again = replace(&mut ipam, container("a"), Group::default(), &["10.0.0.0"]);
    assert_eq!(given(&again.outcome.unwrap()), ["10.0.0.1", "fd00::"]);
    assert_eq!(given(&add(&mut ipam, container("a"), Group::default()).unwrap()), ["10.0.0.1", "fd00::"]);
    assert_eq!(del(&mut ipam, "a").len(), 2);
    assert_eq!(ipam.sweep(NOW.after(QUARANTINE)), [ip("10.0.0.0")], "it is given out again some day");
}

#[test]
fn free_addresses_that_strangers_use_are_set_apart_too_but_none_of_our_own() {
    let mut ipam = dual();
    add(&mut ipam, container("a"), from(&["four"])).unwrap();
    add(&mut ipam, container("b"), from(&["four"])).unwrap();
    let strangers = ["10.0.0.0", "10.0.0.1", "10.0.0.2", "192.0.2.1"];
    let replaced = replace(&mut ipam, container("a"), from(&["four"]), &strangers);
    assert_eq!(replaced.quarantined, [ip("10.0.0.0"), ip("10.0.0.2")], "the second is b's");
    assert_eq!(given(&replaced.outcome.unwrap()), ["10.0.0.3"]);
}

#[test]
fn a_network_that_only_looks_alike_is_left_alone() {
    let other = Pool { network: "other".into(), ..whole("other", &["10.0.0.0/29"]) };
    let mut ipam = ipam([whole("four", &["10.0.0.0/29"]), other]);
    add(&mut ipam, container("a"), from(&["four"])).unwrap();
    replace(&mut ipam, container("a"), from(&["four"]), &["10.0.0.0", "10.0.0.1"]).outcome.unwrap();
    let elsewhere = Group { network: Some("other".into()), ..from(&["other"]) };
    assert_eq!(given(&add(&mut ipam, container("b"), elsewhere).unwrap()), ["10.0.0.0"]);
}

#[test]
fn if_strangers_have_all_of_it_the_container_has_nothing_and_they_are_remembered() {
    let mut ipam = ipam([whole("four", &["10.0.0.0/31"]), whole("six", &["fd00::/125"])]);
    add(&mut ipam, container("a"), Group::default()).unwrap();
    let replaced = replace(&mut ipam, container("a"), Group::default(), &["10.0.0.0", "10.0.0.1"]);
    assert!(matches!(replaced.outcome, Err(Error::PoolExhausted { .. })), "{:?}", replaced.outcome);
    assert_eq!(quarantined(&ipam), ["10.0.0.0", "10.0.0.1"]);
    assert!(ipam.of_attachment(container("a").attachment()).is_empty(), "half an answer would pass for a whole one");
    assert!(del(&mut ipam, "a").is_empty());
}

#[test]
fn one_asked_for_by_address_is_not_replaced_by_another() {
    let mut ipam = dual();
    add(&mut ipam, container("a"), exactly(&["10.0.0.5"])).unwrap();
    let replaced = replace(&mut ipam, container("a"), exactly(&["10.0.0.5"]), &["10.0.0.5"]);
    assert!(matches!(replaced.outcome, Err(Error::AddressTaken { .. })), "{:?}", replaced.outcome);
}

#[test]
fn a_pod_that_comes_back_for_its_address_comes_back_for_the_new_one() {
    let sticky = Pool { sticky: Some(StickyPolicy::default()), ..whole("four", &["10.0.0.0/29"]) };
    let mut ipam = ipam([sticky]);
    add(&mut ipam, pod("a", "shop", "web-0", "u1"), Group::default()).unwrap();
    let replaced = replace(&mut ipam, pod("a", "shop", "web-0", "u1"), Group::default(), &["10.0.0.0"]);
    assert_eq!(given(&replaced.outcome.unwrap()), ["10.0.0.1"]);
    del(&mut ipam, "a");
    assert_eq!(given(&add(&mut ipam, pod("b", "shop", "web-0", "u2"), Group::default()).unwrap()), ["10.0.0.1"]);
}

#[test]
fn what_is_kept_by_a_claim_stays_with_the_claim() {
    let mut ipam = dual();
    let sticky = Some(Sticky { identity: "claim/shop/db".into(), keep: None });
    let holder = Holder { sticky, ..container("a") };
    assert_eq!(given(&add(&mut ipam, holder.clone(), Group::default()).unwrap()), ["10.0.0.0", "fd00::"]);
    let replaced = replace(&mut ipam, holder, Group::default(), &["fd00::"]);
    assert_eq!(given(&replaced.outcome.unwrap()), ["10.0.0.0", "fd00::1"]);
    assert_eq!(ipam.of_identity("claim/shop/db").len(), 2);
}

#[test]
fn what_comes_next_is_told_and_nothing_changes() {
    for pick in [Pick::Sequential, Pick::LeastRecentlyReleased] {
        let mut ipam = ipam([Pool { pick, ..whole("four", &["10.0.0.0/29"]) }]);
        one(&mut ipam, "a");
        let before = dump(&ipam);
        let next = ipam.upcoming("four", "", 3, NOW, &mut Entropy(1));
        assert_eq!(next, ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(ip));
        assert_eq!(dump(&ipam), before);
        assert!(ipam.changes().is_empty());
        assert_eq!(one(&mut ipam, "b"), "10.0.0.1");
        assert_eq!(ipam.upcoming("four", "", 99, NOW, &mut Entropy(1)).len(), 6, "no more than there are");
    }
}
