//! The journal under injected faults, torn writes and loss of power.
//!
//! Each test runs the real engine over a disk that breaks, then opens the file again as the next process would, and
//! compares with what had been answered.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test speaks by panicking")]

use berth_core::addr::Range;
use berth_core::error::Error;
use berth_core::holder::{Holder, Kind};
use berth_core::ipam::{Config, Group, Ipam, Request};
use berth_core::model::Pool;
use berth_core::time::Time;
use berth_engine::Engine;
use berth_store::{Durability, Journal, StoreError};
use berth_testing::{Fault, FaultyMedium};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

const BOOT: &str = "boot-1";

fn config() -> Config {
    let ranges = vec!["10.0.0.0/24".parse::<Range>().unwrap()];
    let pool = Pool { cool_down: std::time::Duration::ZERO, ..Pool::new("p", ranges) };
    Config { pools: BTreeMap::from([("p".to_owned(), pool)]), ..Config::default() }
}

fn open(medium: &FaultyMedium, boot: &str) -> Result<Engine<Journal<FaultyMedium>>, StoreError> {
    static CLOCK: AtomicU64 = AtomicU64::new(1_790_000_000_000_000);
    let (journal, _) = Journal::open(medium.clone(), Durability::Boot, boot)?;
    Engine::open(journal, config(), 1, || Time(CLOCK.fetch_add(1000, Ordering::Relaxed)))
}

fn request(id: &str, kind: Kind) -> Request {
    let holder = Holder { kind, network: "net".into(), id: id.into(), ifname: "eth0".into(), ..Holder::default() };
    Request { holder, groups: vec![Group::default()], ..Request::default() }
}

/// A run of operations; what was answered.
#[derive(Debug, Default)]
struct Model {
    held: BTreeMap<String, IpAddr>,
    /// Operations that failed: they must have left nothing.
    refused: Vec<String>,
}

fn workload(engine: &Engine<Journal<FaultyMedium>>) -> Model {
    let mut model = Model::default();
    for n in 0u64..12 {
        let id = format!("c{n}");
        let kind = if n % 3 == 0 { Kind::Named } else { Kind::Container };
        match engine.allocate(request(&id, kind), Some(10 * n)) {
            Ok(outcome) => drop(model.held.insert(id, outcome.given[0].address())),
            Err(Error::Store(_)) => model.refused.push(id),
            Err(other) => panic!("{other}"),
        }
        if n % 4 == 3 {
            let gone = format!("c{}", n - 2);
            match engine.release("net", &gone, "eth0", Some(10 * n + 5)) {
                Ok(_) => drop(model.held.remove(&gone)),
                // Whether a release that failed took effect is open; it is repeated until it does.
                Err(Error::Store(_)) => model.refused.push(gone.clone()),
                Err(other) => panic!("{other}"),
            }
        }
    }
    model
}

fn held(ipam: &Ipam) -> BTreeMap<String, IpAddr> {
    let taken = ipam.slots().filter(|(_, _, view)| view.state == berth_core::block::State::Active);
    taken.map(|(plane, unit, view)| (view.holder().unwrap().id, plane.addr(unit))).collect()
}

fn assert_consistent(engine: &Engine<Journal<FaultyMedium>>, context: &str) {
    engine.read(|ipam| {
        let findings = ipam.check(Time(1_800_000_000_000_000));
        assert!(findings.is_empty(), "{context}: {findings:?}");
        let all = held(ipam);
        let distinct: std::collections::BTreeSet<_> = all.values().collect();
        assert_eq!(all.len(), distinct.len(), "{context}: an address is held twice");
    });
}

/// Invariant 8: a crash between any two writes leaves a state that the next run repairs.
#[test]
fn every_operation_of_the_disk_may_fail() {
    let clean = FaultyMedium::new();
    workload(&open(&clean, BOOT).unwrap());
    let operations = clean.operations();
    assert!(operations > 20, "the workload must touch the disk");
    for fault in [Fault::Fails, Fault::DoneButFails, Fault::Torn(0), Fault::Torn(1), Fault::Torn(7), Fault::Torn(40)] {
        for at in 0..operations {
            let context = format!("{fault:?} at operation {at}");
            let medium = FaultyMedium::new();
            medium.break_at(at, fault);
            let Ok(engine) = open(&medium, BOOT) else { continue };
            let model = workload(&engine);
            assert_consistent(&engine, &context);
            drop(engine);
            let again = open(&medium, BOOT).unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_consistent(&again, &context);
            let found = again.read(held);
            for (id, address) in &model.held {
                if !model.refused.contains(id) {
                    assert_eq!(found.get(id), Some(address), "{context}: {id} was answered");
                }
            }
            for (id, address) in &found {
                assert!(
                    model.held.get(id) == Some(address) || model.refused.contains(id),
                    "{context}: {id} holds {address}, which nobody was told"
                );
            }
        }
    }
}

/// What was answered as durable survives a loss of power, whatever else of the unsynced tail does.
#[test]
fn power_may_go_at_any_byte() {
    let full = {
        let medium = FaultyMedium::new();
        workload(&open(&medium, BOOT).unwrap());
        medium.content().len()
    };
    for survivors in (0..full).step_by(3) {
        let medium = FaultyMedium::new();
        let engine = open(&medium, BOOT).unwrap();
        let model = workload(&engine);
        drop(engine);
        medium.lose_power(survivors);
        let again = open(&medium, "boot-2").unwrap_or_else(|error| panic!("{survivors} bytes survived: {error}"));
        assert_consistent(&again, &format!("{survivors} bytes survived"));
        let found = again.read(held);
        for id in model.held.keys().filter(|id| id[1..].parse::<u32>().unwrap() % 3 == 0) {
            assert_eq!(found.get(id), model.held.get(id), "{id} is no container and must outlive the boot");
        }
    }
}

/// A file cut off at any byte opens, and says what its whole frames say.
#[test]
fn a_file_may_be_cut_off_anywhere() {
    let medium = FaultyMedium::new();
    workload(&open(&medium, BOOT).unwrap());
    let data = medium.content();
    let mut last = 0;
    for len in 0..=data.len() {
        let cut = FaultyMedium::with(data[..len].to_vec());
        let engine = open(&cut, BOOT).unwrap_or_else(|error| panic!("cut to {len} bytes: {error}"));
        assert_consistent(&engine, &format!("cut to {len} bytes"));
        let count = engine.read(|ipam| ipam.slots().count());
        assert!(count >= last, "more bytes say less");
        last = count;
        // What was cut off is gone, so that what is written next is not hidden behind it.
        engine.allocate(request("later", Kind::Container), None).unwrap();
        drop(engine);
        let again = open(&cut, BOOT).unwrap();
        assert!(again.read(held).contains_key("later"), "cut to {len} bytes");
    }
}

/// A byte that changes on disk is noticed: never a silent change of what follows it.
#[test]
fn damage_is_noticed() {
    let medium = FaultyMedium::new();
    let engine = open(&medium, BOOT).unwrap();
    engine.with_store(|journal| journal.set_boot(BOOT)).unwrap();
    let model = workload(&engine);
    drop(engine);
    let data = medium.content();
    let mut refused = 0;
    for at in 0..data.len() {
        let mut bad = data.clone();
        bad[at] ^= 0x10;
        match open(&FaultyMedium::with(bad), BOOT) {
            Err(StoreError::Damaged { .. } | StoreError::Version { .. }) => refused += 1,
            Err(other) => panic!("byte {at}: {other}"),
            Ok(engine) => {
                assert_consistent(&engine, &format!("byte {at}"));
                let found = engine.read(held);
                let lost = model.held.keys().filter(|id| !found.contains_key(*id)).count();
                assert!(lost <= 1, "byte {at}: {lost} records lost without a word");
            }
        }
    }
    assert!(refused > data.len() * 8 / 10, "only {refused} of {} damaged files were refused", data.len());
}

#[test]
fn a_newer_format_is_left_alone() {
    let medium = FaultyMedium::new();
    drop(open(&medium, BOOT).unwrap());
    let mut data = medium.content();
    data[8] = 200;
    let error = open(&FaultyMedium::with(data), BOOT).err().unwrap();
    assert!(matches!(error, StoreError::Version { found: 200, known: 2, .. }), "{error}");
    let error = open(&FaultyMedium::with(b"#!/bin/sh\necho hello world\n".to_vec()), BOOT).err().unwrap();
    assert!(error.to_string().contains("not a Berth journal"), "{error}");
}

/// After a failed sync nothing is known of the disk; the store takes no more writes until it is opened anew.
#[test]
fn a_failed_sync_stops_the_store() {
    let medium = FaultyMedium::new();
    let engine = open(&medium, BOOT).unwrap();
    medium.break_at(1, Fault::Fails);
    let first = engine.allocate(request("named", Kind::Named), None).unwrap_err();
    assert!(first.to_string().contains("sync"), "{first}");
    let second = engine.allocate(request("other", Kind::Container), None).unwrap_err();
    assert!(second.to_string().contains("restart berth"), "{second}");
    assert!(engine.read(held).is_empty());
}

#[test]
fn compaction_says_the_same_in_fewer_bytes() {
    let medium = FaultyMedium::new();
    let engine = open(&medium, BOOT).unwrap();
    for round in 0..50 {
        for n in 0..20 {
            engine.allocate(request(&format!("r{round}n{n}"), Kind::Container), None).unwrap();
        }
        for n in 0..20 {
            engine.release("net", &format!("r{round}n{n}"), "eth0", None).unwrap();
        }
    }
    let model = workload(&engine);
    let before = medium.content().len();
    engine.with_store(|journal| journal.compact("archive")).unwrap();
    assert!(medium.content().len() < before / 5);
    drop(engine);
    let again = open(&medium, BOOT).unwrap();
    assert_consistent(&again, "after compaction");
    assert_eq!(again.read(held), model.held);
}

/// What could not be read back is not written.
#[test]
fn a_frame_that_is_too_large_is_refused() {
    let medium = FaultyMedium::new();
    let (mut journal, _) = Journal::open(medium.clone(), Durability::Boot, BOOT).unwrap();
    let key = |n: usize| ("IPPool".to_owned(), String::new(), format!("p{n}"));
    let large: Vec<_> = (0..5).map(|n| (key(n), Some(vec![b' '; 16 << 20]))).collect();
    let error = journal.write_objects(&large).unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { .. }), "{error}");
    journal.write_objects(&large[..1]).unwrap();
    drop(journal);
    let (journal, _) = Journal::open(medium, Durability::Boot, BOOT).unwrap();
    assert_eq!(journal.objects().len(), 1);
}
