//! Invariant 3 across a restart: the order in which a runtime wanted things is kept in the journal.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test speaks by panicking")]

use berth_core::addr::Range;
use berth_core::block::State;
use berth_core::error::Error;
use berth_core::holder::Holder;
use berth_core::ipam::{Config, Group, Request, Tombstones};
use berth_core::model::Pool;
use berth_core::time::Time;
use berth_engine::Engine;
use berth_store::{Durability, Journal};
use berth_testing::{Fault, FaultyMedium};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// What `berth serve` does when it starts.
fn open(medium: &FaultyMedium, boot: &str) -> Engine<Journal<FaultyMedium>> {
    static CLOCK: AtomicU64 = AtomicU64::new(1_790_000_000_000_000);
    let (journal, opened) = Journal::open(medium.clone(), Durability::Boot, boot).unwrap();
    let pool = Pool::new("p", vec!["10.0.0.0/24".parse::<Range>().unwrap()]);
    let config = Config { pools: BTreeMap::from([("p".to_owned(), pool)]), ..Config::default() };
    let engine = Engine::open(journal, config, 1, || Time(CLOCK.fetch_add(1000, Ordering::Relaxed))).unwrap();
    if opened.boot_id.as_deref() != Some(boot) {
        engine.with_store(|journal| journal.set_boot(boot)).unwrap();
    }
    engine
}

fn add(engine: &Engine<Journal<FaultyMedium>>, id: &str, stamp: u64) -> bool {
    let holder = Holder { network: "net".into(), id: id.into(), ifname: "eth0".into(), ..Holder::default() };
    match engine.allocate(Request { holder, groups: vec![Group::default()], ..Request::default() }, Some(stamp)) {
        Ok(_) => true,
        Err(Error::Superseded(_)) => false,
        Err(other) => panic!("{other}"),
    }
}

fn del(engine: &Engine<Journal<FaultyMedium>>, id: &str, stamp: u64) {
    engine.release("net", id, "eth0", Some(stamp)).unwrap();
}

fn live(engine: &Engine<Journal<FaultyMedium>>) -> usize {
    engine.read(|ipam| ipam.slots().filter(|(_, _, view)| view.state == State::Active).count())
}

#[test]
fn an_add_that_its_del_overtook_is_late_after_a_restart_too() {
    for (compacted, known) in [(false, false), (false, true), (true, false), (true, true)] {
        let medium = FaultyMedium::new();
        let engine = open(&medium, "b");
        if known {
            assert!(add(&engine, "c", 1));
        }
        del(&engine, "c", 5);
        if compacted {
            engine.with_store(|journal| journal.compact("old")).unwrap();
        }
        drop(engine);
        let engine = open(&medium, "b");
        assert!(!add(&engine, "c", 4), "compacted {compacted}, known {known}");
        assert_eq!(live(&engine), 0);
        assert!(add(&engine, "c", 6), "a newer one is served");
    }
}

#[test]
fn a_del_that_its_add_overtook_takes_nothing_after_a_restart() {
    for (compacted, repeated) in [(false, false), (true, false), (false, true)] {
        let medium = FaultyMedium::new();
        let engine = open(&medium, "b");
        assert!(add(&engine, "c", if repeated { 1 } else { 7 }));
        if repeated {
            // It changes no block, and yet it must be remembered.
            assert!(add(&engine, "c", 7));
        }
        if compacted {
            engine.with_store(|journal| journal.compact("old")).unwrap();
        }
        drop(engine);
        let engine = open(&medium, "b");
        del(&engine, "c", 6);
        assert_eq!(live(&engine), 1, "compacted {compacted}, repeated {repeated}");
        del(&engine, "c", 8);
        assert_eq!(live(&engine), 0);
    }
}

/// The clock of stamps begins anew with each boot: what an earlier one says means nothing.
#[test]
fn another_boot_begins_with_no_stamps() {
    let medium = FaultyMedium::new();
    let engine = open(&medium, "b");
    del(&engine, "c", 1_000_000);
    drop(engine);
    let engine = open(&medium, "b2");
    assert!(add(&engine, "c", 5));
    drop(engine);
    assert!(add(&open(&medium, "b2"), "c", 6), "nor when the file is read through once more");
}

/// What is not answered is not remembered: a DEL that the store could not take is repeated, and so is its stamp.
#[test]
fn a_stamp_is_in_the_frame_of_its_change() {
    let medium = FaultyMedium::new();
    let engine = open(&medium, "b");
    assert!(add(&engine, "c", 1));
    let before = medium.operations();
    del(&engine, "c", 5);
    assert_eq!(medium.operations(), before + 1, "one append, no sync");
    let len = medium.content().len();
    medium.break_at(0, Fault::Torn(20));
    assert!(engine.release("net", "d", "eth0", Some(6)).is_err());
    assert_eq!(medium.content().len(), len);
    let refused =
        Request { groups: vec![Group { pools: vec!["absent".into()], ..Group::default() }], ..Request::default() };
    assert!(engine.allocate(refused, Some(9)).is_err());
    assert_eq!(medium.content().len(), len, "a request that was refused is not worth a frame");
    drop(engine);
    assert!(!add(&open(&medium, "b"), "c", 4));
}

#[test]
fn what_is_kept_is_bounded() {
    let medium = FaultyMedium::new();
    let engine = open(&medium, "b");
    for n in 0..Tombstones::KEPT as u64 * 2 {
        del(&engine, &format!("c{n}"), n);
    }
    engine.with_store(|journal| journal.compact("old")).unwrap();
    assert!(medium.content().len() < Tombstones::KEPT * 20);
    drop(engine);
    let engine = open(&medium, "b");
    assert!(!add(&engine, &format!("c{}", Tombstones::KEPT * 2 - 1), 1), "the latest are known");
    assert!(add(&engine, "c5", 1), "the oldest are not");
}
