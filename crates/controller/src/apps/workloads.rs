//! What makes pods: Kubernetes' own workloads, watched from the start, and any other kind as soon as a pod of it asks.

use crate::kinds::{self, Found, gvk};
use berth_core::apps::application::group;
use berth_core::apps::{Controller, Identity, Workload};
use berth_dialects::native::pod::ASKING;
use berth_dialects::native::workload::{self, workload};
use berth_dialects::spiderpool::settings::Conf;
use berth_kube::Cluster;
use berth_kube::connect::CallError;
use berth_kube::watch::{Bell, Changes, Key, Mirror};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::watcher::Config;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{debug, info};

/// Kubernetes' own.
const KNOWN: [(&str, &str, &str); 6] = [
    ("apps/v1", "Deployment", "deployments"),
    ("apps/v1", "ReplicaSet", "replicasets"),
    ("apps/v1", "StatefulSet", "statefulsets"),
    ("apps/v1", "DaemonSet", "daemonsets"),
    ("batch/v1", "Job", "jobs"),
    ("batch/v1", "CronJob", "cronjobs"),
];
/// How long to wait before a kind that could not be watched is tried again.
const AGAIN: Duration = Duration::from_secs(30);

/// What is kept of a workload.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kept {
    /// An application.
    Application(Workload),
    /// A controller in between.
    Part { uid: String, of: Identity },
    /// It asks for something that makes no sense.
    Wrong { uid: String, why: String },
}

/// One kind of workload.
struct Kind {
    api_version: String,
    kind: String,
    resource: ApiResource,
    mirror: Mirror<Kept>,
    changes: Changes,
    /// Whether its objects say how many pods there are to be by a subresource of their own.
    scales: bool,
}

/// All workloads that are known.
pub(super) struct Workloads {
    cluster: Cluster,
    bell: Bell,
    /// Spiderpool's switches.
    conf: Conf,
    kinds: Vec<Kind>,
    /// Kinds that could not be watched, and when that was.
    failed: BTreeMap<(String, String), Instant>,
}

/// A kind that pods ask by.
pub(super) type Asking = (String, String);

impl Workloads {
    pub(super) fn new(cluster: &Cluster, bell: &Bell, conf: &Conf) -> Self {
        let (cluster, bell, conf) = (cluster.clone(), bell.clone(), conf.clone());
        let mut all = Self { cluster, bell, conf, kinds: Vec::new(), failed: BTreeMap::new() };
        for (api_version, kind, plural) in KNOWN {
            all.follow(api_version, kind, ApiResource::from_gvk_with_plural(&gvk(api_version, kind), plural), false);
        }
        all
    }

    /// Waits until Kubernetes' own have been listed once.
    pub(super) fn wait_for_sync(&self) -> Result<(), CallError> {
        // Not those that were learned of: one that may not be read must not stop the rest.
        self.kinds.iter().take(KNOWN.len()).try_for_each(|kind| kind.mirror.wait_for_sync())
    }

    fn follow(&mut self, api_version: &str, kind: &str, resource: ApiResource, scales: bool) {
        let api: Api<DynamicObject> = Api::all_with(self.cluster.client().clone(), &resource);
        let (own_version, own_kind, conf) = (api_version.to_owned(), kind.to_owned(), self.conf.clone());
        let keep = move |object: DynamicObject| read(&own_version, &own_kind, object, &conf);
        let mirror = Mirror::new(&self.cluster, (kind, api), Config::default(), &self.bell, keep);
        let changes = mirror.changes();
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        self.kinds.push(Kind { api_version, kind, resource, mirror, changes, scales });
    }

    /// Begins to follow the kinds that pods ask by and that are not known yet.
    pub(super) fn learn(&mut self, asking: &BTreeSet<Asking>) {
        let now = Instant::now();
        for (api_version, kind) in asking {
            let key = (api_version.clone(), kind.clone());
            let known = |own: &Kind| own.kind == *kind && group(&own.api_version) == group(api_version);
            let lately = self.failed.get(&key).is_some_and(|at| now.duration_since(*at) < AGAIN);
            if self.kinds.iter().any(known) || lately {
                continue;
            }
            match kinds::find(&self.cluster, api_version, kind) {
                Ok(Some(Found { resource, scales })) => {
                    info!(kind, api_version, scales, "pods of this kind ask for pools of their own: watching it");
                    self.follow(api_version, kind, resource, scales);
                    self.failed.remove(&key);
                }
                Ok(None) => drop(self.failed.insert(key, now)),
                Err(error) => {
                    debug!(kind, api_version, %error, "cannot find out about a kind");
                    self.failed.insert(key, now);
                }
            }
        }
    }

    /// The applications that something has happened to since this was last asked.
    pub(super) fn changed(&self) -> BTreeSet<Identity> {
        let mut changed = BTreeSet::new();
        for kind in &self.kinds {
            for key in kind.changes.take() {
                match kind.mirror.get(&key.namespace, &key.name).as_deref() {
                    Some(Kept::Part { of, .. }) => _ = changed.insert(of.clone()),
                    _ => _ = changed.insert(kind.identity(&key)),
                }
            }
        }
        changed
    }

    fn of(&self, who: &Identity) -> Option<&Kind> {
        self.kinds.iter().find(|kind| kind.kind == who.kind && group(&kind.api_version) == who.group)
    }

    /// What the watches know of an application, with the controllers in between.
    pub(super) fn get(&self, who: &Identity) -> Option<Arc<Kept>> {
        let kind = self.of(who)?;
        let kept = kind.mirror.get(&who.namespace, &who.name)?;
        let Kept::Application(workload) = &*kept else { return Some(kept) };
        let mut workload = workload.clone();
        workload.controllers = self.parts_of(who);
        if kind.scales && !workload.interfaces.is_empty() {
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.cluster.client().clone(), &who.namespace, &kind.resource);
            match kinds::scale(&self.cluster, &api, &who.name) {
                Ok(replicas) => workload.replicas = u32::try_from(replicas).ok(),
                Err(error) => debug!(%who, %error, "cannot read the scale"),
            }
        }
        Some(Arc::new(Kept::Application(workload)))
    }

    fn parts_of(&self, who: &Identity) -> Vec<String> {
        let mut parts = Vec::new();
        for kind in self.kinds.iter().filter(|kind| matches!(kind.kind.as_str(), "ReplicaSet" | "Job")) {
            kind.mirror.with(|all| {
                let own = all.iter().filter(|(key, _)| key.namespace == who.namespace);
                parts.extend(own.filter_map(|(_, kept)| match &**kept {
                    Kept::Part { uid, of } if of == who => Some(uid.clone()),
                    _ => None,
                }));
            });
        }
        parts
    }

    /// Whether an application is gone for certain: the server itself says so.
    pub(super) fn is_gone(&self, who: &Identity, api_version: &str) -> bool {
        let resource = match self.of(who) {
            Some(kind) if !kind.mirror.is_synced() => return false,
            Some(kind) => kind.resource.clone(),
            None => match kinds::find(&self.cluster, api_version, &who.kind) {
                Ok(Some(found)) => found.resource,
                // A kind that is not there any more tells nothing: it may be about to come back.
                Ok(None) | Err(_) => return false,
            },
        };
        let api: Api<DynamicObject> = Api::namespaced_with(self.cluster.client().clone(), &who.namespace, &resource);
        matches!(self.cluster.wait(api.get_metadata_opt(&who.name)), Ok(None))
    }

    /// Every application that asks for something.
    pub(super) fn asking(&self) -> BTreeSet<Identity> {
        let mut all = BTreeSet::new();
        for kind in &self.kinds {
            kind.mirror.with(|objects| {
                let asks = |kept: &Kept| matches!(kept, Kept::Application(own) if !own.interfaces.is_empty());
                let asking = objects.iter().filter(|(_, kept)| asks(kept));
                all.extend(asking.map(|(key, _)| kind.identity(key)));
            });
        }
        all
    }

    /// The version that a kind is watched in.
    pub(super) fn api_version(&self, who: &Identity) -> String {
        self.of(who).map(|kind| kind.api_version.clone()).unwrap_or_default()
    }
}

impl Kind {
    fn identity(&self, key: &Key) -> Identity {
        Identity {
            group: group(&self.api_version).to_owned(),
            kind: self.kind.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        }
    }
}

/// What is kept of an object. A controller in between is of interest only if its pods ask for something.
fn read(api_version: &str, kind: &str, object: DynamicObject, conf: &Conf) -> Option<Kept> {
    let uid = object.metadata.uid.clone().unwrap_or_default();
    let going = object.metadata.deletion_timestamp.is_some();
    let mut value = serde_json::to_value(object).ok()?;
    value["apiVersion"] = api_version.into();
    value["kind"] = kind.into();
    match workload(&value, None, None, conf) {
        Ok(workload::Found::Application(mut workload)) => {
            if going && !workload.keep {
                // Its pods go, and no new ones come.
                workload.replicas = Some(0);
            }
            Some(Kept::Application(workload))
        }
        Ok(workload::Found::Part { uid, namespace, of }) => {
            let Controller { group, kind, name, .. } = of;
            asks(&value).then_some(Kept::Part { uid, of: Identity { group, kind, namespace, name } })
        }
        Err(error) => Some(Kept::Wrong { uid, why: error.to_string() }),
    }
}

/// Whether a pod template may ask for pools of its own.
fn asks(object: &Value) -> bool {
    let annotations = &object["spec"]["template"]["metadata"]["annotations"];
    ASKING.iter().any(|key| annotations.get(key).is_some())
}
