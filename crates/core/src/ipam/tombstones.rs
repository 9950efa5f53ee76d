//! Deletions, and ADDs, remembered for a while, so that an older request that is still on its way changes nothing.
//!
//! They are remembered across a restart of the daemon too: each is a [`Stamp`], which a store may keep beside the
//! blocks. The record of a slot does not say it: it knows the time of day at which the daemon wrote it, not when the
//! plugin was started, and after a DEL there is no record at all.

use crate::holder::Attachment;
use std::collections::{HashMap, VecDeque};

/// What stands for an attachment where it is only to be recognised: a hash of its network, container and interface.
///
/// The function is part of the journal's format: what one release wrote, the next one must recognise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark(pub u64);

impl From<Attachment<'_>> for Mark {
    fn from(key: Attachment<'_>) -> Self {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let mix = |hash: u64, word: u64| {
            let hash = (hash ^ word).wrapping_mul(FACTOR);
            hash ^ (hash >> 32)
        };
        let mut hash = 0;
        for text in [key.network, key.id, key.ifname] {
            for chunk in text.as_bytes().chunks(8) {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                hash = mix(hash, u64::from_le_bytes(word));
            }
            // The lengths keep ("ab", "c") apart from ("a", "bc").
            hash = mix(hash, text.len() as u64);
        }
        Self(mix(hash, FACTOR))
    }
}

/// What a runtime wanted of an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// That it be there.
    Add,
    /// That it be gone.
    Del,
}

/// When a runtime wanted what of an attachment, on the one monotonic clock that all processes of a machine share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// What it wanted.
    pub wish: Wish,
    /// Of whom.
    pub mark: Mark,
    /// When, since boot.
    pub at: u64,
}

/// The latest deletion of each attachment, for the last few thousand of them.
#[derive(Debug, Default)]
pub struct Tombstones {
    stamps: HashMap<u64, u64>,
    order: VecDeque<(u64, u64)>,
}

impl Tombstones {
    /// How many are remembered: a request is on its way for seconds, not for thousands of deletions.
    pub const KEPT: usize = 8192;

    /// The attachment was deleted by a request that started at `stamp`. Deletions may come in any order.
    pub fn bury(&mut self, key: impl Into<Mark>, stamp: u64) {
        let Mark(hash) = key.into();
        let latest = self.stamps.entry(hash).or_default();
        if stamp < *latest {
            return;
        }
        *latest = stamp;
        self.order.push_back((hash, stamp));
        if self.order.len() > Self::KEPT
            && let Some((hash, stamp)) = self.order.pop_front()
            // Buried again since: that later deletion is still in the queue.
            && self.stamps.get(&hash) == Some(&stamp)
        {
            self.stamps.remove(&hash);
        }
    }

    /// Whether the attachment was deleted by a request that started after `stamp`.
    #[must_use]
    pub fn supersede(&self, key: impl Into<Mark>, stamp: u64) -> bool {
        self.stamps.get(&key.into().0).is_some_and(|&buried| buried > stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// If this fails, the daemon no longer recognises what the journals of the last release say.
    #[test]
    fn a_mark_is_the_same_in_every_release() {
        let mark = |network, id, ifname| Mark::from(Attachment { network, id, ifname }).0;
        assert_eq!(mark("", "", ""), 0xdf44_2d22_110c_749b);
        assert_eq!(mark("net", "0123456789abcdef", "eth0"), 0x0f2a_4b71_2690_3ef8);
    }

    #[test]
    fn marks_tell_attachments_apart() {
        let mut seen = BTreeSet::new();
        for n in 0..20_000 {
            let id = format!("{n:064x}");
            for ifname in ["eth0", "eth1"] {
                assert!(seen.insert(Mark::from(Attachment { network: "net", id: &id, ifname }).0), "{n}");
            }
        }
        let mark = |network, id, ifname| Mark::from(Attachment { network, id, ifname });
        assert_ne!(mark("ab", "c", "d"), mark("a", "bc", "d"));
        assert_ne!(mark("a", "b\0", "d"), mark("a", "b", "d"));
    }
}
