//! Where a pod is: its namespace and its node, watched. What selectors and defaults need of them is their labels and
//! annotations.

use crate::connect::{CallError, Cluster};
use crate::watch::{Bell, Mirror};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{Api, ObjectMeta, PartialObjectMeta};
use kube::runtime::watcher;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Labels and annotations of a namespace or a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}

impl Place {
    fn read(meta: &ObjectMeta) -> Self {
        let (labels, annotations) =
            (meta.labels.clone().unwrap_or_default(), meta.annotations.clone().unwrap_or_default());
        Self { labels, annotations }
    }
}

/// The namespaces of a cluster and one node of it.
#[derive(Clone)]
pub struct Places {
    cluster: Cluster,
    namespaces: Mirror<Place>,
    node: Mirror<Place>,
    name: String,
    /// The own node as it was at first, and its addresses.
    first: Arc<Place>,
    addresses: Arc<[IpAddr]>,
}

impl Places {
    /// Reads them as of now, and follows them from there.
    ///
    /// # Errors
    /// If they cannot be read, or there is no such node.
    pub fn open(cluster: &Cluster, node: &str) -> Result<Self, CallError> {
        let nodes: Api<Node> = Api::all(cluster.client().clone());
        let own = cluster.wait(nodes.get(node))?;
        let addresses = own.status.iter().flat_map(|status| status.addresses.iter().flatten());
        let addresses = addresses.filter_map(|address| address.address.parse().ok()).collect();
        let bell = Bell::default();
        let all: Api<PartialObjectMeta<Namespace>> = Api::all(cluster.client().clone());
        let keep = |object: PartialObjectMeta<Namespace>| Some(Place::read(&object.metadata));
        let namespaces = Mirror::new(cluster, ("Namespace", all), watcher::Config::default(), &bell, keep);
        let nodes: Api<PartialObjectMeta<Node>> = Api::all(cluster.client().clone());
        let only = watcher::Config::default().fields(&format!("metadata.name={node}"));
        let keep = |object: PartialObjectMeta<Node>| Some(Place::read(&object.metadata));
        let mirror = Mirror::new(cluster, ("Node", nodes), only, &bell, keep);
        namespaces.wait_for_sync()?;
        mirror.wait_for_sync()?;
        let (name, first) = (node.to_owned(), Arc::new(Place::read(&own.metadata)));
        Ok(Self { cluster: cluster.clone(), namespaces, node: mirror, name, first, addresses })
    }

    /// A namespace, if the watch knows it.
    #[must_use]
    pub fn namespace(&self, name: &str) -> Option<Arc<Place>> {
        self.namespaces.get("", name)
    }

    /// A namespace as the server has it now.
    ///
    /// # Errors
    /// If the server cannot be asked, or there is no such namespace.
    pub fn read_namespace(&self, name: &str) -> Result<Arc<Place>, CallError> {
        let namespaces: Api<Namespace> = Api::all(self.cluster.client().clone());
        let found = self.cluster.wait(namespaces.get_metadata(name))?;
        Ok(Arc::new(Place::read(&found.metadata)))
    }

    /// The own node; as it was at first, should it be deleted.
    #[must_use]
    pub fn node(&self) -> Arc<Place> {
        self.node.get("", &self.name).unwrap_or_else(|| self.first.clone())
    }

    /// Whether nothing is heard of the own node's kubelet, as of now.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub fn kubelet_is_silent(&self) -> Result<bool, CallError> {
        let nodes: Api<Node> = Api::all(self.cluster.client().clone());
        let own = self.cluster.wait(nodes.get_opt(&self.name))?;
        let conditions = own.and_then(|node| node.status).and_then(|status| status.conditions).unwrap_or_default();
        Ok(conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "Unknown"))
    }

    /// The own node's addresses, as the cluster knew them at first.
    #[must_use]
    pub fn node_addresses(&self) -> &[IpAddr] {
        &self.addresses
    }
}
