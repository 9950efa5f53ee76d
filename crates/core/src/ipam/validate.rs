//! Whether pools, subnets and reservations make sense: each by itself, beside its subnet, and beside the others.
//!
//! What is wrong is found object by object, so that whoever looks at one of them does not trip over another.

use super::Config;
use super::units::Units;
use crate::addr::{Cidr, Family, Range, RangeSet};
use crate::error::Error;
use crate::model::{Gateway, Pool, Subnet};
use crate::net::Route;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

/// What sort of rule an object breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// A field makes no sense, by itself or beside the object's subnet.
    Field,
    /// The subnet it names is not there.
    NoSubnet,
    /// It shares addresses with another of its kind.
    Overlap,
}

/// One thing that is wrong with one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What sort of rule it breaks.
    pub breach: Breach,
    /// The object, e.g. `IPPool "blue"`.
    pub object: String,
    /// The field.
    pub field: String,
    /// What is wrong and how to mend it.
    pub reason: String,
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::Invalid { field: format!("{}, {}", fault.object, fault.field), reason: fault.reason }
    }
}

/// The faults of one object, as they are found.
struct Faults {
    object: String,
    found: Vec<Fault>,
}

impl Faults {
    fn of(object: String) -> Self {
        Self { object, found: Vec::new() }
    }

    fn add(&mut self, field: impl Into<String>, reason: impl Into<String>) {
        self.add_as(Breach::Field, field, reason);
    }

    fn add_as(&mut self, breach: Breach, field: impl Into<String>, reason: impl Into<String>) {
        let (object, field, reason) = (self.object.clone(), field.into(), reason.into());
        self.found.push(Fault { breach, object, field, reason });
    }
}

/// Ranges that are taken, none of which overlap: what comes later is held against what came before.
#[derive(Clone, Debug, Default)]
pub struct Occupied(BTreeMap<(Arc<str>, Range), String>);

impl Occupied {
    /// The range that one of these overlaps, and whose it is.
    #[must_use]
    pub fn overlap(&self, network: &Arc<str>, ranges: &[Range]) -> Option<(Range, Range, &str)> {
        ranges.iter().find_map(|&range| {
            // Since those that are here do not overlap, the last one that begins early enough also ends last.
            let before = (network.clone(), Range::single(range.last()));
            let last = self.0.range(..=before.clone()).next_back();
            let last = last.filter(|((known, _), _)| known == network);
            // One that begins at the very same address may be longer, and sorts after it.
            let next = self.0.range(before..).next().filter(|((known, _), _)| known == network);
            let mut near = last.into_iter().chain(next).filter(|((_, other), _)| other.overlaps(range));
            near.next().map(|((_, other), name)| (range, *other, name.as_str()))
        })
    }

    /// Takes ranges that overlap nothing here.
    pub fn take(&mut self, network: &Arc<str>, ranges: &[Range], name: &str) {
        self.0.extend(ranges.iter().map(|&range| ((network.clone(), range), name.to_owned())));
    }
}

impl Config {
    /// Whether this makes sense as a whole.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the object, the field and the fix.
    pub fn validate(&self) -> Result<(), Error> {
        let first = |faults: Vec<Fault>| faults.into_iter().next().map_or(Ok(()), |fault| Err(Error::from(fault)));
        let mut taken = Occupied::default();
        for subnet in self.subnets.values() {
            first(subnet_faults(subnet))?;
            let ranges = [subnet.cidr.range()];
            if let Some((_, other, name)) = taken.overlap(&subnet.network, &ranges) {
                return Err(subnet_overlap(subnet, other, name).into());
            }
            taken.take(&subnet.network, &ranges, &subnet.title());
        }
        if let Some(empty) = self.reservations.values().find(|r| r.ranges.is_empty()) {
            let mut faults = Faults::of(format!("IPReservation {:?}", empty.name));
            faults.add("spec.addresses", "must name at least one address");
            first(faults.found)?;
        }
        let mut taken = Occupied::default();
        for pool in self.pools.values() {
            first(self.pool_faults(pool))?;
            if let Some((range, other, name)) = taken.overlap(&pool.network, &pool.ranges) {
                return Err(pool_overlap(pool, range, other, name).into());
            }
            taken.take(&pool.network, &pool.ranges, &pool.title());
        }
        Ok(())
    }

    /// What is wrong with a pool, whatever other pools there are.
    #[must_use]
    pub fn pool_faults(&self, pool: &Pool) -> Vec<Fault> {
        let mut faults = Faults::of(pool.title());
        shape(pool, &mut faults);
        // Without ranges of one family and lengths that fit it, nothing further can be said.
        if !faults.found.is_empty() {
            return faults.found;
        }
        let subnet = self.subnet_of(pool);
        match (&pool.subnet, subnet) {
            (Some(name), None) => {
                let reason = format!("IPSubnet {name:?} does not exist; apply it first");
                faults.add_as(Breach::NoSubnet, "spec.subnet", reason);
            }
            (Some(_), Some(subnet)) => beside_subnet(pool, subnet, &mut faults),
            (None, _) => {}
        }
        units(pool, subnet, &mut faults);
        if pool.gives_addresses() {
            let known = known_subnets(pool, subnet);
            if let Gateway::At(gateway) = pool.gateway {
                reachable("spec.gateway", gateway, &known, &mut faults);
            }
            let has_gateway = match pool.gateway {
                Gateway::None => false,
                Gateway::At(_) => true,
                Gateway::Auto => subnet.is_none_or(|subnet| subnet.router().is_some()),
                Gateway::OfSubnet => subnet.is_some_and(|subnet| subnet.router().is_some()),
            };
            routes(&pool.routes, &known, has_gateway, &mut faults);
        }
        faults.found
    }

    /// The pool that has addresses of these ranges too, `pool` itself not counted.
    #[must_use]
    pub fn pool_overlap(&self, pool: &Pool, ranges: &RangeSet) -> Option<Fault> {
        let others = self.pools.values().filter(|other| other.name != pool.name && other.network == pool.network);
        others.into_iter().find_map(|other| {
            let own = other.ranges.iter().find_map(|range| Some((ranges.within(*range).next()?, *range)))?;
            Some(pool_overlap(pool, own.0, own.1, &other.title()))
        })
    }

    /// The subnet that has addresses of this one too, itself not counted.
    #[must_use]
    pub fn subnet_overlap(&self, subnet: &Subnet) -> Option<Fault> {
        let mut others = self.subnets.values().filter(|o| o.name != subnet.name && o.network == subnet.network);
        let other = others.find(|other| other.cidr.range().overlaps(subnet.cidr.range()))?;
        Some(subnet_overlap(subnet, other.cidr.range(), &other.title()))
    }
}

/// That a pool shares addresses with an earlier one.
#[must_use]
pub fn pool_overlap(pool: &Pool, range: Range, other: Range, whose: &str) -> Fault {
    let mut faults = Faults::of(pool.title());
    let reason = format!("{range} overlaps {whose} ({other}) in network {:?}", &*pool.network);
    faults.add_as(Breach::Overlap, "spec.ranges", reason);
    faults.found.remove(0)
}

/// That a subnet shares addresses with an earlier one.
#[must_use]
pub fn subnet_overlap(subnet: &Subnet, other: Range, whose: &str) -> Fault {
    let mut faults = Faults::of(subnet.title());
    let reason = format!("{} overlaps {whose} ({other}) in network {:?}", subnet.cidr, &*subnet.network);
    faults.add_as(Breach::Overlap, "spec.cidr", reason);
    faults.found.remove(0)
}

/// What is wrong with a subnet, whatever other subnets there are.
#[must_use]
pub fn subnet_faults(subnet: &Subnet) -> Vec<Fault> {
    let mut faults = Faults::of(subnet.title());
    if let Gateway::At(gateway) = subnet.gateway {
        if Family::of(gateway) == subnet.cidr.family() {
            reachable("spec.gateway", gateway, &[subnet.cidr], &mut faults);
        } else {
            faults.add("spec.gateway", format!("{gateway} is not of the family of {}", subnet.cidr));
        }
    }
    routes(&subnet.routes, &[subnet.cidr], subnet.router().is_some(), &mut faults);
    faults.found
}

/// Ranges, families and lengths.
fn shape(pool: &Pool, faults: &mut Faults) {
    if pool.ranges.is_empty() {
        faults.add("spec.ranges", "must name at least one range, e.g. [\"10.77.0.0/16\"]");
    }
    for (field, ranges) in [("spec.ranges", &pool.ranges), ("spec.exclude", &pool.exclude)] {
        if let Some(range) = ranges.iter().find(|r| r.family() != pool.family) {
            let reason = format!("{range} is not {}; a pool has one family, make a second pool", pool.family);
            faults.add(field, reason);
        }
    }
    let mut sorted = pool.ranges.clone();
    sorted.sort_unstable();
    if let Some([range, next]) = sorted.array_windows().find(|[range, next]| range.overlaps(*next)) {
        faults.add("spec.ranges", format!("{next} overlaps {range} of the same pool; write each address once"));
    }
    for (field, len) in [("spec.unitPrefixLength", Some(pool.unit_len)), ("spec.prefixLength", pool.prefix_len)] {
        if let Some(len) = len.filter(|&len| len > pool.family.bits()) {
            faults.add(field, format!("{len} is longer than an {} address ({})", pool.family, pool.family.bits()));
        }
    }
    if let Gateway::At(gateway) = pool.gateway
        && Family::of(gateway) != pool.family
    {
        faults.add("spec.gateway", format!("{gateway} is not {}", pool.family));
    }
}

fn beside_subnet(pool: &Pool, subnet: &Subnet, faults: &mut Faults) {
    let title = subnet.title();
    if subnet.network != pool.network {
        let reason = format!("is {:?}, but {title} is in {:?}", pool.network, subnet.network);
        faults.add("spec.network", reason);
    }
    if let Some(len) = pool.prefix_len.filter(|&len| len != subnet.cidr.prefix_len()) {
        faults.add("spec.prefixLength", format!("is {len}, but {title} is {}; leave it out", subnet.cidr));
    }
    if let Some(range) = pool.ranges.iter().find(|&&r| !subnet.cidr.covers(r)) {
        faults.add("spec.ranges", format!("{range} is not inside {title} ({})", subnet.cidr));
    } else if let Some(available) = &subnet.available {
        // What a pool leaves out itself, the subnet need not have.
        let own: RangeSet = pool.ranges.iter().copied().collect();
        let beyond = own.difference(&pool.exclude.iter().copied().collect()).difference(available);
        if let Some(range) = beyond.ranges().first() {
            faults.add("spec.ranges", format!("{range} is not among the addresses that {title} has for pools"));
        }
    }
}

/// Leases, and whether there is anything to give out.
fn units(pool: &Pool, subnet: Option<&Subnet>, faults: &mut Faults) {
    let of_length = |len| Units::new(&pool.ranges.iter().copied().collect(), pool.family, len);
    if let Some(lending) = pool.lending {
        if lending.block_len > pool.unit_len {
            let reason = format!("a lease of /{} is smaller than what the pool gives out", lending.block_len);
            faults.add("spec.blockSize", reason);
        } else if of_length(lending.block_len).runs().is_empty() {
            faults.add("spec.blockSize", format!("no range is as large as one /{}", lending.block_len));
        }
    }
    if let Some((range, len)) = straddling(pool, subnet) {
        let reason = format!(
            "{range} spans several /{len} subnets, whose network, broadcast and gateway addresses are not left out; \
             write one range per subnet, or set the gateway to none and allow network and broadcast addresses"
        );
        faults.add("spec.prefixLength", reason);
    }
    if of_length(pool.unit_len).runs().is_empty() {
        faults.add("spec.unitPrefixLength", format!("no range is as large as one /{}", pool.unit_len));
    }
}

/// The subnets that a pool is known to be in. A range that is no CIDR says nothing about its surroundings.
fn known_subnets(pool: &Pool, subnet: Option<&Subnet>) -> Vec<Cidr> {
    let known = subnet.is_some() || pool.prefix_len.is_some() || pool.ranges.iter().all(|&r| pool.cidr_of(r).is_some());
    if known { pool.subnets(subnet) } else { Vec::new() }
}

/// A router has an address in the subnet. Not so a link-local one, which every link has, nor that of addresses that
/// stand alone (/32, /128), which have no neighbours and are routed by other means.
fn reachable(field: &str, router: IpAddr, subnets: &[Cidr], faults: &mut Faults) {
    let alone = |cidr: &Cidr| cidr.prefix_len() == cidr.family().bits();
    let same_family = subnets.first().is_some_and(|cidr| cidr.family() == Family::of(router));
    if !same_family || link_local(router) || subnets.iter().any(|cidr| alone(cidr) || cidr.contains(router)) {
        return;
    }
    let subnets: BTreeSet<String> = subnets.iter().map(ToString::to_string).collect();
    let subnets = subnets.into_iter().take(5).collect::<Vec<_>>().join(", ");
    faults.add(field, format!("{router} is not inside {subnets}; choose an address of the subnet"));
}

fn link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn routes(routes: &[Route], subnets: &[Cidr], has_gateway: bool, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    let destinations: Vec<Option<Cidr>> = routes.iter().map(|route| route.dst.parse().ok()).collect();
    for (i, (route, dst)) in routes.iter().zip(&destinations).enumerate() {
        let field = |name: &str| format!("spec.routes[{i}].{name}");
        if !seen.insert((&route.dst, route.table, route.priority)) {
            let reason = format!("{} is there twice; leave one out, or give each a priority of its own", route.dst);
            faults.add(field("dst"), reason);
        }
        let Some(dst) = dst else { continue };
        let own_family = subnets.first().is_none_or(|cidr| cidr.family() == dst.family());
        match route.gw {
            Some(gw) if Family::of(gw) != dst.family() => {
                faults.add(field("gw"), format!("{gw} is not of the family of {dst}"));
            }
            // What another route leads to need not be a neighbour.
            Some(gw) if !destinations.iter().flatten().any(|d| d.prefix_len() > 0 && d != dst && d.contains(gw)) => {
                reachable(&field("gw"), gw, subnets, faults);
            }
            None if dst.prefix_len() == 0 && !has_gateway && own_family && route.scope.is_none() => {
                let reason = format!("{dst} has no gateway to go through; set gw of the route, or spec.gateway");
                faults.add(field("dst"), reason);
            }
            _ => {}
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
