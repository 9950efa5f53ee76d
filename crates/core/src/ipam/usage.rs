//! How full pools, subnets and networks are. Exact for any size; derived from blocks when asked for.

use super::Ipam;
use super::pool_index::Units;
use crate::addr::{Count, Family, RangeSet};
use crate::block::{Block, BlockKey, Plane, SlotRef, State};
use crate::model::{DEFAULT_NETWORK, Pool};
use crate::time::Time;
use serde::Serialize;
use std::net::IpAddr;

/// Where the units of a pool, subnet or network are. They add up to the capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// All units that may ever be given out, reserved ones included.
    pub capacity: Count,
    /// In use.
    pub in_use: Count,
    /// Kept for holders that are away.
    pub held: Count,
    /// Given back a moment ago.
    pub cooling: Count,
    /// Seen in use by strangers.
    pub quarantined: Count,
    /// Reserved and not in use.
    pub reserved: Count,
    /// Free to be given out now.
    pub free: Count,
}

impl Ipam {
    /// How full a pool is.
    #[must_use]
    pub fn pool_usage(&self, name: &str, now: Time) -> Option<Usage> {
        let state = &self.pools[*self.names.get(name)?];
        Some(self.usage(&state.pool.plane(), &state.members, now))
    }

    /// How full a subnet is, single addresses only: all of it, whether in a pool or not.
    #[must_use]
    pub fn subnet_usage(&self, name: &str, now: Time) -> Option<Usage> {
        let subnet = self.config.subnets.get(name)?;
        let whole = Pool { network: subnet.network.clone(), ..Pool::new("", vec![subnet.cidr.range()]) };
        let whole = Pool { gateway: subnet.gateway, ..whole };
        Some(self.usage(&whole.plane(), &whole.members(Some(subnet)), now))
    }

    /// How full the pools of a network are, per family, single addresses only.
    #[must_use]
    pub fn network_usage(&self, network: &str, family: Family, now: Time) -> Usage {
        let own = self.pools.iter().filter(|s| &*s.pool.network == network && s.pool.gives_addresses());
        let members = own.flat_map(|state| state.members.ranges().iter().copied());
        let members: RangeSet = members.filter(|range| range.family() == family).collect();
        let plane = Plane { network: network.into(), family, unit_len: family.bits() };
        self.usage(&plane, &members, now)
    }

    /// The networks that pools are in; at least the default one.
    #[must_use]
    pub fn networks(&self) -> Vec<String> {
        let mut names: Vec<String> = self.pools.iter().map(|state| state.pool.network.to_string()).collect();
        names.push(DEFAULT_NETWORK.to_owned());
        names.sort();
        names.dedup();
        names
    }

    /// Whether any of these pools (or, if none is named, of the default ones) could serve a request now.
    pub fn can_serve(&mut self, pools: &[String], now: Time) -> Result<bool, crate::error::Error> {
        let group = super::Group { pools: pools.to_vec(), ..super::Group::default() };
        let candidates = self.candidates(&group)?;
        let mut families: Vec<(Family, bool)> = Vec::new();
        for candidate in candidates {
            let state = &mut self.pools[candidate.pool];
            let free = !state.pool.disabled && state.index.has_free(now);
            match families.iter_mut().find(|(family, _)| *family == state.pool.family) {
                Some((_, any)) => *any |= free,
                None => families.push((state.pool.family, free)),
            }
        }
        Ok(!families.is_empty() && families.iter().all(|&(_, free)| free))
    }

    fn usage(&self, plane: &Plane, members: &RangeSet, now: Time) -> Usage {
        let reserved_set = self.config.reserved(&plane.network).intersection(members);
        let units = Units::new(members, plane.family, plane.unit_len);
        // A unit that is reserved in part cannot be given out whole.
        let unreserved = Units::new(&members.difference(&reserved_set), plane.family, plane.unit_len);
        let mut usage = Usage { capacity: units.count(), ..Usage::default() };
        let mut reserved = units.count() - unreserved.count();
        for (addr, view) in self.slots_in(plane, members.clone()) {
            let unit = plane.unit_of(addr);
            let (key, slot) = BlockKey::of(plane, unit);
            let (mask, free_mask) = (units.mask(key.index), unreserved.mask(key.index));
            if mask & (1 << slot) == 0 {
                continue;
            }
            let is_reserved = free_mask & (1 << slot) == 0;
            let place = match view.state {
                State::Active => &mut usage.in_use,
                State::Held => &mut usage.held,
                State::Quarantined => &mut usage.quarantined,
                State::Released if !is_reserved && self.is_cooling(plane, addr, view.since, now) => &mut usage.cooling,
                State::Released => continue,
            };
            *place += Count::ONE;
            if is_reserved {
                reserved = reserved - Count::ONE;
            }
        }
        usage.reserved = reserved;
        let taken = usage.in_use + usage.held + usage.cooling + usage.quarantined + usage.reserved;
        usage.free = usage.capacity.saturating_sub(taken);
        usage
    }

    fn is_cooling(&self, plane: &Plane, addr: IpAddr, since: Time, now: Time) -> bool {
        let own = |pool: &Pool| pool.plane() == *plane && pool.ranges.iter().any(|range| range.contains(addr));
        let pool = self.pools.iter().map(|state| &state.pool).find(|pool| own(pool));
        pool.is_some_and(|pool| since.after(pool.cool_down) > now)
    }

    /// The slots of a plane that lie in a set of addresses, with their (first) address.
    pub(super) fn slots_in<'a>(
        &'a self,
        plane: &Plane,
        set: RangeSet,
    ) -> impl Iterator<Item = (IpAddr, SlotRef<'a>)> + use<'a> {
        let blocks: Vec<(&BlockKey, usize)> = (set.ranges().iter())
            .filter(|range| range.family() == plane.family)
            .flat_map(|range| {
                let (first, _) = BlockKey::of(plane, plane.unit_of(range.first()));
                let (last, _) = BlockKey::of(plane, plane.unit_of(range.last()));
                self.keys.range(first..=last).map(|(key, &id)| (key, id))
            })
            .collect();
        // Two ranges that end and begin in one block both name it.
        let mut blocks = blocks;
        blocks.dedup_by_key(|(_, id)| *id);
        blocks.into_iter().flat_map(move |(key, id)| {
            let block = self.entries[id].as_ref().map(|entry| &entry.block);
            let set = set.clone();
            let slots = block.into_iter().flat_map(Block::slots);
            slots
                .map(|(slot, view)| (key.plane.addr(key.unit(slot)), view))
                .filter(move |(addr, _)| set.contains(*addr))
        })
    }
}
