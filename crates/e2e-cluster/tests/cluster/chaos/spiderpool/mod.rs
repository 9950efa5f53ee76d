//! The same three faults with Spiderpool's kinds, which are reconciled by code of their own: statuses, endpoints, what
//! objects lack, what keeps them, and pools of applications.

mod away;
mod crash;
mod old_picture;

use super::items;
use berth_e2e_cluster::World;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const FINALIZER: &str = "spiderpool.spidernet.io";
/// A pod says by this from which pool it wants an address, and an application from which subnet a pool.
const IPPOOL: &str = "ipam.spidernet.io/ippool";
const SUBNET: &str = "ipam.spidernet.io/subnet";
const NUMBER: &str = "ipam.spidernet.io/ippool-ip-number";

/// The annotations of a pod that wants an address of a pool.
fn of_pool(pool: &str) -> Value {
    json!({ IPPOOL: json!({"ipv4": [pool]}).to_string() })
}

/// The annotations of an application that wants a pool of a subnet.
fn of_subnet(subnet: &str, number: &str) -> Value {
    json!({ SUBNET: json!({"ipv4": [subnet]}).to_string(), NUMBER: number })
}

/// The name of the pool of a Deployment.
fn auto_pool(world: &World, deployment: &str) -> String {
    let uid = world.field(&format!("deployment/{deployment}"), ".metadata.uid");
    let part: String = uid.rsplit('-').next().unwrap_or_default().chars().take(5).collect();
    format!("auto4-{deployment}-eth0-{part}")
}

/// All SpiderIPPools, SpiderSubnets and SpiderEndpoints by their short names, as far as a controller writes them.
type Picture = BTreeMap<String, Value>;

fn picture(world: &World) -> Picture {
    let all = items(world, "spiderippools,spidersubnets,spiderendpoints");
    let line = |item: &Value| {
        let name = item["metadata"]["name"].as_str().unwrap_or_default();
        match item["kind"].as_str() {
            Some("SpiderIPPool") => (format!("sp/{name}"), plot(item, "allocatedIPs")),
            Some("SpiderSubnet") => (format!("ss/{name}"), plot(item, "controlledIPPools")),
            _ => (format!("se/{name}"), endpoint(item)),
        }
    };
    all.iter().map(line).collect()
}

/// What is written on a pool or a subnet; its records are JSON in a string.
fn plot(item: &Value, records: &str) -> Value {
    let (meta, status) = (&item["metadata"], &item["status"]);
    let records: Option<Value> = status[records].as_str().map(|text| serde_json::from_str(text).unwrap_or_default());
    let keys = ["ippool-cidr", "subnet-cidr", "owner-spider-subnet"];
    let labels: Map<String, Value> = keys
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), meta["labels"].get(format!("ipam.spidernet.io/{key}"))?.clone())))
        .collect();
    json!({
        "finalizers": meta["finalizers"], "labels": labels, "owner": meta["ownerReferences"][0]["uid"],
        "going": !meta["deletionTimestamp"].is_null(), "version": item["spec"]["ipVersion"], "ips": item["spec"]["ips"],
        "records": records, "count": status["allocatedIPCount"], "total": status["totalIPCount"],
    })
}

fn endpoint(item: &Value) -> Value {
    let (meta, status) = (&item["metadata"], &item["status"]);
    let (current, owner) = (&status["current"], &status["ownerControllerName"]);
    let ips = &current["ips"];
    json!([meta["annotations"]["berth.io/derived"], current["uid"], ips[0]["ipv4"], ips[0]["ipv4Pool"], owner])
}

/// An endpoint as it is to be: of a pod without an owner.
fn told(pod: &berth_e2e_cluster::Pod, address: &str, pool: &str) -> (String, Value) {
    (format!("se/{}", pod.name), json!(["true", pod.uid, format!("{address}/24"), pool, pod.name]))
}

/// The record of an address in use.
fn record(pod: &berth_e2e_cluster::Pod) -> Value {
    json!({"pod": format!("default/{}", pod.name), "podUid": pod.uid})
}

/// A complete pool as it is to be, of a subnet if it has one: name and UID.
fn pool(cidr: &str, subnet: Option<(&str, &str)>, (ips, total): (&str, u32), records: Value) -> Value {
    let mut labels = json!({ "ippool-cidr": cidr });
    if let Some((name, _)) = subnet {
        labels["owner-spider-subnet"] = json!(name);
    }
    let count = records.as_object().map_or(0, Map::len);
    complete(&labels, subnet.map(|(_, uid)| uid), (ips, total), count, records)
}

/// A complete subnet as it is to be.
fn subnet(cidr: &str, ips: (&str, u32), count: usize, records: Value) -> Value {
    complete(&json!({ "subnet-cidr": cidr }), None, ips, count, records)
}

fn complete(labels: &Value, owner: Option<&str>, (ips, total): (&str, u32), count: usize, records: Value) -> Value {
    let mut whole = json!({
        "finalizers": [FINALIZER], "labels": labels, "owner": owner, "going": false, "version": 4,
        "ips": [ips], "count": count, "total": total,
    });
    whole["records"] = records;
    whole
}

/// What the record of a pool in a subnet says of a Deployment.
fn application(name: &str) -> String {
    format!("apps_v1_Deployment_default_{name}")
}

/// What is not as it is to be, if anything.
fn differences(now: &Picture, wanted: &Picture) -> Option<String> {
    let names = now.keys().chain(wanted.keys().filter(|name| !now.contains_key(*name)));
    let said = |one: Option<&Value>| one.map_or_else(|| "nothing".to_owned(), Value::to_string);
    let other = names.map(|name| (name, now.get(name), wanted.get(name))).filter(|(_, is, should)| is != should);
    let lines: Vec<String> =
        other.map(|(name, is, should)| format!("{name} is {}, not {}", said(is), said(should))).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}
