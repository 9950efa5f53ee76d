//! Blocks in memory, shared by any number of engines, as the cluster's API server would be.

use berth_core::block::{Block, BlockKey};
use berth_store::{Batch, BlockStore, BlockWrite, Revision, StoreError, Written};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A store that several engines share; each write is compared and swapped. It keeps no stamps: they are of one machine.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    blocks: Arc<Mutex<BTreeMap<BlockKey, (Block, Revision)>>>,
    last_revision: Arc<Mutex<Revision>>,
}

impl BlockStore for MemoryStore {
    fn list(&mut self) -> Result<Vec<(BlockKey, Block, Revision)>, StoreError> {
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(blocks.iter().map(|(key, (block, revision))| (key.clone(), block.clone(), *revision)).collect())
    }

    fn read(&mut self, key: &BlockKey) -> Result<(Block, Revision), StoreError> {
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(blocks.get(key).cloned().unwrap_or_default())
    }

    fn write(&mut self, batch: Batch<'_>) -> Result<Vec<Written>, StoreError> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last = self.last_revision.lock().unwrap_or_else(PoisonError::into_inner);
        let one = |write: &BlockWrite| {
            let current = blocks.get(&write.key).map_or(0, |(_, revision)| *revision);
            if current != write.expected {
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

    fn waits(&self, _durable: bool) -> bool {
        false
    }

    fn changed(&mut self) -> Result<Vec<BlockKey>, StoreError> {
        Ok(Vec::new())
    }
}
