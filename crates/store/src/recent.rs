//! The ADDs and DELs of a moment ago, for whoever opens the journal next.
//!
//! They are written into the frame of the changes they made, so they cost a few bytes and no call of their own. What a
//! compaction keeps of them is what an engine remembers: the last few thousand of each.

use berth_core::ipam::{Stamp, Tombstones, Wish};
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(crate) struct Recent {
    adds: VecDeque<Stamp>,
    dels: VecDeque<Stamp>,
}

impl Recent {
    pub(crate) fn push(&mut self, stamp: Stamp) {
        let own = match stamp.wish {
            Wish::Add => &mut self.adds,
            Wish::Del => &mut self.dels,
        };
        if own.len() == Tombstones::KEPT {
            own.pop_front();
        }
        own.push_back(stamp);
    }

    /// Those of each kind in the order they came: between the kinds there is none to keep.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Stamp> {
        self.adds.iter().chain(&self.dels).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::ipam::Mark;

    #[test]
    fn as_many_of_each_kind_as_an_engine_remembers() {
        let mut recent = Recent::default();
        recent.push(Stamp { wish: Wish::Add, mark: Mark(1), at: 1 });
        for n in 0..Tombstones::KEPT as u64 + 10 {
            recent.push(Stamp { wish: Wish::Del, mark: Mark(n), at: n });
        }
        let kept: Vec<Stamp> = recent.iter().collect();
        assert_eq!(kept.len(), Tombstones::KEPT + 1);
        assert_eq!(kept[0].wish, Wish::Add, "deletions do not push additions out");
        assert_eq!(kept[1].at, 10, "the oldest go first");
    }
}
