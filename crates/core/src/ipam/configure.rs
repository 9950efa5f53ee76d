//! Pools, subnets and reservations, put in force at once. Whether they may be is said in `validate` and `losses`.

use super::units::{Owners, Units};
use super::{Ipam, PoolIndex, PoolState};
use crate::addr::{Cidr, Range, RangeSet};
use crate::model::{LEASE_TYPE, LOCAL_TYPE, Pool, Reservation, Subnet};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Everything that is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Pools by name.
    pub pools: BTreeMap<String, Pool>,
    /// Subnets by name.
    pub subnets: BTreeMap<String, Subnet>,
    /// Reservations by name.
    pub reservations: BTreeMap<String, Reservation>,
}

impl Config {
    /// Makes pools that name no subnet part of the one that they are in, so that they inherit its gateway, routes and DNS:
    /// it may have been made after them. Not those that say otherwise, by a prefix length or a CIDR of their own.
    pub fn adopt(&mut self) {
        let subnets = &self.subnets;
        for pool in self.pools.values_mut().filter(|pool| pool.subnet.is_none()) {
            pool.subnet = around(subnets, pool).map(|subnet| subnet.name.clone());
        }
    }

    /// The subnet that a pool which names none is part of.
    #[must_use]
    pub fn subnet_around(&self, pool: &Pool) -> Option<&Subnet> {
        around(&self.subnets, pool)
    }

    /// Addresses of a network that nobody gets.
    pub(super) fn reserved(&self, network: &str) -> RangeSet {
        let own = self.reservations.values().filter(|reservation| &*reservation.network == network);
        own.flat_map(|reservation| reservation.ranges.iter().copied()).collect()
    }

    /// The reservation that keeps an address from everyone.
    pub(super) fn reservation_of(&self, network: &str, address: std::net::IpAddr) -> Option<&str> {
        let own = self.reservations.values().filter(|reservation| &*reservation.network == network);
        let mut keeping = own.filter(|reservation| reservation.ranges.iter().any(|range| range.contains(address)));
        keeping.next().map(|reservation| reservation.name.as_str())
    }

    pub(super) fn subnet_of(&self, pool: &Pool) -> Option<&Subnet> {
        pool.subnet.as_ref().and_then(|name| self.subnets.get(name))
    }
}

fn around<'a>(subnets: &'a BTreeMap<String, Subnet>, pool: &Pool) -> Option<&'a Subnet> {
    let fits = |subnet: &&Subnet| {
        let own = |range: &Range| match (pool.prefix_len, pool.cidr_of(*range)) {
            (Some(len), _) => Some(Cidr::containing(range.first(), len)),
            // A single address says nothing about its surroundings, nor does FIRST-LAST.
            (None, cidr) => cidr.filter(|cidr| cidr.prefix_len() < pool.family.bits()),
        };
        let agrees = |range: &Range| own(range).is_none_or(|own| own == subnet.cidr);
        let has = |range: &Range| subnet.cidr.covers(*range) && agrees(range);
        !subnet.refused && subnet.network == pool.network && pool.ranges.iter().all(has)
    };
    subnets.values().find(fits).filter(|_| pool.gives_addresses() && !pool.ranges.is_empty())
}

impl Ipam {
    /// What is configured.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Puts a configuration in force. No block changes: an edit never frees an address.
    pub fn configure(&mut self, config: Config) {
        let reserved: HashMap<&str, RangeSet> =
            (config.pools.values()).map(|pool| (&*pool.network, config.reserved(&pool.network))).collect();
        let lenders: Vec<Pool> = config.pools.values().filter_map(Pool::of_leases).collect();
        let mut apart = self.apart.take();
        let before = |pool: &Pool| {
            let &i = self.names.get(&pool.name)?;
            (self.pools[i].plane == pool.plane()).then(|| self.pools[i].index.cursor)
        };
        let pools = (config.pools.values().chain(&lenders))
            .map(|pool| {
                let members = pool.members(config.subnet_of(pool));
                // A pool of another type is another allocator's: nothing of it is ours to give.
                let usable = if pool.kind == LEASE_TYPE {
                    members.clone()
                } else if pool.kind == LOCAL_TYPE {
                    members.difference(&reserved[&*pool.network])
                } else {
                    RangeSet::new()
                };
                let own = Units::new(&pool.ranges.iter().copied().collect(), pool.family, pool.unit_len);
                let mut index = PoolIndex::new(pool, &usable);
                if let Some(entropy) = &mut apart {
                    index.scatter(entropy);
                    index.cursor = before(pool).unwrap_or(index.cursor);
                }
                let subnets = pool.subnets(config.subnet_of(pool));
                let (plane, pool) = (pool.plane(), Arc::new(pool.clone()));
                PoolState { pool, plane, own, subnets, members, index, namespaces: HashMap::new() }
            })
            .collect();
        self.pools = pools;
        self.apart = apart;
        self.config = config;
        self.names = self.pools.iter().enumerate().map(|(i, state)| (state.pool.name.clone(), i)).collect();
        self.owners = Owners::new(self.pools.iter().map(|state| (&state.plane, &state.own)));
        self.cursors.clear();
        for id in 0..self.entries.len() {
            let Some(entry) = &mut self.entries[id] else { continue };
            entry.pools = self.owners.of(&entry.key).into_boxed_slice();
            self.index_in_pools(id);
        }
    }
}
