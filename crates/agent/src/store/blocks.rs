//! The store as the engine sees it: which block goes where.

use super::ClusterStore;
use super::arrivals::{self, journal_key};
use crate::leases::Leases;
use berth_core::block::{Block, BlockKey};
use berth_core::ipam::Stamp;
use berth_store::{Batch, BlockStore, BlockWrite, Revision, StoreError, Stored, Written};
use std::collections::BTreeMap;
use tracing::{info, warn};

impl BlockStore for ClusterStore {
    fn list(&mut self) -> Result<Vec<Stored>, StoreError> {
        let all = self.remote.list()?;
        let all = self.with_arrivals(all);
        self.see_leases(&all);
        self.hand_over()?;
        let (own, mut others): (Vec<Stored>, Vec<Stored>) = all.into_iter().partition(|(key, ..)| self.is_local(key));
        for (key, block, revision) in own {
            self.learn(&key, block, revision);
            self.refresh(&key)?;
        }
        for (key, ..) in &others {
            self.handed_over.remove(key);
        }
        others.extend(self.journal_blocks()?);
        Ok(others)
    }

    /// The leases of this node say which blocks the journal has the truth of.
    fn list_own(&mut self) -> Result<Vec<Stored>, StoreError> {
        for (key, slots, _) in self.local.list()? {
            if let Some(key) = arrivals::block_of(&key) {
                self.arrivals.restore(key, slots);
            }
        }
        let own = self.remote.list_own()?;
        let own = self.with_arrivals(own);
        self.see_leases(&own);
        let (leased, shared): (Vec<Stored>, Vec<Stored>) =
            own.into_iter().partition(|(key, ..)| self.leases.mask(key) != 0);
        for (key, block, revision) in leased {
            self.adopt(&key, block, revision)?;
        }
        let mut all = shared;
        for (key, block, revision) in self.journal_blocks()? {
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
        let elsewhere = |key: &&BlockKey| !self.is_local(key) || self.is_divided(key);
        let elsewhere: Vec<BlockKey> = keys.iter().filter(elsewhere).cloned().collect();
        let found = if elsewhere.is_empty() { Vec::new() } else { self.remote.read(&elsewhere)? };
        let applied = |(key, (block, revision)): (BlockKey, (Block, Revision))| {
            let block = self.arrivals.apply(&key, block);
            (key, (block, revision))
        };
        let mut found = elsewhere.into_iter().zip(found).map(applied).collect::<BTreeMap<_, _>>();
        for (key, (block, revision)) in found.iter().filter(|(key, _)| Leases::records(key)) {
            self.leases.see(key, block, *revision, &self.node);
        }
        self.hand_over()?;
        keys.iter()
            .map(|key| match found.remove(key) {
                Some((block, revision)) if self.is_local(key) => {
                    self.learn(key, block, revision);
                    self.refresh(key)
                }
                Some(found) => {
                    self.handed_over.remove(key);
                    Ok(found)
                }
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
        let (arrivals, rest): (Vec<&BlockWrite>, Vec<&BlockWrite>) = rest.into_iter().partition(|write| {
            let only_arrivals = write.changed != 0 && write.changed == write.arrived;
            only_arrivals && !self.is_local(&write.key) && self.leases.mask(&write.key) == 0
        });
        let (mut leased, shared): (Vec<&BlockWrite>, Vec<&BlockWrite>) = rest.into_iter().partition(|write| {
            let mask = self.leases.mask(&write.key);
            mask != 0 && write.changed & !mask == 0
        });
        let (divided, shared): (Vec<&BlockWrite>, Vec<&BlockWrite>) =
            shared.into_iter().partition(|write| self.is_local(&write.key));
        // Nor is an arrival believed where a promise may have been taken back, and the answer to that got lost.
        let unknown = |write: &&&BlockWrite| self.handed_over.contains(&write.key) || self.remote.doubts(&write.key);
        if shared.iter().chain(&arrivals).any(|write| unknown(&write)) {
            return Ok(all_conflict());
        }
        let fresh: Vec<&BlockWrite> = leased.iter().copied().filter(|write| !self.is_local(&write.key)).collect();
        if !fresh.is_empty() {
            // As it is now that nobody else may write these slots.
            let keys: Vec<BlockKey> = fresh.iter().map(|write| write.key.clone()).collect();
            let found = self.remote.read(&keys)?;
            let mut unexpected = false;
            for (write, (block, revision)) in fresh.iter().zip(found) {
                unexpected |= revision != write.expected;
                let block = self.arrivals.apply(&write.key, block);
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
        for write in divided {
            if !self.write_through(write)? {
                return Ok(all_conflict());
            }
            leased.push(write);
        }
        let mut local: Vec<BlockWrite> = leased.into_iter().cloned().collect();
        for write in &mut local {
            if fresh.iter().any(|fresh| fresh.key == write.key) {
                // The engine knows it by the revision of the API server still.
                write.expected = self.journalled(&write.key)?.1;
            }
        }
        // Last, when nothing can come between any more.
        let of_leases = local.len();
        for write in &arrivals {
            let (key, changed) = (journal_key(&write.key), write.arrived);
            let (block, expected) = (self.arrivals.add(write).clone(), self.journalled(&key)?.1);
            local.push(BlockWrite { key, expected, block, changed, arrived: 0 });
            // The API server's block is the one it was.
            done.insert(&write.key, Written::As(write.expected));
        }
        let written = self.local.write(Batch { blocks: &local, ..batch }).inspect_err(|_| {
            for write in &arrivals {
                self.arrivals.told(&write.key, write.arrived);
            }
        })?;
        for (write, outcome) in local.iter().zip(&written).take(of_leases) {
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
        let mut changed = self.with_arrivals(changed);
        // Of leases of which it is not known whether they were given up, only an answer tells, not an old event.
        changed.retain(|(key, ..)| !(Leases::records(key) && self.remote.doubts(key)));
        self.see_leases(&changed);
        self.hand_over()?;
        let mut news = std::mem::take(&mut self.news);
        for (key, block, revision) in changed {
            if self.is_divided(&key) {
                self.learn(&key, block, revision);
                let (block, at) = self.refresh(&key)?;
                news.push((key, block, at));
            } else if !self.is_local(&key) {
                news.push((key, block, revision));
            }
        }
        Ok(news)
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
