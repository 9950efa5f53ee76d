//! `berth export spiderpool`: the way back. Pools, reservations and who has what, in Spiderpool's words, so that it can go
//! on where Berth stops.

use crate::takeover;
use crate::world::World;
use anyhow::{Context, bail};
use berth_core::block::{SlotRef, State};
use berth_core::holder::Holder;
use berth_core::ipam::Ipam;
use berth_core::reclaim::Pod;
use berth_dialects::native::endpoint::EndpointOwner;
use berth_dialects::native::pod::MACHINE;
use berth_dialects::spiderpool::endpoint::EndpointStatus;
use berth_dialects::spiderpool::export::records::{Held, Owner, Use, endpoints, pool_status, reservations};
use berth_dialects::spiderpool::export::{Exported, Remark, export};
use berth_dialects::spiderpool::settings::Conf;
use berth_dialects::spiderpool::status::subnet_status;
use berth_dialects::spiderpool::{ENDPOINT, FINALIZER, POOL, RESERVED, SUBNET};
use berth_dialects::{Object, judge};
use berth_kube::objects::resource_of;
use berth_kube::{Cluster, Connect};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Says a cluster in Spiderpool's words, and makes the objects if that is asked for.
///
/// # Errors
/// If the server cannot be asked, or does not take the objects.
pub fn export_spiderpool(to: &Connect, apply: bool) -> anyhow::Result<Value> {
    let cluster = Cluster::connect(to)?;
    let world = World::open(&cluster, &Conf::default()).context("read the cluster's state")?;
    if apply && !world.objects.has(POOL) {
        bail!("this cluster does not have Spiderpool's definitions; install Spiderpool first");
    }
    let there: Vec<Object> = world.objects.all().iter().map(|object| (**object).clone()).collect();
    let known = Known::read(&world)?;
    let (mut exported, held) = world.engine.read(|ipam| (export(ipam.config(), &there), held(&known, ipam)));
    let (kept, remarks) = reservations(&held);
    exported.objects.extend(kept);
    exported.poorer.extend(remarks);
    name_those_in_use(&mut exported, &held);
    let objects = manifests(&world, &exported, there, held);
    if apply {
        for object in &objects {
            write(&cluster, object)?;
        }
    }
    let remark = |Remark { object, text }: &Remark| json!({ "object": object, "reason": text });
    Ok(json!({
        "objects": objects,
        "refused": exported.refused.iter().map(remark).collect::<Vec<_>>(),
        "remarks": exported.poorer.iter().map(remark).collect::<Vec<_>>(),
    }))
}

/// What is known of pods beside what they hold.
struct Known<'a> {
    world: &'a World,
    /// Pods that have an endpoint of Spiderpool's kind: what it says of them.
    endpoints: HashMap<(String, String), EndpointStatus>,
}

impl<'a> Known<'a> {
    fn read(world: &'a World) -> anyhow::Result<Self> {
        let all = if world.objects.has(POOL) { takeover::list(&world.cluster, ENDPOINT)? } else { Vec::new() };
        let one = |(namespace, name, status): (String, String, Value)| {
            Some(((namespace, name), serde_json::from_value(status).ok()?))
        };
        Ok(Self { world, endpoints: all.into_iter().filter_map(one).collect() })
    }

    /// UID, node and controller of the pod that an address is kept for, if Spiderpool keeps addresses for such pods: those
    /// of StatefulSets and of virtual machines.
    fn of_lasting(&self, namespace: &str, pod: &str) -> Option<(String, String, (String, String))> {
        let lasts = |kind: &str| matches!(kind, "StatefulSet" | MACHINE);
        let owns = |owner: &EndpointOwner| owner.kind == MACHINE || (lasts(&owner.kind) && owner.is_of_kubernetes());
        let own = self.world.mirrors.endpoints.get(namespace, pod).and_then(|known| {
            let owner = known.owner.as_ref().filter(|owner| owns(owner))?;
            Some((known.uid.clone(), known.node.clone(), (owner.kind.clone(), owner.name.clone())))
        });
        let other = self.endpoints.get(&(namespace.to_owned(), pod.to_owned())).and_then(|known| {
            let EndpointStatus { current, owner_controller_type: kind, owner_controller_name: name } = known.clone();
            lasts(&kind).then_some((current.uid, current.node, (kind, name)))
        });
        // A record that was made anew while the pod was away knows less.
        own.filter(|(uid, ..)| !uid.is_empty() || other.is_none()).or(other)
    }
}

/// Whatever is not free.
fn held(known: &Known<'_>, ipam: &Ipam) -> Vec<Held> {
    let mut all = Vec::new();
    for (plane, unit, view) in ipam.slots().filter(|(plane, ..)| plane.leases_of().is_none()) {
        for by in uses(known, &view) {
            let given = ipam.tell(&[(plane.clone(), unit)]).given;
            all.extend(given.into_iter().map(|given| Held { given, by: by.clone() }));
        }
    }
    all
}

fn uses(known: &Known<'_>, view: &SlotRef<'_>) -> Vec<Use> {
    let holder = view.holder().unwrap_or_default();
    let claim = holder.sticky.as_ref().and_then(|sticky| sticky.identity.strip_prefix("claim/"));
    let claim = claim.map(|claim| Use::Other(format!("IPClaim {claim:?}")));
    match view.state {
        State::Released => Vec::new(),
        State::Quarantined => vec![Use::Other("a stranger".to_owned())],
        State::Active if holder.pod.is_empty() => vec![Use::Other(format!("{:?}", holder.id))],
        // What a claim has stays the claim's when its pod goes.
        State::Active => [Use::Pod(user(known, holder))].into_iter().chain(claim).collect(),
        State::Held => vec![claim.unwrap_or_else(|| away(known, holder))],
    }
}

/// Who uses an address.
fn user(known: &Known<'_>, holder: Holder) -> Owner {
    let pod = known.world.mirrors.pods.get(&holder.namespace, &holder.pod);
    let pod = pod.filter(|pod| matches!(pod.seen_by(&holder.uid), Pod::There(_)));
    let own = ("Pod".to_owned(), holder.pod.clone());
    Owner {
        controller: pod.as_ref().and_then(|pod| pod.controller.clone()).unwrap_or(own),
        stays: holder.machine().is_some() || pod.is_some_and(|pod| pod.of_set),
        pod: holder.lasting_name().to_owned(),
        namespace: holder.namespace,
        uid: holder.uid,
        node: holder.node,
        interface: holder.ifname,
    }
}

/// Whom an address is kept for. Spiderpool keeps those of StatefulSets and virtual machines.
fn away(known: &Known<'_>, holder: Holder) -> Use {
    let name = holder.lasting_name().to_owned();
    let Some((uid, node, controller)) = known.of_lasting(&holder.namespace, &name) else {
        return Use::Other(format!("pod {}/{name}, which is away", holder.namespace));
    };
    let identity = holder.sticky.as_ref().and_then(|sticky| sticky.identity.rsplit('/').next());
    let interface = Some(holder.ifname.clone()).filter(|name| !name.is_empty());
    Use::Pod(Owner {
        interface: interface.or_else(|| identity.map(str::to_owned)).unwrap_or_default(),
        controller,
        stays: true,
        namespace: holder.namespace,
        pod: name,
        uid,
        node,
    })
}

/// Who has something of a pool that cannot be said is unknown to Spiderpool: that is to be read beside the reason.
fn name_those_in_use(exported: &mut Exported, held: &[Held]) {
    for refused in &mut exported.refused {
        let own = |held: &&Held| format!("IPPool {:?}", held.given.pool) == refused.object;
        let count = held.iter().filter(own).count();
        if count > 0 {
            refused.text = format!("{}; {count} of its addresses are in use", refused.text);
        }
    }
}

/// All objects with their statuses, in the order in which they are to be made.
fn manifests(world: &World, exported: &Exported, there: Vec<Object>, held: Vec<Held>) -> Vec<Value> {
    let made =
        |object: &Object| exported.objects.iter().any(|own| own.kind == object.kind && own.title() == object.title());
    let kinds = [SUBNET, RESERVED, POOL];
    let stay = there.into_iter().filter(|object| kinds.contains(&object.kind.as_str()) && !made(object));
    let mut objects: Vec<Object> = stay.chain(exported.objects.iter().cloned()).collect();
    objects.sort_by_key(|object| kinds.iter().position(|kind| *kind == object.kind));
    let config = judge(&objects).config;
    let pools: Vec<&str> =
        objects.iter().filter(|own| own.kind == POOL).map(|own| own.metadata.name.as_str()).collect();
    let held: Vec<Held> = held.into_iter().filter(|held| pools.contains(&held.given.pool.as_str())).collect();
    let status = |object: &Object| {
        let name = &object.metadata.name;
        match object.kind.as_str() {
            POOL => {
                let own: Vec<Held> = held.iter().filter(|held| held.given.pool == *name).cloned().collect();
                let members = config.pools.get(name).map(|pool| {
                    let subnet = pool.subnet.as_ref().and_then(|name| config.subnets.get(name));
                    pool.members(subnet).count()
                });
                let members = members.unwrap_or_default();
                Some(pool_status(members, &own))
            }
            SUBNET => config.subnets.get(name).map(|subnet| subnet_status(subnet, &config).0),
            _ => None,
        }
    };
    let manifest = |object: &Object| {
        let mut metadata = json!({ "name": object.metadata.name, "labels": object.metadata.labels,
            "annotations": object.metadata.annotations });
        if object.kind != RESERVED {
            metadata["finalizers"] = json!([FINALIZER]);
        }
        let mut manifest = json!({ "apiVersion": object.api_version, "kind": object.kind, "metadata": metadata,
            "spec": object.spec });
        if let Some(status) = status(object) {
            manifest["status"] = status;
        }
        manifest
    };
    let mut all: Vec<Value> = objects.iter().map(manifest).collect();
    all.extend(world.engine.read(|ipam| endpoints(&held, |given| ipam.outcome(given))));
    all
}

/// Makes an object, or makes one that is there the same.
fn write(cluster: &Cluster, object: &Value) -> anyhow::Result<()> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
    let resource = resource_of(&kind);
    let client = cluster.client().clone();
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let about = || format!("write {kind} {name:?}");
    let mut fresh = object.clone();
    // What is to be taken away from one that is there is not there to begin with.
    if let Some(annotations) = fresh["metadata"]["annotations"].as_object_mut() {
        annotations.retain(|_, value| !value.is_null());
    }
    let fresh: DynamicObject = serde_json::from_value(fresh).with_context(about)?;
    match cluster.wait(api.create(&PostParams::default(), &fresh)) {
        Err(error) if error.status() == Some(409) => {
            cluster.wait(api.patch(&name, &PatchParams::default(), &Patch::Merge(object))).with_context(about)?;
        }
        made => drop(made.with_context(about)?),
    }
    if kind != ENDPOINT && object.get("status").is_some() {
        let patch = Patch::Merge(json!({ "status": object["status"] }));
        cluster.wait(api.patch_status(&name, &PatchParams::default(), &patch)).with_context(about)?;
    }
    Ok(())
}
