//! Which addresses the pool of an application has: cut from what is free in its subnet.
//!
//! Everything is arithmetic on ranges, so a /64 costs what a /24 costs.

use crate::addr::{Range, RangeSet};

/// As many ranges as one pool may have.
pub const MOST_RANGES: usize = 1024;

/// What a pool has, and what it could have.
#[derive(Clone, Copy, Debug)]
pub struct Cut<'a> {
    /// What it has now.
    pub present: &'a RangeSet,
    /// What it may have at all: the subnet without what is reserved or another pool's.
    pub allowed: &'a RangeSet,
    /// Of that, what nobody has: neither this pool nor a holder.
    pub free: &'a RangeSet,
    /// What is in use, held or resting.
    pub used: &'a RangeSet,
    /// What nobody can use, because a stranger does.
    pub quarantined: &'a RangeSet,
    /// How many addresses it is to have that can be used.
    pub want: u32,
}

/// What a pool is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cutting {
    /// All its addresses.
    pub ranges: RangeSet,
    /// How many of those it can use.
    pub usable: u128,
    /// So many were wanted and are not there.
    pub missing: u128,
    /// So many are too many and still in use; they go when they are given back.
    pub surplus: u128,
}

/// Cuts a pool to size: grows by the lowest free addresses, shrinks by the highest.
///
/// # Guarantees
/// Nothing that is in use, held, resting or quarantined leaves the pool. What enters it was free. What it may no longer
/// have (reserved since, or another pool's) leaves as soon as nobody uses it, and does not count.
#[must_use]
pub fn cut(Cut { present, allowed, free, used, quarantined, want }: Cut<'_>) -> Cutting {
    let lost = present.difference(allowed);
    let mut ranges = present.difference(&lost.difference(used).difference(quarantined));
    let countable = ranges.difference(&lost).difference(quarantined);
    let (have, want) = (size(&countable), u128::from(want));
    if have < want {
        let more = grow(&ranges, free, want - have);
        let usable = have + size(&more);
        more.ranges().iter().for_each(|&range| ranges.insert(range));
        return Cutting { ranges, usable, missing: want - usable, surplus: 0 };
    }
    let idle = countable.difference(used);
    let drop = highest(&idle, have - want);
    let usable = have - size(&drop);
    Cutting { ranges: ranges.difference(&drop), usable, missing: 0, surplus: usable - want }
}

/// The lowest free addresses; where they lie in too many pieces for one pool, those of the largest pieces.
fn grow(ranges: &RangeSet, free: &RangeSet, count: u128) -> RangeSet {
    let lowest = lowest(free.ranges(), count);
    let together = |more: &RangeSet| ranges.ranges().iter().chain(more.ranges()).copied().collect::<RangeSet>();
    if together(&lowest).ranges().len() <= MOST_RANGES {
        return lowest;
    }
    let mut pieces = free.ranges().to_vec();
    pieces.sort_by_key(|range| std::cmp::Reverse(range.last_number() - range.first_number()));
    pieces.truncate(MOST_RANGES.saturating_sub(ranges.ranges().len()));
    self::lowest(&pieces, count)
}

/// The first `count` addresses of pieces, in the order given.
fn lowest(pieces: &[Range], mut count: u128) -> RangeSet {
    let mut out = RangeSet::new();
    for piece in pieces {
        if count == 0 {
            break;
        }
        let last = piece.last_number().min(piece.first_number().saturating_add(count - 1));
        out.insert(Range::from_numbers(piece.family(), piece.first_number(), last));
        count -= last - piece.first_number() + 1;
    }
    out
}

/// The last `count` addresses of a set.
fn highest(set: &RangeSet, mut count: u128) -> RangeSet {
    let mut out = RangeSet::new();
    for piece in set.ranges().iter().rev() {
        if count == 0 {
            break;
        }
        let first = piece.first_number().max(piece.last_number().saturating_sub(count - 1));
        out.insert(Range::from_numbers(piece.family(), first, piece.last_number()));
        count -= piece.last_number() - first + 1;
    }
    out
}

/// How many addresses; as many as a number can say where there are more.
pub(super) fn size(set: &RangeSet) -> u128 {
    let one = |range: &Range| (range.last_number() - range.first_number()).saturating_add(1);
    set.ranges().iter().map(one).fold(0, u128::saturating_add)
}
