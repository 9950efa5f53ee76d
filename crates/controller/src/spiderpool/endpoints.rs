//! A SpiderEndpoint for each pod that has an address of a SpiderIPPool. It is made out of blocks when the pod has been
//! answered already, and follows them; a pod that was not told apart from another of its name gets none.

use crate::facts::SpiderMirrors;
use crate::world::World;
use berth_core::block::State;
use berth_core::holder::Holder;
use berth_core::ipam::{Given, Ipam};
use berth_core::reclaim::Pod;
use berth_dialects::spiderpool::endpoint::{Current, EndpointStatus, Interface, raise};
use berth_dialects::spiderpool::{ENDPOINT, POOL};
use berth_kube::connect::CallError;
use berth_kube::objects::resource_of;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use tracing::debug;

/// How many are written in one round: statuses are not to wait for all pods of a cluster that starts.
const AT_ONCE: usize = 200;

/// Namespace and name of a pod.
type Name = (String, String);

/// What pods have of Spiderpool's pools.
#[derive(Default)]
struct Holdings {
    /// In use: by pod, its UID and node, and by interface what was given to it.
    active: BTreeMap<Name, Held>,
    /// Pods that are away and come back.
    kept: BTreeSet<Name>,
}

#[derive(Default)]
struct Held {
    uid: String,
    node: String,
    interfaces: BTreeMap<String, Vec<Given>>,
}

/// Makes, changes and removes endpoints until they say what blocks say; whether they do now.
pub(super) fn bring_up_to_date(world: &World, mirrors: &SpiderMirrors) -> bool {
    let (wanted, kept) = world.engine.read(|ipam| {
        let Holdings { active, kept } = holdings(ipam);
        let status = |(name, held): (Name, Held)| Some((name.clone(), status(world, ipam, &name, held)?));
        (active.into_iter().filter_map(status).collect::<BTreeMap<_, _>>(), kept)
    });
    let (mut written, mut all) = (0, true);
    for (name, (status, stays)) in &wanted {
        let known = mirrors.endpoints.get(&name.0, &name.1);
        if known.as_ref().is_some_and(|known| known.status == *status) {
            continue;
        }
        if written == AT_ONCE {
            return false;
        }
        written += 1;
        all &= done(write(world, name, status, *stays, known.is_some()), &name.1);
    }
    for (key, known) in mirrors.endpoints.snapshot().0 {
        let name = (key.namespace, key.name);
        let pod = world.mirrors.pods.get(&name.0, &name.1);
        let lives = pod.is_some_and(|pod| matches!(pod.seen_by(&known.status.current.uid), Pod::There(_)));
        if known.own && !lives && !wanted.contains_key(&name) && !kept.contains(&name) {
            let api: Api<DynamicObject> =
                Api::namespaced_with(world.cluster.client().clone(), &name.0, &resource_of(ENDPOINT));
            let removed = world.cluster.wait(api.delete(&name.1, &DeleteParams::default()));
            all &= done(removed.map(|_| ()), &name.1);
        }
    }
    all
}

fn done(outcome: Result<(), CallError>, pod: &str) -> bool {
    match outcome {
        // Somebody was quicker; what is so now is looked at in the next round.
        Err(error) if !matches!(error.status(), Some(404 | 409)) => {
            debug!(%error, pod, "could not write an endpoint; it is tried again");
            false
        }
        _ => true,
    }
}

fn write(world: &World, name: &Name, status: &EndpointStatus, stays: bool, there: bool) -> Result<(), CallError> {
    let resource = resource_of(ENDPOINT);
    let api: Api<DynamicObject> = Api::namespaced_with(world.cluster.client().clone(), &name.0, &resource);
    let object = raise(&name.0, &name.1, status, !stays);
    if there {
        let patch = json!({ "metadata": object["metadata"], "status": object["status"] });
        return world.cluster.wait(api.patch(&name.1, &PatchParams::default(), &Patch::Merge(patch))).map(|_| ());
    }
    let mut made = DynamicObject::new(&name.1, &resource);
    made.metadata = serde_json::from_value(object["metadata"].clone()).unwrap_or_default();
    made.data = json!({ "status": object["status"] });
    world.cluster.wait(api.create(&PostParams::default(), &made)).map(|_| ())
}

fn holdings(ipam: &Ipam) -> Holdings {
    let mut out = Holdings::default();
    for pool in ipam.pools().filter(|pool| pool.object == POOL) {
        for (given, slot) in ipam.holdings(&pool.name) {
            let Some(Holder { namespace, pod, uid, node, ifname, .. }) = slot.holder() else { continue };
            if pod.is_empty() {
                continue;
            }
            let name = (namespace, pod);
            if slot.state == State::Held {
                out.kept.insert(name);
                continue;
            }
            let held = out.active.entry(name).or_default();
            (held.uid, held.node) = (uid, node);
            held.interfaces.entry(ifname).or_default().push(given);
        }
    }
    out
}

/// What the endpoint of a pod is to say, and whether it outlives the pod; `None` if the pod is not there.
fn status(world: &World, ipam: &Ipam, name: &Name, held: Held) -> Option<(EndpointStatus, bool)> {
    let pod = world.mirrors.pods.get(&name.0, &name.1)?;
    if !matches!(pod.seen_by(&held.uid), Pod::There(_)) {
        return None;
    }
    let (kind, owner) = pod.controller.clone().unwrap_or_else(|| ("Pod".to_owned(), name.1.clone()));
    let interface = |(ifname, given): (String, Vec<Given>)| Interface::of(ifname, &ipam.outcome(given));
    let ips = held.interfaces.into_iter().map(interface).collect();
    let current = Current { uid: held.uid, node: held.node, ips };
    Some((EndpointStatus { current, owner_controller_type: kind, owner_controller_name: owner }, pod.of_set))
}
