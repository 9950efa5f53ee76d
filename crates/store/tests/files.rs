//! The journal as a file: the lock, the audit trail, and files of every released format.

#![expect(clippy::unwrap_used, reason = "a test speaks by panicking")]

use berth_core::addr::Range;
use berth_core::block::State;
use berth_core::error::Error;
use berth_core::holder::Holder;
use berth_core::ipam::{Config, Group, Request};
use berth_core::model::Pool;
use berth_core::time::Time;
use berth_engine::Engine;
use berth_store::{BlockStore, Durability, FileMedium, History, Journal, StateLock, StoreError};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const START: u64 = 1_790_000_000;

fn open(path: &Path, clock: &Arc<AtomicU64>) -> Engine<Journal<FileMedium>> {
    let (mut journal, _) = Journal::open(FileMedium::open(path).unwrap(), Durability::Boot, "boot").unwrap();
    journal.archive_to(History::new(path).unwrap().dir().to_owned());
    let pool = Pool::new("p", vec!["10.0.0.0/24".parse::<Range>().unwrap()]);
    let config = Config { pools: BTreeMap::from([("p".to_owned(), pool)]), ..Config::default() };
    let clock = clock.clone();
    Engine::open(journal, config, 1, move || Time::from_secs(clock.load(Ordering::Relaxed))).unwrap()
}

fn request(id: &str) -> Request {
    let holder = Holder { network: "net".into(), id: id.into(), ifname: "eth0".into(), ..Holder::default() };
    let group = Group { addresses: vec!["10.0.0.9".parse().unwrap()], ..Group::default() };
    Request { holder, groups: vec![group], ..Request::default() }
}

#[test]
fn two_processes_on_one_store_get_a_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    let first = StateLock::take(dir.path()).unwrap();
    let error = StateLock::take(dir.path()).unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }));
    let text = error.to_string();
    assert!(text.contains(&std::process::id().to_string()) && text.contains("--state-dir"), "{text}");
    drop(first);
    StateLock::take(dir.path()).unwrap();
}

#[test]
fn the_audit_trail_reaches_across_compactions() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.journal");
    let clock = Arc::new(AtomicU64::new(START));
    let engine = open(&path, &clock);
    for (n, id) in ["first", "second", "third"].into_iter().enumerate() {
        clock.store(START + 100 * n as u64, Ordering::Relaxed);
        engine.allocate(request(id), None).unwrap();
        clock.fetch_add(50, Ordering::Relaxed);
        // Compacted while it is held: both files say so, the trail says it once.
        engine
            .with_store(|journal| journal.compact(&History::archive_name(Time::from_secs(START + n as u64))))
            .unwrap();
        engine.release("net", id, "eth0", None).unwrap();
    }
    let history = History::new(&path).unwrap();
    let address = "10.0.0.9".parse().unwrap();
    let events = history.of(None, address, Time(0)).unwrap();
    let told: Vec<(u64, State, Option<String>)> = events
        .iter()
        .filter_map(|event| event.slot.as_ref())
        .map(|slot| (slot.since.as_secs() - START, slot.state, slot.holder.as_ref().map(|holder| holder.id.clone())))
        .collect();
    let expected = [
        (0, State::Active, Some("first".to_owned())),
        (50, State::Released, None),
        (100, State::Active, Some("second".to_owned())),
        (150, State::Released, None),
        (200, State::Active, Some("third".to_owned())),
        (250, State::Released, None),
    ];
    assert_eq!(told, expected);
    assert_eq!(history.of(None, address, Time::from_secs(START + 150)).unwrap().len(), 3);
    assert!(history.of(Some("other"), address, Time(0)).unwrap().is_empty());

    let day = Duration::from_secs(86_400);
    assert_eq!(history.prune(Time::from_secs(START + 10), day, u64::MAX).unwrap(), 0);
    assert_eq!(history.prune(Time::from_secs(START + 86_402), day, u64::MAX).unwrap(), 2);
    assert_eq!(history.prune(Time::from_secs(START + 86_402), day, 0).unwrap(), 1, "the size is bounded too");
}

/// A file that an earlier release wrote says what it said then. To add one for a new format:
/// `BERTH_WRITE_GOLDEN=1 cargo test -p berth-store`, with the new name at the end of the list.
#[test]
fn files_of_every_released_format_open() {
    let file = |name| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let golden = file("v2.journal");
    if std::env::var_os("BERTH_WRITE_GOLDEN").is_some() {
        std::fs::create_dir_all(golden.parent().unwrap()).unwrap();
        let _ = std::fs::remove_file(&golden);
        let clock = Arc::new(AtomicU64::new(START));
        let engine = open(&golden, &clock);
        engine.with_store(|journal| journal.set_boot("boot")).unwrap();
        let key = ("IPPool".to_owned(), String::new(), "p".to_owned());
        engine.with_store(|journal| journal.write_objects(&[(key, Some(b"{}".to_vec()))])).unwrap();
        engine.allocate(request("golden"), Some(7)).unwrap();
        engine.release("net", "gone", "eth0", Some(9)).unwrap();
        std::fs::remove_dir_all(golden.with_file_name("audit")).unwrap();
    }
    for (name, stamps) in [("v1.journal", 0), ("v2.journal", 2)] {
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("state.journal");
        std::fs::copy(file(name), &copy).unwrap();
        let engine = open(&copy, &Arc::new(AtomicU64::new(START)));
        engine.read(|ipam| {
            let (plane, unit, view) = ipam.slots().next().unwrap();
            assert_eq!(plane.addr(unit).to_string(), "10.0.0.9");
            assert_eq!(view.holder().unwrap().id, "golden");
            assert_eq!(view.since.as_secs(), START);
        });
        engine.with_store(|journal| {
            assert_eq!(journal.objects().len(), 1);
            assert_eq!(journal.stamps().len(), stamps);
            assert_eq!(journal.is_of_older_format(), stamps == 0);
        });
        // What the release that wrote it could not read is not written into it, until it is rewritten as a whole.
        engine.release("net", "late", "eth0", Some(11)).unwrap();
        assert_eq!(engine.with_store(|journal| journal.stamps().len()), if stamps == 0 { 0 } else { 3 });
        assert_eq!(std::fs::read(&copy).unwrap()[8], if stamps == 0 { 1 } else { 2 });
        engine.with_store(|journal| journal.compact("old")).unwrap();
        engine.release("net", "late", "eth0", Some(11)).unwrap();
        drop(engine);
        let engine = open(&copy, &Arc::new(AtomicU64::new(START)));
        assert!(!engine.with_store(|journal| journal.is_of_older_format()));
        assert!(matches!(engine.allocate(request("late"), Some(10)), Err(Error::Superseded(_))), "{name}");
    }
}
