//! Deletions remembered for a while, so that an older ADD that is still on its way leaves nothing behind.

use super::hash_of;
use crate::holder::Attachment;
use std::collections::{HashMap, VecDeque};

/// The latest deletion of each attachment, for the last few thousand of them.
///
/// Stamps are of one monotonic clock that all processes of a machine share (the time since boot).
#[derive(Debug, Default)]
pub struct Tombstones {
    stamps: HashMap<u64, u64>,
    order: VecDeque<(u64, u64)>,
}

/// A request is on its way for seconds, not for thousands of deletions.
const KEPT: usize = 8192;

impl Tombstones {
    /// The attachment was deleted by a request that started at `stamp`. Deletions may come in any order.
    pub fn bury(&mut self, key: Attachment<'_>, stamp: u64) {
        let hash = hash_of(key);
        let latest = self.stamps.entry(hash).or_default();
        if stamp < *latest {
            return;
        }
        *latest = stamp;
        self.order.push_back((hash, stamp));
        if self.order.len() > KEPT
            && let Some((hash, stamp)) = self.order.pop_front()
            // Buried again since: that later deletion is still in the queue.
            && self.stamps.get(&hash) == Some(&stamp)
        {
            self.stamps.remove(&hash);
        }
    }

    /// Whether the attachment was deleted by a request that started after `stamp`.
    #[must_use]
    pub fn supersede(&self, key: Attachment<'_>, stamp: u64) -> bool {
        self.stamps.get(&hash_of(key)).is_some_and(|&buried| buried > stamp)
    }
}
