//! A SpiderEndpoint for each pod that has an address of a SpiderIPPool, under the name of the pod, or of the virtual machine
//! that keeps its address from pod to pod. It is made out of blocks when the pod has been
//! answered already, and follows them; a pod that was not told apart from another of its name gets none.

use crate::facts::{Fresh, Look, PodFacts, SpiderMirrors};
use crate::index::Index;
use crate::world::World;
use berth_core::block::{Block, BlockKey, Plane, State};
use berth_core::ipam::{Ipam, Outcome};
use berth_core::reclaim::Pod;
use berth_dialects::native::pod::DefaultRoute;
use berth_dialects::spiderpool::endpoint::{Current, EndpointStatus, Interface, raise};
use berth_dialects::spiderpool::{ENDPOINT, POOL};
use berth_kube::connect::CallError;
use berth_kube::objects::resource_of;
use berth_kube::watch::Key;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tracing::debug;

/// How many are written in one round: statuses are not to wait for all pods of a cluster that starts.
const AT_ONCE: usize = 200;

/// The writer of endpoints.
#[derive(Default)]
pub(super) struct Endpoints {
    index: Index,
    /// Pods whose endpoint may have to be another.
    due: BTreeSet<Key>,
}

/// What a pod has of Spiderpool's pools.
#[derive(Default)]
struct Held {
    uid: String,
    node: String,
    /// The pod; `None` if it is not there.
    facts: Option<Arc<PodFacts>>,
    /// In use: where, by interface.
    interfaces: BTreeMap<String, Vec<(Plane, u128)>>,
    /// Whether something is kept for it while it is away.
    kept: bool,
    /// Whether something will be kept for it.
    stays: bool,
}

impl Endpoints {
    /// These are to be looked at.
    pub(super) fn look_at(&mut self, pods: impl IntoIterator<Item = Key>) {
        self.due.extend(pods);
    }

    /// Everything is to be looked at.
    pub(super) fn look_at_all(&mut self, ipam: &Ipam, mirrors: &SpiderMirrors) {
        self.take_in(ipam, ipam.blocks().map(|(key, _)| key));
        self.due.extend(mirrors.endpoints.with(|all| all.keys().cloned().collect::<Vec<_>>()));
    }

    /// Takes in blocks that have changed: who has something there, or had, is to be looked at.
    pub(super) fn take_in<'a>(&mut self, ipam: &Ipam, blocks: impl IntoIterator<Item = &'a BlockKey>) {
        let own = |key: &&BlockKey| key.plane.leases_of().is_none();
        for key in blocks.into_iter().filter(own) {
            self.due.extend(self.index.pods_in(key).map(|(namespace, name)| Key::new(namespace, name)));
            self.index.put(key, ipam.block(key));
            self.due.extend(self.index.pods_in(key).map(|(namespace, name)| Key::new(namespace, name)));
        }
    }

    /// Makes, changes and removes endpoints until they say what blocks say. What could not be written, and what is too
    /// much for one round, is done in the next.
    pub(super) fn bring_up_to_date(&mut self, world: &World, mirrors: &SpiderMirrors) {
        let mut written = 0;
        for pod in std::mem::take(&mut self.due) {
            if written == AT_ONCE {
                self.due.insert(pod);
                continue;
            }
            let known = mirrors.endpoints.get(&pod.namespace, &pod.name);
            let (wanted, kept) = world.engine.read(|ipam| {
                let held = self.held(ipam, &pod, world);
                (status(ipam, &pod, &held), held.kept)
            });
            let outcome = match (wanted, known) {
                (Some((status, _)), Some(known)) if known.status == status => continue,
                (Some((status, stays)), known) => write(world, &pod, &status, stays, known.is_some()),
                (None, Some(known)) => {
                    let uid = &known.status.current.uid;
                    let facts = world.mirrors.pods.get(&pod.namespace, &pod.name);
                    let lives = facts.is_some_and(|facts| matches!(facts.seen_by(uid), Pod::There(_)));
                    if !known.own || lives || kept {
                        continue;
                    }
                    // The watch may be behind, and tells of a pod that is there sooner or later.
                    match Fresh::new(&world.cluster, &world.mirrors, 1)
                        .map(|all| all.pod(&pod.namespace, &pod.name, uid))
                    {
                        Ok(Pod::Absent | Pod::Replaced) => {}
                        Err(_) | Ok(Pod::Unknown) => {
                            self.due.insert(pod);
                            continue;
                        }
                        Ok(_) => continue,
                    }
                    world.cluster.wait(api(world, &pod).delete(&pod.name, &DeleteParams::default())).map(|_| ())
                }
                (None, None) => continue,
            };
            written += 1;
            if !done(outcome, &pod.name) {
                self.due.insert(pod);
            }
        }
    }

    /// Whether any block speaks of a pod of this name.
    pub(super) fn knows(&self, ipam: &Ipam, pod: &Key) -> bool {
        self.index.of_pod(&pod.namespace, &pod.name).any(|key| has(ipam, key, pod))
    }

    /// What the pod has that is there now; an earlier one of its name may not have given back everything yet.
    fn held(&self, ipam: &Ipam, pod: &Key, world: &World) -> Held {
        let mut out = Held::default();
        let Key { namespace, name } = pod;
        let blocks: BTreeSet<&BlockKey> =
            self.index.of_pod(namespace, name).chain(self.index.of_machine(namespace, name)).collect();
        for key in blocks {
            let slots = ipam.block(key).into_iter().flat_map(Block::slots);
            for (slot, view) in slots.filter(|(_, view)| matches!(view.state, State::Active | State::Held)) {
                let Some(holder) = view.holder() else { continue };
                let mut pools = ipam.pools_of(key, slot).into_iter().filter_map(|name| ipam.pool(&name));
                let is_own = holder.namespace == *namespace && holder.lasting_name() == name;
                if !is_own || !pools.any(|pool| pool.object == POOL) {
                    continue;
                }
                if view.state == State::Held {
                    out.kept = true;
                    continue;
                }
                // The pod may be known a moment later than what it has; the machine's endpoint is not to go meanwhile.
                out.kept |= holder.machine().is_some();
                let facts = world.mirrors.pods.get(namespace, &holder.pod);
                let Some(facts) = facts.filter(|facts| matches!(facts.seen_by(&holder.uid), Pod::There(_))) else {
                    continue;
                };
                out.stays |= facts.of_set || holder.machine().is_some();
                (out.uid, out.node, out.facts) = (holder.uid, holder.node, Some(facts));
                out.interfaces.entry(holder.ifname).or_default().push((key.plane.clone(), key.unit(slot)));
            }
        }
        out
    }
}

/// Whether something in a block is a pod's, in use or kept for it.
pub(super) fn has(ipam: &Ipam, key: &BlockKey, pod: &Key) -> bool {
    let slots = ipam.block(key).into_iter().flat_map(Block::slots);
    let taken = slots.filter(|(_, view)| matches!(view.state, State::Active | State::Held));
    taken.filter_map(|(_, view)| view.holder()).any(|own| own.namespace == pod.namespace && own.pod == pod.name)
}

pub(super) fn api(world: &World, pod: &Key) -> Api<DynamicObject> {
    Api::namespaced_with(world.cluster.client().clone(), &pod.namespace, &resource_of(ENDPOINT))
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

fn write(world: &World, pod: &Key, status: &EndpointStatus, stays: bool, there: bool) -> Result<(), CallError> {
    let api = api(world, pod);
    let object = raise(&pod.namespace, &pod.name, status, !stays);
    if there {
        let patch = json!({ "metadata": object["metadata"], "status": object["status"] });
        return world.cluster.wait(api.patch(&pod.name, &PatchParams::default(), &Patch::Merge(patch))).map(|_| ());
    }
    let mut made = DynamicObject::new(&pod.name, &resource_of(ENDPOINT));
    made.metadata = serde_json::from_value(object["metadata"].clone()).unwrap_or_default();
    made.data = json!({ "status": object["status"] });
    world.cluster.wait(api.create(&PostParams::default(), &made)).map(|_| ())
}

/// What the endpoint of a pod is to say, and whether it outlives the pod; `None` if the pod has nothing.
fn status(ipam: &Ipam, name: &Key, held: &Held) -> Option<(EndpointStatus, bool)> {
    let pod = held.facts.as_ref()?;
    let (kind, owner) = pod.controller.clone().unwrap_or_else(|| ("Pod".to_owned(), name.name.clone()));
    let told: BTreeMap<&str, Outcome> =
        held.interfaces.iter().map(|(ifname, own)| (ifname.as_str(), ipam.tell(own))).collect();
    let interface = |(&ifname, outcome): (&&str, &Outcome)| {
        let (mut outcome, routes) = (outcome.clone(), pod.routes(ifname));
        routes.apply(&mut outcome, &pod.networks_before(ifname, told.iter().map(|(name, told)| (*name, told))));
        let clean = (routes.default == DefaultRoute::Elsewhere).then_some(true);
        Interface { clean_gateway: clean, ..Interface::of(ifname.to_owned(), &outcome) }
    };
    let ips = told.iter().map(interface).collect();
    let current = Current { uid: held.uid.clone(), node: held.node.clone(), ips };
    Some((EndpointStatus { current, owner_controller_type: kind, owner_controller_name: owner }, held.stays))
}
