//! Blocks in memory, shared by any number of engines, as the cluster's API server would be.

use berth_core::block::{Block, BlockKey};
use berth_store::{Batch, BlockStore, BlockWrite, Revision, StoreError, Stored, Written};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A store that several engines share; each write is compared and swapped. It keeps no stamps: they are of one machine.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    blocks: Arc<Mutex<BTreeMap<BlockKey, (Block, Revision)>>>,
    last_revision: Arc<Mutex<Revision>>,
    forgetful: bool,
    conflicts: Arc<AtomicU64>,
}

impl MemoryStore {
    /// How many writes came too late, of all engines together.
    #[must_use]
    pub fn conflicts(&self) -> u64 {
        self.conflicts.load(Ordering::SeqCst)
    }

    /// The same store for an engine that begins without having seen any block, as a new node does, and is told of no
    /// change.
    #[must_use]
    pub fn unseen(&self) -> Self {
        Self { forgetful: true, ..self.clone() }
    }
}

impl BlockStore for MemoryStore {
    fn list(&mut self) -> Result<Vec<Stored>, StoreError> {
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(blocks.iter().map(|(key, (block, revision))| (key.clone(), block.clone(), *revision)).collect())
    }

    fn list_own(&mut self) -> Result<Vec<Stored>, StoreError> {
        if self.forgetful { Ok(Vec::new()) } else { self.list() }
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn read(&mut self, keys: &[BlockKey]) -> Result<Vec<(Block, Revision)>, StoreError> {
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(keys.iter().map(|key| blocks.get(key).cloned().unwrap_or_default()).collect())
    }

    fn write(&mut self, batch: Batch<'_>) -> Result<Vec<Written>, StoreError> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last = self.last_revision.lock().unwrap_or_else(PoisonError::into_inner);
        let one = |write: &BlockWrite| {
            let current = blocks.get(&write.key).map_or(0, |(_, revision)| *revision);
            if current != write.expected {
                self.conflicts.fetch_add(1, Ordering::SeqCst);
                return Written::Conflict;
            }
            if write.block.is_empty() {
                blocks.remove(&write.key);
                return Written::As(0);
            }
            *last += 1;
            blocks.insert(write.key.clone(), (write.block.clone(), *last));
            Written::As(*last)
        };
        Ok(batch.blocks.iter().map(one).collect())
    }

    fn follows(&self, _key: &BlockKey, _block: &Block) -> bool {
        !self.forgetful
    }

    fn waits(&self, _durable: bool) -> bool {
        false
    }
}
