//! How full pools, subnets and networks are. Exact for any size; derived from blocks when asked for.

use super::units::{Units, split};
use super::{Entry, Ipam};
use crate::addr::{Count, Family, RangeSet};
use crate::block::{BlockKey, Plane, SlotRef, State};
use crate::model::{DEFAULT_NETWORK, Pool};
use crate::time::Time;
use serde::Serialize;

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

impl Usage {
    /// Every count with its name, as metrics call it.
    #[must_use]
    pub const fn counts(&self) -> [(&'static str, Count); 7] {
        [
            ("capacity", self.capacity),
            ("in_use", self.in_use),
            ("held", self.held),
            ("cooling", self.cooling),
            ("quarantined", self.quarantined),
            ("reserved", self.reserved),
            ("free", self.free),
        ]
    }
}

impl Ipam {
    /// How full a pool is.
    #[must_use]
    pub fn pool_usage(&self, name: &str, now: Time) -> Option<Usage> {
        let state = &self.pools[*self.names.get(name)?];
        Some(self.usage(&state.plane, &state.members, now))
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
        let mut names: Vec<String> = self.pools().map(|pool| pool.network.to_string()).collect();
        names.push(DEFAULT_NETWORK.to_owned());
        names.sort();
        names.dedup();
        names
    }

    fn usage(&self, plane: &Plane, members: &RangeSet, now: Time) -> Usage {
        let units = Units::new(members, plane.family, plane.unit_len);
        // A unit that is reserved in part cannot be given out whole.
        let unreserved = members.difference(&self.config.reserved(&plane.network));
        let unreserved = Units::new(&unreserved, plane.family, plane.unit_len);
        let mut usage = Usage { capacity: units.count(), ..Usage::default() };
        let mut reserved = usage.capacity - unreserved.count();
        for entry in self.entries_in(plane, &units) {
            let index = entry.key.index;
            let (mask, free_mask) = (units.mask(index), unreserved.mask(index));
            for (slot, state, since) in entry.block.states().filter(|(slot, ..)| mask & (1 << slot) != 0) {
                let is_reserved = free_mask & (1 << slot) == 0;
                let place = match state {
                    State::Active => &mut usage.in_use,
                    State::Held => &mut usage.held,
                    State::Quarantined => &mut usage.quarantined,
                    State::Released if !is_reserved && self.is_cooling(entry, slot, since, now) => &mut usage.cooling,
                    State::Released => continue,
                };
                *place += Count::ONE;
                if is_reserved {
                    reserved = reserved - Count::ONE;
                }
            }
        }
        usage.reserved = reserved;
        usage.free = usage.capacity - (usage.in_use + usage.held + usage.cooling + usage.quarantined + usage.reserved);
        usage
    }

    fn is_cooling(&self, entry: &Entry, slot: u8, since: Time, now: Time) -> bool {
        entry
            .pools
            .iter()
            .map(|&pool| &self.pools[pool as usize])
            .any(|state| state.pool.rests(since, now) && state.own.has(entry.key.index, slot))
    }

    /// The blocks of a plane that hold any of these units.
    fn entries_in<'a>(&'a self, plane: &Plane, units: &Units) -> Vec<&'a Entry> {
        let mut ids: Vec<usize> = (units.runs().iter())
            .flat_map(|&(first, last)| {
                let key = |unit| BlockKey { plane: plane.clone(), index: split(unit).0 };
                self.keys.range(key(first)..=key(last)).map(|(_, &id)| id)
            })
            .collect();
        // Two runs that end and begin in one block both name it.
        ids.dedup();
        ids.into_iter().filter_map(|id| self.entries[id].as_ref()).collect()
    }

    /// The slots of a plane that are among these units, in order.
    pub(super) fn slots_in<'a>(
        &'a self,
        plane: &Plane,
        units: &Units,
    ) -> impl Iterator<Item = (u128, SlotRef<'a>)> + use<'a> {
        let entries = self.entries_in(plane, units).into_iter().map(|entry| (entry, units.mask(entry.key.index)));
        entries.collect::<Vec<_>>().into_iter().flat_map(|(entry, mask)| {
            let own = entry.block.slots().filter(move |(slot, _)| mask & (1 << slot) != 0);
            own.map(|(slot, view)| (entry.key.unit(slot), view))
        })
    }
}
