//! Several engines on one store, and many threads on one engine.

#![expect(clippy::unwrap_used, reason = "a test speaks by panicking")]

use berth_core::block::{Block, BlockKey};
use berth_core::error::Error;
use berth_core::holder::Holder;
use berth_core::ipam::{Config, Group, Outcome, Request};
use berth_core::model::Pool;
use berth_core::time::Time;
use berth_engine::{Call, Engine};
use berth_store::{Batch, BlockStore, Revision, StoreError, Stored, Written};
use berth_testing::MemoryStore;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn config(range: &str) -> Config {
    let pool = Pool::new("p", vec![range.parse().unwrap()]);
    Config { pools: BTreeMap::from([("p".to_owned(), pool)]), ..Config::default() }
}

fn engine(store: &MemoryStore, range: &str, seed: u64) -> Engine<MemoryStore> {
    let clock = AtomicU64::new(1_790_000_000_000_000 + seed);
    Engine::open(store.clone(), config(range), seed, move || Time(clock.fetch_add(1000, Ordering::Relaxed))).unwrap()
}

fn request(id: &str) -> Request {
    let holder = Holder { network: "net".into(), id: id.into(), ifname: "eth0".into(), ..Holder::default() };
    Request { holder, groups: vec![Group::default()], ..Request::default() }
}

/// Invariants 1 and 6: with as many addresses as askers, each gets one, and no two the same.
#[test]
fn engines_that_race_for_the_last_addresses_all_get_one() {
    let store = MemoryStore::default();
    let given: Vec<Outcome> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|n| {
                let engine = engine(&store, "10.0.0.0/25", n);
                scope.spawn(move || {
                    let ask = |i| engine.allocate(request(&format!("n{n}c{i}")), None);
                    (0..15).map(|i| ask(i).unwrap_or_else(|error| panic!("{n}/{i}: {error}"))).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    // 128 addresses less network, broadcast and gateway.
    assert_eq!(given.len(), 120);
    let distinct: BTreeSet<_> = given.iter().map(|outcome| outcome.given[0].address()).collect();
    assert_eq!(distinct.len(), 120);
}

/// The same for engines that begin without having seen a single block, as nodes of a cluster do.
#[test]
fn engines_that_know_nothing_of_each_other_fill_a_pool_to_the_last_address() {
    let store = MemoryStore::default();
    let given: Vec<Outcome> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..10)
            .map(|n| {
                let engine = engine(&store.unseen(), "10.0.0.0/22", n);
                scope.spawn(move || {
                    let ask = |i| engine.allocate(request(&format!("n{n}c{i}")), None);
                    (0..102).map(|i| ask(i).unwrap_or_else(|error| panic!("{n}/{i}: {error}"))).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let distinct: BTreeSet<_> = given.iter().map(|outcome| outcome.given[0].address()).collect();
    assert_eq!((given.len(), distinct.len()), (1020, 1020));
    let late = engine(&store.unseen(), "10.0.0.0/22", 99);
    assert!(late.allocate(request("last"), None).is_ok(), "the one that is left");
    let refused = late.allocate(request("too-many"), None);
    assert!(matches!(refused, Err(Error::PoolExhausted { .. })), "{refused:?}");
}

/// What another engine gave back is found, although this one saw it taken.
#[test]
fn a_pool_is_only_full_after_a_fresh_look() {
    let store = MemoryStore::default();
    let (one, other) = (engine(&store, "10.0.0.0/30", 1), engine(&store, "10.0.0.0/30", 2));
    one.allocate(request("a"), None).unwrap();
    assert!(matches!(other.allocate(request("b"), None), Err(Error::PoolExhausted { .. })));
    one.release("net", "a", "eth0", None).unwrap();
    // The engines' clock runs a millisecond per look at it; what was seen a moment ago is good enough for a while.
    let found = (0..1000).find_map(|_| other.allocate(request("b"), None).ok());
    assert!(found.is_some());
}

/// Of a block in which it has nothing, nobody tells a node: it looks before it writes, which is cheaper than a conflict.
#[test]
fn what_is_known_of_a_block_that_nobody_tells_of_is_looked_up_before_it_is_written() {
    let store = MemoryStore::default();
    let engines = [1, 2].map(|seed| engine(&store.unseen(), "10.0.0.0/26", seed));
    for round in 0..20 {
        for (n, engine) in engines.iter().enumerate() {
            let id = format!("{round}-{n}");
            engine.allocate(request(&id), None).unwrap();
            engine.release("net", &id, "eth0", None).unwrap();
        }
    }
    assert_eq!(store.conflicts(), 0);
}

/// Nodes do not share a block while there are blocks that nobody has begun.
#[test]
fn each_node_has_blocks_of_its_own_as_long_as_there_are_any() {
    let store = MemoryStore::default();
    let engines: Vec<_> = (0..12).map(|seed| engine(&store.unseen(), "10.0.0.0/20", seed)).collect();
    let mut nodes: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
    for i in 0..200 {
        for (n, engine) in engines.iter().enumerate() {
            let given = engine.allocate(request(&format!("n{n}c{i}")), None).unwrap();
            let std::net::IpAddr::V4(address) = given.given[0].address() else { panic!("not asked for") };
            nodes.entry(u64::from(address.to_bits()) / 64).or_default().insert(n);
        }
    }
    // 12 nodes need 4 of 64 blocks each; the gateway's block and the like may be short of a few.
    let shared = nodes.values().filter(|nodes| nodes.len() > 1).count();
    assert_eq!((shared, store.conflicts()), (0, 0));
}

/// A store that, of the first write of several blocks, takes only the first.
struct Half {
    store: MemoryStore,
    spared: bool,
}

impl BlockStore for Half {
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
        if batch.blocks.len() < 2 || std::mem::replace(&mut self.spared, true) {
            return self.store.write(batch);
        }
        let mut written = self.store.write(Batch { blocks: &batch.blocks[..1], ..batch })?;
        written.resize(batch.blocks.len(), Written::Conflict);
        Ok(written)
    }

    fn waits(&self, durable: bool) -> bool {
        self.store.waits(durable)
    }
}

/// An ADD of a batch that was stored in part keeps its address. Were it given another beside it, a full pool would have
/// one less for a moment, and somebody would be refused.
#[test]
fn what_was_stored_of_a_batch_that_met_a_conflict_stays() {
    let store = MemoryStore::default();
    let half = Half { store: store.clone(), spared: false };
    let engine = Engine::open(half, two_pools(), 1, || Time(1_790_000_000_000_000)).unwrap();
    let add = |range: &str| Call::Add {
        requests: vec![Request { groups: vec![of_pool(range)], ..request(range) }],
        stamp: None,
    };
    let done = engine.run_all(vec![add("10.0.0.0/26"), add("10.1.0.0/26")]);
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    let used: Vec<(u64, u64)> =
        store.clone().list().unwrap().iter().map(|(_, block, _)| (block.taken(), block.released())).collect();
    assert!(used.iter().all(|(taken, released)| taken.count_ones() == 1 && *released == 0), "{used:?}");
    assert_eq!(used.len(), 2);
}

/// Two pools of a block each, named by their ranges.
fn two_pools() -> Config {
    let pools = ["10.0.0.0/26", "10.1.0.0/26"].map(|range| Pool::new(range, vec![range.parse().unwrap()]));
    Config { pools: pools.map(|pool| (pool.name.clone(), pool)).into(), ..Config::default() }
}

fn of_pool(range: &str) -> Group {
    Group { pools: vec![range.to_owned()], ..Group::default() }
}

/// An ADD that asks for two addresses gets two or none, also if one of them was stored and the other met a conflict.
#[test]
fn half_of_what_was_asked_for_is_no_answer() {
    let store = MemoryStore::default();
    let half = Half { store: store.clone(), spared: false };
    let engine = Engine::open(half, two_pools(), 1, || Time(1_790_000_000_000_000)).unwrap();
    let both = Request { groups: vec![of_pool("10.0.0.0/26"), of_pool("10.1.0.0/26")], ..request("c") };
    assert_eq!(engine.allocate(both, None).unwrap().given.len(), 2);
    let used: u32 = store.clone().list().unwrap().iter().map(|(_, block, _)| block.taken().count_ones()).sum();
    assert_eq!(used, 2);
}

/// A store that cannot be reached for what concerns one network.
struct Partly(MemoryStore);

impl BlockStore for Partly {
    fn list(&mut self) -> Result<Vec<Stored>, StoreError> {
        self.0.list()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn read(&mut self, keys: &[BlockKey]) -> Result<Vec<(Block, Revision)>, StoreError> {
        self.0.read(keys)
    }

    fn write(&mut self, batch: Batch<'_>) -> Result<Vec<Written>, StoreError> {
        let far = |address: std::net::IpAddr| address.to_string().starts_with("10.1.");
        if batch.blocks.iter().any(|write| far(write.key.plane.addr(write.key.unit(0)))) {
            return Err(StoreError::Unreachable("nobody answers".to_owned()));
        }
        self.0.write(batch)
    }

    fn waits(&self, durable: bool) -> bool {
        self.0.waits(durable)
    }
}

/// Requests that wait together are written together; if that fails, those that need no more than what is at hand are served.
#[test]
fn who_does_not_need_what_cannot_be_reached_is_served() {
    let engine = Engine::open(Partly(MemoryStore::default()), two_pools(), 1, || Time(1_790_000_000_000_000)).unwrap();
    let add = |range: &str| Call::Add {
        requests: vec![Request { groups: vec![of_pool(range)], ..request(range) }],
        stamp: None,
    };
    let done = engine.run_all(vec![add("10.1.0.0/26"), add("10.0.0.0/26")]);
    assert!(matches!(done[0], Err(Error::Unreachable(_))) && done[1].is_ok(), "{done:?}");
    assert_eq!(engine.read(|ipam| ipam.slots().count()), 1, "and the other left nothing");
}

/// Requests that arrive together share one write of the store, and each still gets its own answer.
#[test]
fn threads_on_one_engine_never_share_an_address() {
    let engine = Arc::new(engine(&MemoryStore::default(), "10.0.0.0/20", 1));
    std::thread::scope(|scope| {
        for n in 0..8 {
            let engine = engine.clone();
            scope.spawn(move || {
                for i in 0..200 {
                    let id = format!("t{n}c{i}");
                    let first = engine.allocate(request(&id), None).unwrap();
                    let again = engine.allocate(request(&id), None).unwrap();
                    assert_eq!(first.given[0].unit, again.given[0].unit, "the same ADD, the same answer");
                    if i % 2 == 0 {
                        engine.release("net", &id, "eth0", None).unwrap();
                    }
                }
            });
        }
    });
    engine.read(|ipam| {
        assert_eq!(ipam.check(Time(1_800_000_000_000_000)), []);
        let taken = ipam.slots().filter(|(_, _, view)| view.state == berth_core::block::State::Active).count();
        assert_eq!(taken, 800);
    });
}

/// Invariant 3, in every order in which ADD and DEL of one container can arrive. Stamps say when each was started.
#[test]
fn every_order_of_add_and_del_of_one_container() {
    #[derive(Clone, Copy, Debug)]
    enum Op {
        Add(u64),
        Del(u64),
    }
    use Op::{Add, Del};
    // What the runtime did, in order of stamps: ADD 1, DEL 2, ADD 3, DEL 4 (or without the last DEL).
    for (ops, lives) in [
        (vec![Add(1), Del(2)], false),
        (vec![Add(1), Del(2), Add(3)], true),
        (vec![Add(1), Del(2), Add(3), Del(4)], false),
    ] {
        for order in permutations(&ops) {
            let engine = engine(&MemoryStore::default(), "10.0.0.0/24", 1);
            for op in &order {
                match *op {
                    Add(stamp) => match engine.allocate(request("c"), Some(stamp)) {
                        Ok(_) | Err(Error::Superseded(_)) => {}
                        Err(other) => panic!("{order:?}: {other}"),
                    },
                    Del(stamp) => drop(engine.release("net", "c", "eth0", Some(stamp)).unwrap()),
                }
            }
            let left = engine.read(|ipam| {
                ipam.slots().filter(|(_, _, view)| view.state == berth_core::block::State::Active).count()
            });
            assert_eq!(left, usize::from(lives), "{order:?}");
        }
    }

    fn permutations(ops: &[Op]) -> Vec<Vec<Op>> {
        if ops.is_empty() {
            return vec![Vec::new()];
        }
        let mut all = Vec::new();
        for i in 0..ops.len() {
            let mut rest = ops.to_vec();
            let first = rest.remove(i);
            all.extend(permutations(&rest).into_iter().map(|tail| [vec![first], tail].concat()));
        }
        all
    }
}

/// A request that fails leaves nothing, also when others of its batch succeed.
#[test]
fn a_refused_request_leaves_nothing() {
    let engine = engine(&MemoryStore::default(), "10.0.0.0/30", 1);
    let dual = Request {
        groups: vec![Group::default(), Group { pools: vec!["absent".into()], ..Group::default() }],
        ..request("c")
    };
    for _ in 0..100 {
        assert_eq!(engine.allocate(dual.clone(), None), Err(Error::UnknownPool("absent".into())));
    }
    assert!(engine.allocate(request("other"), None).is_ok(), "the only address is still free");
}

/// A request that panics takes nothing along: the next one finds the state as it was.
#[test]
fn a_request_that_panics_leaves_nothing() {
    let engine = engine(&MemoryStore::default(), "10.0.0.0/30", 1);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        engine.transact(|context| -> Result<(), Error> {
            context.allocate(&request("lost"), None)?;
            std::panic::resume_unwind(Box::new("a bug"))
        })
    }));
    assert!(outcome.is_err());
    assert!(engine.allocate(request("other"), None).is_ok(), "the only address is still free");
    assert_eq!(engine.read(|ipam| ipam.slots().count()), 1);
}

/// An ADD that is repeated while another engine writes to the same block keeps the address it has.
#[test]
fn a_repeated_add_survives_conflicts() {
    let store = MemoryStore::default();
    let (ours, theirs) = (engine(&store, "10.0.0.0/26", 1), engine(&store, "10.0.0.0/26", 2));
    let first = ours.allocate(request("known"), None).unwrap();
    for n in 0..20 {
        theirs.allocate(request(&format!("theirs{n}")), None).unwrap();
        // In one batch with a request that meets the conflict.
        let both = ours.transact(move |context| {
            let known = context.allocate(&request("known"), None)?;
            context.allocate(&request(&format!("new{n}")), None).map(|_| known)
        });
        assert_eq!(both.unwrap().given[0].unit, first.given[0].unit);
        assert_eq!(ours.allocate(request("known"), None).unwrap().given[0].unit, first.given[0].unit);
    }
}

/// The same with callers that share a batch: one that repeats its ADD is not touched by another's conflict.
#[test]
fn a_repeated_add_is_not_touched_by_the_conflicts_of_others() {
    let store = MemoryStore::default();
    let (ours, theirs) = (engine(&store, "10.0.0.0/26", 1), Arc::new(engine(&store, "10.0.0.0/26", 2)));
    let first = ours.allocate(request("known"), None).unwrap();
    for round in 0..20 {
        let (leads, waiting) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        std::thread::scope(|scope| {
            // It leads while two others get in line, and meanwhile another engine changes the block.
            let (lead, line, theirs) = (leads.clone(), waiting.clone(), theirs.clone());
            let ours = &ours;
            scope.spawn(move || {
                let hold = move |_: &mut berth_engine::Context<'_>| {
                    lead.store(1, Ordering::SeqCst);
                    while line.load(Ordering::SeqCst) < 2 {
                        std::thread::yield_now();
                    }
                    (0..2000).for_each(|_| std::thread::yield_now());
                    theirs.allocate(request(&format!("theirs{round}")), None).map(|_| ())
                };
                ours.transact(hold).unwrap();
            });
            while leads.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            let known = scope.spawn(|| {
                waiting.fetch_add(1, Ordering::SeqCst);
                ours.allocate(request("known"), None).unwrap()
            });
            scope.spawn(|| {
                waiting.fetch_add(1, Ordering::SeqCst);
                ours.allocate(request(&format!("new{round}")), None).unwrap();
            });
            assert_eq!(known.join().unwrap().given[0].unit, first.given[0].unit);
        });
    }
}

fn limited(store: &MemoryStore, node: u64, limit: u32) -> Engine<MemoryStore> {
    let mut config = config("10.0.0.0/22");
    for pool in config.pools.values_mut() {
        pool.quota.per_namespace = Some(limit);
    }
    let clock = AtomicU64::new(1_790_000_000_000_000 + node);
    let clock = move || Time(clock.fetch_add(1000, Ordering::Relaxed));
    Engine::open(store.unseen(), config, node, clock).unwrap()
}

fn of_namespace(node: u64, id: &str, namespace: &str) -> Request {
    let mut request = request(id);
    request.holder.namespace = namespace.into();
    request.holder.node = format!("n{node}");
    request.subject.node = format!("n{node}");
    request
}

/// Nodes that know nothing of each other, all at once at a quota: as many addresses as it allows are given out, no more,
/// and no fewer. What goes back can be had again, by anybody.
#[test]
fn a_quota_holds_among_engines_that_know_nothing_of_each_other() {
    for limit in [1, 10, 100] {
        let store = MemoryStore::default();
        let engines: Vec<_> = (0..8).map(|node| limited(&store, node, limit)).collect();
        let in_use = || {
            let everything = store.clone().list().unwrap();
            let addresses = everything.iter().filter(|(key, ..)| key.plane.quota_of().is_none());
            addresses.map(|(_, block, _)| block.taken().count_ones()).sum::<u32>()
        };
        for round in 0..3 {
            let given: u32 = std::thread::scope(|scope| {
                let ask = |(node, engine): (u64, &Engine<MemoryStore>)| {
                    let id = |i| format!("r{round}n{node}c{i}");
                    let one = |i| engine.allocate(of_namespace(node, &id(i), "team"), None);
                    let outcomes: Vec<_> = (0..limit.min(30)).map(one).collect();
                    for outcome in &outcomes {
                        assert!(matches!(outcome, Ok(_) | Err(Error::QuotaReached { .. })), "{outcome:?}");
                    }
                    outcomes.iter().filter(|outcome| outcome.is_ok()).count()
                };
                let threads: Vec<_> = (0..).zip(&engines).map(|one| scope.spawn(move || ask(one))).collect();
                threads.into_iter().map(|thread| u32::try_from(thread.join().unwrap()).unwrap()).sum()
            });
            assert!(given <= limit, "{given} of {limit} in round {round}");
            assert_eq!(in_use(), given);
            // As agents do every now and then: in a race a ticket may have been left behind. And what was seen a moment
            // ago is good enough for a refusal; the clock runs a millisecond a look.
            let settle = |(node, engine): (u64, &Engine<MemoryStore>)| {
                engine.settle_tickets(&format!("n{node}")).unwrap();
                (0..600).for_each(|_| _ = engine.now());
            };
            (0..).zip(&engines).for_each(settle);
            let mut late = 0..;
            let mut more =
                || engines[0].allocate(of_namespace(0, &format!("late{}", late.next().unwrap()), "team"), None);
            let given = given + u32::try_from((0..).take_while(|_| more().is_ok()).count()).unwrap();
            assert_eq!((given, in_use()), (limit, limit), "limit {limit}, round {round}");
            let other = limited(&store, 99, limit);
            other.allocate(of_namespace(99, "x", "other"), None).unwrap();
            other.release("net", "x", "eth0", None).unwrap();
            std::thread::scope(|scope| {
                for (node, engine) in (0u64..).zip(&engines) {
                    scope.spawn(move || {
                        for i in 0..limit.min(30) {
                            engine.release("net", &format!("r{round}n{node}c{i}"), "eth0", None).unwrap();
                        }
                    });
                }
            });
            (0..limit).for_each(|i| drop(engines[0].release("net", &format!("late{i}"), "eth0", None).unwrap()));
            (0..).zip(&engines).for_each(settle);
            assert_eq!(in_use(), 0);
        }
    }
}

/// A node that dies between the ticket and the address leaves a ticket, which it finds again; a ticket of an address in
/// use stays, and an address that got none, because there was no quota then, gets one.
#[test]
fn tickets_are_put_in_order() {
    let store = MemoryStore::default();
    let tickets = || {
        let everything = store.clone().list().unwrap();
        let tickets = everything.iter().filter(|(key, ..)| key.plane.quota_of().is_some());
        tickets.map(|(_, block, _)| block.taken().count_ones()).sum::<u32>()
    };
    let before = engine(&store.unseen(), "10.0.0.0/22", 1);
    before.allocate(of_namespace(1, "old", "team"), None).unwrap();
    assert_eq!(tickets(), 0);
    drop(before);
    let one = limited(&store, 1, 3);
    one.look_at(&store.clone().list().unwrap().into_iter().map(|(key, ..)| key).collect::<Vec<_>>()).unwrap();
    one.allocate(of_namespace(1, "a", "team"), None).unwrap();
    assert_eq!(tickets(), 1);
    // Another life of the same node, which knows of tickets alone: neither is its own to give back.
    let again = limited(&store, 1, 3);
    let keys: Vec<BlockKey> = store.clone().list().unwrap().into_iter().map(|(key, ..)| key).collect();
    again.look_at(&keys.iter().filter(|key| key.plane.quota_of().is_some()).cloned().collect::<Vec<_>>()).unwrap();
    again.settle_tickets("n1").unwrap();
    assert_eq!(tickets(), 1, "the address was read, and is in use");
    // The clock of the engine runs a millisecond a look; a minute later the old address has a ticket too.
    (0..61_000).for_each(|_| _ = again.now());
    again.settle_tickets("n1").unwrap();
    assert_eq!(tickets(), 2);
    // The address goes without anybody thinking of its ticket.
    let mut plain = config("10.0.0.0/22");
    plain.pools.values_mut().for_each(|pool| pool.quota = berth_core::model::Quota::default());
    let careless = Engine::open(store.clone(), plain, 7, || Time(1_790_000_100_000_000)).unwrap();
    careless.release("net", "a", "eth0", None).unwrap();
    assert_eq!(tickets(), 2);
    // Of blocks in which a node has something, a watch tells it; this store does not.
    again.look_at(&keys).unwrap();
    again.settle_tickets("n1").unwrap();
    assert_eq!(tickets(), 1);
}
