//! Where others give out from the same pools.

mod common;

use berth_core::holder::Attachment;
use berth_core::ipam::{Config, Entropy, Group, Ipam};
use berth_core::model::Pool;
use berth_core::time::Time;
use common::*;
use std::collections::BTreeSet;

const NOW: u64 = 1_790_000_000_000_000;

fn among_others(pool: Pool) -> Ipam {
    let mut ipam = Ipam::among_others(7);
    ipam.configure(Config { pools: [(pool.name.clone(), pool)].into(), ..Config::default() });
    ipam
}

/// One address; the last number of its block, counted in blocks.
fn block_of(ipam: &mut Ipam, id: &str, at: u64) -> (String, u32) {
    let request = request(container(id), vec![Group::default()]);
    let outcome = ipam.allocate(&request, Time(NOW + at), &mut Entropy(1)).unwrap();
    let address = outcome.given[0].address();
    let std::net::IpAddr::V4(v4) = address else { panic!("{address}") };
    (address.to_string(), v4.to_bits() / 64)
}

#[test]
fn a_block_is_used_up_before_the_next_and_anothers_comes_last() {
    let mut other = ipam([whole("p", &["10.0.0.0/24"])]);
    let taken = one(&mut other, "theirs");
    assert_eq!(taken, "10.0.0.0");
    let (key, block) = other.blocks().next().map(|(key, block)| (key.clone(), block.clone())).unwrap();
    let mut own = among_others(whole("p", &["10.0.0.0/24"]));
    own.load(&key, block);
    let order: Vec<u32> = (0..255).map(|n| block_of(&mut own, &n.to_string(), n).1).collect();
    let mut runs = order.clone();
    runs.dedup();
    assert_eq!(runs.len(), 4, "one block after another: {runs:?}");
    assert_eq!(runs[3], order.iter().min().copied().unwrap(), "the one that another has begun comes last");
    assert_sound(&own);
}

#[test]
fn what_was_given_back_is_taken_from_the_own_place_on_and_not_at_once() {
    let mut own = among_others(whole("p", &["10.0.0.0/25"]));
    for n in 0..128 {
        block_of(&mut own, &n.to_string(), n);
    }
    for n in 0..128u64 {
        let id = (n * 37 % 128).to_string();
        own.release(Attachment { network: "net", id: &id, ifname: "eth0" }, Time(NOW + 1000 + n));
    }
    let mut blocks = Vec::new();
    let mut seen = BTreeSet::new();
    for n in 0..128 {
        let id = format!("again-{n}");
        let (address, block) = block_of(&mut own, &id, 2000 + n);
        assert!(seen.insert(address.clone()), "{address} comes back before the others had their turn");
        blocks.push(block);
        own.release(Attachment { network: "net", id: &id, ifname: "eth0" }, Time(NOW + 2000 + n));
    }
    blocks.dedup();
    assert!(blocks.len() <= 3, "in order of place, not of time: {blocks:?}");
    assert_sound(&own);
}
