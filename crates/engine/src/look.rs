//! Looking round: no refusal stands on what may be out of date.
//!
//! Of a pool of a few blocks these are read, some at a time, until one has what is needed or all have been read: what
//! that costs has nothing to do with how large the cluster is. Of more than that, everything is listed.

use crate::inner::Inner;
use berth_core::block::{Block, BlockKey};
use berth_core::ipam::Doubt;
use berth_core::time::Time;
use berth_store::{BlockStore, StoreError};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// How long what was seen when looking round is good enough for a refusal.
const FRESH: Duration = Duration::from_millis(500);
/// Up to so many blocks are read one by one.
const MOST: usize = 128;
/// How many of them at a time.
const AT_A_TIME: usize = 16;

/// What was looked at lately.
#[derive(Default)]
pub(crate) struct Looks {
    everything: Option<Time>,
    blocks: HashMap<BlockKey, Time>,
}

impl Looks {
    fn forget_old(&mut self, now: Time) {
        let fresh = |at: &Time| *at <= now && now.since(*at) < FRESH;
        self.everything = self.everything.filter(fresh);
        self.blocks.retain(|_, at| fresh(at));
    }
}

impl<S: BlockStore> Inner<S> {
    /// Reads some of what is in doubt, undoing what is not written; false if all of it is known well enough.
    pub(crate) fn look_round(&mut self, doubt: &Doubt, now: Time) -> Result<bool, StoreError> {
        self.looks.forget_old(now);
        if !self.store.is_shared() || self.looks.everything.is_some() {
            return Ok(false);
        }
        let Some(mut keys) = self.ipam.blocks_in_doubt(doubt, MOST) else {
            return self.list_everything(now).map(|()| true);
        };
        self.looks.blocks.extend(keys.iter().filter(|key| self.looked_at.contains(*key)).map(|key| (key.clone(), now)));
        keys.retain(|key| !self.looks.blocks.contains_key(key));
        if keys.is_empty() {
            return Ok(false);
        }
        // Not everybody from the same block on; and those first of which nobody tells.
        let turn = usize::try_from(self.entropy.next() % keys.len() as u64).unwrap_or(0);
        keys.rotate_left(turn);
        keys.sort_by_key(|key| self.followed.contains(key));
        keys.truncate(AT_A_TIME);
        (self.before_waiting)();
        self.roll_back();
        self.reload(&keys)?;
        self.looks.blocks.extend(keys.into_iter().map(|key| (key, now)));
        Ok(true)
    }

    fn list_everything(&mut self, now: Time) -> Result<(), StoreError> {
        (self.before_waiting)();
        self.roll_back();
        let all = self.store.list()?;
        let there: HashSet<BlockKey> = all.iter().map(|(key, ..)| key.clone()).collect();
        all.into_iter().for_each(|stored| self.see(stored));
        let known = self.revisions.iter().filter(|(key, revision)| **revision != 0 && !there.contains(*key));
        let gone: Vec<BlockKey> = known.map(|(key, _)| key.clone()).collect();
        for key in gone {
            self.take_in(&key, Block::default(), 0);
        }
        // That is as good as having read each of them.
        self.looked_at.extend(self.revisions.keys().cloned());
        self.looks.everything = Some(now);
        Ok(())
    }
}
