//! SpiderEndpoints that nothing stands behind, though it was not Berth that made them: they go where Spiderpool's switch
//! says so, and are left alone otherwise. It is looked twice, and the server is asked right before, as for every record.

use super::behind::Behind;
use super::endpoints::{Endpoints, api};
use crate::effects::{Answer, OnlyIf, Verb, Write, Writer};
use crate::facts::{EndpointRecord, Look, Ordinals, SpiderMirrors};
use crate::world::World;
use berth_core::reclaim::Keeper;
use berth_dialects::spiderpool::endpoint::EndpointStatus;
use berth_dialects::spiderpool::{ENDPOINT, FINALIZER};
use berth_kube::connect::CallError;
use berth_kube::watch::Key;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::api::{Api, ObjectMeta};
use serde_json::json;
use std::collections::BTreeMap;
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
    pub(super) fn clean(&mut self, world: &World, mirrors: &SpiderMirrors, endpoints: &Endpoints, writer: &Writer) {
        let pace = if self.doubtful.is_empty() { AUDIT } else { TWO_LOOKS };
        if !world.spiderpool.clean_endpoints || self.last.is_some_and(|last| last.elapsed() < pace) {
            return;
        }
        self.last = Some(Instant::now());
        let found: BTreeMap<Key, String> = mirrors.endpoints.with(|all| {
            let outdated = all.iter().filter(|(key, record)| seems_outdated(world, endpoints, key, record));
            outdated.map(|(key, record)| (key.clone(), record.uid.clone())).collect()
        });
        for (key, uid) in found.iter().filter(|(key, uid)| self.doubtful.get(*key) == Some(*uid)) {
            match ask(world, key, uid) {
                Ok(writes) if writes.is_empty() => {}
                // One after the other: while it has the finalizer it does not go.
                Ok(writes) if writes.iter().all(|write| is_done(write, writer.carry_out(write))) => {
                    info!(pod = %key, "removed a SpiderEndpoint whose pod and addresses are long gone");
                }
                Ok(_) => debug!(pod = %key, "could not remove a SpiderEndpoint; it is tried again"),
                Err(error) => debug!(%error, pod = %key, "could not ask about a SpiderEndpoint; it is tried again"),
            }
        }
        self.doubtful = found;
    }
}

/// A deletion is done as well if the object waited for the finalizer alone.
fn is_done(write: &Write, answer: Answer) -> bool {
    answer == Answer::Done || (write.verb == Verb::Delete && answer == Answer::Overtaken)
}

/// Whether a record is outdated: `returns` says whether the StatefulSet that it names makes the pod again.
fn is_outdated(record: &EndpointRecord, behind: &Behind, returns: bool) -> bool {
    let status = &record.status;
    // Those that Berth made follow the blocks anyway, of one that cannot be read nobody knows what it speaks of, and a
    // virtual machine's has the machine's name and says nothing about whether there is a pod.
    let is_machine = status.owner_controller_type.starts_with("VirtualMachine");
    let can_be = !record.own && !status.current.uid.is_empty() && !is_machine;
    can_be && behind.is_nothing() && !(is_of_set(status) && returns)
}

fn is_of_set(status: &EndpointStatus) -> bool {
    status.owner_controller_type == "StatefulSet"
}

/// What removes a record, as the server has it.
fn removal(pod: &Key, object: &ObjectMeta) -> Vec<Write> {
    let write = |only_if: OnlyIf, verb: Verb| Write {
        kind: ENDPOINT,
        key: pod.clone(),
        only_if: OnlyIf { uid: object.uid.clone(), ..only_if },
        verb,
        news: Vec::new(),
    };
    let finalizers = object.finalizers.as_deref().unwrap_or_default();
    let others: Vec<&String> = finalizers.iter().filter(|own| *own != FINALIZER).collect();
    let is_kept = others.len() < finalizers.len();
    let as_read = OnlyIf { version: object.resource_version.clone(), ..OnlyIf::default() };
    let free = is_kept.then(|| write(as_read, Verb::Patch(json!({ "metadata": { "finalizers": others } }))));
    free.into_iter().chain([write(OnlyIf::default(), Verb::Delete)]).collect()
}

/// Whether a record is outdated, as far as is known here.
fn seems_outdated(world: &World, endpoints: &Endpoints, pod: &Key, record: &EndpointRecord) -> bool {
    let EndpointStatus { current, owner_controller_name: owner, .. } = &record.status;
    let set = world.mirrors.sets.get(&pod.namespace, owner);
    let returns = set.is_some_and(|set| set.want(owner, &pod.name) == Keeper::Wanted);
    let behind = Behind {
        pod: world.mirrors.pod(&pod.namespace, &pod.name, &current.uid),
        held: world.engine.read(|ipam| endpoints.knows(ipam, pod)),
    };
    is_outdated(record, &behind, returns)
}

/// What removes a record, if the server says too that it is outdated.
fn ask(world: &World, pod: &Key, uid: &str) -> Result<Vec<Write>, CallError> {
    let Some(object) = world.cluster.wait(api(world, pod).get_opt(&pod.name))? else { return Ok(Vec::new()) };
    let record = EndpointRecord::read(&object);
    if record.uid != *uid {
        return Ok(Vec::new());
    }
    let behind = Behind::ask(world, pod, &record.status)?;
    let returns = is_of_set(&record.status) && returns(world, pod, &record)?;
    Ok(if is_outdated(&record, &behind, returns) { removal(pod, &object.metadata) } else { Vec::new() })
}

/// Whether the StatefulSet that a record names makes the pod again, by the server.
fn returns(world: &World, pod: &Key, record: &EndpointRecord) -> Result<bool, CallError> {
    let name = &record.status.owner_controller_name;
    let sets: Api<StatefulSet> = Api::namespaced(world.cluster.client().clone(), &pod.namespace);
    let set = world.cluster.wait(sets.get_opt(name))?;
    Ok(set.is_some_and(|set| Ordinals::read(&set).want(name, &pod.name) == Keeper::Wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::reclaim::Pod;

    fn record(kind: &str, uid: &str, own: bool) -> EndpointRecord {
        let mut record = EndpointRecord { own, ..EndpointRecord::default() };
        record.status.owner_controller_type = kind.to_owned();
        record.status.current.uid = uid.to_owned();
        record
    }

    #[test]
    fn only_that_goes_of_which_nothing_is_left() {
        let gone = || Behind { pod: Pod::Absent, held: false };
        for (record, behind, returns, outdated) in [
            (record("ReplicaSet", "u", false), gone(), false, true),
            (record("ReplicaSet", "u", false), Behind { pod: Pod::Replaced, held: false }, false, true),
            (record("ReplicaSet", "u", false), Behind { pod: Pod::Unknown, held: false }, false, false),
            (record("ReplicaSet", "u", false), Behind { pod: Pod::Absent, held: true }, false, false),
            (record("ReplicaSet", "u", true), gone(), false, false),
            (record("ReplicaSet", "", false), gone(), false, false),
            (record("StatefulSet", "u", false), gone(), true, false),
            (record("StatefulSet", "u", false), gone(), false, true),
            (record("VirtualMachineInstance", "u", false), gone(), false, false),
        ] {
            assert_eq!(is_outdated(&record, &behind, returns), outdated, "{:?}", record.status);
        }
    }

    #[test]
    fn its_own_finalizer_is_taken_off_first_and_those_of_others_stay() {
        let pod = Key::new("shop", "web");
        let text = |text: &str| Some(text.to_owned());
        let meta = |finalizers: &[&str]| ObjectMeta {
            uid: text("u"),
            resource_version: text("7"),
            finalizers: Some(finalizers.iter().map(|own| (*own).to_owned()).collect()),
            ..ObjectMeta::default()
        };
        let [free, delete] = <[Write; 2]>::try_from(removal(&pod, &meta(&[FINALIZER, "mine"]))).unwrap();
        assert_eq!(free.verb, Verb::Patch(json!({"metadata": {"finalizers": ["mine"]}})));
        assert_eq!(free.only_if, OnlyIf { uid: text("u"), version: text("7") });
        assert_eq!((delete.verb, delete.only_if), (Verb::Delete, OnlyIf { uid: text("u"), version: None }));
        assert_eq!(removal(&pod, &meta(&["mine"])).len(), 1);
    }
}
