//! Labels and defaults that objects of these kinds get, whoever made them.

use super::plot::number;
use super::{POOL, SUBNET};
use crate::config::{Lowered, lower};
use crate::object::Object;
use berth_core::addr::{Cidr, Family};
use berth_core::model::Subnet;
use serde_json::{Map, Value, json};

/// The label of a pool with its CIDR.
pub const POOL_CIDR: &str = "ipam.spidernet.io/ippool-cidr";
/// The label of a subnet with its CIDR.
pub const SUBNET_CIDR: &str = "ipam.spidernet.io/subnet-cidr";
/// The label of a pool with the subnet of the same CIDR.
pub const OWNER_SUBNET: &str = "ipam.spidernet.io/owner-spider-subnet";

/// A CIDR as the value of a label: `10-0-0-0-24`, `fd00---64`.
#[must_use]
pub fn cidr_label(cidr: Cidr) -> String {
    cidr.to_string().replace(['.', ':', '/'], "-")
}

/// A merge patch that fills in what is missing in an object: its version, the label with its CIDR and, for a pool, the
/// subnet of the same CIDR. `None` if nothing is missing, or if the object makes no sense.
#[must_use]
pub fn defaults(object: &Object, subnet: Option<&Subnet>) -> Option<Value> {
    let (family, labels): (Family, Vec<(&str, String)>) = match (object.kind.as_str(), lower(object).ok()?) {
        (POOL, Lowered::Pool(pool)) => {
            let cidr: Cidr = object.spec["subnet"].as_str()?.parse().ok()?;
            let owner = subnet.map(|subnet| (OWNER_SUBNET, subnet.name.clone()));
            (pool.family, [(POOL_CIDR, cidr_label(cidr))].into_iter().chain(owner).collect())
        }
        (SUBNET, Lowered::Subnet(own)) => (own.cidr.family(), vec![(SUBNET_CIDR, cidr_label(own.cidr))]),
        (_, Lowered::Reservation(own)) => (own.ranges.first()?.family(), Vec::new()),
        _ => return None,
    };
    let mut patch = Map::new();
    if object.spec.get("ipVersion").is_none_or(Value::is_null) {
        patch.insert("spec".to_owned(), json!({ "ipVersion": number(family) }));
    }
    // No label begins with a dash, as that of `::/64` would.
    let is_missing = |(key, value): &(&str, String)| {
        object.metadata.labels.get(*key) != Some(value) && value.starts_with(|c: char| c.is_ascii_alphanumeric())
    };
    let missing: Map<String, Value> =
        labels.into_iter().filter(is_missing).map(|(key, value)| (key.to_owned(), json!(value))).collect();
    if !missing.is_empty() {
        patch.insert("metadata".to_owned(), json!({ "labels": missing }));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}
