//! What one pool can give out right now, found without walking its ranges.
//!
//! Every unit of a pool is in one of three places: *ready* (may be picked in the pool's order), *waiting* (was given
//! back; ordered by when), or taken. A block that was never touched is ready as a whole and costs nothing.
//! `LeastRecentlyReleased` leaves given-back units in *waiting* for good and takes the oldest when nothing is ready;
//! the other orders move them back to *ready* once they have cooled.
//!
//! Where others give out from the same pool, each write of a block competes with theirs. There the search stays in a
//! block as long as it can, goes on to blocks that nobody has touched before it joins another's, joins one at random
//! rather than the next (where everybody whose own is full would meet), and takes given-back units in a sweep from its
//! own place on (as host-local does) rather than the very oldest, which everybody would want.

use super::entropy::Entropy;
use super::reason::Reason;
use super::runs::Runs;
use super::units::{Units, split};
use crate::addr::RangeSet;
use crate::block::{BLOCK_UNITS, Block, State};
use crate::model::{Pick, Pool, rests};
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

/// A run of units, both ends included.
pub(super) type Window = (u128, u128);

/// Anywhere in the pool.
pub(super) const EVERYWHERE: &[Window] = &[(0, u128::MAX)];

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
    pub(super) cursor: (Time, u128),
    /// Set if the search keeps away from others.
    apart: Option<Apart>,
}

/// What a search among others needs to know besides.
#[derive(Clone, Debug)]
struct Apart {
    /// Blocks of which something is or was used; whatever lies outside the pool counts as such.
    touched: Runs,
    /// What was given back, by place.
    resting: BTreeMap<u128, Time>,
    /// Whether what is known to be free will do, although there may be blocks that nobody has begun.
    settles: bool,
}

impl PoolIndex {
    /// The index of a pool none of whose blocks has been touched.
    pub(crate) fn new(pool: &Pool, usable: &RangeSet) -> Self {
        let units = Units::new(usable, pool.family, pool.unit_len);
        let mut spent = Runs::full(split(pool.plane().last_unit()).0);
        for &(first, last) in units.runs() {
            spent.remove(split(first).0, split(last).0);
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
            apart: None,
        }
    }

    /// Goes on from a random block, one that nobody has touched if there is any, and from then on takes no notice of where
    /// others are.
    pub(crate) fn scatter(&mut self, entropy: &mut Entropy) {
        if self.apart.is_none() {
            let mut touched = self.spent.clone();
            self.ready.keys().for_each(|&index| touched.insert(index));
            let resting = self.waiting.iter().map(|&(since, unit)| (unit, since)).collect();
            self.apart = Some(Apart { touched, resting, settles: false });
        }
        if let Some(unit) = self.draw(entropy, EVERYWHERE) {
            let block = split(unit).0;
            let touched = self.apart.as_ref().map(|apart| &apart.touched);
            let untouched = touched.and_then(|touched| touched.next_outside(block).or_else(|| touched.next_outside(0)));
            let elsewhere = untouched.or_else(|| self.with_room(entropy)).unwrap_or(block);
            self.cursor.1 = elsewhere * u128::from(BLOCK_UNITS);
        }
    }

    /// Whether to take what is known to be free rather than go on looking for a block that nobody has begun: each that is
    /// not known has to be read first, and in a pool that is well used none is left.
    pub(crate) fn settle(&mut self, yes: bool) {
        if let Some(apart) = &mut self.apart {
            apart.settles = yes;
        }
    }

    pub(crate) fn has(&self, block: u128, slot: u8) -> bool {
        self.units.has(block, slot)
    }

    /// Takes in a whole block as it is, when the index is built.
    pub(crate) fn load(&mut self, index: u128, block: &Block) {
        let mask = self.units.mask(index);
        if mask == 0 {
            return;
        }
        self.set_ready(index, mask, mask & !block.taken() & !block.released());
        for (slot, state, since) in block.states().filter(|(slot, ..)| mask & (1 << slot) != 0) {
            let at = (since, index * u128::from(BLOCK_UNITS) + u128::from(slot));
            if state == State::Released {
                self.rest(at);
            } else if self.apart.is_none() {
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
        let (mask, bit) = (self.units.mask(index), 1u64 << slot);
        if mask & bit == 0 {
            return;
        }
        if let Some((State::Released, since)) = before {
            self.waiting.remove(&(since, unit));
            self.apart.as_mut().map(|apart| apart.resting.remove(&unit));
        }
        let mut ready = self.ready_of(index, mask) & !bit;
        match after {
            None => ready |= bit,
            Some((State::Released, since)) => {
                self.rest((since, unit));
            }
            Some(_) => {}
        }
        self.set_ready(index, mask, ready);
    }

    fn rest(&mut self, (since, unit): (Time, u128)) {
        self.waiting.insert((since, unit));
        self.apart.as_mut().map(|apart| apart.resting.insert(unit, since));
    }

    fn ready_of(&self, index: u128, mask: u64) -> u64 {
        self.ready.get(&index).copied().unwrap_or(mask)
    }

    fn ready_mask(&self, index: u128) -> u64 {
        self.ready.get(&index).copied().unwrap_or_else(|| self.units.mask(index))
    }

    /// `mask` is what the pool has of the block; a block that is ready as a whole needs no entry.
    fn set_ready(&mut self, index: u128, mask: u64, ready: u64) {
        let before = if ready == mask { self.ready.remove(&index) } else { self.ready.insert(index, ready) };
        match (before.unwrap_or(mask) == 0, ready == 0) {
            (false, true) => self.spent.insert(index),
            (true, false) => self.spent.remove(index, index),
            _ => {}
        }
        let Some(apart) = &mut self.apart else { return };
        match (before.is_some(), ready != mask) {
            (false, true) => apart.touched.insert(index),
            (true, false) => apart.touched.remove(index, index),
            _ => {}
        }
    }

    /// Moves what has cooled back to ready, for the orders that want it there.
    fn promote(&mut self, now: Time) {
        if self.pick == Pick::LeastRecentlyReleased {
            return;
        }
        while let Some(&(since, unit)) = self.waiting.first() {
            if rests(since, self.cool_down, now) {
                break;
            }
            self.waiting.pop_first();
            self.apart.as_mut().map(|apart| apart.resting.remove(&unit));
            let (index, slot) = split(unit);
            let mask = self.units.mask(index);
            self.set_ready(index, mask, self.ready_of(index, mask) | 1 << slot);
        }
    }

    /// The unit to give out next, inside the windows. It stays where it is until [`Self::update`].
    pub(crate) fn next(&mut self, now: Time, entropy: &mut Entropy, windows: &[Window]) -> Option<(u128, Reason)> {
        self.promote(now);
        if let Some(known) = self.known(now, entropy, windows) {
            return Some(known);
        }
        let first_ready = || windows.iter().find_map(|&window| self.first_ready(window));
        let ready = match self.pick {
            Pick::LeastRecentlyReleased => {
                let untouched = self.untouched(windows).or_else(|| self.joined(entropy, windows));
                let ahead = windows.iter().filter(|window| window.1 >= self.cursor.1);
                let mut ahead = ahead.map(|&(first, last)| (first.max(self.cursor.1), last));
                let found =
                    untouched.or_else(|| ahead.find_map(|window| self.first_ready(window))).or_else(first_ready);
                found.map(|unit| (unit, Reason::NeverUsed))
            }
            Pick::Sequential => first_ready().map(|unit| (unit, Reason::LowestFree)),
            Pick::Random => self.random_ready(entropy, windows).map(|unit| (unit, Reason::Random)),
        };
        ready.or_else(|| self.sweep(now, windows)).or_else(|| {
            let inside = |&&(_, unit): &&(Time, u128)| windows.iter().any(|w| w.0 <= unit && unit <= w.1);
            let &(since, unit) = self.waiting.iter().find(inside)?;
            if !rests(since, self.cool_down, now) {
                return Some((unit, Reason::LongestReleased));
            }
            self.reuse_cooling.then_some((unit, Reason::StillCooling))
        })
    }

    /// Among others, if that will do: a ready unit of a block that somebody has begun, or one that was given back.
    fn known(&self, now: Time, entropy: &mut Entropy, windows: &[Window]) -> Option<(u128, Reason)> {
        let settles = self.apart.as_ref().is_some_and(|apart| apart.settles);
        if !settles || self.pick != Pick::LeastRecentlyReleased || windows != EVERYWHERE {
            return None;
        }
        let begun = || self.ready.iter().filter(|(_, ready)| **ready != 0).map(|(&block, &ready)| (block, ready));
        let at_hand = split(self.cursor.1).0;
        let mut any = || {
            let last = begun().count().checked_sub(1)?;
            begun().nth(usize::try_from(entropy.up_to(last as u128)).ok()?)
        };
        let here = self.ready.get(&at_hand).filter(|ready| **ready != 0).map(|&ready| (at_hand, ready));
        let Some((block, ready)) = here.or_else(&mut any) else { return self.sweep(now, windows) };
        Some((block * u128::from(BLOCK_UNITS) + u128::from(ready.trailing_zeros()), Reason::NeverUsed))
    }

    /// Among others: a unit of the block at hand, or the first of a block that nobody has touched.
    fn untouched(&self, windows: &[Window]) -> Option<u128> {
        let touched = &self.apart.as_ref().filter(|_| windows == EVERYWHERE)?.touched;
        let at = self.cursor.1;
        let (block, slots) = (split(at).0, u128::from(BLOCK_UNITS));
        let here = self.first_ready((at, block.saturating_mul(slots).saturating_add(slots - 1)));
        here.or_else(|| {
            let next = touched.next_outside(block).or_else(|| touched.next_outside(0))?;
            self.first_ready((next * slots, (next * slots).saturating_add(slots - 1)))
        })
    }

    /// Among others, where every block has been begun: the first ready unit of a block that still has room.
    fn joined(&self, entropy: &mut Entropy, windows: &[Window]) -> Option<u128> {
        self.apart.as_ref().filter(|_| windows == EVERYWHERE)?;
        let slots = u128::from(BLOCK_UNITS);
        let first = self.with_room(entropy)? * slots;
        self.first_ready((first, first.saturating_add(slots - 1)))
    }

    /// A block with something ready, drawn at random; of two, the one with more.
    fn with_room(&self, entropy: &mut Entropy) -> Option<u128> {
        const DRAWS: usize = 32;
        let drawn = (0..DRAWS).filter_map(|_| self.draw(entropy, EVERYWHERE)).map(|unit| split(unit).0);
        let room = |block: &u128| self.ready_mask(*block).count_ones();
        drawn.filter(|block| room(block) > 0).take(2).max_by_key(room)
    }

    /// Among others: the next unit that was given back and has cooled, from the one given out last on.
    fn sweep(&self, now: Time, windows: &[Window]) -> Option<(u128, Reason)> {
        let resting = &self.apart.as_ref().filter(|_| windows == EVERYWHERE)?.resting;
        let oldest = self.waiting.first().filter(|(since, _)| !rests(*since, self.cool_down, now));
        oldest?;
        let after = (Bound::Excluded(self.cursor.1), Bound::Unbounded);
        let mut round = resting.range(after).chain(resting.range(..=self.cursor.1));
        let found = round.find(|(_, since)| !rests(**since, self.cool_down, now));
        found.map(|(&unit, _)| (unit, Reason::Released))
    }

    /// The lowest ready unit of the window.
    fn first_ready(&self, (first, last): Window) -> Option<u128> {
        let (mut block, last_block) = (split(first).0, split(last).0);
        // At most the first block has ready units that all lie below the window, so this goes round once or twice.
        loop {
            block = self.spent.next_outside(block).filter(|&b| b <= last_block)?;
            let start = block * u128::from(BLOCK_UNITS);
            let below = if first > start { (1u64 << (first - start)) - 1 } else { 0 };
            let mask = self.ready_mask(block) & !below;
            if mask != 0 {
                return Some(start + u128::from(mask.trailing_zeros())).filter(|&unit| unit <= last);
            }
            block += 1;
        }
    }

    /// The pool's own units inside the windows, as runs.
    fn inside<'a>(&'a self, windows: &'a [Window]) -> impl Iterator<Item = Window> + 'a {
        let cut = |&(a, b): &Window, w: &Window| (a.max(w.0), b.min(w.1));
        let runs = self.units.runs().iter().flat_map(move |run| windows.iter().map(move |w| cut(run, w)));
        runs.filter(|(a, b)| a <= b)
    }

    /// Any unit inside the windows, ready or not.
    fn draw(&self, entropy: &mut Entropy, windows: &[Window]) -> Option<u128> {
        // Of 2^128 units the sum saturates: the very last is then never drawn, only found.
        let total = self.inside(windows).fold(0u128, |sum, (a, b)| sum.saturating_add(b - a).saturating_add(1));
        let mut nth = entropy.up_to(total.checked_sub(1)?);
        let found = self.inside(windows).find(|(a, b)| {
            let rest = nth.checked_sub(b - a).and_then(|past| past.checked_sub(1));
            nth = rest.unwrap_or(nth);
            rest.is_none()
        });
        found.map(|(a, _)| a + nth)
    }

    /// A ready unit from a random place: a few draws over the pool's own units, then the next ready one.
    fn random_ready(&self, entropy: &mut Entropy, windows: &[Window]) -> Option<u128> {
        let from = self.draw(entropy, windows)?;
        let is_ready = |unit: &u128| self.ready_mask(split(*unit).0) & (1 << split(*unit).1) != 0;
        let lucky = std::iter::once(from).chain((0..7).filter_map(|_| self.draw(entropy, windows))).find(is_ready);
        let ahead =
            || self.inside(windows).filter(|&(_, b)| b >= from).find_map(|(a, b)| self.first_ready((a.max(from), b)));
        lucky.or_else(ahead).or_else(|| self.inside(windows).find_map(|window| self.first_ready(window)))
    }

    /// How many units rest, and when the first of them is free.
    pub(crate) fn cooling(&self, now: Time) -> (usize, Option<Time>) {
        let is_hot = |since: Time| rests(since, self.cool_down, now);
        match self.waiting.first() {
            None => (0, None),
            // The oldest is hot, so all are: nothing to count.
            Some(&(since, _)) if is_hot(since) => (self.waiting.len(), Some(since.after(self.cool_down))),
            Some(_) => {
                let mut hot = self.waiting.iter().filter(|(since, _)| is_hot(*since));
                let first = hot.next().map(|(since, _)| since.after(self.cool_down));
                (usize::from(first.is_some()) + hot.count(), first)
            }
        }
    }

    /// Whether two indexes say the same; for `check`. What has cooled may be in either place.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        let settled = |index: &Self| {
            let mut index = index.clone();
            index.promote(Time(u64::MAX));
            index
        };
        let (own, other) = (settled(self), settled(other));
        own.ready == other.ready && own.spent == other.spent && own.waiting == other.waiting
    }
}
