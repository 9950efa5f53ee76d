//! What it costs to be sure that nothing is left.

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
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A store that counts what is asked of it.
#[derive(Clone)]
struct Counting {
    store: MemoryStore,
    lists: Arc<AtomicUsize>,
    reads: Arc<AtomicUsize>,
}

impl BlockStore for Counting {
    fn list(&mut self) -> Result<Vec<Stored>, StoreError> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        self.store.list()
    }

    fn list_own(&mut self) -> Result<Vec<Stored>, StoreError> {
        Ok(Vec::new())
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn read(&mut self, keys: &[BlockKey]) -> Result<Vec<(Block, Revision)>, StoreError> {
        self.reads.fetch_add(keys.len(), Ordering::SeqCst);
        self.store.read(keys)
    }

    fn write(&mut self, batch: Batch<'_>) -> Result<Vec<Written>, StoreError> {
        self.store.write(batch)
    }

    fn waits(&self, durable: bool) -> bool {
        self.store.waits(durable)
    }

    fn follows(&self, _: &BlockKey, _: &Block) -> bool {
        false
    }
}

impl Counting {
    fn new() -> Self {
        Self { store: MemoryStore::default(), lists: Arc::default(), reads: Arc::default() }
    }

    /// Lists and reads since this was last asked.
    fn spent(&self) -> (usize, usize) {
        (self.lists.swap(0, Ordering::SeqCst), self.reads.swap(0, Ordering::SeqCst))
    }

    /// A node that has seen nothing; its clock runs a millisecond a look.
    fn node(&self, seed: u64, ranges: &[&str]) -> Engine<Self> {
        let clock = AtomicU64::new(1_790_000_000_000_000);
        let pool =
            |range: &&str| (range.replace('/', "-"), Pool::new(range.replace('/', "-"), vec![range.parse().unwrap()]));
        let config = Config { pools: ranges.iter().map(pool).collect::<BTreeMap<_, _>>(), ..Config::default() };
        Engine::open(self.clone(), config, seed, move || Time(clock.fetch_add(1000, Ordering::Relaxed))).unwrap()
    }
}

fn add(engine: &Engine<Counting>, id: &str, range: &str) -> Result<(), Error> {
    let holder = Holder { network: "net".into(), id: id.into(), ifname: "eth0".into(), ..Holder::default() };
    let groups = vec![Group { pools: vec![range.replace('/', "-")], ..Group::default() }];
    engine.allocate(Request { holder, groups, ..Request::default() }, None).map(|_| ())
}

fn later(engine: &Engine<Counting>) {
    (0..600).for_each(|_| _ = engine.now());
}

/// A refusal costs as many reads as the pool has blocks, whatever else there is in the cluster.
#[test]
fn that_a_small_pool_is_full_is_known_from_its_own_blocks() {
    let (store, small, large) = (Counting::new(), "10.0.0.0/22", "10.64.0.0/12");
    let filler = store.node(1, &[small, large]);
    (0..200).for_each(|i| add(&filler, &format!("other{i}"), large).unwrap());
    let given = (0..).take_while(|i| add(&filler, &format!("c{i}"), small).is_ok()).count();
    // Less network, broadcast and gateway.
    assert_eq!(given, 1021);
    let node = store.node(2, &[small, large]);
    store.spent();
    assert!(matches!(add(&node, "late", small), Err(Error::PoolExhausted { .. })));
    let (lists, reads) = store.spent();
    assert_eq!(lists, 0, "nobody else's blocks are listed");
    assert!((16..=20).contains(&reads), "{reads} reads for 16 blocks");
    // For a moment that is good enough, and then it is asked again.
    add(&node, "later", small).unwrap_err();
    assert_eq!(store.spent(), (0, 0));
    filler.release("net", "c777", "eth0", None).unwrap();
    later(&node);
    add(&node, "late", small).unwrap();
    assert!(store.spent().0 == 0);
}

/// As long as something is left, somewhere, it is found; and the search ends where it is found.
#[test]
fn the_last_addresses_are_found_without_reading_everything() {
    let (store, range) = (Counting::new(), "10.0.0.0/19");
    let filler = store.node(1, &[range]);
    (0..8000).for_each(|i| add(&filler, &format!("c{i}"), range).unwrap());
    store.spent();
    for n in 0..50 {
        add(&store.node(100 + n, &[range]), &format!("n{n}"), range).unwrap();
    }
    let (lists, reads) = store.spent();
    assert_eq!(lists, 0);
    // A few one by one, some at a time after that; seldom twice.
    assert!(reads < 50 * 60, "{reads} reads for 50 ADDs, of 128 blocks");
}

/// The same where no address is new.
#[test]
fn an_address_that_was_given_back_is_found_without_reading_everything() {
    let (store, range) = (Counting::new(), "10.0.0.0/19");
    let filler = store.node(1, &[range]);
    let given = (0..).take_while(|i| add(&filler, &format!("c{i}"), range).is_ok()).count();
    assert_eq!(given, 8189);
    (0..given).step_by(30).for_each(|i| drop(filler.release("net", &format!("c{i}"), "eth0", None).unwrap()));
    store.spent();
    for n in 0..50 {
        add(&store.node(100 + n, &[range]), &format!("n{n}"), range).unwrap();
    }
    let (lists, reads) = store.spent();
    assert_eq!(lists, 0);
    assert!(reads <= 50 * 40, "{reads} reads for 50 ADDs, of 128 blocks");
}

/// A pool of more blocks than are read one by one is listed.
#[test]
fn that_a_large_pool_is_full_is_known_from_a_list() {
    let (store, range) = (Counting::new(), "10.0.0.0/18");
    let filler = store.node(1, &[range]);
    let given = (0..).take_while(|i| add(&filler, &format!("c{i}"), range).is_ok()).count();
    assert_eq!(given, 16381);
    let node = store.node(2, &[range]);
    store.spent();
    add(&node, "late", range).unwrap_err();
    assert_eq!(store.spent().0, 1);
    filler.release("net", "c7777", "eth0", None).unwrap();
    later(&node);
    add(&node, "late", range).unwrap();
}
