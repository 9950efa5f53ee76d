//! What is configured: pools, subnets, reservations and claims, watched. There are few of them, and every node may need
//! any, so all are kept.

use crate::connect::{CallError, Cluster};
use crate::watch::{Bell, Mirror};
use berth_core::error::Error;
use berth_core::ipam::Config;
use berth_dialects::{Object, judge, kinds};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tracing::warn;

/// The configured objects of a cluster, kept up to date.
#[derive(Clone)]
pub struct Objects {
    /// By kind.
    mirrors: BTreeMap<&'static str, Mirror<Object>>,
    changed: Bell,
}

impl Objects {
    /// Reads everything as of now, and follows it from there.
    ///
    /// # Errors
    /// If it cannot be read; a server without Berth's kinds says so.
    pub fn open(cluster: &Cluster) -> Result<Self, CallError> {
        let changed = Bell::default();
        let configured = kinds::KINDS.iter().filter(|kind| !kind.derived && kind.dialect == kinds::Dialect::Native);
        let mirror = |kind: &'static kinds::KindInfo| {
            let (followed, all) = ((kind.kind, api(cluster, kind)), watcher::Config::default());
            (kind.kind, Mirror::new(cluster, followed, all, &changed, |object| read(kind, &object)))
        };
        let mirrors: BTreeMap<_, _> = configured.map(mirror).collect();
        mirrors.values().try_for_each(Mirror::wait_for_sync)?;
        Ok(Self { mirrors, changed })
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
        self.mirrors.values().flat_map(|mirror| mirror.snapshot().0.into_values()).collect()
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
        let found = self.mirrors.get(kind).and_then(|mirror| mirror.get(namespace, name));
        found.ok_or_else(|| {
            let reason = format!("there is no {kind} {namespace}/{name}; apply it first");
            Error::Invalid { field: kind.to_lowercase(), reason }
        })
    }
}

fn api(cluster: &Cluster, kind: &kinds::KindInfo) -> Api<DynamicObject> {
    Api::all_with(cluster.client().clone(), &resource(kind))
}

fn resource(kind: &kinds::KindInfo) -> ApiResource {
    let (group, version) = kind.api_version().split_once('/').unwrap_or_default();
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind.kind), kind.plural)
}

/// Where the objects of one of Berth's own kinds are.
#[must_use]
pub fn resource_of(kind: &str) -> ApiResource {
    let native = |info: &&kinds::KindInfo| info.kind == kind && info.dialect == kinds::Dialect::Native;
    let known = kinds::KINDS.iter().find(native).map(resource);
    known.unwrap_or_else(|| ApiResource::from_gvk(&GroupVersionKind::gvk("berth.io", "v1alpha1", kind)))
}

/// The object in Berth's own form. Its status is no part of the configuration.
fn read(kind: &kinds::KindInfo, object: &DynamicObject) -> Option<Object> {
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
    if kind.kind == "IPPool" && meta.deletion_timestamp.is_some() {
        // It is on its way out, and waits for what is in use: nothing new is given out.
        own.spec["disabled"] = true.into();
    }
    Some(own)
}
