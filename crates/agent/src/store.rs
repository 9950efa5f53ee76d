//! Two places for blocks behind one trait.
//!
//! A block of a shared pool is in the API server, and what is answered is written there first. A slot that this node has
//! leased is its own: it is written to the journal, which costs microseconds and needs nobody, and the API server hears
//! of it behind the answer (see [`crate::flush`]). Which slots those are, the blocks of leases say; they are in the API
//! server, so that two nodes cannot lease the same.
//!
//! A lease may be smaller than a block. Then several nodes own slots of one object, each writes its own slots only, and
//! the others' are read with them.

use crate::leases::Leases;
use berth_core::block::{Block, BlockKey};
use berth_core::ipam::Stamp;
use berth_kube::KubeStore;
use berth_store::{Batch, BlockStore, BlockWrite, FileMedium, Journal, Revision, StoreError, Stored, Written};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// The blocks of a cluster as one node has them.
pub struct ClusterStore {
    remote: KubeStore,
    local: Journal<FileMedium>,
    node: String,
    leases: Leases,
    /// The blocks whose truth is the journal, with what the API server has of them.
    known: BTreeMap<BlockKey, (Block, Revision)>,
    /// Those of which the API server does not have the latest.
    dirty: BTreeSet<BlockKey>,
    /// When blocks were last written behind an answer.
    flushed_at: BTreeMap<BlockKey, Instant>,
}

impl ClusterStore {
    /// A store over both.
    #[must_use]
    pub fn new(remote: KubeStore, local: Journal<FileMedium>, node: &str) -> Self {
        let (leases, known, dirty) = (Leases::default(), BTreeMap::new(), BTreeSet::new());
        Self { remote, local, node: node.to_owned(), leases, known, dirty, flushed_at: BTreeMap::new() }
    }

    /// The journal.
    pub(crate) const fn journal(&mut self) -> &mut Journal<FileMedium> {
        &mut self.local
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
        Ok(())
    }

    fn journal_write(&mut self, key: &BlockKey, block: Block, expected: Revision) -> Result<(), StoreError> {
        let write = BlockWrite { key: key.clone(), expected, block, changed: u64::MAX };
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
        Ok(BlockWrite { key: key.clone(), expected, block: overlay(&remote, &own, mask), changed: mask })
    }

    /// A block was written behind the answer, or could not be because another had changed it: then it is read.
    pub(crate) fn flushed(&mut self, write: &BlockWrite, outcome: Written) -> Result<(), StoreError> {
        match outcome {
            Written::As(revision) => {
                self.flushed_at.insert(write.key.clone(), Instant::now());
                self.known.insert(write.key.clone(), (write.block.clone(), revision));
                let (own, _) = self.journalled(&write.key)?;
                let mask = self.leases.mask(&write.key);
                if overlay(&write.block, &own, mask) == write.block {
                    self.dirty.remove(&write.key);
                }
            }
            Written::Conflict => {
                let found = self.remote.read(std::slice::from_ref(&write.key))?.pop().unwrap_or_default();
                self.known.insert(write.key.clone(), found);
            }
        }
        Ok(())
    }

    /// The store behind the answers, for writing without holding this one up.
    pub(crate) fn remote(&self) -> KubeStore {
        self.remote.clone()
    }

    /// Writes what the API server does not have yet of blocks whose lease is about to be given up.
    fn flush_before_return(&mut self, keys: &[BlockKey]) -> Result<bool, StoreError> {
        for key in keys {
            if !self.dirty.contains(key) {
                continue;
            }
            let write = self.flushable(key)?;
            let outcome = self.remote.write(Batch { blocks: std::slice::from_ref(&write), ..Batch::default() })?;
            for outcome in outcome {
                self.flushed(&write, outcome)?;
                if outcome == Written::Conflict {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Writes blocks to the API server, blocks of leases among them.
    fn write_remote(&mut self, writes: &[BlockWrite]) -> Result<Vec<Written>, StoreError> {
        let mut returned = Vec::new();
        for write in writes.iter().filter(|write| Leases::records(&write.key)) {
            let lost = self.leases.lost(&write.key, &write.block, &self.node);
            let inside = |key: &&BlockKey| lost.iter().any(|&lease| crate::leases::covered(key, lease) != 0);
            returned.extend(self.known.keys().filter(inside).cloned());
        }
        if !self.flush_before_return(&returned)? {
            return Ok(vec![Written::Conflict; writes.len()]);
        }
        let written = self.remote.write(Batch { blocks: writes, ..Batch::default() })?;
        for (write, outcome) in writes.iter().zip(&written).filter(|(write, _)| Leases::records(&write.key)) {
            if let Written::As(revision) = *outcome {
                // A block that was deleted has no revision, and no lease either.
                self.leases.see(&write.key, &write.block, revision.max(write.expected), &self.node);
            }
        }
        for key in returned {
            if self.leases.mask(&key) == 0 {
                let (_, at) = self.journalled(&key)?;
                self.journal_write(&key, Block::default(), at)?;
                self.known.remove(&key);
                self.dirty.remove(&key);
            }
        }
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

impl BlockStore for ClusterStore {
    fn list(&mut self) -> Result<Vec<Stored>, StoreError> {
        let all = self.remote.list()?;
        let own = self.local.list()?;
        Ok(all.into_iter().filter(|(key, ..)| !self.is_local(key)).chain(own).collect())
    }

    /// The leases of this node say which blocks the journal has the truth of.
    fn list_own(&mut self) -> Result<Vec<Stored>, StoreError> {
        let own = self.remote.list_own()?;
        self.see_leases(&own);
        let (leased, shared): (Vec<Stored>, Vec<Stored>) =
            own.into_iter().partition(|(key, ..)| self.leases.mask(key) != 0);
        for (key, block, revision) in leased {
            self.adopt(&key, block, revision)?;
        }
        let mut all = shared;
        for (key, block, revision) in self.local.list()? {
            if self.is_local(&key) {
                all.push((key, block, revision));
            } else if self.leases.mask(&key) != 0 {
                // The API server has not heard of it at all.
                self.known.insert(key.clone(), Default::default());
                self.dirty.insert(key.clone());
                all.push((key, block, revision));
            } else {
                warn!(block = %key, "a lease of this node was taken back while it was away; its journal is dropped");
                self.journal_write(&key, Block::default(), revision)?;
            }
        }
        info!(leases = self.leases.count(), blocks = all.len(), "restored");
        Ok(all)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn read(&mut self, keys: &[BlockKey]) -> Result<Vec<(Block, Revision)>, StoreError> {
        let elsewhere: Vec<BlockKey> = keys.iter().filter(|key| !self.is_local(key)).cloned().collect();
        let found = if elsewhere.is_empty() { Vec::new() } else { self.remote.read(&elsewhere)? };
        let mut found = elsewhere.into_iter().zip(found).collect::<BTreeMap<_, _>>();
        for (key, (block, revision)) in found.iter().filter(|(key, _)| Leases::records(key)) {
            self.leases.see(key, block, *revision, &self.node);
        }
        keys.iter()
            .map(|key| match found.remove(key) {
                Some(found) => Ok(found),
                None => self.journalled(key),
            })
            .collect()
    }

    fn write(&mut self, batch: Batch<'_>) -> Result<Vec<Written>, StoreError> {
        let all_conflict = || vec![Written::Conflict; batch.blocks.len()];
        // A lease that this very batch takes decides where the blocks in it go, so leases come first.
        let (first, rest): (Vec<&BlockWrite>, Vec<&BlockWrite>) =
            batch.blocks.iter().partition(|write| Leases::records(&write.key));
        let mut done: BTreeMap<&BlockKey, Written> = BTreeMap::new();
        let write_remote = |store: &mut Self, writes: &[&BlockWrite]| -> Result<Vec<Written>, StoreError> {
            let owned: Vec<BlockWrite> = writes.iter().map(|&write| write.clone()).collect();
            if owned.is_empty() { Ok(Vec::new()) } else { store.write_remote(&owned) }
        };
        let written = write_remote(self, &first)?;
        if written.contains(&Written::Conflict) {
            return Ok(all_conflict());
        }
        done.extend(first.iter().map(|write| &write.key).zip(written));
        let (leased, shared): (Vec<&BlockWrite>, Vec<&BlockWrite>) = rest.into_iter().partition(|write| {
            let mask = self.leases.mask(&write.key);
            mask != 0 && write.changed & !mask == 0
        });
        let fresh: Vec<&BlockWrite> = leased.iter().copied().filter(|write| !self.is_local(&write.key)).collect();
        if !fresh.is_empty() {
            // As it is now that nobody else may write these slots.
            let keys: Vec<BlockKey> = fresh.iter().map(|write| write.key.clone()).collect();
            let found = self.remote.read(&keys)?;
            let mut unexpected = false;
            for (write, (block, revision)) in fresh.iter().zip(found) {
                unexpected |= revision != write.expected;
                self.adopt(&write.key, block, revision)?;
            }
            if unexpected {
                return Ok(all_conflict());
            }
        }
        let written = write_remote(self, &shared)?;
        if written.contains(&Written::Conflict) {
            return Ok(all_conflict());
        }
        done.extend(shared.iter().map(|write| &write.key).zip(written));
        let mut local: Vec<BlockWrite> = leased.into_iter().cloned().collect();
        for write in &mut local {
            if fresh.iter().any(|fresh| fresh.key == write.key) {
                // The engine knows it by the revision of the API server still.
                write.expected = self.journalled(&write.key)?.1;
            }
        }
        let written = self.local.write(Batch { blocks: &local, ..batch })?;
        for (write, outcome) in local.iter().zip(&written) {
            if matches!(outcome, Written::As(_)) {
                self.dirty.insert(write.key.clone());
            }
        }
        let local = local.iter().map(|write| &write.key).zip(written).collect::<BTreeMap<_, _>>();
        let outcome = |write: &BlockWrite| done.get(&write.key).or_else(|| local.get(&write.key)).copied();
        Ok(batch.blocks.iter().map(|write| outcome(write).unwrap_or(Written::Conflict)).collect())
    }

    fn stamps(&self) -> Vec<Stamp> {
        self.local.stamps()
    }

    fn waits(&self, _durable: bool) -> bool {
        true
    }

    fn changed(&mut self) -> Result<Vec<Stored>, StoreError> {
        let changed = self.remote.changed()?;
        self.see_leases(&changed);
        Ok(changed.into_iter().filter(|(key, ..)| !self.is_local(key)).collect())
    }

    fn follows(&self, key: &BlockKey, block: &Block) -> bool {
        self.is_local(key) || self.remote.follows(key, block)
    }

    fn is_unsure(&self) -> bool {
        self.remote.is_unsure()
    }

    fn give_way(&mut self, attempt: u32) {
        self.remote.give_way(attempt);
    }
}
