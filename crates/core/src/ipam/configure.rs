//! Pools, subnets and reservations: checked as a whole, then put in force at once.

use super::units::{Owners, Units};
use super::{Ipam, PoolIndex, PoolState};
use crate::addr::{Cidr, Family, Range, RangeSet};
use crate::block::State;
use crate::error::Error;
use crate::model::{Gateway, LEASE_TYPE, LOCAL_TYPE, Pool, Reservation, Subnet};
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

fn invalid(object: &str, name: &str, field: &str, reason: impl std::fmt::Display) -> Error {
    Error::Invalid { field: format!("{object} {name:?}, {field}"), reason: reason.to_string() }
}

impl Config {
    /// Whether this makes sense as a whole.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the object, the field and the fix.
    pub fn validate(&self) -> Result<(), Error> {
        for subnet in self.subnets.values() {
            self.validate_subnet(subnet)?;
        }
        if let Some(reservation) = self.reservations.values().find(|r| r.ranges.is_empty()) {
            return Err(invalid(
                "IPReservation",
                &reservation.name,
                "spec.addresses",
                "must name at least one address",
            ));
        }
        for pool in self.pools.values() {
            self.validate_pool(pool)?;
        }
        self.validate_overlap()
    }

    /// Makes pools that name no subnet part of the one that they are in, so that they inherit its gateway, routes and DNS:
    /// it may have been made after them. Not those that say otherwise, by a prefix length or a CIDR of their own.
    pub fn adopt(&mut self) {
        for pool in self.pools.values_mut().filter(|pool| pool.subnet.is_none() && pool.gives_addresses()) {
            let fits = |subnet: &&Subnet| {
                let own = |range: &Range| match (pool.prefix_len, range.as_cidr()) {
                    (Some(len), _) => Some(Cidr::containing(range.first(), len)),
                    // A single address says nothing about its surroundings, nor does FIRST-LAST.
                    (None, cidr) => cidr.filter(|cidr| cidr.prefix_len() < pool.family.bits()),
                };
                let agrees = |range: &Range| own(range).is_none_or(|own| own == subnet.cidr);
                subnet.network == pool.network
                    && pool.ranges.iter().all(|range| subnet.cidr.covers(*range) && agrees(range))
            };
            pool.subnet = self.subnets.values().find(fits).map(|subnet| subnet.name.clone());
        }
    }

    fn validate_subnet(&self, subnet: &Subnet) -> Result<(), Error> {
        if let Gateway::At(gateway) = subnet.gateway
            && Family::of(gateway) != subnet.cidr.family()
        {
            let reason = format!("{gateway} is not of the family of {}", subnet.cidr);
            return Err(invalid("IPSubnet", &subnet.name, "spec.gateway", reason));
        }
        let earlier = self.subnets.values().take_while(|other| other.name != subnet.name);
        let same_network = earlier.filter(|other| other.network == subnet.network);
        match same_network.into_iter().find(|other| other.cidr.range().overlaps(subnet.cidr.range())) {
            None => Ok(()),
            Some(other) => {
                let reason = format!("{} overlaps IPSubnet {:?} ({})", subnet.cidr, other.name, other.cidr);
                Err(invalid("IPSubnet", &subnet.name, "spec.cidr", reason))
            }
        }
    }

    fn validate_pool(&self, pool: &Pool) -> Result<(), Error> {
        let wrong = |field: &str, reason: String| Err(invalid("IPPool", &pool.name, field, reason));
        if pool.ranges.is_empty() {
            return wrong("spec.ranges", "must name at least one range, e.g. [\"10.77.0.0/16\"]".to_owned());
        }
        for (field, ranges) in [("spec.ranges", &pool.ranges), ("spec.exclude", &pool.exclude)] {
            if let Some(range) = ranges.iter().find(|r| r.family() != pool.family) {
                let reason = format!("{range} is not {}; a pool has one family, make a second pool", pool.family);
                return wrong(field, reason);
            }
        }
        for (field, len) in [("spec.unitPrefixLength", Some(pool.unit_len)), ("spec.prefixLength", pool.prefix_len)] {
            if let Some(len) = len.filter(|&len| len > pool.family.bits()) {
                let reason = format!("{len} is longer than an {} address ({})", pool.family, pool.family.bits());
                return wrong(field, reason);
            }
        }
        if let Gateway::At(gateway) = pool.gateway
            && Family::of(gateway) != pool.family
        {
            return wrong("spec.gateway", format!("{gateway} is not {}", pool.family));
        }
        if let Some(name) = &pool.subnet {
            let Some(subnet) = self.subnets.get(name) else {
                return wrong("spec.subnet", format!("IPSubnet {name:?} does not exist; apply it first"));
            };
            if subnet.network != pool.network {
                let reason = format!("is {:?}, but IPSubnet {name:?} is in {:?}", pool.network, subnet.network);
                return wrong("spec.network", reason);
            }
            if let Some(len) = pool.prefix_len.filter(|&len| len != subnet.cidr.prefix_len()) {
                let reason = format!("is {len}, but IPSubnet {name:?} is {}; leave it out", subnet.cidr);
                return wrong("spec.prefixLength", reason);
            }
            if let Some(range) = pool.ranges.iter().find(|&&r| !subnet.cidr.covers(r)) {
                return wrong("spec.ranges", format!("{range} is not inside IPSubnet {name:?} ({})", subnet.cidr));
            }
        }
        if let Some(lending) = pool.lending {
            if lending.block_len > pool.unit_len {
                let reason = format!("a lease of /{} is smaller than what the pool gives out", lending.block_len);
                return wrong("spec.blockSize", reason);
            }
            let leases = Units::new(&pool.ranges.iter().copied().collect(), pool.family, lending.block_len);
            if leases.runs().is_empty() {
                return wrong("spec.blockSize", format!("no range is as large as one /{}", lending.block_len));
            }
        }
        if let Some((range, len)) = straddling(pool, self.subnet_of(pool)) {
            let reason = format!(
                "{range} spans several /{len} subnets, whose network, broadcast and gateway addresses are not left out; \
                 write one range per subnet, or set the gateway to none and allow network and broadcast addresses"
            );
            return wrong("spec.prefixLength", reason);
        }
        let units = Units::new(&pool.ranges.iter().copied().collect(), pool.family, pool.unit_len);
        if units.runs().is_empty() {
            return wrong("spec.unitPrefixLength", format!("no range is as large as one /{}", pool.unit_len));
        }
        Ok(())
    }

    /// Two pools of one network may not share addresses. Sorted by first address, only neighbours need a look.
    fn validate_overlap(&self) -> Result<(), Error> {
        let mut all: Vec<_> = (self.pools.values())
            .flat_map(|pool| pool.ranges.iter().map(move |&range| (&pool.network, range, &pool.name)))
            .collect();
        all.sort();
        for pair in all.windows(2) {
            let [(network, range, name), (next_network, next_range, next_name)] = pair else { continue };
            if network == next_network && range.overlaps(*next_range) {
                let (field, name, other) =
                    if name == next_name { ("itself", name, name) } else { ("", next_name, name) };
                let whom = if field.is_empty() { format!("IPPool {other:?} ({range})") } else { format!("{range}") };
                let reason = format!("{next_range} overlaps {whom} in network {network:?}");
                return Err(invalid("IPPool", name, "spec.ranges", reason));
            }
        }
        Ok(())
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

impl Ipam {
    /// What is configured.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Whether `next` could be put in force: it makes sense, and no address in use, held or quarantined would lose its
    /// pool or be left out of it. A reservation may cover addresses in use; it keeps them from the next holder.
    ///
    /// # Errors
    /// [`Error::Invalid`] or [`Error::InUse`].
    pub fn admits(&self, next: &Config) -> Result<(), Error> {
        next.validate()?;
        self.spares_users(next)
    }

    /// Whether no address in use, held or quarantined would lose its pool or be left out of it under `next`, whether or
    /// not that makes sense otherwise.
    ///
    /// # Errors
    /// [`Error::InUse`].
    pub fn spares_users(&self, next: &Config) -> Result<(), Error> {
        for state in &self.pools {
            let old = &state.pool;
            let units = |set: &RangeSet| Units::new(set, old.family, old.unit_len);
            // The pool behind one that lends is not configured by itself.
            let lender = next.pools.values().filter_map(Pool::of_leases).find(|pool| pool.name == old.name);
            let new = next.pools.get(&old.name).or(lender.as_ref()).filter(|new| new.plane() == state.plane);
            let own = new.map(|new| units(&new.ranges.iter().copied().collect())).unwrap_or_default();
            let members = new.map(|new| units(&new.members(next.subnet_of(new)))).unwrap_or_default();
            let old_members = units(&state.members);
            if own == state.own && members == old_members {
                continue;
            }
            let lost = |unit: u128| {
                let (block, slot) = super::units::split(unit);
                let left_out = old_members.has(block, slot) && !members.has(block, slot);
                left_out || !own.has(block, slot)
            };
            let taken = self.slots_in(&state.plane, &state.own).filter(|(unit, _)| lost(*unit));
            let mut holders: Vec<String> = (taken.filter(|(_, view)| view.state != State::Released))
                .map(|(unit, view)| {
                    let by = view.holder().map_or_else(|| "quarantine".to_owned(), |holder| holder.to_string());
                    format!("{} by {by}", state.plane.addr(unit))
                })
                .take(6)
                .collect();
            if !holders.is_empty() {
                if holders.len() == 6 {
                    holders[5] = "and more".to_owned();
                }
                let object = if next.pools.contains_key(&old.name) {
                    format!("a part that IPPool {:?} would lose", old.name)
                } else {
                    format!("IPPool {:?}", old.name)
                };
                return Err(Error::InUse { object, holders: holders.join(", ") });
            }
        }
        Ok(())
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

/// A range over several subnets of the pool's prefix length, where each has addresses to leave out: finding those would
/// mean to walk the range.
fn straddling(pool: &Pool, subnet: Option<&Subnet>) -> Option<(Range, u8)> {
    let len = pool.prefix_len.filter(|_| subnet.is_none() && pool.gives_addresses())?;
    let edges = !pool.edges.network || (pool.family == Family::V4 && !pool.edges.broadcast);
    let gateways = pool.gateway == Gateway::Auto && !pool.edges.gateway;
    let whole = Cidr::containing(pool.family.addr(0), len).is_usable_whole();
    let over = pool.ranges.iter().find(|r| !Cidr::containing(r.first(), len).covers(**r));
    over.filter(|_| !whole && (edges || gateways)).map(|&range| (range, len))
}
