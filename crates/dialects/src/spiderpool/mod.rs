//! Spiderpool: SpiderIPPool, SpiderSubnet, SpiderReservedIP and SpiderEndpoint of `spiderpool.spidernet.io/v2beta1`, and
//! the annotations of pods and namespaces.
//!
//! | module | what it is |
//! |---|---|
//! | `plot` | what pools and subnets share: a CIDR, addresses in it, gateway and routes |
//! | [`pool`], [`subnet`], [`reserved`] | the kinds that are configured, lowered into the one model |
//! | [`owner`] | whose a pool is that was made for an application, by its labels and its pod affinity |
//! | [`metadata`] | labels and defaults that every object of these kinds gets |
//! | [`status`] | what is allocated, raised into the strings of JSON that their status has |
//! | [`endpoint`] | what one pod holds, as a SpiderEndpoint |
//! | [`takeover`] | what Spiderpool has given out, read from what it wrote |
//! | [`export`] | the way back: Berth's own objects and what is given out, as Spiderpool would have them |
//! | [`settings`] | its environment variables and its ConfigMap |
//! | [`socket`] | what is said on spiderpool-agent's socket |
//! | [`crd`] | the definitions of the kinds |
//!
//! Its pools are shared pools that pick the lowest free address. A pool goes by its name, whatever its kind: of a
//! SpiderIPPool and an IPPool of one name the older is accepted, and the other one says so. Reservations, which nobody
//! names, have a name that no other kind can have.

pub mod crd;
pub mod endpoint;
pub mod export;
pub mod metadata;
pub mod owner;
mod plot;
pub mod pool;
pub mod reserved;
pub mod settings;
pub mod socket;
pub mod status;
pub mod subnet;
pub mod takeover;

use crate::object::Object;
use berth_core::addr::Cidr;
use berth_core::error::Error;
use berth_core::ipam::{Breach, Config, Fault};
use berth_core::model::Pool;

/// The API versions of its kinds.
pub const API_VERSIONS: &[&str] = &["spiderpool.spidernet.io/v2beta1"];
/// Their group.
pub const GROUP: &str = "spiderpool.spidernet.io";
/// What keeps a pool or a subnet that is in use.
pub const FINALIZER: &str = "spiderpool.spidernet.io";
/// What its annotations and labels begin with.
pub const PREFIX: &str = "ipam.spidernet.io/";

/// The kinds of objects.
pub const POOL: &str = "SpiderIPPool";
/// Subnets.
pub const SUBNET: &str = "SpiderSubnet";
/// Addresses that nobody gets.
pub const RESERVED: &str = "SpiderReservedIP";
/// What one pod holds.
pub const ENDPOINT: &str = "SpiderEndpoint";

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

/// That a pool's CIDR overlaps another's without being the same: one of the two is a mistake.
#[must_use]
pub fn askew(pool: &Pool, config: &Config) -> Option<Fault> {
    let cidr = |pool: &Pool| Some(pool.subnet_of(pool.ranges.first()?.first(), None)).filter(|_| pool.object == POOL);
    let own = cidr(pool)?;
    let clashes = |other: &Cidr| *other != own && other.range().overlaps(own.range());
    let pools = config.pools.values().filter(|other| other.refused.is_none() && other.name != pool.name);
    let pools = pools.filter_map(|other| Some((cidr(other)?, other.title())));
    let subnets = config.subnets.values().filter(|other| other.object == SUBNET);
    let (other, title) =
        pools.chain(subnets.map(|other| (other.cidr, other.title()))).find(|(cidr, _)| clashes(cidr))?;
    let reason = format!("{own} overlaps {other} of {title}; they must be the same, or have nothing in common");
    Some(Fault { breach: Breach::Overlap, object: pool.title(), field: "spec.subnet".to_owned(), reason })
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
        if !before.is_null() && before != after {
            let reason = format!("cannot be changed from {before}; make another object");
            return Err(Error::Invalid { field: format!("{}, spec.{field}", old.title()), reason });
        }
    }
    Ok(())
}
