//! Where a pod is: its namespace and its node, watched. What selectors and defaults need of them is their labels and
//! annotations.

use crate::connect::{CallError, Cluster};
use crate::watch::follow;
use futures::future::try_join;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{Api, ListParams, ObjectMeta, PartialObjectMeta};
use kube::runtime::watcher::{self, Event};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Labels and annotations of a namespace or a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}

impl Place {
    fn read(meta: &ObjectMeta) -> Arc<Self> {
        let (labels, annotations) =
            (meta.labels.clone().unwrap_or_default(), meta.annotations.clone().unwrap_or_default());
        Arc::new(Self { labels, annotations })
    }
}

type Namespaces = HashMap<String, Arc<Place>>;

/// The namespaces of a cluster and one node of it.
#[derive(Clone)]
pub struct Places {
    cluster: Cluster,
    namespaces: Arc<Mutex<Namespaces>>,
    node: Arc<Mutex<Arc<Place>>>,
    addresses: Arc<Vec<IpAddr>>,
}

impl Places {
    /// Reads them as of now, and follows them from there.
    ///
    /// # Errors
    /// If they cannot be read, or there is no such node.
    pub fn open(cluster: &Cluster, node: &str) -> Result<Self, CallError> {
        let namespaces: Api<Namespace> = Api::all(cluster.client().clone());
        let nodes: Api<Node> = Api::all(cluster.client().clone());
        let params = ListParams::default();
        let (listed, own) = cluster.wait(try_join(namespaces.list_metadata(&params), nodes.get(node)))?;
        let named = |object: &PartialObjectMeta<Namespace>| {
            (object.metadata.name.clone().unwrap_or_default(), Place::read(&object.metadata))
        };
        let addresses = own.status.iter().flat_map(|status| status.addresses.iter().flatten());
        let addresses = addresses.filter_map(|address| address.address.parse().ok()).collect();
        let places = Self {
            cluster: cluster.clone(),
            namespaces: Arc::new(Mutex::new(listed.items.iter().map(named).collect())),
            node: Arc::new(Mutex::new(Place::read(&own.metadata))),
            addresses: Arc::new(addresses),
        };
        let told = places.namespaces.clone();
        let namespaces: Api<PartialObjectMeta<Namespace>> = Api::all(cluster.client().clone());
        let stream = watcher::watcher(namespaces, watcher::Config::default());
        let mut listed: Option<Namespaces> = None;
        cluster.spawn(follow("Namespace", stream, move |event| match event {
            Event::Init => listed = Some(HashMap::new()),
            Event::InitApply(object) => {
                if let Some(listed) = &mut listed {
                    listed.extend([named(&object)]);
                }
            }
            Event::InitDone => *lock(&told) = listed.take().unwrap_or_default(),
            Event::Apply(object) => lock(&told).extend([named(&object)]),
            Event::Delete(object) => drop(lock(&told).remove(&named(&object).0)),
        }));
        let told = places.node.clone();
        let only = watcher::Config::default().fields(&format!("metadata.name={node}"));
        let nodes: Api<PartialObjectMeta<Node>> = Api::all(cluster.client().clone());
        cluster.spawn(follow("Node", watcher::watcher(nodes, only), move |event| {
            if let Event::Apply(object) | Event::InitApply(object) = event {
                *lock(&told) = Place::read(&object.metadata);
            }
        }));
        Ok(places)
    }

    /// A namespace, if the watch knows it.
    #[must_use]
    pub fn namespace(&self, name: &str) -> Option<Arc<Place>> {
        lock(&self.namespaces).get(name).cloned()
    }

    /// A namespace as the server has it now.
    ///
    /// # Errors
    /// If the server cannot be asked, or there is no such namespace.
    pub fn read_namespace(&self, name: &str) -> Result<Arc<Place>, CallError> {
        let namespaces: Api<Namespace> = Api::all(self.cluster.client().clone());
        let found = self.cluster.wait(namespaces.get_metadata(name))?;
        Ok(Place::read(&found.metadata))
    }

    /// The own node.
    #[must_use]
    pub fn node(&self) -> Arc<Place> {
        lock(&self.node).clone()
    }

    /// The own node's addresses, as the cluster knows them.
    #[must_use]
    pub fn node_addresses(&self) -> &[IpAddr] {
        &self.addresses
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
