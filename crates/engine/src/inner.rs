//! What the engine keeps under its lock: the state machine, the store, and what is known of one in the other.
//!
//! In a store that others write too, an engine knows only part of it, and some of that is out of date. Two rules make
//! up for it. It *looks before it writes* a block it has never seen, or of whose changes nobody tells it, or that others
//! are writing right now, of which it would hear too late: one read instead of a conflict. And it never says that nothing
//! is left without having *looked round* (see [`crate::look`]).

use crate::Context;
use crate::batch::{Job, Led};
use crate::look::Looks;
use berth_core::block::{Block, BlockKey, Slot, State};
use berth_core::error::Error;
use berth_core::holder::Kind;
use berth_core::ipam::{Config, Doubt, Entropy, Ipam, Stamp, Ticket, Tombstones, Wish};
use berth_core::time::Time;
use berth_store::{Batch, BlockStore, BlockWrite, Revision, StoreError, Stored, Written};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

/// How often in a row others may be quicker before the requests of a batch are told to try again.
const ATTEMPTS: u32 = 64;
/// And for how long: whatever else is asked of this engine waits meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many blocks are met one by one that turn out to be full, before looking round.
const BLIND_STEPS: u32 = 4;
/// How often that is done before a block that another has begun will do.
const ROUNDS: u32 = 2;
/// How often tickets are given back before that is left to those who put them in order.
const RETURNS: u32 = 4;
/// For how long a block that another wrote counts as one that others are writing.
const BUSY: Duration = Duration::from_secs(2);

pub(crate) struct Inner<S> {
    pub(crate) ipam: Ipam,
    pub(crate) store: S,
    /// The revision of every block that was seen; 0 for one that is not there.
    pub(crate) revisions: HashMap<BlockKey, Revision>,
    /// Those of them that the store tells of when others change them.
    pub(crate) followed: HashSet<BlockKey>,
    /// Those that were read for the batch at hand.
    pub(crate) looked_at: HashSet<BlockKey>,
    /// When others were last seen to have written a block.
    busy: HashMap<BlockKey, Time>,
    now: Time,
    deletions: Tombstones,
    additions: Tombstones,
    stamps: Vec<Stamp>,
    pub(crate) entropy: Entropy,
    in_doubt: Doubt,
    pub(crate) looks: Looks,
    pub(crate) before_waiting: fn(),
}

/// Which slots of a block a batch changes.
#[derive(Default)]
struct Bits {
    changed: u64,
    /// Those of them of which others must hear before they are answered for.
    concerns_others: u64,
}

/// What became of the changes of a batch.
enum Tried {
    Written,
    /// Nothing was changed: these blocks were not what they were thought to be, and have been read.
    Unexpected(Vec<BlockKey>),
    /// Nothing was changed: another has written a block meanwhile, which has been read.
    Outdated,
    /// Others were quicker with some of the blocks, or with all; they have been read again.
    Forestalled {
        all: bool,
    },
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
            followed: HashSet::new(),
            looked_at: HashSet::new(),
            busy: HashMap::new(),
            now: Time(0),
            deletions,
            additions,
            stamps: Vec::new(),
            entropy: Entropy(seed),
            in_doubt: Doubt::default(),
            looks: Looks::default(),
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
    pub(crate) fn run(&mut self, batch: &mut Led<'_>, now: Time) {
        match self.finish(batch, now, 0) {
            // Not all of them may need what cannot be reached: who does not must not suffer for who does.
            Err(StoreError::Unreachable(_)) if batch.jobs().len() > 1 => {
                for mut job in batch.each_alone() {
                    // Something of the whole may have been written: it is not the first attempt.
                    if let Err(error) = self.finish(&mut job, now, 1) {
                        job.fail(&error.into());
                    }
                }
            }
            Err(error) => batch.fail(&error.into()),
            Ok(()) => {}
        }
    }

    /// Runs a batch and answers it, unless the store fails; `attempts` were made at it before.
    fn finish(&mut self, batch: &mut Led<'_>, now: Time, attempts: u32) -> Result<(), StoreError> {
        self.roll_back();
        match self.try_to_run(batch, now, attempts) {
            Ok(true) => batch.jobs().iter().for_each(Job::deliver),
            Ok(false) => {
                batch.put_back();
                batch.fail(&Error::RetriesExhausted);
            }
            Err(error) => {
                self.roll_back();
                return Err(error);
            }
        }
        Ok(())
    }

    fn try_to_run(&mut self, batch: &mut Led<'_>, now: Time, attempts: u32) -> Result<bool, StoreError> {
        self.looked_at.clear();
        self.now = now;
        self.busy.retain(|_, at| *at <= now && now.since(*at) < BUSY);
        for stored in self.store.changed()? {
            self.see_anothers(stored);
        }
        let mut surprising = Doubt::default();
        let done = self.try_again_and_again(batch, now, attempts, &mut surprising);
        self.ipam.settle(&surprising, false);
        done
    }

    fn try_again_and_again(
        &mut self,
        batch: &mut Led<'_>,
        now: Time,
        mut attempts: u32,
        surprising: &mut Doubt,
    ) -> Result<bool, StoreError> {
        let began = Instant::now();
        // In vain is what got nothing written. A part that was written counts as an attempt all the same: whoever it was
        // for may have half of what it asked for.
        let (mut in_vain, mut surprises, mut rounds, mut waited) = (0, 0, 0, false);
        while in_vain < ATTEMPTS && (in_vain == 0 || began.elapsed() < PATIENCE) {
            self.in_doubt = Doubt::default();
            for job in batch.jobs() {
                let (savepoint, stamps) = (self.ipam.savepoint(), self.stamps.len());
                if !job.run(&mut self.context(now, attempts)) {
                    // Who got nothing has nothing that a late DEL could take.
                    self.stamps.truncate(stamps);
                    self.ipam.rollback_to(savepoint);
                }
            }
            let in_doubt = std::mem::take(&mut self.in_doubt);
            if !in_doubt.is_empty() && self.look_round(&in_doubt, now)? {
                continue;
            }
            if !waited && self.is_crowded() {
                // Whoever writes there now is let go first, and who comes meanwhile is taken along: fewer writes that meet.
                waited = true;
                self.roll_back();
                self.store.give_way(1);
                batch.take_along();
                continue;
            }
            match self.write()? {
                Tried::Written => return Ok(true),
                Tried::Unexpected(keys) => {
                    surprises += 1;
                    keys.iter().for_each(|key| surprising.of_block(&self.ipam, key));
                }
                Tried::Outdated => {}
                Tried::Forestalled { all } => {
                    attempts += 1;
                    in_vain = if all { in_vain + 1 } else { 1 };
                    self.store.give_way(in_vain);
                    // What was read before that is old by now where others are at work.
                    self.looked_at.clear();
                    batch.take_along();
                }
            }
            if surprises == BLIND_STEPS {
                surprises = 0;
                self.look_round(surprising, now)?;
                rounds += 1;
                // So many blocks, and somebody is in each of them.
                self.ipam.settle(surprising, rounds >= ROUNDS);
            }
        }
        self.roll_back();
        Ok(false)
    }

    /// Whether a block that is to be written is one that others are writing.
    fn is_crowded(&self) -> bool {
        self.ipam.changes().iter().any(|change| !change.is_arrival() && self.busy.contains_key(&change.key))
    }

    /// Takes in a block of which the store told. It tells of the own writes too, but of nothing new then.
    fn see_anothers(&mut self, stored: Stored) {
        let (key, before) = (stored.0.clone(), self.revisions.get(&stored.0).copied());
        self.see(stored);
        if before.is_some() && self.revisions.get(&key).copied() != before {
            self.busy.insert(key, self.now);
        }
    }

    /// Takes in a block as the store has it, unless something newer is known.
    pub(crate) fn see(&mut self, (key, block, revision): Stored) {
        if self.revisions.get(&key).is_some_and(|&known| known >= revision && revision != 0) {
            return;
        }
        let revision = if block.is_empty() { 0 } else { revision };
        self.take_in(&key, block, revision);
    }

    pub(crate) fn take_in(&mut self, key: &BlockKey, block: Block, revision: Revision) {
        self.know(key, &block, revision);
        self.ipam.load(key, block);
    }

    /// The store has a block in this revision.
    fn know(&mut self, key: &BlockKey, block: &Block, revision: Revision) {
        if revision != 0 && self.store.follows(key, block) {
            self.followed.insert(key.clone());
        } else {
            self.followed.remove(key);
        }
        self.revisions.insert(key.clone(), revision);
    }

    /// Writes the changes, if the store is as it was thought to be.
    fn write(&mut self) -> Result<Tried, StoreError> {
        let mut changed: BTreeMap<BlockKey, Bits> = BTreeMap::new();
        let mut durable = false;
        for change in self.ipam.changes() {
            let bits = changed.entry(change.key.clone()).or_default();
            bits.changed |= 1 << change.slot;
            bits.concerns_others |= u64::from(!change.is_arrival()) << change.slot;
            durable |= outlives_boot(change.before.as_ref()) || outlives_boot(change.after.as_ref());
        }
        if changed.is_empty() && self.stamps.is_empty() {
            return Ok(Tried::Written);
        }
        if self.store.waits(durable) {
            (self.before_waiting)();
        }
        if self.store.is_shared()
            && let Some(tried) =
                self.surprised(changed.iter().filter(|(_, bits)| bits.concerns_others != 0).map(|(key, _)| key))?
        {
            return Ok(tried);
        }
        let write = |(key, Bits { changed, concerns_others }): (BlockKey, Bits)| BlockWrite {
            expected: self.revisions.get(&key).copied().unwrap_or(0),
            block: self.ipam.block(&key).cloned().unwrap_or_default(),
            key,
            changed,
            arrived: changed & !concerns_others,
        };
        let writes = changed.into_iter().map(write);
        // Nothing that a quota counts is written before its ticket is.
        let (tickets, rest): (Vec<BlockWrite>, Vec<BlockWrite>) =
            writes.partition(|write| write.key.plane.quota_of().is_some());
        let mut outcomes = Vec::new();
        if !tickets.is_empty() {
            let written = self.store.write(Batch { blocks: &tickets, ..Batch::default() })?;
            outcomes.extend(tickets.into_iter().zip(written));
        }
        let forestalled =
            |outcomes: &[(BlockWrite, Written)]| outcomes.iter().any(|(_, one)| *one == Written::Conflict);
        if !forestalled(&outcomes) && (!rest.is_empty() || !self.stamps.is_empty()) {
            let written = self.store.write(Batch { blocks: &rest, stamps: &self.stamps, durable })?;
            outcomes.extend(rest.into_iter().zip(written));
        }
        let conflict = forestalled(&outcomes);
        let spent = if conflict { Vec::new() } else { self.ipam.spent_tickets() };
        if conflict {
            self.roll_back();
        } else {
            self.ipam.commit();
            self.stamps.clear();
        }
        self.know_written(&outcomes);
        if !conflict {
            self.give_back(&spent);
            return Ok(Tried::Written);
        }
        let keys: Vec<BlockKey> = outcomes.iter().map(|(write, _)| write.key.clone()).collect();
        self.reload(&keys)?;
        for (write, _) in outcomes.iter().filter(|(_, outcome)| *outcome == Written::Conflict) {
            self.busy.insert(write.key.clone(), self.now);
            self.ipam.keep_away_from(&write.key);
        }
        let all = !outcomes.iter().any(|(_, outcome)| matches!(outcome, Written::As(_)));
        Ok(Tried::Forestalled { all })
    }

    fn know_written(&mut self, outcomes: &[(BlockWrite, Written)]) {
        for (write, outcome) in outcomes {
            if let Written::As(revision) = *outcome {
                self.know(&write.key, &write.block, revision);
            }
        }
    }

    /// Gives back the tickets of addresses that are free now. If it fails, they are found later.
    fn give_back(&mut self, spent: &[Ticket]) {
        for attempt in 0..if spent.is_empty() { 0 } else { RETURNS } {
            self.ipam.return_tickets(spent);
            match self.write() {
                Ok(Tried::Forestalled { .. }) => self.store.give_way(attempt),
                Ok(Tried::Unexpected(_) | Tried::Outdated) => {}
                Ok(Tried::Written) => return,
                Err(_) => return self.roll_back(),
            }
        }
    }

    /// Reads blocks anew.
    pub(crate) fn reload(&mut self, keys: &[BlockKey]) -> Result<(), StoreError> {
        let found = self.store.read(keys)?;
        self.looked_at.extend(keys.iter().cloned());
        for (key, (block, revision)) in keys.iter().zip(found) {
            self.take_in(key, block, revision);
        }
        Ok(())
    }

    /// Looks at the blocks of whose changes nobody tells, and at those that are busy; those never seen are assumed not to
    /// be there. If one is not as was assumed, the changes are undone, and how that came about is said.
    fn surprised<'a>(&mut self, keys: impl Iterator<Item = &'a BlockKey>) -> Result<Option<Tried>, StoreError> {
        let told = |key: &BlockKey| self.followed.contains(key);
        let known = |key: &BlockKey| self.looked_at.contains(key) || (told(key) && !self.busy.contains_key(key));
        let doubted: Vec<BlockKey> = keys.filter(|key| !known(key)).cloned().collect();
        if doubted.is_empty() {
            return Ok(None);
        }
        let outdated = doubted.iter().all(told);
        let found = self.store.read(&doubted)?;
        let assumed = |key: &BlockKey| self.revisions.get(key).copied().unwrap_or(0);
        let as_expected = doubted.iter().zip(&found).all(|(key, (_, revision))| *revision == assumed(key));
        let assumed_absent: HashSet<BlockKey> = doubted.iter().filter(|key| assumed(key) == 0).cloned().collect();
        if !as_expected {
            self.roll_back();
        }
        self.looked_at.extend(doubted.iter().cloned());
        for (key, (block, revision)) in doubted.iter().zip(found) {
            if as_expected {
                // The changes that are about to be written are on top of it already.
                self.revisions.insert(key.clone(), revision);
                continue;
            }
            self.take_in(key, block, revision);
            if revision != 0 && assumed_absent.contains(key) {
                // As long as there are blocks that nobody has begun, there is no need to share one.
                self.ipam.keep_away_from(key);
            }
        }
        Ok(match (as_expected, outdated) {
            (true, _) => None,
            (false, true) => Some(Tried::Outdated),
            (false, false) => Some(Tried::Unexpected(doubted)),
        })
    }

    /// Writes changes that cannot be decided anew; false if others were quicker.
    pub(crate) fn write_once(&mut self) -> Result<bool, StoreError> {
        self.looked_at.clear();
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
