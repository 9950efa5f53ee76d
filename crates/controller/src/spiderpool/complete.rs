//! What objects lack that the webhook would have filled in, had it been there.

use crate::facts::{Record, SpiderMirrors};
use crate::world::World;
use berth_dialects::spiderpool::defaults::{Owner, defaults, subnet_of};
use berth_dialects::spiderpool::{POOL, RESERVED, SUBNET};
use berth_dialects::{Object, kinds};
use berth_kube::connect::CallError;
use berth_kube::objects::resource_of;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
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
pub(super) fn complete(world: &World, mirrors: &SpiderMirrors) -> bool {
    let mut all = true;
    for object in world.objects.all().iter().filter(|object| is_own(object)) {
        let record = match object.kind.as_str() {
            POOL => mirrors.pools.get("", &object.metadata.name),
            SUBNET => mirrors.subnets.get("", &object.metadata.name),
            _ => None,
        };
        // What is configured may be known a moment before the rest of it.
        if record.is_none() && object.kind != RESERVED {
            all = false;
            continue;
        }
        let seen = seen(object, record.as_deref());
        let owner = owner(world, &seen, |name| Some(mirrors.subnets.get("", name)?.uid.clone()));
        if defaults(&seen, owner.as_ref()).is_none() {
            continue;
        }
        if let Err(error) = fill_in(world, object) {
            let name = &object.metadata.name;
            debug!(%error, kind = object.kind, name, "could not fill in what is missing; it is tried again");
            all = false;
        }
    }
    all
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

/// The subnet that a pool belongs to.
fn owner(world: &World, object: &Value, uid: impl FnOnce(&str) -> Option<String>) -> Option<Owner> {
    let name = world.engine.read(|ipam| subnet_of(object, ipam.config()).map(|subnet| subnet.name.clone()))?;
    Some(Owner { uid: uid(&name), name })
}

/// Reads the object once more, and writes what it lacks if it is still what was read: nobody's edit is undone.
fn fill_in(world: &World, object: &Object) -> Result<(), CallError> {
    let (api, name) = (api(world, &object.kind), &object.metadata.name);
    let Some(fresh) = world.cluster.wait(api.get_opt(name))? else { return Ok(()) };
    let version = fresh.metadata.resource_version.clone();
    let fresh = serde_json::to_value(fresh).unwrap_or_default();
    let owner = owner(world, &fresh, |name| subnet_uid(world, name));
    let Some(mut patch) = defaults(&fresh, owner.as_ref()) else { return Ok(()) };
    patch["metadata"]["resourceVersion"] = json!(version);
    match world.cluster.wait(api.patch(name, &PatchParams::default(), &Patch::Merge(patch))) {
        // It is gone, or makes so little sense that it cannot be changed.
        Err(error) if !matches!(error.status(), Some(404 | 422)) => Err(error),
        _ => Ok(()),
    }
}

fn is_own(object: &Arc<Object>) -> bool {
    object.info().is_some_and(|info| info.dialect == kinds::Dialect::Spiderpool)
}
