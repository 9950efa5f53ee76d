//! What one pool can give out right now, found without walking its ranges.
//!
//! Every unit of a pool is in one of three places: *ready* (may be picked in the pool's order), *waiting* (was given
//! back; ordered by when), or taken. A block that was never touched is ready as a whole and costs nothing.
//! `LeastRecentlyReleased` leaves given-back units in *waiting* for good and takes the oldest when nothing is ready;
//! the other orders move them back to *ready* once they have cooled.

use super::runs::Runs;
use crate::addr::{Count, Family, RangeSet, whole_units};
use crate::block::{BLOCK_UNITS, Block, State};
use crate::model::{Pick, Pool};
use crate::time::Time;
use std::collections::{BTreeSet, HashMap};

/// A small generator of pseudo-random numbers (splitmix64); the seed comes from outside.
#[derive(Clone, Debug)]
pub struct Entropy(pub u64);

impl Entropy {
    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not zero.
    fn below(&mut self, bound: u128) -> u128 {
        (u128::from(self.next()) << 64 | u128::from(self.next())) % bound
    }
}

/// Why a unit was picked, for `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was never used.
    NeverUsed,
    /// It was given back longest ago.
    LongestReleased,
    /// It is the lowest free one.
    LowestFree,
    /// It was drawn at random.
    Random,
    /// It still cools, but nothing else is free and the pool allows it.
    StillCooling,
    /// It was asked for by address.
    Requested,
    /// It was kept for this holder.
    KeptForHolder,
    /// The holder has it already.
    AlreadyHeld,
}

impl Reason {
    /// The reason in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NeverUsed => "never used before",
            Self::LongestReleased => "released longest ago",
            Self::LowestFree => "lowest free address",
            Self::Random => "drawn at random",
            Self::StillCooling => "still cooling, but nothing else is free",
            Self::Requested => "asked for by address",
            Self::KeptForHolder => "kept for this holder",
            Self::AlreadyHeld => "this attachment has it already",
        }
    }
}

/// Units of a pool as runs of unit numbers, sorted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Units(Vec<(u128, u128)>);

impl Units {
    pub(crate) fn new(set: &RangeSet, family: Family, unit_len: u8) -> Self {
        let own = set.ranges().iter().filter(|r| r.family() == family);
        Self(own.filter_map(|&r| whole_units(r, unit_len)).collect())
    }

    pub(crate) fn count(&self) -> Count {
        self.0.iter().map(|(a, b)| Count::from(b - a) + Count::ONE).sum()
    }

    /// Which slots of a block are units of this set.
    pub(crate) fn mask(&self, block: u128) -> u64 {
        let (low, high) = (block * u128::from(BLOCK_UNITS), block * u128::from(BLOCK_UNITS) + 63);
        let start = self.0.partition_point(|&(_, b)| b < low);
        self.0[start..].iter().take_while(|&&(a, _)| a <= high).fold(0, |mask, &(a, b)| {
            let (from, to) = (a.max(low) - low, b.min(high) - low);
            mask | (u64::MAX >> (63 - (to - from))) << from
        })
    }

    pub(crate) fn runs(&self) -> &[(u128, u128)] {
        &self.0
    }
}

#[derive(Clone, Debug)]
pub(crate) struct PoolIndex {
    units: Units,
    pick: Pick,
    cool_down: std::time::Duration,
    reuse_cooling: bool,
    /// Blocks with nothing ready; whatever lies outside the pool counts as such.
    spent: Runs,
    /// Ready slots of the blocks that were touched.
    ready: HashMap<u128, u64, foldhash::fast::FixedState>,
    waiting: BTreeSet<(Time, u128)>,
    /// Where the search for a never-used unit goes on: the unit given out last, and when.
    cursor: (Time, u128),
}

impl PoolIndex {
    /// The index of a pool none of whose blocks has been touched.
    pub(crate) fn new(pool: &Pool, usable: &RangeSet) -> Self {
        let units = Units::new(usable, pool.family, pool.unit_len);
        let mut spent = Runs::full(pool.plane().last_unit() / u128::from(BLOCK_UNITS));
        for &(first, last) in units.runs() {
            spent.remove(first / u128::from(BLOCK_UNITS), last / u128::from(BLOCK_UNITS));
        }
        Self {
            units,
            pick: pool.pick,
            cool_down: pool.cool_down,
            reuse_cooling: pool.reuse_cooling,
            spent,
            ready: HashMap::default(),
            waiting: BTreeSet::new(),
            cursor: (Time(0), 0),
        }
    }

    pub(crate) fn has(&self, block: u128, slot: u8) -> bool {
        self.units.mask(block) & (1 << slot) != 0
    }

    /// Takes in a whole block as it is, when the index is built.
    pub(crate) fn load(&mut self, index: u128, block: &Block) {
        let mask = self.units.mask(index);
        if mask == 0 {
            return;
        }
        self.set_ready(index, mask & !block.taken() & !block.released());
        for (slot, view) in block.slots().filter(|(slot, _)| mask & (1 << slot) != 0) {
            let at = (view.since, index * u128::from(BLOCK_UNITS) + u128::from(slot));
            if view.state == State::Released {
                self.waiting.insert(at);
            } else {
                self.cursor = self.cursor.max(at);
            }
        }
    }

    /// A slot changed from one state to another; `None` is never used.
    pub(crate) fn update(
        &mut self,
        index: u128,
        slot: u8,
        before: Option<(State, Time)>,
        after: Option<(State, Time)>,
    ) {
        let unit = index * u128::from(BLOCK_UNITS) + u128::from(slot);
        let bit = 1u64 << slot;
        if self.units.mask(index) & bit == 0 {
            return;
        }
        if let Some((State::Released, since)) = before {
            self.waiting.remove(&(since, unit));
        }
        let mut ready = self.ready_mask(index) & !bit;
        match after {
            None => ready |= bit,
            Some((State::Released, since)) => {
                self.waiting.insert((since, unit));
            }
            Some(_) => {}
        }
        self.set_ready(index, ready);
    }

    fn ready_mask(&self, index: u128) -> u64 {
        self.ready.get(&index).copied().unwrap_or_else(|| self.units.mask(index))
    }

    fn set_ready(&mut self, index: u128, mask: u64) {
        if mask == 0 {
            self.spent.insert(index);
        } else if self.spent.next_outside(index) != Some(index) {
            self.spent.remove(index, index);
        }
        if mask == self.units.mask(index) {
            self.ready.remove(&index);
        } else {
            self.ready.insert(index, mask);
        }
    }

    /// Moves what has cooled back to ready, for the orders that want it there.
    fn promote(&mut self, now: Time) {
        if self.pick == Pick::LeastRecentlyReleased {
            return;
        }
        while let Some(&(since, unit)) = self.waiting.first() {
            if since.after(self.cool_down) > now {
                break;
            }
            self.waiting.pop_first();
            let (index, slot) = split(unit);
            self.set_ready(index, self.ready_mask(index) | 1 << slot);
        }
    }

    /// The unit to give out next, inside `window` (units, both ends included). It stays where it is until [`Self::update`].
    pub(crate) fn next(&mut self, now: Time, entropy: &mut Entropy, window: (u128, u128)) -> Option<(u128, Reason)> {
        self.promote(now);
        let ready = match self.pick {
            Pick::LeastRecentlyReleased => {
                let from = self.cursor.1.clamp(window.0, window.1);
                let found = self.first_ready((from, window.1)).or_else(|| self.first_ready(window));
                found.map(|unit| (unit, Reason::NeverUsed))
            }
            Pick::Sequential => self.first_ready(window).map(|unit| (unit, Reason::LowestFree)),
            Pick::Random => self.random_ready(entropy, window).map(|unit| (unit, Reason::Random)),
        };
        ready.or_else(|| {
            let inside = |&&(_, unit): &&(Time, u128)| window.0 <= unit && unit <= window.1;
            let &(since, unit) = self.waiting.iter().find(inside)?;
            if since.after(self.cool_down) <= now {
                return Some((unit, Reason::LongestReleased));
            }
            self.reuse_cooling.then_some((unit, Reason::StillCooling))
        })
    }

    /// A unit that [`Self::next`] named was given out.
    pub(crate) const fn advance(&mut self, now: Time, unit: u128) {
        self.cursor = (now, unit);
    }

    pub(crate) const fn cursor(&self) -> (Time, u128) {
        self.cursor
    }

    /// The lowest ready unit of the window.
    fn first_ready(&self, (first, last): (u128, u128)) -> Option<u128> {
        let mut block = first / u128::from(BLOCK_UNITS);
        // At most the first block has ready units that all lie below the window, so this goes round once or twice.
        loop {
            block = self.spent.next_outside(block).filter(|&b| b <= last / u128::from(BLOCK_UNITS))?;
            let start = block * u128::from(BLOCK_UNITS);
            let below = if first > start { (1u64 << (first - start)) - 1 } else { 0 };
            let mask = self.ready_mask(block) & !below;
            if mask != 0 {
                return Some(start + u128::from(mask.trailing_zeros())).filter(|&unit| unit <= last);
            }
            block += 1;
        }
    }

    /// A ready unit of the window from a random place: a few draws over the pool's own units, then the next ready one.
    fn random_ready(&self, entropy: &mut Entropy, window: (u128, u128)) -> Option<u128> {
        let inside: Vec<(u128, u128)> = (self.units.runs().iter())
            .map(|&(a, b)| (a.max(window.0), b.min(window.1)))
            .filter(|(a, b)| a <= b)
            .collect();
        let sizes = inside.iter().map(|(a, b)| b - a);
        let total = sizes.fold(0u128, |sum, len| sum.saturating_add(len).saturating_add(1));
        if total == 0 {
            return None;
        }
        let mut draw = || {
            let mut nth = entropy.below(total);
            for &(a, b) in &inside {
                match nth.checked_sub(b - a) {
                    None | Some(0) => return a + nth,
                    Some(rest) => nth = rest - 1,
                }
            }
            window.0
        };
        let tries: [u128; 8] = std::array::from_fn(|_| draw());
        let is_ready = |unit: u128| self.ready_mask(split(unit).0) & (1 << split(unit).1) != 0;
        let lucky = tries.iter().copied().find(|&unit| is_ready(unit));
        lucky.or_else(|| self.first_ready((tries[0], window.1))).or_else(|| self.first_ready(window))
    }

    /// Whether a unit could be given out now.
    pub(crate) fn has_free(&mut self, now: Time) -> bool {
        self.next(now, &mut Entropy(0), (0, u128::MAX)).is_some()
    }

    /// How many units rest, and when the first of them is free.
    pub(crate) fn cooling(&self, now: Time) -> (usize, Option<Time>) {
        let hot = (now.before(self.cool_down), u128::MAX);
        let mut hot = self.waiting.range((std::ops::Bound::Excluded(hot), std::ops::Bound::Unbounded));
        let first = hot.next().map(|(since, _)| since.after(self.cool_down));
        (if first.is_some() { 1 + hot.count() } else { 0 }, first)
    }

    pub(crate) const fn units(&self) -> &Units {
        &self.units
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the remainder of a division by 64")]
const fn split(unit: u128) -> (u128, u8) {
    (unit / BLOCK_UNITS as u128, (unit % BLOCK_UNITS as u128) as u8)
}

impl PoolIndex {
    /// Whether two indexes say the same; for `check`. What has cooled may be in either place.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        let free = |index: &Self| {
            let mut touched: std::collections::BTreeMap<u128, u64> = std::collections::BTreeMap::new();
            let ready = index.ready.iter().map(|(&block, &mask)| (block, mask));
            for (block, mask) in ready {
                *touched.entry(block).or_default() |= mask;
            }
            for &(_, unit) in &index.waiting {
                let (block, slot) = split(unit);
                *touched.entry(block).or_insert_with(|| index.ready_mask(block)) |= 1 << slot;
            }
            touched.retain(|&block, mask| *mask != index.units.mask(block));
            touched
        };
        free(self) == free(other)
    }
}
