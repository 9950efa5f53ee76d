//! What is in use although no block says so; and a clock that jumps.

mod common;

use berth_core::block::Plane;
use berth_core::error::Error;
use berth_core::holder::{Holder, Sticky};
use berth_core::ipam::{Entropy, Group, Ipam};
use berth_core::model::{Lending, Pool, StickyPolicy};
use berth_core::time::Time;
use common::*;
use std::collections::BTreeMap;

fn seen(uid: &str, node: &str) -> Holder {
    let (id, network) = (format!("pod-{uid}"), String::new());
    Holder { id, network, node: node.into(), ..pod("", "ns", uid, uid) }
}

fn plane(ipam: &Ipam) -> Plane {
    ipam.planes_of(ip("10.0.0.5")).remove(0)
}

#[test]
fn what_a_pod_is_seen_to_have_is_its_own_whatever_rules_say() {
    let mut strict = pool("p", &["10.0.0.0/24"]);
    strict.quota.per_namespace = Some(0);
    let mut ipam = ipam([strict]);
    let plane = plane(&ipam);
    assert_eq!(ipam.recognise(&plane, ip("10.0.0.5"), seen("u1", "n"), NOW), Ok(true));
    assert_eq!(ipam.recognise(&plane, ip("10.0.0.5"), seen("u1", "n"), NOW), Ok(false), "again is fine");
    let other = ipam.recognise(&plane, ip("10.0.0.5"), seen("u2", "n"), NOW);
    assert!(matches!(other, Err(Error::AddressTaken { .. })), "{other:?}");
    assert!(ipam.planes_of(ip("192.0.2.1")).is_empty());
    ipam.commit();
    assert_sound(&ipam);
}

/// The sandbox of which nobody knew the name is replaced like any other: at most one stays beside the latest.
#[test]
fn a_new_sandbox_takes_the_place_of_one_that_was_recognised() {
    for sticky in [None, Some(StickyPolicy::default())] {
        let mut ipam = ipam([Pool { sticky, ..pool("p", &["10.0.0.0/24"]) }]);
        let plane = plane(&ipam);
        let known = Holder { sticky: Some(Sticky::default()), ..seen("u1", "") };
        ipam.recognise(&plane, ip("10.0.0.5"), known, NOW).unwrap();
        ipam.commit();
        for n in 0..3 {
            let got = add(&mut ipam, pod(&format!("c{n}"), "ns", "u1", "u1"), Group::default()).unwrap();
            assert_eq!(given(&got) == ["10.0.0.5"], sticky.is_some(), "{got:?}");
            assert!(ipam.pool_usage("p", NOW).unwrap().in_use.saturating_u64() <= 2);
        }
        assert_sound(&ipam);
    }
}

#[test]
fn nothing_new_is_given_out_from_a_lease_that_is_barred() {
    let lending = Some(Lending { block_len: 28, strict: false, most: None });
    let mut ipam = Ipam::among_others(7);
    ipam.configure(config([Pool { lending, ..whole("p", &["10.0.0.0/26"]) }]));
    let add_on = |ipam: &mut Ipam, id: &str, group: Group| {
        let mut wanted = request(container(id), vec![group]);
        wanted.subject.node = "n".into();
        let outcome = ipam.allocate(&wanted, NOW, &mut Entropy(1));
        ipam.commit();
        outcome.map(|outcome| ip(&given(&outcome)[0]))
    };
    let first = add_on(&mut ipam, "a", Group::default()).unwrap();
    let lease = ipam.leases("p").remove(0);
    ipam.bar(std::slice::from_ref(&lease));
    let plane = plane(&ipam);
    for n in 0..20 {
        let address = add_on(&mut ipam, &format!("b{n}"), Group::default()).unwrap();
        assert!(!lease.prefix.contains(address), "{address}");
    }
    let named = lease.prefix.range().last();
    let refused = add_on(&mut ipam, "c", exactly(&[&named.to_string()]));
    assert!(matches!(refused, Err(Error::AddressReserved { .. })), "{refused:?}");
    assert_eq!(add_on(&mut ipam, "a", Group::default()), Ok(first), "who is there stays");
    assert_eq!(ipam.recognise(&plane, named, seen("u", "n"), NOW), Ok(true), "what is found out is recorded");
    ipam.commit();
    ipam.bar(&[]);
    let last: Vec<_> = (0..64).map_while(|n| add_on(&mut ipam, &format!("d{n}"), Group::default()).ok()).collect();
    assert!(last.iter().any(|address| lease.prefix.contains(*address)) && !last.contains(&named));
    assert_sound(&ipam);
}

/// A clock that jumped made two processes believe that each was the leader. Here no answer depends on the clock: it
/// jumps by an hour at every step, and no address is given twice, none is lost.
#[test]
fn b36_kubernetes_125761_a_clock_that_jumps() {
    let mut keeping = pool("p", &["10.0.0.0/27"]);
    keeping.sticky = Some(StickyPolicy { keep: Some(std::time::Duration::from_secs(600)), ..StickyPolicy::default() });
    let mut ipam = ipam([keeping]);
    let mut live: BTreeMap<String, String> = BTreeMap::new();
    let hours = [0i64, 1, -1, 5, -3, 2, -4, 0];
    // Each container comes and goes in turn; at the end half of them are there.
    for n in 0..410u64 {
        let jump = hours[(n % 8) as usize] * 3600;
        let now = Time::from_secs(1_790_000_000u64.saturating_add_signed(jump) + n);
        let id = format!("c{}", n % 20);
        if live.values().any(|holder| *holder == id) {
            ipam.release(container(&id).attachment(), now);
            live.retain(|_, holder| *holder != id);
        } else if let Ok(outcome) =
            ipam.allocate(&request(pod(&id, "ns", &id, &id), vec![Group::default()]), now, &mut Entropy(n))
        {
            let address = given(&outcome).remove(0);
            assert_eq!(live.insert(address.clone(), id), None, "{address} is in use twice");
        }
        ipam.sweep(now);
        ipam.commit();
        for (address, id) in &live {
            assert_eq!(ipam.of_attachment(container(id).attachment()), [ip(address)]);
        }
    }
    assert!(live.len() > 5);
    live.values().for_each(|id| drop(ipam.release(container(id).attachment(), Time::from_secs(1_790_000_400))));
    ipam.commit();
    // All is kept for ten minutes, and then free.
    ipam.sweep(Time::from_secs(1_790_100_000));
    ipam.commit();
    let usage = ipam.pool_usage("p", Time::from_secs(1_790_200_000)).unwrap();
    assert_eq!((usage.in_use.saturating_u64(), usage.held.saturating_u64()), (0, 0));
    assert_eq!(ipam.check(Time::from_secs(1_790_200_000)), Vec::new());
}
