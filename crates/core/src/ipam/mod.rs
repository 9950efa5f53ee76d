//! The state machine: all blocks of one store in memory, with the indexes that make every request quick.
//!
//! It is synchronous and pure. A request changes blocks in memory and leaves a list of [`Change`]s; the caller writes
//! those to a store and then calls [`Ipam::commit`], or [`Ipam::rollback`] if the store refused. Every index is derived
//! from blocks and pools and can be rebuilt from them; [`Ipam::check`] does just that and compares.

mod allocate;
mod check;
mod configure;
mod pool_index;
mod release;
mod request;
mod runs;
mod select;
mod tombstones;
mod usage;

pub use check::Finding;
pub use configure::Config;
pub use pool_index::{Entropy, Reason};
pub use request::{Considered, Given, Group, Outcome, Request, Trace};
pub use tombstones::Tombstones;
pub use usage::Usage;

use crate::addr::{Family, RangeSet};
use crate::block::{Block, BlockKey, Plane, Slot, SlotRef, State};
use crate::holder::Attachment;
use crate::model::Pool;
use crate::time::Time;
use hashbrown::HashTable;
use pool_index::PoolIndex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, Hash};
use std::net::IpAddr;
use std::sync::Arc;

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
    /// The pools that have units in this block, by their place in the list of pools.
    pools: Vec<u32>,
}

#[derive(Debug)]
struct PoolState {
    pool: Arc<Pool>,
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
}

/// All blocks of a store, with their indexes.
#[derive(Debug, Default)]
pub struct Ipam {
    config: Config,
    pools: Vec<PoolState>,
    names: BTreeMap<String, usize>,
    entries: Vec<Option<Entry>>,
    vacant: Vec<usize>,
    keys: BTreeMap<BlockKey, usize>,
    /// The planes that have or had blocks.
    planes: BTreeSet<Plane>,
    /// Active slots by network, container and interface.
    attachments: HashTable<SlotId>,
    /// Active and held slots by the identity they are kept for.
    identities: HashTable<SlotId>,
    /// Active slots by pod UID, network and interface.
    pods: HashTable<SlotId>,
    /// Held and quarantined slots by deadline.
    deadlines: BTreeSet<(Time, SlotId)>,
    changes: Vec<Change>,
    clock: Time,
}

const HASHER: foldhash::fast::FixedState = foldhash::fast::FixedState::with_seed(0x6265_7274_6800);

fn hash_of(value: impl Hash) -> u64 {
    HASHER.hash_one(value)
}

impl Ipam {
    /// An empty state.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in a block read from the store, in place of the one known so far.
    pub fn load(&mut self, key: &BlockKey, block: Block) {
        let id = self.entry(key);
        let old = self.entries[id].as_mut().map(|entry| std::mem::replace(&mut entry.block, block));
        if old.is_some_and(|old| !old.is_empty()) {
            // A block that was known has left traces in every index.
            self.reindex();
        } else {
            self.index_block(id);
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
    }

    /// The store refused: everything since the last commit is undone.
    pub fn rollback(&mut self) {
        self.rollback_to(0);
    }

    fn rollback_to(&mut self, mark: usize) {
        while self.changes.len() > mark {
            let Some(change) = self.changes.pop() else { break };
            let id = self.entry(&change.key);
            self.put(id, change.slot, change.before.as_ref());
        }
    }

    /// Applies a change that the store already has, while it is being read back.
    pub fn replay(&mut self, key: &BlockKey, slot: u8, value: Option<&Slot>) {
        let id = self.entry(key);
        self.put(id, slot, value);
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
        self.pools.iter().map(|state| &state.pool)
    }

    /// A pool by name.
    #[must_use]
    pub fn pool(&self, name: &str) -> Option<&Arc<Pool>> {
        self.names.get(name).map(|&i| &self.pools[i].pool)
    }

    /// The instant to stamp changes with: `now`, but later than the last one, so that the order of releases is kept.
    fn tick(&mut self, now: Time) -> Time {
        let jitter = Time::from_secs(1);
        // A clock that was set back by more than that is believed: better a wrong order than times that never pass.
        let behind = now <= self.clock && self.clock.0 - now.0 < jitter.0;
        self.clock = if behind { Time(self.clock.0 + 1) } else { now };
        self.clock
    }

    fn entry(&mut self, key: &BlockKey) -> usize {
        if let Some(&id) = self.keys.get(key) {
            return id;
        }
        let overlaps = |state: &PoolState| state.pool.plane() == key.plane && state.index.units().mask(key.index) != 0;
        let pools = (0..).zip(&self.pools).filter(|(_, state)| overlaps(state)).map(|(i, _)| i).collect();
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

    fn view(&self, id: SlotId) -> Option<SlotRef<'_>> {
        self.entries[id.block()].as_ref()?.block.slot(id.slot())
    }

    /// Changes a slot and remembers the change.
    fn write(&mut self, id: SlotId, value: Option<Slot>) {
        let Some(entry) = &self.entries[id.block()] else { return };
        let (key, before) = (entry.key.clone(), entry.block.slot(id.slot()).map(|view| view.to_slot()));
        self.put(id.block(), id.slot(), value.as_ref());
        self.changes.push(Change { key, slot: id.slot(), before, after: value });
    }

    /// Changes a slot and every index that mentions it.
    fn put(&mut self, block: usize, slot: u8, value: Option<&Slot>) {
        let id = SlotId::new(block, slot);
        self.unindex(id);
        let Some(entry) = &mut self.entries[block] else { return };
        let before = entry.block.slot(slot).map(|view| (view.state, view.since));
        entry.block.set(slot, value);
        let after = value.map(|slot| (slot.state, slot.since));
        for &pool in &entry.pools {
            self.pools[pool as usize].index.update(entry.key.index, slot, before, after);
        }
        if let Some((_, since)) = after {
            self.clock = self.clock.max(since);
        }
        self.index(id);
        self.drop_if_empty(block);
    }

    fn drop_if_empty(&mut self, block: usize) {
        if let Some(entry) = self.entries[block].take_if(|entry| entry.block.is_empty()) {
            self.keys.remove(&entry.key);
            self.vacant.push(block);
        }
    }

    /// Counts a slot's holder in; the mirror image of [`Self::unindex`].
    fn index(&mut self, id: SlotId) {
        let Some(view) = self.view(id) else { return };
        let (state, until, namespace) = (view.state, view.until, view.namespace().to_owned());
        let keys = Keys::of(&view);
        if let Some(until) = until {
            self.deadlines.insert((until, id));
        }
        let Some(keys) = keys else { return };
        self.count_namespace(id, &namespace, 1);
        let Self { entries, attachments, identities, pods, .. } = self;
        let rehash = |which: fn(&Keys) -> Option<u64>| {
            let entries = &*entries;
            move |&id: &SlotId| {
                let view = entries[id.block()].as_ref().and_then(|entry| entry.block.slot(id.slot()));
                view.and_then(|view| Keys::of(&view)).and_then(|keys| which(&keys)).unwrap_or(0)
            }
        };
        if state == State::Active {
            attachments.insert_unique(keys.attachment, id, rehash(|keys| Some(keys.attachment)));
            if let Some(hash) = keys.pod {
                pods.insert_unique(hash, id, rehash(|keys| keys.pod));
            }
        }
        if let Some(hash) = keys.identity {
            identities.insert_unique(hash, id, rehash(|keys| keys.identity));
        }
    }

    fn unindex(&mut self, id: SlotId) {
        let Some(view) = self.view(id) else { return };
        let (until, namespace) = (view.until, view.namespace().to_owned());
        let keys = Keys::of(&view);
        if let Some(until) = until {
            self.deadlines.remove(&(until, id));
        }
        let Some(keys) = keys else { return };
        self.count_namespace(id, &namespace, -1);
        let mut forget = |table: fn(&mut Self) -> &mut HashTable<SlotId>, hash: Option<u64>| {
            if let Some(Ok(found)) = hash.map(|hash| table(self).find_entry(hash, |&other| other == id)) {
                found.remove();
            }
        };
        forget(|ipam| &mut ipam.attachments, Some(keys.attachment));
        forget(|ipam| &mut ipam.identities, keys.identity);
        forget(|ipam| &mut ipam.pods, keys.pod);
    }

    fn count_namespace(&mut self, id: SlotId, namespace: &str, by: i32) {
        let Some(entry) = &self.entries[id.block()] else { return };
        for &pool in &entry.pools {
            let state = &mut self.pools[pool as usize];
            if state.has_quota() && state.index.has(entry.key.index, id.slot()) {
                let count = state.namespaces.entry(namespace.to_owned()).or_default();
                *count = count.saturating_add_signed(by);
            }
        }
    }

    fn index_block(&mut self, block: usize) {
        let Some(entry) = &self.entries[block] else { return };
        for &pool in &entry.pools {
            self.pools[pool as usize].index.load(entry.key.index, &entry.block);
        }
        let slots: Vec<(u8, Time)> = entry.block.slots().map(|(slot, view)| (slot, view.since)).collect();
        for (slot, since) in slots {
            self.clock = self.clock.max(since);
            self.index(SlotId::new(block, slot));
        }
    }

    /// The active slots of an attachment, in the order they were given out.
    fn find_attachment(&self, key: Attachment<'_>) -> Vec<SlotId> {
        let mut found: Vec<SlotId> = (self.attachments.iter_hash(hash_of(key)).copied())
            .filter(|&id| self.view(id).is_some_and(|view| view.is_held_by(key)))
            .collect();
        found.sort_by_key(|&id| self.view(id).map(|view| view.since));
        found
    }

    /// The slots kept for an identity, in the order they were given out.
    fn find_identity(&self, identity: &str) -> Vec<SlotId> {
        let mut found: Vec<SlotId> = (self.identities.iter_hash(hash_of(identity)).copied())
            .filter(|&id| self.view(id).is_some_and(|view| view.identity() == Some(identity)))
            .collect();
        found.sort_by_key(|&id| self.view(id).map(|view| view.since));
        found
    }

    fn unit(&self, id: SlotId) -> Option<(&Plane, u128)> {
        self.entries[id.block()].as_ref().map(|entry| (&entry.key.plane, entry.key.unit(id.slot())))
    }
}

/// What a slot is found by.
struct Keys {
    attachment: u64,
    identity: Option<u64>,
    pod: Option<u64>,
}

impl Keys {
    fn of(view: &SlotRef<'_>) -> Option<Self> {
        let holder = view.holder()?;
        let pod = (!holder.uid.is_empty()).then(|| hash_of((&*holder.uid, &*holder.network, &*holder.ifname)));
        let identity = holder.sticky.as_ref().map(|sticky| hash_of(&*sticky.identity));
        Some(Self { attachment: hash_of(holder.attachment()), identity, pod })
    }
}
