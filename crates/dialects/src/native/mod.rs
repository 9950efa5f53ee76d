//! Berth's own kinds, `berth.io/v1alpha1`: one more dialect, and the superset of the others.
//!
//! Every field of a spec is typed and read with its path, so lowering is little more than renaming.

pub mod application;
pub mod block;
pub mod claim;
pub mod endpoint;
pub mod net;
pub mod pod;
pub mod pool;
pub mod reservation;
mod selector;
mod status;
pub mod subnet;
pub mod workload;

pub use block::BlockSpec;
pub use claim::{Claim, ClaimSpec};
pub use endpoint::{EndpointAddress, EndpointInterface, EndpointOwner, EndpointSpec};
pub use pool::PoolSpec;
pub use reservation::ReservationSpec;
pub use selector::{Expression, LabelSelector};
pub use status::{claim_status, pool_status, subnet_status};
pub use subnet::SubnetSpec;

use crate::field::FieldError;
use crate::object::Object;
use berth_core::error::Error;
use berth_core::model::{DEFAULT_NETWORK, Pool, Reservation, Subnet};
use std::sync::Arc;

/// The API versions of the native kinds.
pub const API_VERSIONS: &[&str] = &["berth.io/v1alpha1"];

/// Lowers an IPPool.
///
/// # Errors
/// [`Error::Invalid`] names the object, the field and the fix.
pub fn lower_pool(object: &Object) -> Result<Pool, Error> {
    pool::lower(object).map_err(|error| error.of(object))
}

/// Lowers an IPSubnet.
///
/// # Errors
/// [`Error::Invalid`] names the object, the field and the fix.
pub fn lower_subnet(object: &Object) -> Result<Subnet, Error> {
    subnet::lower(object).map_err(|error| error.of(object))
}

/// Lowers an IPReservation.
///
/// # Errors
/// [`Error::Invalid`] names the object, the field and the fix.
pub fn lower_reservation(object: &Object) -> Result<Reservation, Error> {
    reservation::lower(object).map_err(|error| error.of(object))
}

/// Lowers an IPClaim.
///
/// # Errors
/// [`Error::Invalid`] names the object, the field and the fix.
pub fn lower_claim(object: &Object) -> Result<Claim, Error> {
    claim::lower(object).map_err(|error| error.of(object))
}

/// The network that an object is in. A slash would lead into the leases of another one, which are in `NETWORK/leases`.
fn network(named: Option<String>) -> Result<Arc<str>, FieldError> {
    match named {
        Some(name) if name.is_empty() || name.contains('/') => {
            let reason =
                format!("{name:?} is not the name of a network; leave it out, or write a word without slashes");
            Err(FieldError::new("spec.network", reason))
        }
        Some(name) => Ok(name.into()),
        None => Ok(DEFAULT_NETWORK.into()),
    }
}
