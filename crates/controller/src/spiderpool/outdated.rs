//! SpiderEndpoints that nothing stands behind, though it was not Berth that made them: they go where Spiderpool's switch
//! says so, and are left alone otherwise. It is looked twice, and the server is asked right before, as for every record.

use super::endpoints::{Endpoints, api, has};
use crate::facts::{EndpointRecord, Fresh, Look, Ordinals, SpiderMirrors};
use crate::world::World;
use berth_core::block::BlockKey;
use berth_core::ipam::Ipam;
use berth_core::reclaim::{Keeper, Pod};
use berth_dialects::spiderpool::FINALIZER;
use berth_dialects::spiderpool::endpoint::EndpointStatus;
use berth_kube::connect::CallError;
use berth_kube::watch::Key;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tracing::{debug, info};

/// How long apart two looks are.
const TWO_LOOKS: Duration = Duration::from_secs(15);
/// How often it is looked if nothing is in doubt.
const AUDIT: Duration = Duration::from_secs(300);

/// Removes what is outdated.
#[derive(Default)]
pub(super) struct Outdated {
    last: Option<Instant>,
    /// What was outdated when it was last looked: the object's UID by pod.
    doubtful: BTreeMap<Key, String>,
}

impl Outdated {
    /// One round, if it is time for one.
    pub(super) fn clean(&mut self, world: &World, mirrors: &SpiderMirrors, endpoints: &Endpoints) {
        let pace = if self.doubtful.is_empty() { AUDIT } else { TWO_LOOKS };
        if !world.spiderpool.clean_endpoints || self.last.is_some_and(|last| last.elapsed() < pace) {
            return;
        }
        self.last = Some(Instant::now());
        let found: BTreeMap<Key, String> = mirrors.endpoints.with(|all| {
            let outdated = all.iter().filter(|(key, record)| is_outdated(world, endpoints, key, record));
            outdated.map(|(key, record)| (key.clone(), record.uid.clone())).collect()
        });
        for (key, uid) in found.iter().filter(|(key, uid)| self.doubtful.get(*key) == Some(*uid)) {
            match remove(world, endpoints, key, uid) {
                Ok(true) => info!(pod = %key, "removed a SpiderEndpoint whose pod and addresses are long gone"),
                Ok(false) => {}
                Err(error) => debug!(%error, pod = %key, "could not remove a SpiderEndpoint; it is tried again"),
            }
        }
        self.doubtful = found;
    }
}

/// Whether nothing stands behind a record, as far as is known here.
fn is_outdated(world: &World, endpoints: &Endpoints, pod: &Key, record: &EndpointRecord) -> bool {
    let status = &record.status;
    // Those that Berth made follow the blocks anyway, and of one that cannot be read nobody knows what it speaks of.
    if record.own || status.current.uid.is_empty() || is_machine(status) {
        return false;
    }
    let gone = world.mirrors.pod(&pod.namespace, &pod.name, &status.current.uid);
    let returns = || {
        let set = world.mirrors.sets.get(&pod.namespace, &status.owner_controller_name);
        set.is_some_and(|set| set.want(&status.owner_controller_name, &pod.name) == Keeper::Wanted)
    };
    let known = || world.engine.read(|ipam| endpoints.knows(ipam, pod));
    matches!(gone, Pod::Absent | Pod::Replaced) && !(is_of_set(status) && returns()) && !known()
}

fn is_of_set(status: &EndpointStatus) -> bool {
    status.owner_controller_type == "StatefulSet"
}

/// A virtual machine's record has the machine's name, and says nothing about whether there is a pod.
fn is_machine(status: &EndpointStatus) -> bool {
    status.owner_controller_type.starts_with("VirtualMachine")
}

/// Removes a record, if the server says too that nothing stands behind it; whether it did.
fn remove(world: &World, endpoints: &Endpoints, pod: &Key, uid: &str) -> Result<bool, CallError> {
    let api = api(world, pod);
    let Some(object) = world.cluster.wait(api.get_opt(&pod.name))? else { return Ok(false) };
    let record = EndpointRecord::read(&object);
    if record.uid != *uid || !is_outdated(world, endpoints, pod, &record) {
        return Ok(false);
    }
    let blocks: Vec<BlockKey> = world.engine.read(|ipam| blocks_of(ipam, &record.status)).into_iter().collect();
    let held = || world.engine.read(|ipam| blocks.iter().any(|key| has(ipam, key, pod)));
    if world.engine.look_at(&blocks).is_err() || held() {
        return Ok(false);
    }
    let fresh = Fresh::new(&world.cluster, &world.mirrors, 1)?;
    let gone = fresh.pod(&pod.namespace, &pod.name, &record.status.current.uid);
    if !matches!(gone, Pod::Absent | Pod::Replaced) || (is_of_set(&record.status) && returns(world, pod, &record)?) {
        return Ok(false);
    }
    let finalizers = object.metadata.finalizers.unwrap_or_default();
    if finalizers.iter().any(|own| own == FINALIZER) {
        let others: Vec<&String> = finalizers.iter().filter(|own| *own != FINALIZER).collect();
        let patch = json!({ "metadata": {
            "uid": uid, "resourceVersion": object.metadata.resource_version, "finalizers": others,
        } });
        world.cluster.wait(api.patch(&pod.name, &PatchParams::default(), &Patch::Merge(patch)))?;
    }
    let only_if = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    let params = DeleteParams { preconditions: Some(only_if), ..DeleteParams::default() };
    match world.cluster.wait(api.delete(&pod.name, &params)) {
        // It was on its way out, and waited for the finalizer alone.
        Err(error) if error.status() == Some(404) => Ok(true),
        outcome => outcome.map(|_| true),
    }
}

/// Whether the StatefulSet that a record names makes the pod again, by the server.
fn returns(world: &World, pod: &Key, record: &EndpointRecord) -> Result<bool, CallError> {
    let name = &record.status.owner_controller_name;
    let sets: Api<StatefulSet> = Api::namespaced(world.cluster.client().clone(), &pod.namespace);
    let set = world.cluster.wait(sets.get_opt(name))?;
    Ok(set.is_some_and(|set| Ordinals::read(&set).want(name, &pod.name) == Keeper::Wanted))
}

/// The blocks that a record speaks of.
fn blocks_of(ipam: &Ipam, status: &EndpointStatus) -> BTreeSet<BlockKey> {
    let texts = status.current.ips.iter().flat_map(|interface| [&interface.ipv4, &interface.ipv6]).flatten();
    let bare = texts.filter_map(|text| text.split('/').next()?.parse::<IpAddr>().ok());
    let planes = bare.flat_map(|address| ipam.planes_of(address).into_iter().map(move |plane| (plane, address)));
    planes.map(|(plane, address)| BlockKey::of(&plane, plane.unit_of(address)).0).collect()
}
