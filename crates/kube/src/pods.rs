//! The pods of one node: watched, and read one by one when the watch does not know them yet.

use crate::connect::{CallError, Cluster};
use crate::watch::{Bell, Mirror};
use berth_dialects::native::pod::{Owner, Pod};
use k8s_openapi::api::core::v1::Pod as ApiPod;
use kube::api::{Api, ListParams, ObjectMeta, PartialObjectMeta};
use kube::runtime::watcher;
use std::net::IpAddr;
use std::sync::Arc;

/// A static pod's mirror in the API has another UID than the pod that the runtime knows; this tells the latter.
const CONFIG_HASH: &str = "kubernetes.io/config.hash";

/// What the metadata of a pod says.
#[must_use]
pub fn of_metadata(meta: &ObjectMeta) -> Pod {
    let owner = |reference: &k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference| Owner {
        api_version: reference.api_version.clone(),
        kind: reference.kind.clone(),
        name: reference.name.clone(),
        uid: reference.uid.clone(),
        controller: reference.controller.unwrap_or(false),
    };
    Pod {
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        labels: meta.labels.clone().unwrap_or_default(),
        annotations: meta.annotations.clone().unwrap_or_default(),
        owners: meta.owner_references.iter().flatten().map(owner).collect(),
    }
}

/// Whether the runtime means this pod. Where it does not tell the UID, the name must do.
fn is_meant(pod: &Pod, uid: Option<&str>) -> bool {
    uid.is_none_or(|uid| uid == pod.uid || pod.annotations.get(CONFIG_HASH).is_some_and(|hash| hash == uid))
}

/// A pod by name, wherever it runs, and its node.
///
/// # Errors
/// If the server cannot be asked.
pub fn find(cluster: &Cluster, namespace: &str, name: &str) -> Result<Option<(Pod, Option<String>)>, CallError> {
    let api: Api<ApiPod> = Api::namespaced(cluster.client().clone(), namespace);
    let found = cluster.wait(api.get_opt(name))?;
    Ok(found.map(|pod| (of_metadata(&pod.metadata), pod.spec.and_then(|spec| spec.node_name))))
}

/// A pod as it says it is.
#[derive(Clone, Debug)]
pub struct Running {
    /// Namespace and name.
    pub name: String,
    /// Whether it is being deleted.
    pub is_leaving: bool,
    /// The pod by its metadata.
    pub pod: Pod,
    /// Its UID, and for a static pod the one that the runtime knows.
    pub uids: Vec<String>,
    /// The addresses it says it has.
    pub addresses: Vec<IpAddr>,
    /// Whether it has not ended.
    pub runs: bool,
    /// Whether its addresses are its node's.
    pub on_host_network: bool,
}

/// Every pod of the cluster, as of now.
///
/// # Errors
/// If the server cannot be asked.
pub fn all(cluster: &Cluster) -> Result<Vec<Running>, CallError> {
    let api: Api<ApiPod> = Api::all(cluster.client().clone());
    let pods = cluster.wait(api.list(&ListParams::default()))?;
    Ok(pods.items.iter().map(running).collect())
}

fn running(pod: &ApiPod) -> Running {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let ips = pod.status.iter().flat_map(|status| status.pod_ips.iter().flatten());
    Running {
        name: format!("{}/{name}", pod.metadata.namespace.as_deref().unwrap_or_default()),
        is_leaving: pod.metadata.deletion_timestamp.is_some(),
        pod: of_metadata(&pod.metadata),
        uids: uids(&pod.metadata).collect(),
        addresses: ips.filter_map(|ip| ip.ip.parse().ok()).collect(),
        runs: !has_ended(pod),
        on_host_network: pod.spec.as_ref().is_some_and(|spec| spec.host_network.unwrap_or(false)),
    }
}

fn has_ended(pod: &ApiPod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// What the runtime may know a pod by.
fn uids(meta: &ObjectMeta) -> impl Iterator<Item = String> + use<> {
    let hash = meta.annotations.as_ref().and_then(|all| all.get(CONFIG_HASH)).cloned();
    meta.uid.clone().into_iter().chain(hash)
}

/// The pods of a node.
#[derive(Clone)]
pub struct Pods {
    cluster: Cluster,
    node: String,
    known: Mirror<Pod>,
    bell: Bell,
    knows_networks: bool,
}

impl Pods {
    /// Follows the pods of a node; only their metadata, which is all that is needed. Those on the host's network never ask
    /// for an address, and are left out where the server can tell them apart.
    #[must_use]
    pub fn new(cluster: &Cluster, node: &str) -> Self {
        let api: Api<PartialObjectMeta<ApiPod>> = Api::all(cluster.client().clone());
        let (all, own) = (format!("spec.nodeName={node}"), format!("spec.nodeName={node},spec.hostNetwork=false"));
        // An older server refuses the field. One that does not answer at all may well know it.
        let asked = cluster.wait(api.list(&ListParams::default().fields(&own).limit(1)));
        let knows_networks = !asked.is_err_and(|error| error.status() == Some(400));
        let select = watcher::Config::default().fields(if knows_networks { &own } else { &all });
        let keep = |object: PartialObjectMeta<ApiPod>| Some(of_metadata(&object.metadata));
        let bell = Bell::default();
        // Nobody waits for it: a pod that it does not know is read.
        let known = Mirror::new(cluster, ("Pod", api), select, &bell, keep);
        Self { cluster: cluster.clone(), node: node.to_owned(), known, bell, knows_networks }
    }

    /// The pods as they come and go, and what rings then; nothing if it cannot be told which of them need an address.
    #[must_use]
    pub fn followed(&self) -> Option<(&Mirror<Pod>, &Bell)> {
        self.knows_networks.then_some((&self.known, &self.bell))
    }

    /// The pod that the runtime means, if the watch knows it.
    #[must_use]
    pub fn known(&self, namespace: &str, name: &str, uid: Option<&str>) -> Option<Arc<Pod>> {
        self.known.get(namespace, name).filter(|pod| is_meant(pod, uid))
    }

    /// The pod as the server has it now; `None` if it is gone or another of its name is there.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub fn read(&self, namespace: &str, name: &str, uid: Option<&str>) -> Result<Option<Arc<Pod>>, CallError> {
        let api: Api<ApiPod> = Api::namespaced(self.cluster.client().clone(), namespace);
        let found = self.cluster.wait(api.get_metadata_opt(name))?;
        Ok(found.map(|object| Arc::new(of_metadata(&object.metadata))).filter(|pod| is_meant(pod, uid)))
    }

    /// Whether a pod is there and has not ended, as of now, on whatever node.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub fn is_alive(&self, namespace: &str, name: &str, uid: &str) -> Result<bool, CallError> {
        let api: Api<ApiPod> = Api::namespaced(self.cluster.client().clone(), namespace);
        let found = self.cluster.wait(api.get_opt(name))?;
        Ok(found.is_some_and(|pod| !has_ended(&pod) && uids(&pod.metadata).any(|known| known == uid)))
    }

    /// The pods of this node that have not ended, as of now, with the addresses that their kubelet has told of.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub fn running(&self) -> Result<Vec<Running>, CallError> {
        let api: Api<ApiPod> = Api::all(self.cluster.client().clone());
        let pods = self.cluster.wait(api.list(&ListParams::default().fields(&self.own_that_live())))?;
        Ok(pods.items.iter().map(running).filter(|pod| !pod.on_host_network).collect())
    }

    fn own_that_live(&self) -> String {
        format!("spec.nodeName={},status.phase!=Succeeded,status.phase!=Failed", self.node)
    }

    /// The UIDs of the pods of this node, as of now and not of some cache; of those that have ended for good, none.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub fn living(&self) -> Result<Vec<String>, CallError> {
        let api: Api<ApiPod> = Api::all(self.cluster.client().clone());
        // The server leaves out those that have ended, and all of the others but their metadata: pods are large.
        let pods = self.cluster.wait(api.list_metadata(&ListParams::default().fields(&self.own_that_live())))?;
        Ok(pods.items.iter().flat_map(|pod| uids(&pod.metadata)).collect())
    }
}
