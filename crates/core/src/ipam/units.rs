//! Units of a pool as numbers, and which pools have units in a block.

use crate::addr::{Count, Family, RangeSet, whole_units};
use crate::block::{BLOCK_UNITS, BlockKey, Plane};
use std::collections::BTreeMap;

const PER_BLOCK: u128 = BLOCK_UNITS as u128;

/// Units as sorted runs of unit numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Units(Vec<(u128, u128)>);

impl Units {
    /// The units that lie wholly inside the set.
    pub(crate) fn new(set: &RangeSet, family: Family, unit_len: u8) -> Self {
        let own = set.ranges().iter().filter(|r| r.family() == family);
        Self(own.filter_map(|&r| whole_units(r, unit_len)).collect())
    }

    pub(crate) fn count(&self) -> Count {
        self.0.iter().map(|(a, b)| Count::from(b - a) + Count::ONE).sum()
    }

    /// Which slots of a block are units of this set.
    pub(crate) fn mask(&self, block: u128) -> u64 {
        let low = block.wrapping_mul(PER_BLOCK);
        let high = low | (PER_BLOCK - 1);
        let start = self.0.partition_point(|&(_, b)| b < low);
        self.0[start..].iter().take_while(|&&(a, _)| a <= high).fold(0, |mask, &(a, b)| {
            let (from, to) = (a.max(low) - low, b.min(high) - low);
            mask | (u64::MAX >> (63 - (to - from))) << from
        })
    }

    pub(crate) fn has(&self, block: u128, slot: u8) -> bool {
        self.mask(block) & (1 << slot) != 0
    }

    /// The units that both have.
    pub(super) fn both(&self, other: &Self) -> Self {
        let shared = self.0.iter().flat_map(|&(a, b)| {
            let near = other.0.iter().map(move |&(c, d)| (a.max(c), b.min(d)));
            near.filter(|(first, last)| first <= last)
        });
        Self(shared.collect())
    }

    pub(crate) fn runs(&self) -> &[(u128, u128)] {
        &self.0
    }
}

/// A unit's block and its slot there.
pub(super) const fn split(unit: u128) -> (u128, u8) {
    (unit / PER_BLOCK, (unit % PER_BLOCK) as u8)
}

/// Which pools have units in a block: one look-up, however many pools there are, and whether or not they overlap.
#[derive(Debug, Default)]
pub(super) struct Owners(BTreeMap<Plane, Vec<Run>>);

#[derive(Debug)]
struct Run {
    first: u128,
    last: u128,
    /// The highest end among this run and those before it.
    reach: u128,
    pool: u32,
}

impl Owners {
    pub(super) fn new<'a>(pools: impl Iterator<Item = (&'a Plane, &'a Units)>) -> Self {
        let mut planes: BTreeMap<Plane, Vec<Run>> = BTreeMap::new();
        for (pool, (plane, units)) in (0..).zip(pools) {
            let runs = units.runs().iter().map(|&(first, last)| Run { first, last, reach: last, pool });
            planes.entry(plane.clone()).or_default().extend(runs);
        }
        for runs in planes.values_mut() {
            runs.sort_by_key(|run| run.first);
            let mut reach = 0;
            for run in runs {
                reach = run.last.max(reach);
                run.reach = reach;
            }
        }
        Self(planes)
    }

    /// The pools, in order of their place in the list.
    pub(super) fn of(&self, key: &BlockKey) -> Vec<u32> {
        let Some(runs) = self.0.get(&key.plane) else { return Vec::new() };
        let (low, high) = (key.unit(0), key.unit(BLOCK_UNITS - 1));
        let before = &runs[..runs.partition_point(|run| run.first <= high)];
        let near = before.iter().rev().take_while(|run| run.reach >= low);
        let mut pools: Vec<u32> = near.filter(|run| run.last >= low).map(|run| run.pool).collect();
        pools.sort_unstable();
        pools.dedup();
        pools
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Range;
    use std::net::Ipv4Addr;

    proptest::proptest! {
        #[test]
        fn owners_and_masks_agree(
            pools in proptest::collection::vec(proptest::collection::vec((0u32..1024, 0u32..300), 1..4), 1..6),
        ) {
            let plane = Plane { network: "default".into(), family: Family::V4, unit_len: 32 };
            let range = |&(first, len): &(u32, u32)| {
                Range::new(Ipv4Addr::from_bits(first).into(), Ipv4Addr::from_bits(first + len).into()).unwrap()
            };
            let sets: Vec<RangeSet> = pools.iter().map(|ranges| ranges.iter().map(range).collect()).collect();
            let units: Vec<Units> = sets.iter().map(|set| Units::new(set, Family::V4, 32)).collect();
            let owners = Owners::new(units.iter().map(|units| (&plane, units)));
            for index in 0..22 {
                let key = BlockKey { plane: plane.clone(), index };
                let expected: Vec<u32> = (0..).zip(&units).filter(|(_, u)| u.mask(index) != 0).map(|(i, _)| i).collect();
                proptest::prop_assert_eq!(owners.of(&key), expected);
                for slot in 0..BLOCK_UNITS {
                    let addr = plane.addr(key.unit(slot));
                    for (units, set) in units.iter().zip(&sets) {
                        proptest::prop_assert_eq!(units.has(index, slot), set.contains(addr));
                    }
                }
            }
        }
    }
}
