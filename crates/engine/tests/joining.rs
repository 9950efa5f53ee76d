//! Requests that come while a batch is tried again.

#![expect(clippy::unwrap_used, reason = "a test speaks by panicking")]

use berth_core::block::{Block, BlockKey};
use berth_core::error::Error;
use berth_core::holder::Holder;
use berth_core::ipam::{Config, Group, Request};
use berth_core::model::Pool;
use berth_core::time::Time;
use berth_engine::Engine;
use berth_store::{Batch, BlockStore, Revision, StoreError, Stored, Written};
use berth_testing::MemoryStore;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A store in which somebody else is quicker so many times. Who has to give way the first time does so until others wait.
struct Contended {
    store: MemoryStore,
    lost: usize,
    writes: Arc<AtomicUsize>,
    others: usize,
    in_line: &'static AtomicUsize,
}

impl BlockStore for Contended {
    fn list(&mut self) -> Result<Vec<Stored>, StoreError> {
        self.store.list()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn read(&mut self, keys: &[BlockKey]) -> Result<Vec<(Block, Revision)>, StoreError> {
        self.store.read(keys)
    }

    fn write(&mut self, batch: Batch<'_>) -> Result<Vec<Written>, StoreError> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        if self.lost > 0 {
            self.lost -= 1;
            return Ok(vec![Written::Conflict; batch.blocks.len()]);
        }
        self.store.write(batch)
    }

    fn waits(&self, _durable: bool) -> bool {
        false
    }

    fn give_way(&mut self, _attempt: u32) {
        while self.in_line.load(Ordering::SeqCst) < self.others {
            std::thread::yield_now();
        }
    }
}

fn request(id: &str) -> Request {
    let holder = Holder { network: "net".into(), id: id.into(), ifname: "eth0".into(), ..Holder::default() };
    Request { holder, groups: vec![Group::default()], ..Request::default() }
}

/// An engine on such a store; `when_waiting` counts who waits in line.
fn engine(contended: Contended, when_waiting: fn()) -> Engine<Contended> {
    let pool = Pool::new("p", vec!["10.0.0.0/26".parse().unwrap()]);
    let config = Config { pools: BTreeMap::from([("p".to_owned(), pool)]), ..Config::default() };
    Engine::open(contended, config, 1, || Time(1_790_000_000_000_000)).unwrap().before_waiting(when_waiting)
}

#[test]
fn who_comes_while_a_lost_race_is_made_up_for_shares_the_next_write() {
    static IN_LINE: AtomicUsize = AtomicUsize::new(0);
    let (store, writes) = (MemoryStore::default(), Arc::new(AtomicUsize::new(0)));
    let contended = Contended { store, lost: 1, writes: writes.clone(), others: 7, in_line: &IN_LINE };
    let engine = engine(contended, || _ = IN_LINE.fetch_add(1, Ordering::SeqCst));
    let given: BTreeSet<_> = std::thread::scope(|scope| {
        let ask = |n: usize| engine.allocate(request(&n.to_string()), None).unwrap().given[0].address();
        let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || ask(n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(given.len(), 8, "each has an address of its own");
    assert_eq!(writes.load(Ordering::SeqCst), 2, "one that was lost, and one for all");
}

#[test]
fn who_joins_those_whose_patience_ends_is_not_given_up_with_them() {
    static IN_LINE: AtomicUsize = AtomicUsize::new(0);
    // More than anybody tries.
    const MANY: usize = 64;
    let (store, writes) = (MemoryStore::default(), Arc::new(AtomicUsize::new(0)));
    let contended = Contended { store, lost: MANY, writes: writes.clone(), others: 1, in_line: &IN_LINE };
    let engine = engine(contended, || _ = IN_LINE.fetch_add(1, Ordering::SeqCst));
    let answers: Vec<Result<_, Error>> = std::thread::scope(|scope| {
        let ask = |n: usize| engine.allocate(request(&n.to_string()), None);
        let first = scope.spawn(move || ask(1));
        while writes.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let second = ask(2);
        vec![first.join().unwrap(), second]
    });
    assert!(matches!(answers[..], [Err(Error::RetriesExhausted), Ok(_)]), "{answers:?}");
    assert_eq!(engine.read(|ipam| ipam.slots().count()), 1, "and who was refused has nothing");
}
