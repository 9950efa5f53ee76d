//! What the engine keeps under its lock: the state machine, the store, and what is known of one in the other.
//!
//! In a store that others write too, an engine knows only part of it, and some of that is out of date. Two rules make
//! up for it. It *looks before it writes* a block it has never seen: one read instead of a conflict. And it never says
//! that nothing is left without having *looked round*: a fresh list of everything, at most one in a while.

use crate::Context;
use crate::batch::{Job, Unanswered};
use berth_core::block::{BlockKey, Slot, State};
use berth_core::error::Error;
use berth_core::holder::Kind;
use berth_core::ipam::{Config, Entropy, Ipam, Stamp, Tombstones, Wish};
use berth_core::time::Time;
use berth_store::{Batch, BlockStore, BlockWrite, Revision, StoreError, Stored, Written};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

/// How often a batch is decided anew before its requests are told to try again.
const ATTEMPTS: u32 = 64;
/// How many blocks are met one by one that turn out to be full, before looking round.
const BLIND_STEPS: u32 = 4;
/// How long what was seen when looking round is good enough for a refusal.
const FRESH: Duration = Duration::from_millis(500);

pub(crate) struct Inner<S> {
    pub(crate) ipam: Ipam,
    pub(crate) store: S,
    /// The revision of every block that was seen; 0 for one that is not there.
    revisions: HashMap<BlockKey, Revision>,
    deletions: Tombstones,
    additions: Tombstones,
    stamps: Vec<Stamp>,
    pub(crate) entropy: Entropy,
    in_doubt: bool,
    looked_round: Option<Time>,
    pub(crate) before_waiting: fn(),
}

/// What became of the changes of a batch.
enum Tried {
    Written,
    /// Nothing was changed: a block was not what it was thought to be, and has been read.
    Unexpected,
    /// Others were quicker; the blocks have been read again.
    Forestalled,
}

impl<S: BlockStore> Inner<S> {
    pub(crate) fn open(mut store: S, config: Config, seed: u64) -> Result<Self, StoreError> {
        let mut ipam = if store.is_shared() { Ipam::among_others(seed) } else { Ipam::new() };
        ipam.configure(config);
        let (mut deletions, mut additions) = (Tombstones::default(), Tombstones::default());
        for Stamp { wish, mark, at } in store.stamps() {
            match wish {
                Wish::Add => additions.bury(mark, at),
                Wish::Del => deletions.bury(mark, at),
            }
        }
        let own = store.list_own()?;
        let mut inner = Self {
            ipam,
            store,
            revisions: HashMap::new(),
            deletions,
            additions,
            stamps: Vec::new(),
            entropy: Entropy(seed),
            in_doubt: false,
            looked_round: None,
            before_waiting: || {},
        };
        own.into_iter().for_each(|stored| inner.see(stored));
        Ok(inner)
    }

    pub(crate) fn context(&mut self, now: Time, attempt: u32) -> Context<'_> {
        let unsure = self.store.is_unsure();
        let Self { ipam, deletions, additions, stamps, entropy, in_doubt, .. } = self;
        Context { ipam, deletions, additions, stamps, entropy, now, attempt, in_doubt, unsure }
    }

    /// Undoes what has not been written.
    pub(crate) fn roll_back(&mut self) {
        self.ipam.rollback();
        self.stamps.clear();
    }

    /// Runs a batch of requests until the store has taken their changes.
    pub(crate) fn run(&mut self, batch: &[Job], now: Time) {
        self.roll_back();
        let _told = Unanswered(batch);
        match self.try_to_run(batch, now) {
            Ok(true) => batch.iter().for_each(Job::deliver),
            Ok(false) => batch.iter().for_each(|job| job.fail(&Error::RetriesExhausted(ATTEMPTS))),
            Err(error) => {
                self.roll_back();
                let error = Error::from(error);
                batch.iter().for_each(|job| job.fail(&error));
            }
        }
    }

    fn try_to_run(&mut self, batch: &[Job], now: Time) -> Result<bool, StoreError> {
        for stored in self.store.changed()? {
            self.see(stored);
        }
        let (mut forestalled, mut surprises) = (0, 0);
        while forestalled < ATTEMPTS {
            self.in_doubt = false;
            for job in batch {
                let (savepoint, stamps) = (self.ipam.savepoint(), self.stamps.len());
                if !job.run(&mut self.context(now, forestalled)) {
                    // Who got nothing has nothing that a late DEL could take.
                    self.stamps.truncate(stamps);
                    self.ipam.rollback_to(savepoint);
                }
            }
            if self.in_doubt && self.look_round(now)? {
                continue;
            }
            match self.write()? {
                Tried::Written => return Ok(true),
                Tried::Unexpected => surprises += 1,
                Tried::Forestalled => {
                    forestalled += 1;
                    self.store.give_way(forestalled);
                }
            }
            if surprises == BLIND_STEPS {
                surprises = 0;
                self.look_round(now)?;
            }
        }
        self.roll_back();
        Ok(false)
    }

    /// Takes in a block as the store has it, unless something newer is known.
    fn see(&mut self, (key, block, revision): Stored) {
        if self.revisions.get(&key).is_some_and(|&known| known >= revision && revision != 0) {
            return;
        }
        let gone = block.is_empty();
        self.ipam.load(&key, block);
        self.revisions.insert(key, if gone { 0 } else { revision });
    }

    /// Reads everything there is, undoing what is not written; false if what is known is complete or fresh enough.
    fn look_round(&mut self, now: Time) -> Result<bool, StoreError> {
        let fresh = self.looked_round.is_some_and(|last| last <= now && now.since(last) < FRESH);
        if !self.store.is_shared() || fresh {
            return Ok(false);
        }
        (self.before_waiting)();
        self.roll_back();
        let all = self.store.list()?;
        let there: HashSet<BlockKey> = all.iter().map(|(key, ..)| key.clone()).collect();
        all.into_iter().for_each(|stored| self.see(stored));
        let gone: Vec<BlockKey> = self
            .revisions
            .iter()
            .filter(|(key, rev)| **rev != 0 && !there.contains(*key))
            .map(|(k, _)| k.clone())
            .collect();
        for key in gone {
            self.ipam.load(&key, berth_core::block::Block::default());
            self.revisions.insert(key, 0);
        }
        self.looked_round = Some(now);
        Ok(true)
    }

    /// Writes the changes, if the store is as it was thought to be.
    fn write(&mut self) -> Result<Tried, StoreError> {
        let mut changed: BTreeMap<BlockKey, u64> = BTreeMap::new();
        let mut durable = false;
        for change in self.ipam.changes() {
            *changed.entry(change.key.clone()).or_default() |= 1 << change.slot;
            durable |= outlives_boot(change.before.as_ref()) || outlives_boot(change.after.as_ref());
        }
        if changed.is_empty() && self.stamps.is_empty() {
            return Ok(Tried::Written);
        }
        if self.store.waits(durable) {
            (self.before_waiting)();
        }
        if self.store.is_shared() && !self.as_expected(changed.keys())? {
            return Ok(Tried::Unexpected);
        }
        let write = |(key, changed): (BlockKey, u64)| BlockWrite {
            expected: self.revisions.get(&key).copied().unwrap_or(0),
            block: self.ipam.block(&key).cloned().unwrap_or_default(),
            key,
            changed,
        };
        let writes: Vec<BlockWrite> = changed.into_iter().map(write).collect();
        let written = self.store.write(Batch { blocks: &writes, stamps: &self.stamps, durable })?;
        let conflict = written.contains(&Written::Conflict);
        if conflict {
            self.roll_back();
        } else {
            self.ipam.commit();
            self.stamps.clear();
        }
        for (write, outcome) in writes.iter().zip(&written) {
            match *outcome {
                Written::As(revision) => drop(self.revisions.insert(write.key.clone(), revision)),
                Written::Conflict => self.ipam.keep_away_from(&write.key),
            }
        }
        if !conflict {
            return Ok(Tried::Written);
        }
        let keys: Vec<BlockKey> = writes.into_iter().map(|write| write.key).collect();
        self.reload(&keys)?;
        Ok(Tried::Forestalled)
    }

    /// Reads blocks anew.
    pub(crate) fn reload(&mut self, keys: &[BlockKey]) -> Result<(), StoreError> {
        for (key, (block, revision)) in keys.iter().zip(self.store.read(keys)?) {
            self.ipam.load(key, block);
            self.revisions.insert(key.clone(), revision);
        }
        Ok(())
    }

    /// Whether the blocks that were never seen are not there, as was assumed. If one is, the changes are undone.
    fn as_expected<'a>(&mut self, keys: impl Iterator<Item = &'a BlockKey>) -> Result<bool, StoreError> {
        let unseen: Vec<BlockKey> = keys.filter(|key| !self.revisions.contains_key(*key)).cloned().collect();
        if unseen.is_empty() {
            return Ok(true);
        }
        let found = self.store.read(&unseen)?;
        let as_expected = found.iter().all(|(_, revision)| *revision == 0);
        if !as_expected {
            self.roll_back();
        }
        for (key, (block, revision)) in unseen.into_iter().zip(found) {
            if !as_expected {
                self.ipam.load(&key, block);
            }
            self.revisions.insert(key, revision);
        }
        Ok(as_expected)
    }

    /// Writes changes that cannot be decided anew; false if others were quicker.
    pub(crate) fn write_once(&mut self) -> Result<bool, StoreError> {
        let tried = self.write();
        if tried.is_err() {
            self.roll_back();
        }
        tried.map(|tried| matches!(tried, Tried::Written))
    }
}

/// Whether a slot must survive a loss of power. A container's address need not: the container does not survive it.
fn outlives_boot(slot: Option<&Slot>) -> bool {
    let Some(slot) = slot else { return false };
    match (slot.state, &slot.holder) {
        (State::Held | State::Quarantined, _) => true,
        (State::Active, Some(holder)) => holder.kind != Kind::Container || holder.sticky.is_some(),
        _ => false,
    }
}
