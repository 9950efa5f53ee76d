//! The same, asked of the API server now: a read without a version comes from the quorum, never from a cache.

use super::Look;
use super::machines::Served;
use super::mirrors::Mirrors;
use super::owners::{self, Owners};
use super::read::{self, Ordinals, PodFacts};
use berth_core::reclaim::{Keeper, Node, Pod};
use berth_kube::Cluster;
use berth_kube::connect::CallError;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1 as api;
use kube::api::{Api, DynamicObject, ListParams};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

/// With more than this many pods to ask about, all are listed at once.
const MANY: usize = 32;

/// What the server says, each thing asked once. Who cannot be asked is unknown, and keeps what it has.
pub(crate) struct Fresh<'a> {
    cluster: &'a Cluster,
    mirrors: &'a Mirrors,
    /// All pods, if they were listed.
    listed: Option<HashMap<(String, String), PodFacts>>,
    nodes: RefCell<HashMap<String, Node>>,
    owners: Owners<'a>,
    /// Where KubeVirt's kinds are, once that was asked.
    machines: OnceCell<Option<Served>>,
}

impl Fresh<'_> {
    /// Nobody knows whether the pod is made again; without its namespace nobody makes it again.
    fn without_owner(&self, namespace: &str) -> Keeper {
        let api: Api<api::Namespace> = Api::all(self.cluster.client().clone());
        match self.cluster.wait(api.get_opt(namespace)) {
            Ok(None) => Keeper::NotWanted,
            Ok(Some(_)) | Err(_) => Keeper::Unknown,
        }
    }
}

impl<'a> Fresh<'a> {
    /// Ready to be asked about so many pods.
    ///
    /// # Errors
    /// If they are so many that they are listed, and cannot be.
    pub(crate) fn new(cluster: &'a Cluster, mirrors: &'a Mirrors, pods: usize) -> Result<Self, CallError> {
        let listed = if pods > MANY { Some(list(cluster)?) } else { None };
        let (owners, machines) = (Owners::new(cluster), OnceCell::new());
        Ok(Self { cluster, mirrors, listed, nodes: RefCell::default(), owners, machines })
    }
}

fn list(cluster: &Cluster) -> Result<HashMap<(String, String), PodFacts>, CallError> {
    let api: Api<api::Pod> = Api::all(cluster.client().clone());
    let mut params = ListParams::default().limit(1000);
    let mut all = HashMap::new();
    loop {
        let page = cluster.wait(api.list(&params))?;
        all.extend(page.items.iter().map(|pod| {
            let (namespace, name) = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
            ((namespace.unwrap_or_default(), name.unwrap_or_default()), PodFacts::read(pod))
        }));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

impl Look for Fresh<'_> {
    fn pod(&self, namespace: &str, name: &str, uid: &str) -> Pod {
        if let Some(listed) = &self.listed {
            let found = listed.get(&(namespace.to_owned(), name.to_owned()));
            return found.map_or(Pod::Absent, |pod| pod.seen_by(uid));
        }
        let api: Api<api::Pod> = Api::namespaced(self.cluster.client().clone(), namespace);
        match self.cluster.wait(api.get_opt(name)) {
            Ok(Some(pod)) => PodFacts::read(&pod).seen_by(uid),
            Ok(None) => Pod::Absent,
            Err(_) => Pod::Unknown,
        }
    }

    fn node(&self, name: &str) -> Node {
        if let Some(known) = self.nodes.borrow().get(name) {
            return *known;
        }
        let api: Api<api::Node> = Api::all(self.cluster.client().clone());
        let found = match self.cluster.wait(api.get_opt(name)) {
            Ok(Some(node)) => read::node(&node),
            Ok(None) => Node::Gone,
            Err(_) => Node::Unknown,
        };
        self.nodes.borrow_mut().insert(name.to_owned(), found);
        found
    }

    fn will_return(&self, namespace: &str, pod: &str) -> Keeper {
        let Some(owner) = self.mirrors.owner(namespace, pod) else { return self.without_owner(namespace) };
        if owners::is_of_others(&owner) {
            let keeper = self.owners.want(namespace, &owner, pod);
            return if keeper == Keeper::Unknown { self.without_owner(namespace) } else { keeper };
        }
        if owner.kind != "StatefulSet" {
            return self.without_owner(namespace);
        }
        let api: Api<StatefulSet> = Api::namespaced(self.cluster.client().clone(), namespace);
        match self.cluster.wait(api.get_opt(&owner.name)) {
            Ok(Some(set)) => Ordinals::read(&set).want(&owner.name, pod),
            Ok(None) => Keeper::NotWanted,
            Err(_) => Keeper::Unknown,
        }
    }

    fn machine(&self, namespace: &str, name: &str) -> Keeper {
        // A kind that is not there tells nothing of its objects: it may be about to come back.
        let served = self.machines.get_or_init(|| Served::find(self.cluster).unwrap_or_default());
        match served.as_ref().map(|served| served.ask(self.cluster, namespace, name)) {
            Some(known) if known != Keeper::Unknown => known,
            _ => self.without_owner(namespace),
        }
    }

    fn claim(&self, namespace: &str, name: &str) -> Keeper {
        let resource = berth_kube::endpoints::claim_resource();
        let api: Api<DynamicObject> = Api::namespaced_with(self.cluster.client().clone(), namespace, &resource);
        match self.cluster.wait(api.get_opt(name)) {
            Ok(None) => Keeper::NoClaim,
            Ok(Some(_)) | Err(_) => Keeper::Unknown,
        }
    }
}
