//! Network attachment definitions (`k8s.cni.cncf.io/v1`), read one by one when a pod of the node selects them.
//!
//! There may be thousands and a node's pods need a few, so they are not watched. One that was read is good for a while:
//! what is missed of a change is only that an interface is served by its own ADD.

use crate::connect::{CallError, Cluster};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long one is good for.
const FRESH: Duration = Duration::from_secs(10);
/// How many are kept.
const KEPT: usize = 1024;

/// Namespace, name.
type Key = (String, String);

/// What was read, and when.
type Known = Arc<Mutex<HashMap<Key, (Instant, Arc<str>)>>>;

/// The definitions that pods of this node have selected of late: when they were read, and their configurations.
#[derive(Clone)]
pub struct Definitions {
    cluster: Cluster,
    resource: ApiResource,
    known: Known,
}

impl Definitions {
    /// Those of a cluster; none is read yet.
    #[must_use]
    pub fn new(cluster: &Cluster) -> Self {
        let gvk = GroupVersionKind::gvk("k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition");
        let resource = ApiResource::from_gvk_with_plural(&gvk, "network-attachment-definitions");
        Self { cluster: cluster.clone(), resource, known: Arc::default() }
    }

    /// The configuration in a definition, if it was read a moment ago.
    #[must_use]
    pub fn known(&self, namespace: &str, name: &str) -> Option<Arc<str>> {
        let known = self.lock();
        let (read, config) = known.get(&(namespace.to_owned(), name.to_owned()))?;
        (read.elapsed() < FRESH).then(|| config.clone())
    }

    /// The configuration in a definition. While the server does not answer, what was read last must do.
    ///
    /// # Errors
    /// In words, why it is not known: there is no such definition, or no such kind, or the server cannot be asked.
    pub fn read(&self, namespace: &str, name: &str) -> Result<Arc<str>, String> {
        let key = (namespace.to_owned(), name.to_owned());
        let api: Api<DynamicObject> = Api::namespaced_with(self.cluster.client().clone(), namespace, &self.resource);
        match self.cluster.wait(api.get(name)) {
            Ok(object) => {
                let config: Arc<str> = object.data["spec"]["config"].as_str().unwrap_or_default().into();
                let mut known = self.lock();
                if known.len() >= KEPT {
                    known.retain(|_, (read, _)| read.elapsed() < FRESH);
                }
                if known.len() < KEPT {
                    known.insert(key, (Instant::now(), config.clone()));
                }
                Ok(config)
            }
            Err(error) => {
                let last = self.lock().get(&key).map(|(_, config)| config.clone());
                last.filter(|_| error.status().is_none()).ok_or_else(|| why(&error))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, (Instant, Arc<str>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn why(error: &CallError) -> String {
    match error.status() {
        Some(404) => "there is no such definition".to_owned(),
        _ => error.to_string(),
    }
}
