//! From objects of the API server to what matters of them.

use berth_core::addr::Cidr;
use berth_core::ipam::Outcome;
use berth_core::reclaim::{Keeper, Life, Node, Pod};
use berth_core::time::Time;
use berth_dialects::native::pod;
use berth_dialects::spiderpool::endpoint::{DERIVED, EndpointStatus};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1 as api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::DynamicObject;
use serde::Deserialize;
use serde_json::Value;

/// A static pod's mirror in the API has another UID than the pod that the runtime knows; this tells the latter.
const CONFIG_HASH: &str = "kubernetes.io/config.hash";
/// Put on a node by whoever knows that nothing runs there any more.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// What matters of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodFacts {
    uids: Vec<String>,
    life: Life,
    /// It is on its node's own network, and needs no address.
    on_host: bool,
    /// Version and kind of the controller by which it asks for pools of its own, if it does.
    pub(crate) asks_by: Option<(String, String)>,
    /// Kind and name of the controller furthest up, as far as names tell.
    pub(crate) controller: Option<(String, String)>,
    /// Whether a StatefulSet made it.
    pub(crate) of_set: bool,
    /// The virtual machine that it runs.
    pub(crate) machine: Option<String>,
    /// What it says about routes, if anything.
    routing: Option<Box<pod::Pod>>,
}

impl PodFacts {
    pub(crate) fn read(object: &api::Pod) -> Self {
        let meta = &object.metadata;
        let hash = meta.annotations.as_ref().and_then(|all| all.get(CONFIG_HASH)).cloned();
        let status = object.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref());
        let containers = status.into_iter().flat_map(|status| {
            let (init, main) = (&status.init_container_statuses, &status.container_statuses);
            [init, main, &status.ephemeral_container_statuses].into_iter().flatten().flatten()
        });
        let running =
            |container: &api::ContainerStatus| container.state.as_ref().is_some_and(|state| state.running.is_some());
        let runs = containers.into_iter().any(running);
        let own = berth_kube::pods::of_metadata(meta);
        Self {
            uids: meta.uid.clone().into_iter().chain(hash).collect(),
            asks_by: crate::apps::asks_by(object),
            on_host: object.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or_default(),
            controller: own.top_controller().map(|top| (top.kind, top.name)),
            of_set: own.is_of_set(),
            machine: own.machine().map(str::to_owned),
            routing: routing(own),
            life: Life { ended: matches!(phase, Some("Succeeded" | "Failed")), deadline: deleted_at(meta), runs },
        }
    }

    /// What becomes of the routes of an interface.
    pub(crate) fn routes(&self, ifname: &str) -> pod::Routes {
        // One that cannot be read was refused when the pod asked.
        self.routing.as_ref().and_then(|own| pod::routes_of(own, ifname).ok()).unwrap_or_default()
    }

    /// Whether it belongs to this controller and is there to stay.
    pub(crate) fn stays_with(&self, kind: &str, name: &str) -> bool {
        let own = self.controller.as_ref().is_some_and(|(of, called)| of == kind && called == name);
        own && !self.life.ended && self.life.deadline.is_none()
    }

    /// The networks of the interfaces that come before one, which have the first call on routes of the pod.
    pub(crate) fn networks_before<'a>(
        &self,
        ifname: &str,
        others: impl IntoIterator<Item = (&'a str, &'a Outcome)>,
    ) -> Vec<Cidr> {
        self.routing.as_ref().map(|own| pod::networks_before(own, ifname, others)).unwrap_or_default()
    }

    /// What a holder that names this pod by name and UID is to make of it.
    pub(crate) fn seen_by(&self, uid: &str) -> Pod {
        // What is kept for a pod that is away names none: whoever has the name then is meant, if it asks for addresses.
        if self.uids.iter().any(|own| own == uid) {
            Pod::There(self.life.clone())
        } else if self.on_host {
            Pod::OnHost
        } else if uid.is_empty() {
            Pod::There(self.life.clone())
        } else {
            Pod::Replaced
        }
    }
}

/// The pod with those annotations alone that speak of routes; most have none.
fn routing(mut own: pod::Pod) -> Option<Box<pod::Pod>> {
    own.annotations.retain(|key, _| pod::ROUTING.contains(&key.as_str()));
    own.labels.clear();
    own.owners.clear();
    (!own.annotations.is_empty()).then(|| Box::new(own))
}

/// When an object was to be gone; the server has added the grace period.
fn deleted_at(meta: &ObjectMeta) -> Option<Time> {
    let at = meta.deletion_timestamp.as_ref()?.0.as_second();
    u64::try_from(at).ok().map(Time::from_secs)
}

pub(crate) fn node(node: &api::Node) -> Node {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    if taints.into_iter().any(|taint| taint.key == OUT_OF_SERVICE) {
        return Node::OutOfService;
    }
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    if ready { Node::Ready } else { Node::Silent }
}

/// Which pods a StatefulSet has, or whoever else numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ordinals {
    pub(crate) start: i64,
    pub(crate) replicas: i64,
}

impl Ordinals {
    pub(crate) fn read(set: &StatefulSet) -> Self {
        let spec = set.spec.as_ref();
        let start = spec.and_then(|spec| spec.ordinals.as_ref()?.start).unwrap_or(0);
        let replicas = spec.and_then(|spec| spec.replicas).unwrap_or(1);
        // A set that is being deleted makes no more pods.
        let replicas = if set.metadata.deletion_timestamp.is_some() { 0 } else { replicas };
        Self { start: start.into(), replicas: replicas.into() }
    }

    /// The same of an object of any kind, with what its `scale` says; `None` if nobody can tell. A StatefulSet of whatever
    /// group says it as Kubernetes' own do.
    pub(crate) fn of_any(kind: &str, object: &Value, scale: Option<i32>) -> Option<Self> {
        let spec = &object["spec"];
        let said = || (kind == "StatefulSet").then(|| spec["replicas"].as_i64().unwrap_or(1));
        let going = object["metadata"]["deletionTimestamp"].is_string();
        let replicas = if going { 0 } else { scale.map(i64::from).or_else(said)? };
        Some(Self { start: spec["ordinals"]["start"].as_i64().unwrap_or(0), replicas })
    }

    /// Whether it will make a pod of this name again.
    pub(crate) fn want(self, set: &str, pod: &str) -> Keeper {
        let ordinal = pod.strip_prefix(set).and_then(|rest| rest.strip_prefix('-')?.parse::<i64>().ok());
        match ordinal {
            Some(ordinal) if (self.start..self.start + self.replicas).contains(&ordinal) => Keeper::Wanted,
            Some(_) => Keeper::NotWanted,
            // It does not number its pods, whatever else it does with them.
            None => Keeper::Unknown,
        }
    }
}

/// What is known of a SpiderEndpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EndpointRecord {
    pub(crate) uid: String,
    /// Whether Berth made it.
    pub(crate) own: bool,
    pub(crate) status: EndpointStatus,
}

impl EndpointRecord {
    pub(crate) fn read(object: &DynamicObject) -> Self {
        let own = object.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(DERIVED));
        let status = object.data.get("status").and_then(|status| EndpointStatus::deserialize(status).ok());
        Self { uid: object.metadata.uid.clone().unwrap_or_default(), own, status: status.unwrap_or_default() }
    }
}

/// What is written back to an object of Berth's own kinds, and what it depends on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record {
    pub(crate) uid: String,
    pub(crate) generation: Option<i64>,
    pub(crate) version: String,
    pub(crate) finalizers: Vec<String>,
    pub(crate) owners: Vec<OwnerReference>,
    /// Whether it is to be deleted.
    pub(crate) going: bool,
    pub(crate) status: Value,
}

impl Record {
    pub(crate) fn read(mut object: DynamicObject) -> Self {
        let meta = object.metadata;
        Self {
            uid: meta.uid.unwrap_or_default(),
            generation: meta.generation,
            version: meta.resource_version.unwrap_or_default(),
            finalizers: meta.finalizers.unwrap_or_default(),
            owners: meta.owner_references.unwrap_or_default(),
            going: meta.deletion_timestamp.is_some(),
            status: object.data.get_mut("status").map(Value::take).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(value: Value) -> PodFacts {
        PodFacts::read(&serde_json::from_value(value).unwrap())
    }

    #[test]
    fn a_pod_is_known_by_its_uid_and_a_static_one_by_its_hash_too() {
        let facts = pod(json!({"metadata": {"uid": "u1", "annotations": {"kubernetes.io/config.hash": "h"}}}));
        assert!(matches!(facts.seen_by("u1"), Pod::There(_)));
        assert!(matches!(facts.seen_by("h"), Pod::There(_)));
        assert!(matches!(facts.seen_by(""), Pod::There(_)));
        assert_eq!(facts.seen_by("u2"), Pod::Replaced);
        let facts = pod(json!({"metadata": {"uid": "u1"}, "spec": {"containers": [], "hostNetwork": true}}));
        assert!(matches!(facts.seen_by("u1"), Pod::There(_)));
        assert_eq!(facts.seen_by("u2"), Pod::OnHost);
        assert_eq!(facts.seen_by(""), Pod::OnHost);
    }

    #[test]
    fn whether_a_pod_ended_runs_or_should_be_gone() {
        let life = |value| match pod(value).seen_by("") {
            Pod::There(life) => life,
            other => panic!("{other:?}"),
        };
        for (phase, ended) in [("Running", false), ("Pending", false), ("Succeeded", true), ("Failed", true)] {
            assert_eq!(life(json!({"metadata": {}, "status": {"phase": phase}})).ended, ended, "{phase}");
        }
        for (state, runs) in [
            (json!({"running": {}}), true),
            (json!({"terminated": {"exitCode": 0}}), false),
            (json!({"waiting": {}}), false),
        ] {
            let status =
                json!({"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state});
            assert_eq!(life(json!({"metadata": {}, "status": {"containerStatuses": [status]}})).runs, runs);
        }
        let going = life(json!({"metadata": {"deletionTimestamp": "1970-01-01T00:10:00Z"}}));
        assert_eq!(going.deadline, Some(Time::from_secs(600)));
    }

    #[test]
    fn a_node_answers_is_silent_or_out_of_service() {
        let read = |value| node(&serde_json::from_value(value).unwrap());
        let ready = |status| json!({"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": status}]}});
        assert_eq!(read(ready("True")), Node::Ready);
        assert_eq!(read(ready("Unknown")), Node::Silent);
        assert_eq!(read(ready("False")), Node::Silent);
        assert_eq!(read(json!({"metadata": {}})), Node::Silent);
        let mut out = ready("Unknown");
        out["spec"] = json!({"taints": [{"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}]});
        assert_eq!(read(out), Node::OutOfService);
    }

    #[test]
    fn a_stateful_set_wants_its_ordinals() {
        let set = |value: Value| Ordinals::read(&serde_json::from_value(value).unwrap());
        let two = json!({"metadata": {}, "spec": {"replicas": 2, "ordinals": {"start": 3},
            "selector": {}, "serviceName": "", "template": {}}});
        assert_eq!(set(two.clone()), Ordinals { start: 3, replicas: 2 });
        let ordinals = set(two);
        for (name, keeper) in [
            ("db-2", Keeper::NotWanted),
            ("db-3", Keeper::Wanted),
            ("db-4", Keeper::Wanted),
            ("db-5", Keeper::NotWanted),
            ("db-x", Keeper::Unknown),
            ("other-3", Keeper::Unknown),
        ] {
            assert_eq!(ordinals.want("db", name), keeper, "{name}");
        }
    }

    #[test]
    fn an_object_of_any_kind_wants_what_its_scale_says() {
        let two = json!({"metadata": {}, "spec": {"replicas": 2, "ordinals": {"start": 3}}});
        let read = |kind: &str, scale| Ordinals::of_any(kind, &two, scale);
        assert_eq!(read("StatefulSet", None), Some(Ordinals { start: 3, replicas: 2 }));
        assert_eq!(read("StatefulSet", Some(4)), Some(Ordinals { start: 3, replicas: 4 }));
        assert_eq!(read("CloneSet", Some(0)), Some(Ordinals { start: 3, replicas: 0 }));
        assert_eq!(read("CloneSet", None), None, "what its replicas are is its own business");
        let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"replicas": 2}});
        for kind in ["StatefulSet", "CloneSet"] {
            assert_eq!(Ordinals::of_any(kind, &going, Some(2)), Some(Ordinals { start: 0, replicas: 0 }), "{kind}");
        }
    }

    #[test]
    fn a_pod_that_ends_or_belongs_to_another_does_not_stay() {
        let owner = json!({"apiVersion": "x.io/v1", "kind": "CloneSet", "name": "web", "uid": "u", "controller": true});
        let owned = |deleted: Value, phase: &str| {
            let metadata = json!({"name": "web-0", "ownerReferences": [owner], "deletionTimestamp": deleted});
            pod(json!({"metadata": metadata, "status": {"phase": phase}}))
        };
        let alive = owned(Value::Null, "Running");
        assert!(alive.stays_with("CloneSet", "web") && owned(Value::Null, "Pending").stays_with("CloneSet", "web"));
        assert!(!alive.stays_with("CloneSet", "other") && !alive.stays_with("Plain", "web"));
        assert!(!owned(Value::Null, "Failed").stays_with("CloneSet", "web"));
        assert!(!owned(json!("2026-01-01T00:00:00Z"), "Running").stays_with("CloneSet", "web"));
    }
}
