//! How slots are found: by attachment, by identity, by pod, by the container whose ADD they await, by deadline.
//!
//! The tables hold nothing but slot numbers; what a slot is found by is read from its block. A million held addresses
//! then cost ten megabytes of index.

use super::{Ipam, SlotId};
use crate::block::{Slot, SlotRef, State};
use crate::holder::Attachment;
use crate::time::Time;
use hashbrown::HashTable;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hash};

const HASHER: foldhash::fast::FixedState = foldhash::fast::FixedState::with_seed(0x6265_7274_6800);

pub(super) fn hash_of(value: impl Hash) -> u64 {
    HASHER.hash_one(value)
}

/// The tables of slots.
#[derive(Debug, Default)]
pub(super) struct Indexes {
    /// Active slots by network, container and interface.
    pub(super) attachments: HashTable<SlotId>,
    /// Active slots whose holders are moving, by the attachment they move from.
    pub(super) sources: HashTable<SlotId>,
    /// Active and held slots by the identity they are kept for.
    pub(super) identities: HashTable<SlotId>,
    /// Active slots by pod UID, network and interface.
    pub(super) pods: HashTable<SlotId>,
    /// Active slots that await an ADD, by container.
    pub(super) awaited: HashTable<SlotId>,
    /// Held and quarantined slots by deadline.
    pub(super) deadlines: BTreeSet<(Time, SlotId)>,
}

/// What a slot is found by.
#[derive(Clone, Copy, Default)]
pub(super) struct Keys {
    pub(super) attachment: Option<u64>,
    source: Option<u64>,
    identity: Option<u64>,
    pod: Option<u64>,
    pub(super) awaited: Option<u64>,
    until: Option<Time>,
}

impl Keys {
    pub(super) fn of(view: &SlotRef<'_>) -> Self {
        let (active, mut buffer) = (view.state == State::Active, String::new());
        Self {
            attachment: view.attachment(&mut buffer).filter(|_| active).map(hash_of),
            source: view.moves_from(&mut buffer).map(hash_of),
            pod: view.pod(&mut buffer).filter(|_| active).map(hash_of),
            awaited: view.awaits(&mut buffer).filter(|_| active).map(hash_of),
            identity: view.identity().map(hash_of),
            until: view.until,
        }
    }

    /// The same of a slot that is unpacked; of what [`crate::block::Block::set`] would leave of it.
    fn of_slot(slot: &Slot) -> Self {
        let holder = slot.holder.as_ref().filter(|_| slot.has_holder());
        let active = holder.filter(|_| slot.state == State::Active);
        let pod = active.filter(|holder| !holder.uid.is_empty());
        Self {
            attachment: active.map(|holder| hash_of(holder.attachment())),
            source: slot.source.as_ref().filter(|_| active.is_some()).map(|source| hash_of(source.attachment())),
            pod: pod.map(|holder| hash_of((&*holder.uid, &*holder.network, &*holder.ifname))),
            awaited: active.filter(|holder| holder.awaited).map(|holder| hash_of(&*holder.id)),
            identity: holder.and_then(|holder| holder.sticky.as_ref()).map(|sticky| hash_of(&*sticky.identity)),
            until: slot.until.filter(|until| *until < Time::FOREVER && slot.has_deadline()),
        }
    }
}

impl Ipam {
    /// Changes a slot and every index that mentions it. `before` is what the slot is now.
    pub(super) fn put(&mut self, block: usize, slot: u8, before: Option<&Slot>, after: Option<&Slot>) {
        let id = SlotId::new(block, slot);
        if let Some(before) = before {
            self.unindex(id, Keys::of_slot(before));
        }
        let Some(entry) = &mut self.entries[block] else { return };
        entry.block.set(slot, after);
        let state = |slot: &Slot| (slot.state, slot.since);
        for &pool in &entry.pools {
            let pool = &mut self.pools[pool as usize];
            pool.index.update(entry.key.index, slot, before.map(state), after.map(state));
            if pool.has_quota() && pool.own.has(entry.key.index, slot) {
                for (slot, by) in [(before, -1), (after, 1)] {
                    let holder = slot.filter(|slot| slot.has_holder()).and_then(|slot| slot.holder.as_ref());
                    holder.into_iter().for_each(|holder| pool.count(&holder.namespace, by));
                }
            }
        }
        if let Some(after) = after {
            self.clock = self.clock.max(after.since);
            self.index(id, Keys::of_slot(after));
        }
        self.drop_if_empty(block);
    }

    /// Enters a slot into the tables; the mirror image of [`Self::unindex`].
    fn index(&mut self, id: SlotId, keys: Keys) {
        let Self { entries, indexes, .. } = self;
        let keys_of = |id: &SlotId| {
            let view = entries[id.block()].as_ref().and_then(|entry| entry.block.slot(id.slot()));
            view.map(|view| Keys::of(&view)).unwrap_or_default()
        };
        if let Some(hash) = keys.attachment {
            indexes.attachments.insert_unique(hash, id, |id| keys_of(id).attachment.unwrap_or(0));
        }
        if let Some(hash) = keys.source {
            indexes.sources.insert_unique(hash, id, |id| keys_of(id).source.unwrap_or(0));
        }
        if let Some(hash) = keys.pod {
            indexes.pods.insert_unique(hash, id, |id| keys_of(id).pod.unwrap_or(0));
        }
        if let Some(hash) = keys.awaited {
            indexes.awaited.insert_unique(hash, id, |id| keys_of(id).awaited.unwrap_or(0));
        }
        if let Some(hash) = keys.identity {
            indexes.identities.insert_unique(hash, id, |id| keys_of(id).identity.unwrap_or(0));
        }
        if let Some(until) = keys.until {
            indexes.deadlines.insert((until, id));
        }
    }

    fn unindex(&mut self, id: SlotId, keys: Keys) {
        let Indexes { attachments, sources, identities, pods, awaited, deadlines } = &mut self.indexes;
        for (table, hash) in [
            (attachments, keys.attachment),
            (sources, keys.source),
            (identities, keys.identity),
            (pods, keys.pod),
            (awaited, keys.awaited),
        ] {
            if let Some(Ok(found)) = hash.map(|hash| table.find_entry(hash, |&other| other == id)) {
                found.remove();
            }
        }
        if let Some(until) = keys.until {
            deadlines.remove(&(until, id));
        }
    }

    /// Takes a whole block into the indexes.
    pub(super) fn index_block(&mut self, block: usize) {
        self.index_in_pools(block);
        let Some(entry) = &self.entries[block] else { return };
        let slots: Vec<(u8, Time, Keys)> =
            entry.block.slots().map(|(slot, view)| (slot, view.since, Keys::of(&view))).collect();
        for (slot, since, keys) in slots {
            self.clock = self.clock.max(since);
            self.index(SlotId::new(block, slot), keys);
        }
    }

    /// Takes a whole block into the pools' indexes and counts.
    pub(super) fn index_in_pools(&mut self, block: usize) {
        let Some(entry) = &self.entries[block] else { return };
        for &pool in &entry.pools {
            let pool = &mut self.pools[pool as usize];
            pool.index.load(entry.key.index, &entry.block);
            if pool.has_quota() {
                let mask = pool.own.mask(entry.key.index);
                let own = entry.block.slots().filter(|(slot, view)| mask & (1 << slot) != 0 && view.kind().is_some());
                own.for_each(|(_, view)| pool.count(view.namespace(), 1));
            }
        }
    }

    /// The active slots of an attachment, in the order they were given out; also those that it is being moved from.
    pub(super) fn find_attachment(&self, key: Attachment<'_>) -> Vec<SlotId> {
        let mut found = self.find(&self.indexes.attachments, hash_of(key), |view| view.is_held_by(key));
        found.extend(self.find_sources(key));
        found
    }

    /// The active slots whose holders are moving away from an attachment.
    pub(super) fn find_sources(&self, key: Attachment<'_>) -> Vec<SlotId> {
        self.find(&self.indexes.sources, hash_of(key), |view| view.is_left_by(key))
    }

    /// The slots kept for an identity, in the order they were given out.
    pub(super) fn find_identity(&self, identity: &str) -> Vec<SlotId> {
        self.find(&self.indexes.identities, hash_of(identity), |view| view.identity() == Some(identity))
    }

    /// The active slots of a pod's interface, in the order they were given out.
    pub(super) fn find_pod(&self, uid: &str, network: &str, ifname: &str) -> Vec<SlotId> {
        let hash = hash_of((uid, network, ifname));
        self.find(&self.indexes.pods, hash, |view| view.is_of_pod(uid, network, ifname))
    }

    /// The active slots that await an ADD of this container, in the order they were given out.
    pub(super) fn find_awaited(&self, container: &str) -> Vec<SlotId> {
        let awaits = |view: &SlotRef<'_>| view.is_awaited() && view.is_container(container);
        self.find(&self.indexes.awaited, hash_of(container), awaits)
    }

    fn find(&self, table: &HashTable<SlotId>, hash: u64, test: impl Fn(&SlotRef<'_>) -> bool) -> Vec<SlotId> {
        let known = table.iter_hash(hash).copied();
        let mut found: Vec<SlotId> = known.filter(|&id| self.view(id).is_some_and(|view| test(&view))).collect();
        if found.len() > 1 {
            found.sort_by_cached_key(|&id| (self.view(id).map(|view| view.since), id));
        }
        found
    }
}
