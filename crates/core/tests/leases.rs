//! Runs of a pool lent to nodes.

mod common;

use berth_core::error::Error;
use berth_core::ipam::{Entropy, Group, Ipam};
use berth_core::model::{Lending, Pool, StickyPolicy};
use common::*;
use std::collections::BTreeSet;

fn lending(ranges: &[&str], block_len: u8, strict: bool) -> Pool {
    Pool { lending: Some(Lending { block_len, strict, most: None }), ..whole("p", ranges) }
}

fn add_on(ipam: &mut Ipam, id: &str, node: &str) -> Result<String, Error> {
    let mut wanted = request(container(id), vec![Group::default()]);
    wanted.subject.node = node.into();
    ipam.allocate(&wanted, NOW, &mut Entropy(1)).map(|outcome| given(&outcome).remove(0))
}

fn nodes(ipam: &Ipam) -> Vec<(String, String)> {
    ipam.leases("p").into_iter().map(|lease| (lease.prefix.to_string(), lease.node)).collect()
}

#[test]
fn a_node_allocates_from_its_own_leases() {
    let mut ipam = ipam([lending(&["10.0.0.0/24"], 26, false)]);
    for n in 0..100 {
        let node = if n % 2 == 0 { "a" } else { "b" };
        let address = ip(&add_on(&mut ipam, &format!("c{n}"), node).unwrap());
        let lease = ipam.leases("p").into_iter().find(|lease| lease.prefix.contains(address)).unwrap();
        assert_eq!(lease.node, node);
    }
    let lent = [("10.0.0.0/26", "a"), ("10.0.0.64/26", "b")].map(|(p, n)| (p.to_owned(), n.to_owned()));
    assert_eq!(nodes(&ipam), lent, "fifty each fit one lease");
    assert_sound(&ipam);
}

/// Invariant 6: what is lent to others is borrowed when nothing else is left, unless the pool is strict.
#[test]
fn the_last_addresses_are_borrowed() {
    for strict in [false, true] {
        let mut ipam = ipam([lending(&["10.0.0.0/29"], 30, strict)]);
        add_on(&mut ipam, "a0", "a").unwrap();
        add_on(&mut ipam, "b0", "b").unwrap();
        let more: Vec<_> = (1..8).map(|n| add_on(&mut ipam, &format!("a{n}"), "a")).collect();
        let served: BTreeSet<&String> = more.iter().flatten().collect();
        assert_eq!(served.len(), if strict { 3 } else { 6 });
        assert!(matches!(more.last(), Some(Err(Error::PoolExhausted { .. }))));
        assert_sound(&ipam);
    }
}

#[test]
fn a_lease_goes_back_when_nothing_in_it_is_used() {
    let mut ipam = ipam([lending(&["10.0.0.0/29"], 30, true)]);
    add_on(&mut ipam, "c", "a").unwrap();
    let lease = ipam.leases("p").remove(0);
    let usage = |ipam: &Ipam, lease| {
        let (taken, size) = ipam.lease_usage(lease);
        format!("{taken}/{size}")
    };
    assert_eq!(usage(&ipam, &lease), "1/4");
    let error = ipam.return_lease(&lease, NOW).unwrap_err();
    assert!(matches!(&error, Error::InUse { holders, .. } if holders.contains("10.0.0.0 by")), "{error}");
    del(&mut ipam, "c");
    assert_eq!(usage(&ipam, &lease), "0/4");
    ipam.return_lease(&lease, NOW).unwrap();
    assert_eq!(nodes(&ipam), []);
    assert!(matches!(ipam.return_lease(&lease, NOW), Err(Error::Invalid { .. })), "once");
    for n in 0..8 {
        add_on(&mut ipam, &format!("b{n}"), "b").unwrap();
    }
    assert_eq!(nodes(&ipam).len(), 2, "the other node may have it all now");
    assert_sound(&ipam);
}

#[test]
fn leases_of_any_size() {
    // Part of a block, a block, several blocks, and prefixes as units.
    for (ranges, block_len) in [("10.0.0.0/24", 29), ("10.0.0.0/24", 26), ("10.0.0.0/16", 22), ("fd00::/48", 112)] {
        let mut ipam = ipam([lending(&[ranges], block_len, false)]);
        add_on(&mut ipam, "c", "a").unwrap();
        assert_eq!(ipam.leases("p")[0].prefix.prefix_len(), block_len);
        let lent = ipam.lend("p", "b", NOW, &mut Entropy(1)).unwrap();
        assert!(!lent.prefix.covers(ipam.leases("p")[0].prefix.range()));
        assert_sound(&ipam);
    }
    let mut delegating = lending(&["fd00::/40"], 48, false);
    delegating.unit_len = 64;
    let mut ipam = ipam([delegating]);
    assert_eq!(add_on(&mut ipam, "c", "a").unwrap(), "fd00::");
    assert_eq!(nodes(&ipam), [("fd00::/48".to_owned(), "a".to_owned())]);
}

#[test]
fn what_is_lent_binds_the_configuration() {
    let mut ipam = ipam([lending(&["10.0.0.0/24"], 26, false)]);
    add_on(&mut ipam, "c", "a").unwrap();
    let edit = |pool: Pool| config([pool]);
    assert!(ipam.admits(&edit(lending(&["10.0.0.0/23"], 26, false))).is_ok(), "more is fine");
    assert!(matches!(ipam.admits(&edit(lending(&["10.0.0.0/24"], 27, false))), Err(Error::InUse { .. })));
    for (pool, field) in
        [(lending(&["10.0.0.0/27"], 26, false), "blockSize"), (lending(&["10.0.0.0/24"], 33, false), "blockSize")]
    {
        let error = edit(pool).validate().unwrap_err();
        assert!(error.to_string().contains(field), "{error}");
    }
    assert!(matches!(ipam.lend("absent", "a", NOW, &mut Entropy(1)), Err(Error::UnknownPool(_))));
    let plain = common::ipam([pool("p", &["10.0.0.0/24"])]).lend("p", "a", NOW, &mut Entropy(1));
    assert!(matches!(plain, Err(Error::Invalid { .. })));
}

/// The pool behind a pool that lends is nobody's business.
#[test]
fn requests_do_not_see_the_pool_of_leases() {
    let mut ipam = ipam([lending(&["10.0.0.0/24"], 26, false)]);
    assert_eq!(ipam.pools().count(), 1);
    assert_eq!(ipam.networks(), ["default"]);
    add(&mut ipam, container("c"), from(&["*"])).unwrap();
    assert_eq!(ipam.leases("p"), [], "who names no node needs no lease");
    assert!(matches!(add(&mut ipam, container("d"), from(&["p/leases"])), Err(Error::UnknownPoolType { .. })));
}

/// A node of a cluster, which knows only what the blocks say that it has seen.
fn among_others(pool: Pool) -> Ipam {
    let mut ipam = Ipam::among_others(7);
    ipam.configure(config([pool]));
    ipam
}

/// What is free in another's lease only the lessee knows: among others nobody takes from it, not even by name.
#[test]
fn among_others_a_lease_is_the_lessees_alone() {
    let mut ipam = among_others(lending(&["10.0.0.0/29"], 30, false));
    add_on(&mut ipam, "a0", "a").unwrap();
    add_on(&mut ipam, "b0", "b").unwrap();
    for n in 1..4 {
        add_on(&mut ipam, &format!("a{n}"), "a").unwrap();
    }
    assert!(
        matches!(add_on(&mut ipam, "a4", "a"), Err(Error::PoolExhausted { .. })),
        "b has three free, which are b's"
    );
    let theirs = ipam.leases("p").into_iter().find(|lease| lease.node == "b").unwrap();
    let last = theirs.prefix.range().last();
    let mut wanted = request(container("a5"), vec![Group { addresses: vec![last], ..Group::default() }]);
    wanted.subject.node = "a".into();
    let refused = ipam.allocate(&wanted, NOW, &mut Entropy(1));
    assert!(matches!(&refused, Err(Error::AddressReserved { reason, .. }) if reason.contains("\"b\"")), "{refused:?}");
    wanted.subject.node = "b".into();
    assert!(ipam.allocate(&wanted, NOW, &mut Entropy(1)).is_ok());
}

/// Nor does anybody else end what is in use in it, though its user be gone: the lessee would not hear of it.
#[test]
fn among_others_what_is_in_use_in_a_lease_is_ended_by_the_lessee_alone() {
    let mut ipam = among_others(Pool { sticky: Some(StickyPolicy::default()), ..lending(&["10.0.0.0/29"], 30, false) });
    let mut wanted = request(pod("c1", "ns", "db-0", "u1"), vec![Group::default()]);
    wanted.subject.node = "a".into();
    ipam.allocate(&wanted, NOW, &mut Entropy(1)).unwrap();
    let identity = ipam.slots().find_map(|(_, _, view)| Some(view.holder()?.sticky?.identity)).unwrap();
    assert_eq!(ipam.relieve(&identity, "b", |_| true, NOW), Vec::<std::net::IpAddr>::new());
    assert_eq!(ipam.relieve(&identity, "a", |_| true, NOW).len(), 1);
}

/// A lease that is opened is everybody's, with what is in use in it; nobody leases it again.
#[test]
fn an_opened_lease_serves_everybody() {
    let mut ipam = among_others(lending(&["10.0.0.0/29"], 30, false));
    let first = add_on(&mut ipam, "a0", "a").unwrap();
    let lease = ipam.leases("p").remove(0);
    ipam.open_lease(&lease, NOW).unwrap();
    assert!(ipam.leases("p").is_empty());
    // One run is left to be leased; then single addresses of the open one.
    let given: BTreeSet<String> = (0..7).map(|n| add_on(&mut ipam, &format!("b{n}"), "b").unwrap()).collect();
    assert_eq!(given.len(), 7);
    assert!(!given.contains(&first), "what is in use stays in use");
    assert_eq!(nodes(&ipam).len(), 1);
    assert!(matches!(add_on(&mut ipam, "b7", "b"), Err(Error::PoolExhausted { .. })));
    assert!(ipam.open_lease(&lease, NOW).is_err(), "it is no lease any more");
}

/// What is too small for a lease is never lost.
#[test]
fn the_fringe_of_a_range_serves_everybody() {
    let mut ipam = among_others(lending(&["10.0.0.2-10.0.0.9"], 30, false));
    let given: BTreeSet<String> = (0..8).map(|n| add_on(&mut ipam, &format!("c{n}"), "a").unwrap()).collect();
    assert_eq!(given.len(), 8);
    assert_eq!(nodes(&ipam).len(), 1, "one whole run, two halves");
}

/// A node that has all the leases it may have still gets addresses, as from a shared pool.
#[test]
fn a_node_at_its_cap_borrows() {
    let pool = lending(&["10.0.0.0/28"], 30, false);
    let capped = Lending { block_len: 30, strict: false, most: Some(1) };
    let mut ipam = among_others(Pool { lending: Some(capped), ..pool.clone() });
    let given: BTreeSet<String> = (0..16).map(|n| add_on(&mut ipam, &format!("c{n}"), "a").unwrap()).collect();
    assert_eq!(given.len(), 16);
    assert_eq!(nodes(&ipam).len(), 1, "the rest is open to everybody");
    let strict = Lending { strict: true, ..capped };
    let mut ipam = among_others(Pool { lending: Some(strict), ..pool });
    let served = (0..16).filter(|n| add_on(&mut ipam, &format!("c{n}"), "a").is_ok()).count();
    assert_eq!(served, 4);
}

/// What a stranger uses must not be lent to the next node.
#[test]
fn a_lease_with_an_address_in_quarantine_stays() {
    let mut ipam = ipam([lending(&["10.0.0.0/29"], 30, true)]);
    let address = ip(&add_on(&mut ipam, "c", "a").unwrap());
    let lease = ipam.leases("p").remove(0);
    let plane = ipam.pool("p").unwrap().plane();
    del(&mut ipam, "c");
    ipam.quarantine(&plane, address, None, NOW).unwrap();
    let refused = ipam.return_lease(&lease, NOW);
    assert!(matches!(&refused, Err(Error::InUse { holders, .. }) if holders.contains("quarantine")), "{refused:?}");
}
