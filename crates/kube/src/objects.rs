//! What is configured: pools, subnets, reservations and claims, watched. There are few of them, and every node may need
//! any, so all are kept.

use crate::connect::{CallError, Cluster};
use crate::watch::{Bell, Mirror};
use berth_core::error::Error;
use berth_core::ipam::Config;
use berth_dialects::kinds::{self, Dialect, KindInfo};
use berth_dialects::{Object, judge, spiderpool};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, Weak};
use std::time::Duration;
use tracing::{info, warn};

/// How often it is looked whether kinds of another system have been installed.
const LOOK: Duration = Duration::from_secs(20);

/// The configured objects of a cluster, kept up to date.
#[derive(Clone)]
pub struct Objects {
    mirrors: Mirrors,
    changed: Bell,
}

/// By kind. Those of other systems come when their definitions do.
type Mirrors = Arc<RwLock<BTreeMap<&'static str, Mirror<Object>>>>;

impl Objects {
    /// Reads everything as of now, and follows it from there. Kinds of Spiderpool are followed if they are installed; if
    /// not, it is looked now and then whether they are.
    ///
    /// # Errors
    /// If it cannot be read; a server without Berth's kinds says so.
    pub fn open(cluster: &Cluster) -> Result<Self, CallError> {
        let changed = Bell::default();
        let native = kinds::KINDS.iter().filter(|kind| !kind.derived && kind.dialect == Dialect::Native);
        let mut mirrors: BTreeMap<_, _> = native.map(|kind| (kind.kind, mirror(cluster, kind, &changed))).collect();
        mirrors.values().try_for_each(Mirror::wait_for_sync)?;
        let installed = match cluster.wait(installed(cluster.client().clone())) {
            // Not there, or not to be seen, which must not stop everything else.
            Err(error) if matches!(error.status(), Some(403 | 404)) => Vec::new(),
            installed => installed?,
        };
        for kind in installed {
            let followed = mirror(cluster, kind, &changed);
            match followed.wait_for_sync() {
                // Whoever installed Berth did not give it the right; that must not stop everything else.
                Err(error) if error.status() == Some(403) => warn!(kind = kind.kind, %error, "is left out"),
                synced => {
                    synced?;
                    mirrors.insert(kind.kind, followed);
                }
            }
        }
        let objects = Self { mirrors: Arc::new(RwLock::new(mirrors)), changed };
        if !objects.has(spiderpool::POOL) {
            cluster.spawn(look_out(cluster.clone(), Arc::downgrade(&objects.mirrors), objects.changed.clone()));
        }
        Ok(objects)
    }

    /// Whether objects of a kind are followed.
    #[must_use]
    pub fn has(&self, kind: &str) -> bool {
        self.read().contains_key(kind)
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<&'static str, Mirror<Object>>> {
        self.mirrors.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What they configure, and the version of it. Of objects that do not go together the oldest are accepted; a pool
    /// that is not gives out nothing new. An object that does not make sense is left out, not the rest.
    #[must_use]
    pub fn config(&self) -> (Config, u64) {
        // First, so that what changes while it is read makes another version.
        let version = self.changed.rung();
        let known = self.all();
        let verdicts = judge(known.iter().map(AsRef::as_ref));
        for (object, refusal) in verdicts.refused() {
            warn!(object = object.title(), reason = refusal.reason, "not accepted: {}", refusal.message);
        }
        (verdicts.config, version)
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Object>> {
        self.read().values().flat_map(|mirror| mirror.snapshot().0.into_values()).collect()
    }

    /// Waits until something has changed since `version`, or for so long; whether it has.
    #[must_use]
    pub fn wait(&self, version: u64, at_most: Duration) -> bool {
        self.changed.wait(version, at_most) != version
    }

    /// One object.
    ///
    /// # Errors
    /// If there is none.
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Result<Arc<Object>, Error> {
        let found = self.read().get(kind).and_then(|mirror| mirror.get(namespace, name));
        found.ok_or_else(|| {
            let reason = format!("there is no {kind} {namespace}/{name}; apply it first");
            Error::Invalid { field: kind.to_lowercase(), reason }
        })
    }
}

fn mirror(cluster: &Cluster, kind: &'static KindInfo, changed: &Bell) -> Mirror<Object> {
    let api: Api<DynamicObject> = Api::all_with(cluster.client().clone(), &resource(kind));
    Mirror::new(cluster, (kind.kind, api), watcher::Config::default(), changed, |object| read(kind, &object))
}

/// The kinds of Spiderpool that a server has.
async fn installed(client: Client) -> Result<Vec<&'static KindInfo>, kube::Error> {
    let version = spiderpool::API_VERSIONS.first().copied().unwrap_or_default();
    let served = client.list_api_group_resources(version).await?;
    let is_served = |kind: &&KindInfo| served.resources.iter().any(|resource| resource.name == kind.plural);
    let own = kinds::KINDS.iter().filter(|kind| !kind.derived && kind.dialect == Dialect::Spiderpool);
    Ok(own.filter(is_served).collect())
}

/// Looks now and then whether Spiderpool's kinds have been installed, and follows them from then on. It ends when they
/// have, or when nobody wants to know any more.
async fn look_out(cluster: Cluster, mirrors: Weak<RwLock<BTreeMap<&'static str, Mirror<Object>>>>, changed: Bell) {
    loop {
        tokio::time::sleep(LOOK).await;
        let found = installed(cluster.client().clone()).await.unwrap_or_default();
        let Some(mirrors) = mirrors.upgrade() else { return };
        let mut mirrors = mirrors.write().unwrap_or_else(PoisonError::into_inner);
        for kind in found {
            mirrors.entry(kind.kind).or_insert_with(|| {
                info!(kind = kind.kind, "has been installed and is followed from now on");
                mirror(&cluster, kind, &changed)
            });
        }
        if mirrors.contains_key(spiderpool::POOL) {
            return;
        }
    }
}

fn resource(kind: &KindInfo) -> ApiResource {
    let (group, version) = kind.api_version().split_once('/').unwrap_or_default();
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind.kind), kind.plural)
}

/// Where the objects of a kind are, of whatever dialect.
#[must_use]
pub fn resource_of(kind: &str) -> ApiResource {
    let known = kinds::KINDS.iter().find(|info| info.kind == kind).map(resource);
    known.unwrap_or_else(|| ApiResource::from_gvk(&GroupVersionKind::gvk("berth.io", "v1alpha1", kind)))
}

/// The object in Berth's own form. Its status is no part of the configuration.
fn read(kind: &KindInfo, object: &DynamicObject) -> Option<Object> {
    let meta = &object.metadata;
    let mut own = Object {
        api_version: kind.api_version().to_owned(),
        kind: kind.kind.to_owned(),
        spec: object.data.get("spec").cloned().unwrap_or_default(),
        ..Object::default()
    };
    own.metadata.name = meta.name.clone()?;
    own.metadata.namespace = meta.namespace.clone();
    own.metadata.labels = meta.labels.clone().unwrap_or_default();
    own.metadata.annotations = meta.annotations.clone().unwrap_or_default();
    own.metadata.uid = meta.uid.clone();
    own.metadata.creation_timestamp = meta.creation_timestamp.as_ref().map(|time| time.0.to_string());
    own.metadata.generation = meta.generation.and_then(|generation| u64::try_from(generation).ok());
    if meta.deletion_timestamp.is_some() {
        // A pool on its way out waits for what is in use: nothing new is given out.
        match kind.kind {
            "IPPool" => own.spec["disabled"] = true.into(),
            spiderpool::POOL => own.spec["disable"] = true.into(),
            _ => {}
        }
    }
    Some(own)
}
