//! Raising: what the core knows, as the status of native objects. Counts are decimal strings, exact at any size.

use berth_core::ipam::Usage;
use berth_core::model::Pool;
use serde_json::{Value, json};
use std::net::IpAddr;

/// The status of an IPPool: its phase, its family and how full it is.
#[must_use]
pub fn pool_status(pool: &Pool, usage: &Usage) -> Value {
    let phase = match () {
        () if pool.refused.is_some() => "NotAccepted",
        () if pool.disabled => "Disabled",
        () if usage.free.is_zero() => "Full",
        () => "Ready",
    };
    let mut status = subnet_status(usage);
    status["phase"] = json!(phase);
    status["family"] = json!(pool.family.to_string());
    status
}

/// The status of an IPSubnet: how full it is.
#[must_use]
pub fn subnet_status(usage: &Usage) -> Value {
    json!({ "usage": usage })
}

/// The status of an IPClaim: the addresses kept for it.
#[must_use]
pub fn claim_status(addresses: &[IpAddr]) -> Value {
    json!({ "phase": if addresses.is_empty() { "Pending" } else { "Bound" }, "addresses": addresses })
}
