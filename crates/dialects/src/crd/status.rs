//! The shapes of what [`crate::native::pool_status`] and its kin raise. They only describe; the raising functions write
//! what is described, and a test holds the two together.

#![expect(dead_code, reason = "the fields are read by the derived schema alone")]

use super::schema::{refine, structural};
use serde_json::{Value, json};
use utoipa::ToSchema;

/// The schema of a kind's status; `None` for kinds that have none. A block has none because every change of it would
/// be two writes.
pub(super) fn of(kind: &str) -> Option<Value> {
    let mut schema = match kind {
        "IPPool" => structural::<PoolStatus>(),
        "IPSubnet" => structural::<SubnetStatus>(),
        "IPClaim" => structural::<ClaimStatus>(),
        _ => return None,
    };
    // One condition of each type, whoever writes them.
    let map = json!({ "maxItems": 16, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"] });
    refine(&mut schema, "conditions", &map);
    refine(&mut schema, "conditions[].lastTransitionTime", &json!({ "format": "date-time" }));
    refine(&mut schema, "conditions[].status", &json!({ "enum": ["True", "False", "Unknown"] }));
    refine(&mut schema, "conditions[].message", &json!({ "maxLength": 4096 }));
    refine(&mut schema, "addresses", &json!({ "maxItems": 2048 }));
    Some(schema)
}

/// The schema of conditions alone, for the status of other systems' kinds.
pub(crate) fn conditions() -> Value {
    let schema = of("IPSubnet").unwrap_or_default();
    let mut conditions = schema["properties"]["conditions"].clone();
    super::schema::bound(&mut conditions);
    conditions
}

/// How a pool is, and how full.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
struct PoolStatus {
    /// `Ready`, `Full`, `Disabled` or `NotAccepted`; the condition `Accepted` says why.
    phase: Option<String>,
    /// `IPv4` or `IPv6`.
    family: Option<String>,
    /// Where its units are.
    usage: Option<UsageStatus>,
    /// The generation of the spec that this status speaks of.
    observed_generation: Option<i64>,
    /// What is the matter, if anything.
    conditions: Option<Vec<Condition>>,
}

/// How full a subnet is.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
struct SubnetStatus {
    /// Where its addresses are.
    usage: Option<UsageStatus>,
    /// The generation of the spec that this status speaks of.
    observed_generation: Option<i64>,
    /// What is the matter, if anything.
    conditions: Option<Vec<Condition>>,
}

/// What is kept for a claim.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
struct ClaimStatus {
    /// `Pending` or `Bound`.
    phase: Option<String>,
    /// The addresses kept for it.
    addresses: Option<Vec<String>>,
    /// The generation of the spec that this status speaks of.
    observed_generation: Option<i64>,
    /// What is the matter, if anything.
    conditions: Option<Vec<Condition>>,
}

/// Where the units are, as decimal strings, exact at any size. They add up to the capacity.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
struct UsageStatus {
    /// All units that may ever be given out, reserved ones included.
    capacity: Option<String>,
    /// In use.
    in_use: Option<String>,
    /// Kept for holders that are away.
    held: Option<String>,
    /// Given back a moment ago.
    cooling: Option<String>,
    /// Seen in use by strangers.
    quarantined: Option<String>,
    /// Reserved and not in use.
    reserved: Option<String>,
    /// Free to be given out now.
    free: Option<String>,
}

/// One condition, with the fields that conditions have in Kubernetes.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
struct Condition {
    /// Which condition, e.g. `Ready`.
    #[serde(rename = "type")]
    kind: String,
    /// `True`, `False` or `Unknown`.
    status: String,
    /// One word for programs that says why.
    reason: String,
    /// A sentence for people that says why.
    message: String,
    /// Since when the status is what it is.
    last_transition_time: String,
    /// The generation of the spec that this condition speaks of.
    observed_generation: Option<i64>,
}
