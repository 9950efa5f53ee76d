//! What `kubectl get` shows, the same as `berth get` where both know it, and by which fields it can select.
//!
//! A list is shown as a whole, in JSON: of a path with `[*]` the server shows the first match alone.

use serde_json::{Value, json};

/// Header, path, and whether it is shown only with `-o wide`.
type Column = (&'static str, &'static str, bool);

const POOL: &[Column] = &[
    ("Phase", ".status.phase", false),
    ("Network", ".spec.network", false),
    ("Ranges", ".spec.ranges", false),
    ("Capacity", ".status.usage.capacity", false),
    ("In use", ".status.usage.inUse", false),
    ("Free", ".status.usage.free", false),
    ("Held", ".status.usage.held", true),
    ("Cooling", ".status.usage.cooling", true),
    ("Quarantined", ".status.usage.quarantined", true),
    ("Reserved", ".status.usage.reserved", true),
    ("Subnet", ".spec.subnet", true),
    ("Gateway", ".spec.gateway", true),
    ("Pick", ".spec.pick", true),
    ("Namespace", ".spec.application.namespace", true),
    ("Application", ".spec.application.name", true),
];

const SUBNET: &[Column] = &[
    ("Network", ".spec.network", false),
    ("CIDR", ".spec.cidr", false),
    ("Gateway", ".spec.gateway", false),
    ("Capacity", ".status.usage.capacity", true),
    ("In use", ".status.usage.inUse", false),
    ("Free", ".status.usage.free", false),
];

const RESERVATION: &[Column] = &[("Network", ".spec.network", false), ("Addresses", ".spec.addresses", false)];

const CLAIM: &[Column] = &[
    ("Phase", ".status.phase", false),
    ("Addresses", ".status.addresses", false),
    ("Pools", ".spec.pools", false),
    ("Network", ".spec.network", true),
    ("Keep", ".spec.keep", true),
];

const ENDPOINT: &[Column] = &[
    ("Node", ".spec.node", false),
    ("Address", ".spec.interfaces[0].addresses[0].address", false),
    ("Second address", ".spec.interfaces[0].addresses[1].address", true),
    ("UID", ".spec.uid", true),
];

const BLOCK: &[Column] = &[
    ("Network", ".spec.network", false),
    ("CIDR", ".spec.cidr", false),
    ("Used", ".spec.used", false),
    ("Unit", ".spec.unit", true),
    ("Lessee", ".spec.lessee", true),
    ("Writer", ".spec.writer", true),
];

/// The printer columns of a kind; the name comes before them by itself.
pub(super) fn of(kind: &str) -> Vec<Value> {
    let columns = match kind {
        "IPPool" => POOL,
        "IPSubnet" => SUBNET,
        "IPReservation" => RESERVATION,
        "IPClaim" => CLAIM,
        "IPEndpoint" => ENDPOINT,
        "IPBlock" => BLOCK,
        _ => &[],
    };
    let column = |&(name, path, wide): &Column| {
        // Counts are decimal strings, exact at any size; only a block's are small.
        let kind = if [".spec.used", ".spec.unit"].contains(&path) { "integer" } else { "string" };
        let mut column = json!({ "name": name, "jsonPath": path, "type": kind });
        // The server leaves a zero out; written here, every apply would find a difference.
        if wide {
            column["priority"] = json!(1);
        }
        column
    };
    let age = json!({ "name": "Age", "jsonPath": ".metadata.creationTimestamp", "type": "date" });
    columns.iter().map(column).chain([age]).collect()
}

/// The fields that lists and watches can be narrowed by: an agent asks for what concerns its networks and its node.
pub(super) fn selectable(kind: &str) -> &'static [&'static str] {
    match kind {
        "IPEndpoint" => &[".spec.node"],
        "IPBlock" => &[".spec.network"],
        _ => &[],
    }
}
