//! What objects lack that the webhook would have filled in, had it been there.

use crate::effects::{Answer, OnlyIf, Verb, Write, Writer};
use crate::facts::{Record, SpiderMirrors};
use crate::world::World;
use berth_core::ipam::Config;
use berth_dialects::spiderpool::defaults::{Owner, defaults, subnet_of};
use berth_dialects::spiderpool::{POOL, RESERVED, SUBNET};
use berth_dialects::{Object, kinds};
use berth_kube::objects::resource_of;
use berth_kube::watch::Key;
use kube::api::{Api, DynamicObject};
use serde_json::{Value, json};
use std::sync::Arc;
use tracing::debug;

/// The UID that a SpiderSubnet has at this moment, read from the server, unless it is on its way out.
pub(crate) fn subnet_uid(world: &World, name: &str) -> Option<String> {
    let found = world.cluster.wait(api(world, SUBNET).get_metadata(name)).ok()?;
    found.metadata.uid.filter(|_| found.metadata.deletion_timestamp.is_none())
}

fn api(world: &World, kind: &str) -> Api<DynamicObject> {
    Api::all_with(world.cluster.client().clone(), &resource_of(kind))
}

/// Fills in what objects lack; whether all have it now.
pub(super) fn complete(world: &World, mirrors: &SpiderMirrors, writer: &Writer) -> bool {
    let mut all = true;
    for object in world.objects.all().iter().filter(|object| is_own(object)) {
        let name = &object.metadata.name;
        let record = match object.kind.as_str() {
            POOL => mirrors.pools.get("", name),
            SUBNET => mirrors.subnets.get("", name),
            _ => None,
        };
        let uid = |subnet: &str| Some(mirrors.subnets.get("", subnet)?.uid.clone());
        let looks = world.engine.read(|ipam| look(ipam.config(), object, record.as_deref(), uid));
        all &= match looks {
            Looks::Complete => true,
            Looks::Unknown => false,
            Looks::Incomplete => fill_in(world, object, writer),
        };
    }
    all
}

/// Whether an object has what it is to have, by the watches.
#[derive(Debug, PartialEq, Eq)]
enum Looks {
    Complete,
    Incomplete,
    /// What is configured may be known a moment before the rest of it.
    Unknown,
}

fn look(config: &Config, object: &Object, record: Option<&Record>, uid: impl FnOnce(&str) -> Option<String>) -> Looks {
    if record.is_none() && object.kind != RESERVED {
        return Looks::Unknown;
    }
    let seen = seen(object, record);
    let owner = subnet_of(&seen, config).map(|own| Owner { uid: uid(&own.name), name: own.name.clone() });
    if defaults(&seen, owner.as_ref()).is_some() { Looks::Incomplete } else { Looks::Complete }
}

/// What is to be written of an object as the server has it, if it is still that: nobody's edit is undone.
fn decide(kind: &'static str, fresh: &Value, owner: Option<&Owner>) -> Option<Write> {
    let text = |field: &str| fresh["metadata"][field].as_str().map(str::to_owned);
    Some(Write {
        kind,
        key: Key::new("", &text("name")?),
        only_if: OnlyIf { uid: None, version: text("resourceVersion") },
        verb: Verb::Patch(defaults(fresh, owner)?),
        news: Vec::new(),
    })
}

/// An object as the server has it, as far as it matters and as far as it is known.
fn seen(object: &Object, record: Option<&Record>) -> Value {
    let (meta, nothing) = (&object.metadata, Record::default());
    let record = record.unwrap_or(&nothing);
    let going = record.going.then_some("");
    json!({
        "apiVersion": object.api_version,
        "kind": object.kind,
        "metadata": {
            "name": meta.name, "labels": meta.labels, "deletionTimestamp": going,
            "finalizers": record.finalizers, "ownerReferences": record.owners,
        },
        "spec": object.spec,
    })
}

/// Reads the object once more, and writes what it lacks; whether there is nothing to try again.
fn fill_in(world: &World, object: &Object, writer: &Writer) -> bool {
    let (Some(info), name) = (object.info(), &object.metadata.name) else { return true };
    let fresh = match world.cluster.wait(api(world, info.kind).get_opt(name)) {
        Ok(Some(fresh)) => serde_json::to_value(fresh).unwrap_or_default(),
        Ok(None) => return true,
        Err(error) => {
            debug!(%error, kind = info.kind, name, "could not be read; it is tried again");
            return false;
        }
    };
    let subnet = world.engine.read(|ipam| subnet_of(&fresh, ipam.config()).map(|subnet| subnet.name.clone()));
    let owner = subnet.map(|name| Owner { uid: subnet_uid(world, &name), name });
    let Some(write) = decide(info.kind, &fresh, owner.as_ref()) else { return true };
    match writer.carry_out(&write) {
        // One that makes so little sense that it cannot be changed stays as it is.
        Answer::Done | Answer::Refused => true,
        Answer::Overtaken | Answer::Failed => false,
    }
}

fn is_own(object: &Arc<Object>) -> bool {
    object.info().is_some_and(|info| info.dialect == kinds::Dialect::Spiderpool)
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_dialects::lower_all;

    fn object(kind: &str, name: &str, spec: &Value) -> Object {
        let version = "spiderpool.spidernet.io/v2beta1";
        let value = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec});
        serde_json::from_value(value).unwrap()
    }

    fn pool() -> Object {
        object(POOL, "p", &json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.10-10.0.0.11"], "ipVersion": 4}))
    }

    fn config() -> Config {
        let spec = json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.10-10.0.0.99"]});
        lower_all([&object(SUBNET, "s", &spec), &pool()]).unwrap()
    }

    fn uid(subnet: &str) -> Option<String> {
        Some(format!("uid of {subnet}"))
    }

    #[test]
    fn what_an_object_lacks_is_written_if_it_is_what_was_read() {
        let mut fresh = seen(&pool(), Some(&Record::default()));
        fresh["metadata"]["resourceVersion"] = json!("7");
        let owner = Owner { name: "s".to_owned(), uid: uid("s") };
        let write = decide(POOL, &fresh, Some(&owner)).unwrap();
        assert_eq!((write.kind, write.key.to_string().as_str()), (POOL, "p"));
        assert_eq!(write.only_if, OnlyIf { uid: None, version: Some("7".to_owned()) });
        let Verb::Patch(patch) = write.verb else { panic!("{:?}", write.verb) };
        let metadata = &patch["metadata"];
        assert_eq!(metadata["ownerReferences"][0]["uid"], "uid of s");
        fresh["metadata"]["ownerReferences"] = metadata["ownerReferences"].clone();
        fresh["metadata"]["labels"] = metadata["labels"].clone();
        fresh["metadata"]["finalizers"] = metadata["finalizers"].clone();
        assert_eq!(decide(POOL, &fresh, Some(&owner)), None, "{fresh}");
        fresh["metadata"]["finalizers"] = json!([]);
        assert!(decide(POOL, &fresh, Some(&owner)).is_some());
        fresh["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
        assert_eq!(decide(POOL, &fresh, Some(&owner)), None, "it is on its way out");
    }

    #[test]
    fn the_server_is_asked_only_if_something_seems_to_be_missing() {
        let (config, mut pool) = (config(), pool());
        let looks = |pool: &Object, record: Option<&Record>| look(&config, pool, record, uid);
        assert_eq!(looks(&pool, None), Looks::Unknown);
        let mut record = Record::default();
        assert_eq!(looks(&pool, Some(&record)), Looks::Incomplete);
        let going = Record { going: true, ..Record::default() };
        assert_eq!(looks(&pool, Some(&going)), Looks::Complete);
        let owner = Owner { name: "s".to_owned(), uid: uid("s") };
        let patch = defaults(&seen(&pool, Some(&record)), Some(&owner)).unwrap();
        pool.metadata.labels = serde_json::from_value(patch["metadata"]["labels"].clone()).unwrap();
        record.finalizers = serde_json::from_value(patch["metadata"]["finalizers"].clone()).unwrap();
        record.owners = serde_json::from_value(patch["metadata"]["ownerReferences"].clone()).unwrap();
        assert_eq!(looks(&pool, Some(&record)), Looks::Complete);
        // Of reservations, no more is watched than what they reserve.
        let reserved = |spec: &Value| look(&config, &object(RESERVED, "r", spec), None, uid);
        assert_eq!(reserved(&json!({"ips": ["10.0.0.11"], "ipVersion": 4})), Looks::Complete);
        assert_eq!(reserved(&json!({"ips": ["10.0.0.11"]})), Looks::Incomplete);
    }
}
