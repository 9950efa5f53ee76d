//! What is refused of these kinds, beside what the core says of all pools and subnets. A pool and a subnet belong together
//! by their CIDR alone, so the CIDRs of two are the same or have nothing in common.

use super::plot::written;
use super::{GROUP, POOL, SUBNET};
use crate::object::Object;
use berth_core::addr::{Cidr, RangeSet};
use berth_core::error::Error;
use berth_core::ipam::{Breach, Config, Fault, subnet_faults};
use berth_core::model::{Gateway, Pool, Subnet};

/// A fault in the words of the object that has it: the model calls its fields as the native kinds do.
#[must_use]
pub fn translate(mut fault: Fault) -> Fault {
    if !fault.object.starts_with("Spider") {
        return fault;
    }
    for (native, own) in [
        ("spec.ranges", "spec.ips"),
        ("spec.exclude", "spec.excludeIPs"),
        ("spec.cidr", "spec.subnet"),
        ("spec.prefixLength", "spec.subnet"),
    ] {
        if fault.field == native {
            own.clone_into(&mut fault.field);
        }
    }
    fault
}

/// The CIDR of a pool of Spiderpool's that has addresses.
pub(crate) fn cidr_of(pool: &Pool) -> Option<Cidr> {
    let first = pool.ranges.first().filter(|_| pool.object == POOL)?;
    Some(pool.subnet_of(first.first(), None))
}

/// Whether two CIDRs have something in common and are not the same.
pub(crate) fn clashes(own: Cidr, other: Cidr) -> bool {
    own != other && own.range().overlaps(other.range())
}

fn overlap(object: String, own: Cidr, other: Cidr, whose: &str) -> Fault {
    let reason = format!("{own} overlaps {other} of {whose}; they must be the same, or have nothing in common");
    Fault { breach: Breach::Overlap, object, field: "spec.subnet".to_owned(), reason }
}

/// That a pool's CIDR overlaps another's without being the same: one of the two is a mistake.
#[must_use]
pub fn askew(pool: &Pool, config: &Config) -> Option<Fault> {
    askew_at(cidr_of(pool)?, pool, config)
}

fn askew_at(own: Cidr, pool: &Pool, config: &Config) -> Option<Fault> {
    let pools = config.pools.values().filter(|other| other.refused.is_none() && other.name != pool.name);
    let pool_there = pools.filter_map(|other| Some((cidr_of(other)?, other))).find(|(cidr, _)| clashes(own, *cidr));
    if let Some((cidr, other)) = pool_there {
        return Some(overlap(pool.title(), own, cidr, &other.title()));
    }
    let mut subnets = config.subnets.values().filter(|other| other.object == SUBNET && !other.refused);
    let other = subnets.find(|other| clashes(own, other.cidr))?;
    Some(overlap(pool.title(), own, other.cidr, &other.title()))
}

/// What is wrong with a pool that has no addresses yet, of which the core could not say much.
#[must_use]
pub fn faults_without_addresses(object: &Object, pool: &Pool, config: &Config) -> Vec<Fault> {
    let own = object.spec["subnet"].as_str().and_then(|text| text.parse().ok());
    let Some(own) = own.filter(|_| pool.object == POOL) else { return Vec::new() };
    let surroundings = Subnet {
        name: pool.name.clone(),
        object: POOL,
        network: pool.network.clone(),
        cidr: own,
        available: None,
        gateway: if let Gateway::At(gateway) = pool.gateway { Gateway::At(gateway) } else { Gateway::None },
        routes: pool.routes.clone(),
        dns: pool.dns.clone(),
        refused: false,
    };
    askew_at(own, pool, config).into_iter().chain(subnet_faults(&surroundings)).collect()
}

/// That a subnet does not go together with pools that are there: its CIDR overlaps that of one without being the same, or
/// it has not the addresses that one of its own has. Of a subnet that was there `before`, what it takes away from them.
pub fn clash<'a>(subnet: &Subnet, before: Option<&Subnet>, pools: impl IntoIterator<Item = &'a Pool>) -> Option<Fault> {
    let beyond = |pool: &Pool, subnet: &Subnet| {
        let own = pool.ranges.iter().copied().collect::<RangeSet>();
        let own = own.difference(&pool.exclude.iter().copied().collect());
        subnet.available.as_ref().map(|available| own.difference(available)).unwrap_or_default()
    };
    pools.into_iter().find_map(|pool| {
        let cidr = cidr_of(pool);
        if let Some(other) = cidr.filter(|cidr| before.is_none() && clashes(subnet.cidr, *cidr)) {
            return Some(overlap(subnet.title(), subnet.cidr, other, &pool.title()));
        }
        if cidr != Some(subnet.cidr) && pool.subnet.as_ref() != Some(&subnet.name) {
            return None;
        }
        let known = before.map(|before| beyond(pool, before)).unwrap_or_default();
        let lost = beyond(pool, subnet).difference(&known);
        let range = written(lost.ranges().get(..1)?).concat();
        let whose = pool.title();
        let reason =
            format!("{whose} has {range}, which would not be in it; list it here, or take it from the pool first");
        Some(Fault { breach: Breach::Field, object: subnet.title(), field: "spec.ips".to_owned(), reason })
    })
}

/// Whether an edit leaves alone what cannot be changed.
///
/// # Errors
/// [`Error::Invalid`] names the field.
pub fn keeps_identity(old: &Object, new: &Object) -> Result<(), Error> {
    if !old.api_version.starts_with(GROUP) {
        return Ok(());
    }
    for field in ["subnet", "ipVersion"] {
        let (before, after) = (&old.spec[field], &new.spec[field]);
        // What is left out is filled in again, or missing for another reason.
        if !before.is_null() && !after.is_null() && before != after {
            let reason = format!("cannot be changed from {before}; make another object");
            return Err(Error::Invalid { field: format!("{}, spec.{field}", old.title()), reason });
        }
    }
    Ok(())
}
