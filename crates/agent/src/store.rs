//! Two places for blocks behind one trait.
//!
//! A block of a shared pool is in the API server, and what is answered is written there first. A slot that this node has
//! leased is its own: it is written to the journal, which costs microseconds and needs nobody, and the API server hears
//! of it behind the answer (see [`crate::flush`]). Which slots those are, the blocks of leases say; they are in the API
//! server, so that two nodes cannot lease the same.
//!
//! A lease may be smaller than a block. Then several nodes own slots of one object, or some of its slots are nobody's
//! alone. The journal has the node's own slots first hand and the others as the API server last had them; what is changed
//! of the others is written there first, as in a shared block.
//!
//! In a shared block one thing may be told late: which container took up what its pod was promised (see [`arrivals`]).

use crate::leases::Leases;
use berth_core::block::{Block, BlockKey};
use berth_kube::KubeStore;
use berth_store::{Batch, BlockStore, BlockWrite, FileMedium, Journal, Revision, StoreError, Stored, Written};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tracing::warn;

mod arrivals;
mod blocks;

use arrivals::Arrivals;

/// The blocks of a cluster as one node has them.
pub struct ClusterStore {
    remote: KubeStore,
    local: Journal<FileMedium>,
    node: String,
    leases: Leases,
    arrivals: Arrivals,
    /// The blocks whose truth is the journal, with what the API server has of them.
    known: BTreeMap<BlockKey, (Block, Revision)>,
    /// Those of which the API server does not have the latest.
    dirty: BTreeSet<BlockKey>,
    /// Those that are this node's alone in the API server too, as far as is known: nobody else may write them there.
    claimed: BTreeSet<BlockKey>,
    /// When blocks were last written behind an answer.
    flushed_at: BTreeMap<BlockKey, Instant>,
    /// Blocks whose truth is the API server again, and which the engine still knows as the journal had them.
    handed_over: BTreeSet<BlockKey>,
    /// What the engine is to be told when it next asks for news.
    news: Vec<Stored>,
}

impl ClusterStore {
    /// A store over both.
    #[must_use]
    pub fn new(remote: KubeStore, local: Journal<FileMedium>, node: &str) -> Self {
        Self {
            remote,
            local,
            node: node.to_owned(),
            leases: Leases::default(),
            arrivals: Arrivals::default(),
            known: BTreeMap::new(),
            dirty: BTreeSet::new(),
            claimed: BTreeSet::new(),
            flushed_at: BTreeMap::new(),
            handed_over: BTreeSet::new(),
            news: Vec::new(),
        }
    }

    /// The journal.
    pub(crate) const fn journal(&mut self) -> &mut Journal<FileMedium> {
        &mut self.local
    }

    /// Whether this node leases anything.
    pub(crate) fn has_leases(&self) -> bool {
        self.leases.count() > 0
    }

    /// Whether the block's truth is the journal.
    fn is_local(&self, key: &BlockKey) -> bool {
        self.known.contains_key(key)
    }

    fn see_leases(&mut self, blocks: &[Stored]) {
        for (key, block, revision) in blocks.iter().filter(|(key, ..)| Leases::records(key)) {
            self.leases.see(key, block, *revision, &self.node);
        }
    }

    fn journalled(&mut self, key: &BlockKey) -> Result<(Block, Revision), StoreError> {
        Ok(self.local.read(std::slice::from_ref(key))?.pop().unwrap_or_default())
    }

    /// Makes the journal the truth of a block that was leased: it takes in what the API server has.
    fn adopt(&mut self, key: &BlockKey, remote: Block, revision: Revision) -> Result<(), StoreError> {
        let (own, at) = self.journalled(key)?;
        let merged = overlay(&remote, &own, self.leases.mask(key));
        // What the journal has already is newer: it was written by this very node.
        if at == 0 && !remote.is_empty() {
            self.journal_write(key, remote.clone(), at)?;
        } else if merged != remote {
            self.dirty.insert(key.clone());
        }
        self.known.insert(key.clone(), (remote, revision));
        // It may have been this node's alone before.
        if revision != 0 && self.leases.mask(key) == u64::MAX {
            self.claimed.insert(key.clone());
        }
        self.refresh(key).map(drop)
    }

    /// A block whose truth is the journal, with the slots that are not this node's as the API server has them.
    fn refresh(&mut self, key: &BlockKey) -> Result<(Block, Revision), StoreError> {
        let ((own, at), mask) = (self.journalled(key)?, self.leases.mask(key));
        let Some((remote, _)) = self.known.get(key).filter(|_| mask != u64::MAX) else { return Ok((own, at)) };
        let merged = overlay(remote, &own, mask);
        if merged == own {
            return Ok((own, at));
        }
        self.journal_write(key, merged, at)?;
        self.journalled(key)
    }

    /// Whether slots of a block whose truth is the journal are not this node's, so that others may change them.
    fn is_divided(&self, key: &BlockKey) -> bool {
        self.is_local(key) && self.leases.mask(key) != u64::MAX
    }

    /// The API server has a block like this.
    fn learn(&mut self, key: &BlockKey, block: Block, revision: Revision) {
        if self.known.get(key).is_none_or(|(_, known)| *known <= revision || revision == 0) {
            self.known.insert(key.clone(), (block, revision));
        }
    }

    /// Writes slots that are not this node's of a block whose truth is the journal; false if they are not as thought.
    fn write_through(&mut self, write: &BlockWrite) -> Result<bool, StoreError> {
        let key = &write.key;
        let (block, revision) = self.read_remote(key)?;
        self.known.insert(key.clone(), (block.clone(), revision));
        if self.refresh(key)?.1 != write.expected {
            return Ok(false);
        }
        let block = overlay(&block, &write.block, write.changed | self.leases.mask(key));
        let own = BlockWrite { expected: revision, block: block.clone(), ..write.clone() };
        match self.remote.write(Batch { blocks: &[own], ..Batch::default() })?.pop() {
            Some(Written::As(revision)) => {
                self.known.insert(key.clone(), (block, revision));
                self.told(key, u64::MAX)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Blocks in which this node leases nothing any more are the API server's.
    fn hand_over(&mut self) -> Result<(), StoreError> {
        let gone: Vec<BlockKey> = self.known.keys().filter(|key| self.leases.mask(key) == 0).cloned().collect();
        for key in gone {
            if self.dirty.remove(&key) {
                warn!(block = %key, "a lease of this node was taken away; what the API server had not heard of is lost");
            }
            let (_, at) = self.journalled(&key)?;
            self.journal_write(&key, Block::default(), at)?;
            self.known.remove(&key);
            self.claimed.remove(&key);
            self.flushed_at.remove(&key);
            self.handed_over.insert(key);
        }
        Ok(())
    }

    fn journal_write(&mut self, key: &BlockKey, block: Block, expected: Revision) -> Result<(), StoreError> {
        let write = BlockWrite { key: key.clone(), expected, block, changed: u64::MAX, arrived: 0 };
        self.local.write(Batch { blocks: &[write], stamps: &[], durable: false }).map(drop)
    }

    /// The blocks to be written to the API server, as they shall be there; not those that were written a moment ago.
    pub(crate) fn unflushed(&mut self, at_most_every: Duration) -> Result<Vec<BlockWrite>, StoreError> {
        self.flushed_at.retain(|_, at| at.elapsed() < at_most_every);
        let dirty: Vec<BlockKey> =
            self.dirty.iter().filter(|key| !self.flushed_at.contains_key(*key)).cloned().collect();
        dirty.iter().map(|key| self.flushable(key)).collect()
    }

    fn flushable(&mut self, key: &BlockKey) -> Result<BlockWrite, StoreError> {
        let (own, _) = self.journalled(key)?;
        let mask = self.leases.mask(key);
        let (remote, expected) = self.known.get(key).cloned().unwrap_or_default();
        Ok(BlockWrite { key: key.clone(), expected, block: overlay(&remote, &own, mask), changed: mask, arrived: 0 })
    }

    /// A block was written behind the answer, or could not be because another had changed it: then it is read.
    pub(crate) fn flushed(&mut self, write: &BlockWrite, outcome: Written) -> Result<(), StoreError> {
        match outcome {
            Written::As(revision) => {
                self.flushed_at.insert(write.key.clone(), Instant::now());
                if write.changed == u64::MAX {
                    self.claimed.insert(write.key.clone());
                }
                self.learn(&write.key, write.block.clone(), revision);
                self.told(&write.key, u64::MAX)?;
                let (own, _) = self.journalled(&write.key)?;
                let mask = self.leases.mask(&write.key);
                if overlay(&write.block, &own, mask) == write.block {
                    self.dirty.remove(&write.key);
                }
            }
            Written::Conflict => {
                let found = self.read_remote(&write.key)?;
                self.known.insert(write.key.clone(), found);
            }
        }
        Ok(())
    }

    /// A block as this node knows it to be: as the API server has it, with what it has not heard of.
    fn read_remote(&mut self, key: &BlockKey) -> Result<(Block, Revision), StoreError> {
        let (block, revision) = self.remote.read(std::slice::from_ref(key))?.pop().unwrap_or_default();
        Ok((self.arrivals.apply(key, block), revision))
    }

    fn with_arrivals(&self, blocks: Vec<Stored>) -> Vec<Stored> {
        let applied = |(key, block, revision): Stored| {
            let block = self.arrivals.apply(&key, block);
            (key, block, revision)
        };
        blocks.into_iter().map(applied).collect()
    }

    /// The blocks that the journal has for themselves.
    fn journal_blocks(&mut self) -> Result<Vec<Stored>, StoreError> {
        Ok(self.local.list()?.into_iter().filter(|(key, ..)| arrivals::block_of(key).is_none()).collect())
    }

    /// Which containers took up what their pods were promised in these slots, the API server knows, or it does not matter
    /// any more.
    fn told(&mut self, key: &BlockKey, slots: u64) -> Result<(), StoreError> {
        let Some(left) = self.arrivals.told(key, slots) else { return Ok(()) };
        let key = arrivals::journal_key(key);
        let (_, at) = self.journalled(&key)?;
        self.journal_write(&key, left, at)
    }

    /// Slots of which the API server has not been told for so long which containers took them up.
    pub(crate) fn untold(&self, age: Duration) -> Vec<(BlockKey, Block)> {
        self.arrivals.older_than(age)
    }

    /// The API server knows of these arrivals, or they do not matter any more; not of those that came in their place since.
    pub(crate) fn told_of(&mut self, key: &BlockKey, arrivals: &Block) -> Result<(), StoreError> {
        self.told(key, self.arrivals.unchanged(key, arrivals))
    }

    /// The store behind the answers, for writing without holding this one up.
    pub(crate) fn remote(&self) -> KubeStore {
        self.remote.clone()
    }

    /// Writes what the API server does not have yet of blocks whose lease is about to be given up, and that they are
    /// anybody's from now on.
    fn flush_before_return(&mut self, keys: &[BlockKey]) -> Result<bool, StoreError> {
        for key in keys {
            if !self.dirty.contains(key) && !self.claimed.contains(key) {
                continue;
            }
            let write = self.flushable(key)?;
            let outcome = self.remote.write(Batch { blocks: std::slice::from_ref(&write), ..Batch::default() })?;
            for outcome in outcome {
                self.flushed(&write, outcome)?;
                if outcome == Written::Conflict {
                    return Ok(false);
                }
                self.claimed.remove(key);
            }
        }
        Ok(true)
    }

    /// Writes blocks to the API server, blocks of leases among them.
    fn write_remote(&mut self, writes: &[BlockWrite]) -> Result<Vec<Written>, StoreError> {
        let (mut returned, mut given_up) = (Vec::new(), Vec::new());
        for write in writes.iter().filter(|write| Leases::records(&write.key)) {
            let lost = self.leases.lost(&write.key, &write.block, &self.node);
            let inside = |key: &&BlockKey| lost.iter().any(|&lease| crate::leases::covered(key, lease) != 0);
            returned.extend(self.known.keys().filter(inside).cloned());
            given_up.push((&write.key, lost));
        }
        if !self.flush_before_return(&returned)? {
            return Ok(vec![Written::Conflict; writes.len()]);
        }
        let written = match self.remote.write(Batch { blocks: writes, ..Batch::default() }) {
            Ok(written) => written,
            Err(error) => {
                // The server may have taken the leases back and lent them to others: nothing is given out from them
                // until it has been asked. Everything that is in use in them it has.
                for (key, lost) in
                    given_up.into_iter().filter(|(key, lost)| !lost.is_empty() && self.remote.doubts(key))
                {
                    let worst = self.leases.doubt(key, &lost);
                    self.news.extend(worst.map(|block| (key.clone(), block, 0)));
                }
                self.hand_over()?;
                return Err(error);
            }
        };
        for (write, outcome) in writes.iter().zip(&written) {
            let Written::As(revision) = *outcome else { continue };
            self.told(&write.key, u64::MAX)?;
            if Leases::records(&write.key) {
                // A block that was deleted has no revision, and no lease either.
                self.leases.see(&write.key, &write.block, revision.max(write.expected), &self.node);
            }
        }
        self.hand_over()?;
        Ok(written)
    }
}

/// `base` with the slots of `mask` as `own` has them.
fn overlay(base: &Block, own: &Block, mask: u64) -> Block {
    if mask == u64::MAX {
        return own.clone();
    }
    let mut out = base.clone();
    for slot in (0..64).filter(|slot| mask & (1 << slot) != 0) {
        let value = own.slot(slot).map(|view| view.to_slot());
        if out.slot(slot).map(|view| view.to_slot()) != value {
            out.set(slot, value.as_ref());
        }
    }
    out
}
