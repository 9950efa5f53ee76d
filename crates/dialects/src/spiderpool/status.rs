//! Raising: what is allocated, as the status of SpiderIPPools and SpiderSubnets. Records are strings of JSON in there.
//!
//! The strings are bounded: past [`MAX_RECORDS_BYTES`] the rest is left out, the condition [`TRUNCATED`] says so, and the
//! counts go on to be right. Nobody allocates by these strings, so nothing but the view of them is the poorer for it.

use super::plot::written;
use berth_core::addr::{Count, RangeSet};
use berth_core::apps::Application;
use berth_core::apps::application::group;
use berth_core::ipam::Config;
use berth_core::model::{Pool, Subnet};
use serde_json::{Map, Value, json};
use std::net::IpAddr;

/// The longest string of records. No object passes 256 KiB; quotes are escaped again inside of an object.
pub const MAX_RECORDS_BYTES: usize = 160 << 10;
/// The condition that says whether records were left out.
pub const TRUNCATED: &str = "RecordsTruncated";

/// One address of a pool that somebody has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The address.
    pub address: IpAddr,
    /// `NAMESPACE/NAME` of the pod.
    pub pod: String,
    /// Its UID.
    pub uid: String,
}

/// The status of a SpiderIPPool, without conditions, and how many records were left out of it.
#[must_use]
pub fn pool_status(total: Count, allocations: &[Allocation]) -> (Value, usize) {
    let (records, left_out) = bounded(allocations.iter().map(record), MAX_RECORDS_BYTES);
    (pool_status_of(&records, total, allocations), left_out)
}

/// The same with all records, however many they are: for who allocates by them.
#[must_use]
pub fn whole_pool_status(total: Count, allocations: &[Allocation]) -> Value {
    let (records, _) = bounded(allocations.iter().map(record), usize::MAX);
    pool_status_of(&records, total, allocations)
}

fn record(one: &Allocation) -> (String, Value) {
    (one.address.to_string(), json!({ "pod": one.pod, "podUid": one.uid }))
}

fn pool_status_of(records: &Value, total: Count, allocations: &[Allocation]) -> Value {
    json!({
        "allocatedIPs": records,
        "totalIPCount": number(total),
        "allocatedIPCount": allocations.len(),
    })
}

/// The status of a SpiderSubnet, without conditions, and how many records were left out of it.
#[must_use]
pub fn subnet_status(subnet: &Subnet, config: &Config) -> (Value, usize) {
    let own = || config.pools.values().filter(|pool| pool.subnet.as_ref() == Some(&subnet.name));
    let record = |pool: &Pool| {
        let mut record = json!({ "ips": written(addresses(pool).ranges()) });
        if let Some(own) = &pool.application {
            record["application"] = json!(application(own));
        }
        (pool.name.clone(), record)
    };
    let (records, left_out) = bounded(own().map(record), MAX_RECORDS_BYTES);
    let handed_out: Count = own().map(|pool| addresses(pool).count()).sum();
    let status = json!({
        "controlledIPPools": records,
        "totalIPCount": number(subnet.available.as_ref().map(RangeSet::count).unwrap_or_default()),
        "allocatedIPCount": number(handed_out),
    });
    (status, left_out)
}

/// The addresses that a pool has of its own will: those listed without those excluded.
fn addresses(pool: &Pool) -> RangeSet {
    let all: RangeSet = pool.ranges.iter().copied().collect();
    all.difference(&pool.exclude.iter().copied().collect())
}

/// `apps_v1_Deployment_shop_web`; the core group is left out.
fn application(own: &Application) -> String {
    let version = own.api_version.rsplit('/').next().unwrap_or_default();
    let parts = [group(&own.api_version), version, &own.kind, &own.namespace, &own.name];
    parts.into_iter().skip_while(|part| part.is_empty()).collect::<Vec<_>>().join("_")
}

/// The records as JSON in a string, `null` if there are none; as many as fit, and how many do not.
fn bounded(records: impl Iterator<Item = (String, Value)>, most_bytes: usize) -> (Value, usize) {
    let (mut kept, mut bytes, mut left_out) = (Map::new(), 2, 0);
    for (key, record) in records {
        bytes += key.len() + record.to_string().len() + 4;
        if bytes > most_bytes {
            left_out += 1;
        } else {
            kept.insert(key, record);
        }
    }
    let text = (!kept.is_empty()).then(|| Value::Object(kept).to_string());
    (json!(text), left_out)
}

/// As the API has it: at most what a signed 64-bit number can say.
fn number(count: Count) -> i64 {
    i64::try_from(count.saturating_u64()).unwrap_or(i64::MAX)
}

/// The condition that says whether records were left out, to be put among those of a status.
#[must_use]
pub fn truncation(left_out: usize, since: &str) -> Value {
    let (status, reason, message) = match left_out {
        0 => ("False", "Complete", String::new()),
        many => ("True", "TooLarge", format!("{many} records are left out; the counts are of all of them")),
    };
    json!({ "type": TRUNCATED, "status": status, "reason": reason, "message": message, "lastTransitionTime": since })
}
