//! The state machine: all blocks of one store in memory, with the indexes that make every request quick.
//!
//! It is synchronous and pure. A request changes blocks in memory and leaves a list of [`Change`]s; the caller writes
//! those to a store and then calls [`Ipam::commit`], or [`Ipam::rollback`] if the store refused. Every index is derived
//! from blocks and pools and can be rebuilt from them; [`Ipam::check`] does just that and compares.

mod allocate;
mod check;
mod configure;
mod conflict;
mod doubt;
mod entropy;
mod indexes;
mod lease;
mod losses;
mod pool_index;
mod present;
mod promise;
mod reason;
mod reclaim;
mod recognise;
mod release;
mod request;
mod runs;
mod select;
mod sticky;
mod tickets;
mod tombstones;
mod units;
mod usage;
mod validate;

pub use check::Finding;
pub use configure::Config;
pub use conflict::Replaced;
pub use doubt::Doubt;
pub use entropy::Entropy;
pub use lease::Lease;
pub use losses::in_use;
pub use promise::took_up;
pub use reason::Reason;
pub use request::{Considered, Given, Group, MAX_PER_REQUEST, Outcome, Request, Trace};
pub use tickets::Ticket;
pub use tombstones::{Mark, Stamp, Tombstones, Wish};
pub use usage::Usage;
pub use validate::{Breach, Fault, Occupied, pool_overlap, subnet_faults, subnet_overlap};

use crate::addr::{Cidr, Family, RangeSet};
use crate::block::{Block, BlockKey, Plane, Slot, SlotRef};
use crate::model::{LEASE_TYPE, Pool};
use crate::time::Time;
use indexes::Indexes;
use pool_index::PoolIndex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use units::{Owners, Units};

/// One slot before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The block it is in.
    pub key: BlockKey,
    /// Which slot.
    pub slot: u8,
    /// What it was; `None` is never used.
    pub before: Option<Slot>,
    /// What it is now.
    pub after: Option<Slot>,
}

/// A slot, as a small number: the block's place in the table times 64, plus the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SlotId(u32);

impl SlotId {
    const fn new(block: usize, slot: u8) -> Self {
        Self((block as u32) << 6 | slot as u32)
    }

    const fn block(self) -> usize {
        (self.0 >> 6) as usize
    }

    const fn slot(self) -> u8 {
        (self.0 & 63) as u8
    }
}

#[derive(Debug)]
struct Entry {
    key: BlockKey,
    block: Block,
    /// The pools whose ranges reach into this block, by their place in the list of pools.
    pools: Box<[u32]>,
}

#[derive(Debug)]
struct PoolState {
    pool: Arc<Pool>,
    plane: Plane,
    /// Every unit of its ranges, given out or not: whose a slot is does not change when an address is reserved.
    own: Units,
    /// The subnets its addresses live in.
    subnets: Vec<Cidr>,
    /// What the pool may ever give out.
    members: RangeSet,
    index: PoolIndex,
    /// Addresses per namespace, counted only if the pool has a quota.
    namespaces: HashMap<String, u32>,
}

impl PoolState {
    fn has_quota(&self) -> bool {
        self.pool.quota.per_namespace.is_some() || !self.pool.quota.namespaces.is_empty()
    }

    fn count(&mut self, namespace: &str, by: i32) {
        match self.namespaces.get_mut(namespace) {
            Some(count) => *count = count.saturating_add_signed(by),
            None => drop(self.namespaces.insert(namespace.to_owned(), 0u32.saturating_add_signed(by))),
        }
    }
}

/// All blocks of a store, with their indexes.
#[derive(Debug, Default)]
pub struct Ipam {
    config: Config,
    pools: Vec<PoolState>,
    names: BTreeMap<String, usize>,
    owners: Owners,
    entries: Vec<Option<Entry>>,
    vacant: Vec<usize>,
    keys: BTreeMap<BlockKey, usize>,
    /// The planes that have or had blocks.
    planes: BTreeSet<Plane>,
    indexes: Indexes,
    changes: Vec<Change>,
    /// Where pools' searches stood: the number of changes after which one moved, the pool, and where it was before.
    cursors: Vec<(usize, usize, (Time, u128))>,
    clock: Time,
    /// Set if others give out from the same pools: then each searches in a place of its own.
    apart: Option<Entropy>,
    /// Leases from which nothing is given out, because what is in use in them is not known for sure.
    barred: Vec<(String, Cidr)>,
}

impl Ipam {
    /// An empty state.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty state that shares its pools with others, who know nothing of it: the search begins in a random place
    /// of each pool, so that they seldom meet.
    #[must_use]
    pub fn among_others(seed: u64) -> Self {
        Self { apart: Some(Entropy(seed)), ..Self::default() }
    }

    /// Somebody else is at this block: the search of its pools goes on elsewhere.
    pub fn keep_away_from(&mut self, key: &BlockKey) {
        let Some(entropy) = &mut self.apart else { return };
        for pool in self.owners.of(key) {
            self.pools[pool as usize].index.scatter(entropy);
        }
    }

    /// Takes in a block read from the store, in place of the one known so far.
    pub fn load(&mut self, key: &BlockKey, block: Block) {
        let id = self.entry(key);
        let Some(entry) = &mut self.entries[id] else { return };
        if entry.block.is_empty() {
            entry.block = block;
            self.index_block(id);
            self.drop_if_empty(id);
            return;
        }
        for slot in 0..crate::block::BLOCK_UNITS {
            self.replay(key, slot, block.slot(slot).map(|view| view.to_slot()).as_ref());
        }
    }

    /// The changes made since the last commit, oldest first.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The changes are in the store.
    pub fn commit(&mut self) {
        self.changes.clear();
        self.cursors.clear();
    }

    /// The store refused: everything since the last commit is undone.
    pub fn rollback(&mut self) {
        self.rollback_to(0);
    }

    /// A point to come back to with [`Self::rollback_to`].
    #[must_use]
    pub const fn savepoint(&self) -> usize {
        self.changes.len()
    }

    /// Undoes everything since the savepoint.
    pub fn rollback_to(&mut self, mark: usize) {
        while self.changes.len() > mark {
            let Some(change) = self.changes.pop() else { break };
            let id = self.entry(&change.key);
            self.put(id, change.slot, change.after.as_ref(), change.before.as_ref());
        }
        while let Some((_, pool, cursor)) = self.cursors.pop_if(|(changes, ..)| *changes > mark) {
            self.pools[pool].index.cursor = cursor;
        }
    }

    /// Applies a change that the store already has, while it is being read back.
    pub fn replay(&mut self, key: &BlockKey, slot: u8, value: Option<&Slot>) {
        let id = self.entry(key);
        let before = self.view(SlotId::new(id, slot)).map(|view| view.to_slot());
        self.put(id, slot, before.as_ref(), value);
    }

    /// Every block that was ever used.
    pub fn blocks(&self) -> impl Iterator<Item = (&BlockKey, &Block)> {
        self.keys.iter().filter_map(|(key, &id)| Some((key, &self.entries[id].as_ref()?.block)))
    }

    /// A block.
    #[must_use]
    pub fn block(&self, key: &BlockKey) -> Option<&Block> {
        self.keys.get(key).and_then(|&id| self.entries[id].as_ref()).map(|entry| &entry.block)
    }

    /// Every slot that was ever used, in order of address, with its unit's plane and number.
    pub fn slots(&self) -> impl Iterator<Item = (&Plane, u128, SlotRef<'_>)> {
        self.blocks().flat_map(|(key, block)| block.slots().map(|(slot, view)| (&key.plane, key.unit(slot), view)))
    }

    /// The slots that hold an address: one for each unit size in use in the network.
    pub fn slots_of<'a>(
        &'a self,
        network: &'a str,
        addr: IpAddr,
    ) -> impl Iterator<Item = (&'a Plane, u128, SlotRef<'a>)> {
        self.planes(network, addr).filter_map(move |plane| {
            let (key, slot) = BlockKey::of(plane, plane.unit_of(addr));
            let (key, &id) = self.keys.get_key_value(&key)?;
            let view = self.entries[id].as_ref()?.block.slot(slot)?;
            Some((&key.plane, key.unit(slot), view))
        })
    }

    fn planes<'a>(&'a self, network: &'a str, addr: IpAddr) -> impl Iterator<Item = &'a Plane> {
        let family = Family::of(addr);
        self.planes.iter().filter(move |plane| &*plane.network == network && plane.family == family)
    }

    /// The pools, in order of name.
    pub fn pools(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.pools.iter().map(|state| &state.pool).filter(|pool| pool.kind != LEASE_TYPE)
    }

    /// A pool by name.
    #[must_use]
    pub fn pool(&self, name: &str) -> Option<&Arc<Pool>> {
        self.names.get(name).map(|&i| &self.pools[i].pool)
    }

    /// The instant to stamp changes with: `now`, but later than the last one, so that the order of releases is kept.
    fn tick(&mut self, now: Time) -> Time {
        // A clock that was set back by more than that is believed: better a wrong order than times that never pass.
        const SLACK: Duration = Duration::from_secs(60);
        let behind = now <= self.clock && self.clock.since(now) < SLACK;
        self.clock = if behind { Time(self.clock.0 + 1) } else { now }.min(Time::FOREVER);
        self.clock
    }

    fn entry(&mut self, key: &BlockKey) -> usize {
        if let Some(&id) = self.keys.get(key) {
            return id;
        }
        let pools = self.owners.of(key).into_boxed_slice();
        let entry = Some(Entry { key: key.clone(), block: Block::default(), pools });
        let id = self.vacant.pop().unwrap_or(self.entries.len());
        if id == self.entries.len() {
            self.entries.push(entry);
        } else {
            self.entries[id] = entry;
        }
        self.keys.insert(key.clone(), id);
        if !self.planes.contains(&key.plane) {
            self.planes.insert(key.plane.clone());
        }
        id
    }

    fn drop_if_empty(&mut self, block: usize) {
        if let Some(entry) = self.entries[block].take_if(|entry| entry.block.is_empty()) {
            self.keys.remove(&entry.key);
            self.vacant.push(block);
        }
    }

    fn view(&self, id: SlotId) -> Option<SlotRef<'_>> {
        self.entries[id.block()].as_ref()?.block.slot(id.slot())
    }

    fn unit(&self, id: SlotId) -> Option<(&Plane, u128)> {
        self.entries[id.block()].as_ref().map(|entry| (&entry.key.plane, entry.key.unit(id.slot())))
    }

    /// Changes a slot and remembers the change.
    fn write(&mut self, id: SlotId, value: Option<Slot>) {
        let before = self.view(id).map(|view| view.to_slot());
        self.write_over(id, before, value);
    }

    /// Changes a slot that is now `before`, and remembers the change.
    fn write_over(&mut self, id: SlotId, before: Option<Slot>, after: Option<Slot>) {
        let Some(entry) = &self.entries[id.block()] else { return };
        let key = entry.key.clone();
        self.put(id.block(), id.slot(), before.as_ref(), after.as_ref());
        self.changes.push(Change { key, slot: id.slot(), before, after });
    }
}
