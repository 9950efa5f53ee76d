//! `berth import spiderpool`: what Spiderpool has given out is recorded as Berth's, so that nobody gets it twice. Pods keep
//! running and keep their addresses.

use crate::world::World;
use anyhow::{Context, bail};
use berth_core::error::Error;
use berth_core::holder::{Holder, Sticky};
use berth_dialects::native::pod::FIRST_INTERFACE;
use berth_dialects::spiderpool::settings::Conf;
use berth_dialects::spiderpool::takeover::{Taken, taken};
use berth_dialects::spiderpool::{ENDPOINT, POOL};
use berth_kube::objects::resource_of;
use berth_kube::{Cluster, Connect};
use k8s_openapi::api::core::v1 as api;
use kube::api::{Api, DynamicObject, ListParams};
use serde_json::{Value, json};
use std::collections::HashMap;

/// How many addresses are recorded in one write at most.
const AT_ONCE: usize = 256;

/// What is to be done about an address.
#[derive(Clone)]
enum Plan {
    /// A living pod has it.
    Use(Holder),
    /// It is kept for a pod that comes back.
    Keep(Holder),
    /// Its pod is gone, or nothing tells where it is.
    Leave(&'static str),
}

/// Takes over what Spiderpool has given out, or says what that would be.
///
/// # Errors
/// If the server cannot be asked, or has no such objects.
pub fn import_spiderpool(to: &Connect, apply: bool) -> anyhow::Result<Value> {
    let cluster = Cluster::connect(to)?;
    let world = World::open(&cluster, &Conf::default()).context("read the cluster's state")?;
    if !world.objects.has(POOL) {
        bail!("this cluster has no SpiderIPPools; there is nothing to import");
    }
    let pools: Vec<(String, Value)> =
        list(&cluster, POOL)?.into_iter().map(|(_, name, status)| (name, status)).collect();
    let (found, unreadable) = taken(&pools, &list(&cluster, ENDPOINT)?);
    let pods = pods(&cluster)?;
    let mut rows: Vec<Value> = Vec::new();
    let mut planned: Vec<(Taken, Plan)> = found.into_iter().map(|one| (one.clone(), plan(&one, &pods))).collect();
    planned.sort_by_key(|(one, _)| one.address);
    for some in planned.chunks(AT_ONCE) {
        let outcomes = record(&world, some.to_vec(), apply)?;
        for ((one, _), (outcome, reason)) in some.iter().zip(outcomes) {
            let pod = format!("{}/{}", one.namespace, one.pod);
            rows.push(json!({"address": one.address, "pod": pod, "outcome": outcome, "reason": reason}));
        }
    }
    rows.extend(
        unreadable.into_iter().map(|what| json!({"address": "", "pod": "", "outcome": "unreadable", "reason": what})),
    );
    Ok(json!({ "addresses": rows }))
}

/// Namespace, name and status of all objects of a kind.
pub(crate) fn list(cluster: &Cluster, kind: &str) -> anyhow::Result<Vec<(String, String, Value)>> {
    let api: Api<DynamicObject> = Api::all_with(cluster.client().clone(), &resource_of(kind));
    let all = cluster.wait(api.list(&ListParams::default())).with_context(|| format!("list {kind}s"))?;
    let row = |object: DynamicObject| {
        let status = object.data.get("status").cloned().unwrap_or_default();
        (object.metadata.namespace.unwrap_or_default(), object.metadata.name.unwrap_or_default(), status)
    };
    Ok(all.items.into_iter().map(row).collect())
}

/// Namespace, name and node of every pod, by UID.
fn pods(cluster: &Cluster) -> anyhow::Result<HashMap<String, (String, String, String)>> {
    let api: Api<api::Pod> = Api::all(cluster.client().clone());
    let all = cluster.wait(api.list(&ListParams::default())).context("list pods")?;
    let row = |pod: api::Pod| {
        let node = pod.spec.and_then(|spec| spec.node_name).unwrap_or_default();
        let meta = pod.metadata;
        (meta.uid.unwrap_or_default(), (meta.namespace.unwrap_or_default(), meta.name.unwrap_or_default(), node))
    };
    Ok(all.items.into_iter().map(row).collect())
}

fn plan(one: &Taken, pods: &HashMap<String, (String, String, String)>) -> Plan {
    let interface = one.interface.clone().unwrap_or_else(|| FIRST_INTERFACE.to_owned());
    let identity_of = if one.of_machine { Sticky::of_machine } else { Sticky::of_pod };
    let identity = identity_of(&one.namespace, &one.pod, &interface);
    let sticky = one.kept.then_some(Sticky { identity, keep: None });
    let holder = Holder {
        // Nobody tells which sandbox it is. The record ends with the pod, or when the pod gets another sandbox.
        id: format!("pod-{}", one.uid),
        ifname: interface,
        namespace: one.namespace.clone(),
        pod: one.pod.clone(),
        uid: one.uid.clone(),
        sticky,
        ..Holder::default()
    };
    let is_own = |namespace: &str, name: &str| namespace == one.namespace && (one.of_machine || name == one.pod);
    match pods.get(&one.uid).filter(|(namespace, name, _)| is_own(namespace, name)) {
        Some((_, _, node)) if node.is_empty() => Plan::Leave("its pod is on no node yet, and will ask"),
        // The pod of a machine has a name of its own.
        Some((_, name, node)) => Plan::Use(Holder { pod: name.clone(), node: node.clone(), ..holder }),
        None if one.kept => Plan::Keep(Holder { uid: String::new(), id: String::new(), ..holder }),
        None if pods.values().any(|(namespace, name, _)| is_own(namespace, name)) => {
            Plan::Leave("another pod has this name now")
        }
        None => Plan::Leave("its pod is gone"),
    }
}

/// Records what is planned, or only finds out what would come of it: both ways the same is asked and answered.
fn record(world: &World, planned: Vec<(Taken, Plan)>, apply: bool) -> Result<Vec<(&'static str, String)>, Error> {
    world.engine.transact(move |context| {
        let before = context.ipam.savepoint();
        let one = |(one, plan): &(Taken, Plan)| {
            let planes = context.ipam.planes_of(one.address);
            let [plane] = planes.as_slice() else {
                let why = if planes.is_empty() { "no pool has it" } else { "pools of several networks have it" };
                return ("refused", why.to_owned());
            };
            let done = match plan {
                Plan::Use(holder) => {
                    let known = context.ipam.recognise(plane, one.address, holder.clone(), context.now);
                    known.map(|new| if new { "imported" } else { "known" })
                }
                Plan::Keep(holder) => {
                    context.ipam.hold(plane, one.address, holder.clone(), context.now).map(|()| "kept")
                }
                Plan::Leave(why) => return ("left", (*why).to_owned()),
            };
            done.map_or_else(|error| ("refused", error.to_string()), |done| (done, String::new()))
        };
        let outcomes = planned.iter().map(one).collect();
        if !apply {
            context.ipam.rollback_to(before);
        }
        Ok(outcomes)
    })
}
