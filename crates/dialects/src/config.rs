//! Everything that is configured, of whatever dialect, as one configuration of the core.

use crate::kinds;
use crate::native::Claim;
use crate::object::Object;
use berth_core::error::Error;
use berth_core::ipam::Config;
use berth_core::model::{POOL_OBJECT, Pool, Reservation, Subnet};
use std::collections::BTreeMap;

/// An object in the terms of the core.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "moved once, into the configuration")]
pub enum Lowered {
    /// Addresses to give out.
    Pool(Pool),
    /// A CIDR that pools are cut from.
    Subnet(Subnet),
    /// Addresses that nobody gets.
    Reservation(Reservation),
    /// Addresses for a named holder. It asks of the configuration and is no part of it.
    Claim(Claim),
}

/// Lowers one object of any kind.
///
/// # Errors
/// [`Error::Invalid`] names the object, the field and the fix.
pub fn lower(object: &Object) -> Result<Lowered, Error> {
    let lowered = kinds::expect(&object.api_version, &object.kind).and_then(|info| (info.lower)(object));
    lowered.map_err(|error| error.of(object))
}

/// Lowers every configured object, of any dialect, into one configuration. Claims are left out. Pools that were made
/// before the subnet they are in are of that subnet: see [`Config::adopt`].
///
/// # Errors
/// [`Error::Invalid`] if an object does not lower, or two pools of different kinds have one name. Whether the objects
/// fit together is for [`Config::validate`] to say.
pub fn lower_all<'a>(objects: impl IntoIterator<Item = &'a Object>) -> Result<Config, Error> {
    let mut config = Config::default();
    // Requests name pools, whatever their kind, so kinds share one space of names.
    let mut pools: BTreeMap<&str, &Object> = BTreeMap::new();
    for object in objects {
        match lower(object)? {
            Lowered::Pool(pool) => {
                if let Some(other) =
                    pools.insert(&object.metadata.name, object).filter(|other| other.kind != object.kind)
                {
                    let reason = format!("{} has that name already; choose another", other.title());
                    let field = format!("{}, metadata.name", object.title());
                    return Err(Error::Invalid { field, reason });
                }
                // Pools of other systems may be made first and get their addresses later.
                if !pool.ranges.is_empty() || object.kind == POOL_OBJECT {
                    config.pools.insert(pool.name.clone(), pool);
                }
            }
            Lowered::Subnet(subnet) => {
                if let Some(other) = config.subnets.get(&subnet.name).filter(|other| other.object != subnet.object) {
                    let reason = format!("{} has that name already; choose another", other.title());
                    return Err(Error::Invalid { field: format!("{}, metadata.name", object.title()), reason });
                }
                config.subnets.insert(subnet.name.clone(), subnet);
            }
            Lowered::Reservation(reservation) => {
                config.reservations.insert(reservation.name.clone(), reservation);
            }
            Lowered::Claim(_) => {}
        }
    }
    config.adopt();
    Ok(config)
}
