//! Several interfaces of a container in one ADD, and every way in which a runtime can give up on it.

#![expect(clippy::unwrap_used, reason = "a test speaks by panicking")]

use berth_core::block::State;
use berth_core::error::Error;
use berth_core::holder::Holder;
use berth_core::ipam::{Config, Group, Request};
use berth_core::model::Pool;
use berth_core::time::Time;
use berth_engine::{Call, Done, Engine};
use berth_testing::MemoryStore;
use std::sync::atomic::{AtomicU64, Ordering};

/// An engine with a pool for each interface; that of `net2` has as many addresses as said.
fn engine(last: u8) -> Engine<MemoryStore> {
    let ranges = ["10.0.0.0/24".to_owned(), "10.1.0.0/24".to_owned(), format!("10.2.0.1-10.2.0.{last}")];
    let pools = ["eth0", "net1", "net2"].into_iter().zip(ranges);
    let pools = pools.map(|(name, range)| (name.to_owned(), Pool::new(name, vec![range.parse().unwrap()])));
    let config = Config { pools: pools.collect(), ..Config::default() };
    let clock = AtomicU64::new(1_790_000_000_000_000);
    let clock = move || Time(clock.fetch_add(1000, Ordering::Relaxed));
    Engine::open(MemoryStore::default(), config, 1, clock).unwrap()
}

fn request(id: &str, ifname: &str, awaited: bool) -> Request {
    let (network, id, ifname) = (format!("cni-{ifname}"), id.to_owned(), ifname.to_owned());
    let groups = vec![Group { pools: vec![ifname.clone()], ..Group::default() }];
    Request { holder: Holder { network, id, ifname, awaited, ..Holder::default() }, groups, ..Request::default() }
}

/// ADD of an interface, with all the others along.
fn add(engine: &Engine<MemoryStore>, id: &str, ifname: &str, stamp: u64) -> Result<Done, Error> {
    let mut names = vec!["eth0", "net1", "net2"];
    names.retain(|other| *other != ifname);
    names.insert(0, ifname);
    let requests = names.iter().enumerate().map(|(at, name)| request(id, name, at > 0)).collect();
    engine.run_all(vec![Call::Add { requests, stamp: Some(stamp) }]).remove(0)
}

fn del(engine: &Engine<MemoryStore>, id: &str, ifname: &str, stamp: u64) {
    engine.release(&format!("cni-{ifname}"), id, ifname, Some(stamp)).unwrap();
}

/// The interfaces that have an address.
fn held(engine: &Engine<MemoryStore>) -> Vec<String> {
    engine.read(|ipam| {
        let active = ipam.slots().filter(|(_, _, view)| view.state == State::Active);
        active.filter_map(|(_, _, view)| Some(view.holder()?.ifname)).collect()
    })
}

#[test]
fn an_interface_that_finds_nothing_leaves_nothing_to_the_others() {
    let engine = engine(1);
    add(&engine, "first", "eth0", 1).unwrap();
    for n in 0..100 {
        let error = add(&engine, &format!("c{n}"), "eth0", 2 + n).unwrap_err();
        assert!(matches!(error.cause(), Error::PoolExhausted { .. }), "{error}");
        assert!(error.to_string().contains("interface net2"), "{error}");
        assert_eq!(held(&engine), ["eth0", "net1", "net2"], "those of the first");
    }
}

/// The runtime asked for the first so many interfaces, and then gave up and says DEL of those alone, in any order.
#[test]
fn what_nobody_asked_for_goes_with_the_container() {
    let names = ["eth0", "net1", "net2"];
    for asked in 1..=3 {
        for order in permutations(&names[..asked]) {
            let engine = engine(9);
            for (stamp, name) in (1..).zip(&names[..asked]) {
                add(&engine, "c", name, stamp).unwrap();
            }
            assert_eq!(held(&engine), names);
            for (stamp, name) in (10..).zip(&order) {
                // Who was told of an address keeps it until its own DEL.
                assert!(held(&engine).contains(&(*name).to_owned()), "{name} in {order:?} of {asked}");
                del(&engine, "c", name, stamp);
            }
            assert!(held(&engine).is_empty(), "{order:?} of {asked}: {:?}", held(&engine));
            // And an ADD that was on its way leaves nothing.
            for name in &names[..asked] {
                assert!(matches!(add(&engine, "c", name, 5).unwrap_err().cause(), Error::Superseded(_)));
            }
            assert!(held(&engine).is_empty());
        }
    }
}

/// An interface that was taken away stays away when another asks again for what it has.
#[test]
fn a_repeated_add_gives_nothing_along() {
    let engine = engine(9);
    for (stamp, name) in (1..).zip(["eth0", "net1", "net2"]) {
        add(&engine, "c", name, stamp).unwrap();
    }
    del(&engine, "c", "net1", 10);
    let Done::Given(outcomes) = add(&engine, "c", "eth0", 11).unwrap() else { panic!("an ADD is given something") };
    assert_eq!(outcomes.len(), 1);
    assert_eq!(held(&engine), ["eth0", "net2"]);
}

/// A DEL that is older than the ADD that came before it takes nothing, along or not.
#[test]
fn an_older_del_takes_nothing() {
    let engine = engine(9);
    add(&engine, "c", "eth0", 5).unwrap();
    for name in ["eth0", "net1", "net2"] {
        del(&engine, "c", name, 4);
    }
    assert_eq!(held(&engine).len(), 3);
}

fn permutations<'a>(names: &[&'a str]) -> Vec<Vec<&'a str>> {
    if names.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for i in 0..names.len() {
        let mut rest = names.to_vec();
        let first = rest.remove(i);
        all.extend(permutations(&rest).into_iter().map(|tail| [vec![first], tail].concat()));
    }
    all
}
