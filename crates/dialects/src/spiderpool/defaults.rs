//! What every object of these kinds gets, whoever made it: while it is made, if the webhook is there, and a moment later
//! by the controller otherwise. Both ask here.
//!
//! Gateway and routes of a subnet are not written into its pools: they are inherited when a pod asks, and a pool goes on
//! to follow its subnet. Written down they could not be told from the pool's own, and an edit of the subnet would pass
//! the pools by that have them.

use super::metadata::{OWNER_SUBNET, POOL_CIDR, SUBNET_CIDR, cidr_label, label};
use super::plot::{Listed, number, written};
use super::{API_VERSIONS, FINALIZER, GROUP, POOL, RESERVED, SUBNET};
use berth_core::addr::{Cidr, Family, RangeSet};
use berth_core::ipam::Config;
use berth_core::model::Subnet;
use serde_json::{Map, Value, json};

/// The SpiderSubnet that a pool belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its name.
    pub name: String,
    /// Its UID, as of this moment: a pool with an owner that is no more would be deleted. Without it the pool gets the
    /// label only.
    pub uid: Option<String>,
}

/// The SpiderSubnet of the same CIDR as a pool, if it is accepted.
#[must_use]
pub fn subnet_of<'a>(object: &Value, config: &'a Config) -> Option<&'a Subnet> {
    let own = cidr(object).filter(|_| object["kind"] == POOL)?;
    config.subnets.values().find(|subnet| subnet.object == SUBNET && !subnet.refused && subnet.cidr == own)
}

/// Whether a pool says already that a subnet owns it.
#[must_use]
pub fn is_owned_by(object: &Value, subnet: &str) -> bool {
    owners(object).iter().any(|owner| owner["kind"] == SUBNET && owner["name"] == subnet)
}

/// What an object as an API server has it lacks, as a merge patch; `None` if it lacks nothing, is on its way out, or is of
/// another kind. What makes no sense is left for others to say: nothing is refused here, and no range is walked.
#[must_use]
pub fn defaults(object: &Value, owner: Option<&Owner>) -> Option<Value> {
    let kind = object["kind"].as_str().filter(|kind| [POOL, SUBNET, RESERVED].contains(kind))?;
    let is_own = object["apiVersion"].as_str().is_some_and(|version| version.starts_with(GROUP));
    if !is_own || !object["metadata"]["deletionTimestamp"].is_null() {
        return None;
    }
    let (mut metadata, mut spec) = (Map::new(), Map::new());
    let cidr = cidr(object);
    if kind != RESERVED {
        let own = list(&object["metadata"]["finalizers"]);
        if !own.iter().any(|one| one == FINALIZER) {
            metadata.insert("finalizers".to_owned(), json!([own, &[json!(FINALIZER)]].concat()));
        }
        let key = if kind == POOL { POOL_CIDR } else { SUBNET_CIDR };
        let of_cidr = cidr.map(|cidr| (key, cidr_label(cidr)));
        let of_owner = owner.filter(|_| kind == POOL).map(|owner| (OWNER_SUBNET, label(&owner.name)));
        let lacks = |(key, value): &(&str, String)| {
            // No label begins with a dash, as that of `::/64` would.
            object["metadata"]["labels"][*key] != **value && value.starts_with(|c: char| c.is_ascii_alphanumeric())
        };
        let labels: Map<String, Value> = (of_cidr.into_iter().chain(of_owner).filter(lacks))
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .collect();
        if !labels.is_empty() {
            metadata.insert("labels".to_owned(), Value::Object(labels));
        }
    }
    if let Some(owners) = owner.filter(|_| kind == POOL).and_then(|owner| owners_with(object, owner)) {
        metadata.insert("ownerReferences".to_owned(), owners);
    }
    let family = cidr.map(Cidr::family).or_else(|| first_family(&object["spec"]["ips"]));
    if let Some(family) = family.filter(|_| object["spec"]["ipVersion"].is_null()) {
        spec.insert("ipVersion".to_owned(), json!(number(family)));
    }
    for field in ["ips", "excludeIPs"] {
        spec.extend(tidy(&object["spec"][field]).map(|list| (field.to_owned(), list)));
    }
    let parts = [("metadata", metadata), ("spec", spec)].into_iter().filter(|(_, part)| !part.is_empty());
    let patch: Map<String, Value> = parts.map(|(name, part)| (name.to_owned(), Value::Object(part))).collect();
    (!patch.is_empty()).then_some(Value::Object(patch))
}

fn cidr(object: &Value) -> Option<Cidr> {
    object["spec"]["subnet"].as_str()?.parse().ok()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn owners(object: &Value) -> &[Value] {
    list(&object["metadata"]["ownerReferences"])
}

/// The owners that a pool is to have, if it has not: its subnet among them. The subnet waits for its pools all the same.
fn owners_with(object: &Value, owner: &Owner) -> Option<Value> {
    let uid = owner.uid.as_ref()?;
    let own = owners(object);
    if own.iter().any(|own| own["uid"] == **uid) {
        return None;
    }
    let mut all: Vec<Value> = own.iter().filter(|own| own["kind"] != SUBNET).cloned().collect();
    let version = API_VERSIONS.first();
    let mut entry = json!({ "apiVersion": version, "kind": SUBNET, "name": owner.name, "uid": uid });
    // An object has one controller at most.
    if !all.iter().any(|own| own["controller"] == true) {
        entry["controller"] = json!(true);
    }
    all.push(entry);
    Some(Value::Array(all))
}

fn read(value: &Value) -> Option<Listed> {
    value.as_str()?.parse().ok()
}

fn first_family(ips: &Value) -> Option<Family> {
    let Listed(range) = read(list(ips).first()?)?;
    Some(range.family())
}

/// Several ranges in order, those joined that touch; `None` if they are so already, or if one of them makes no sense.
fn tidy(ranges: &Value) -> Option<Value> {
    let listed = list(ranges);
    let mut set = RangeSet::new();
    for entry in listed {
        let Listed(range) = read(entry)?;
        if set.ranges().first().is_some_and(|first| first.family() != range.family()) {
            return None;
        }
        set.insert(range);
    }
    let tidy = json!(written(set.ranges()));
    (listed.len() > 1 && tidy != *ranges).then_some(tidy)
}
