//! What is configured: pools, subnets, reservations and claims, watched. There are few of them, and every node may need
//! any, so all are kept.

use crate::connect::{CallError, Cluster};
use crate::watch::follow;
use berth_core::error::Error;
use berth_core::ipam::Config;
use berth_dialects::{Object, judge, kinds};
use futures::future::try_join_all;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::runtime::watcher::{self, Event};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing::warn;

/// Kind, namespace, name.
type Key = (String, String, String);

/// The configured objects of a cluster, kept up to date.
#[derive(Clone)]
pub struct Objects(Arc<Shared>);

#[derive(Default)]
struct Shared {
    known: Mutex<Known>,
    changed: Condvar,
}

#[derive(Default)]
struct Known {
    objects: BTreeMap<Key, Object>,
    /// Counts changes.
    version: u64,
}

impl Objects {
    /// Reads everything as of now, and follows it from there.
    ///
    /// # Errors
    /// If it cannot be read; a server without Berth's kinds says so.
    pub fn open(cluster: &Cluster) -> Result<Self, CallError> {
        let objects = Self(Arc::default());
        let configured = || kinds::KINDS.iter().filter(|kind| !kind.derived && kind.dialect == kinds::Dialect::Native);
        let apis: Vec<Api<DynamicObject>> = configured().map(|kind| api(cluster, kind)).collect();
        let params = ListParams::default();
        let lists = cluster.wait(try_join_all(apis.iter().map(|api| api.list(&params))))?;
        for object in lists.into_iter().zip(configured()).flat_map(|(list, kind)| {
            list.items.into_iter().filter_map(|object| read(kind, &object)).collect::<Vec<_>>()
        }) {
            objects.lock().objects.insert(key(&object), object);
        }
        for (api, kind) in apis.into_iter().zip(configured()) {
            let told = objects.clone();
            let stream = watcher::watcher(api, watcher::Config::default());
            let mut listed: Option<Vec<Object>> = None;
            cluster.spawn(follow(kind.kind, stream, move |event| match event {
                Event::Init => listed = Some(Vec::new()),
                Event::InitApply(object) => {
                    if let Some(listed) = &mut listed {
                        listed.extend(read(kind, &object));
                    }
                }
                Event::InitDone => told.replace(kind.kind, listed.take().unwrap_or_default()),
                Event::Apply(object) => {
                    if let Some(object) = read(kind, &object) {
                        told.change(|all| all.insert(key(&object), object.clone()) != Some(object));
                    }
                }
                Event::Delete(object) => {
                    let namespace = object.metadata.namespace.unwrap_or_default();
                    let key = (kind.kind.to_owned(), namespace, object.metadata.name.unwrap_or_default());
                    told.change(|all| all.remove(&key).is_some());
                }
            }));
        }
        Ok(objects)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<Key, Object>) -> bool) {
        let mut known = self.lock();
        if change(&mut known.objects) {
            known.version += 1;
            self.0.changed.notify_all();
        }
    }

    /// A kind was listed anew: what is not in the list is gone.
    fn replace(&self, kind: &str, listed: Vec<Object>) {
        let listed: BTreeMap<Key, Object> = listed.into_iter().map(|object| (key(&object), object)).collect();
        self.change(|all| {
            let before: BTreeMap<Key, Object> = all
                .iter()
                .filter(|(key, _)| key.0 == kind)
                .map(|(key, object)| (key.clone(), object.clone()))
                .collect();
            let differs = before != listed;
            if differs {
                all.retain(|key, _| key.0 != kind);
                all.extend(listed);
            }
            differs
        });
    }

    /// What they configure, and the version of it. Of objects that do not go together the oldest are accepted; a pool
    /// that is not gives out nothing new. An object that does not make sense is left out, not the rest.
    #[must_use]
    pub fn config(&self) -> (Config, u64) {
        let known = self.lock();
        let verdicts = judge(known.objects.values());
        for (object, refusal) in verdicts.refused() {
            warn!(object = object.title(), reason = refusal.reason, "not accepted: {}", refusal.message);
        }
        (verdicts.config, known.version)
    }

    /// Looks at all of them at once.
    pub fn with<R>(&self, look: impl FnOnce(&mut dyn Iterator<Item = &Object>) -> R) -> R {
        look(&mut self.lock().objects.values())
    }

    /// Waits until something has changed since `version`, or for so long; whether it has.
    #[must_use]
    pub fn wait(&self, version: u64, at_most: Duration) -> bool {
        let known = self.lock();
        let waited = self.0.changed.wait_timeout_while(known, at_most, |known| known.version == version);
        waited.unwrap_or_else(PoisonError::into_inner).0.version != version
    }

    /// One object.
    ///
    /// # Errors
    /// If there is none.
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Result<Object, Error> {
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        let missing = || {
            let reason = format!("there is no {kind} {namespace}/{name}; apply it first");
            Error::Invalid { field: kind.to_lowercase(), reason }
        };
        self.lock().objects.get(&key).cloned().ok_or_else(missing)
    }
}

fn api(cluster: &Cluster, kind: &kinds::KindInfo) -> Api<DynamicObject> {
    let (group, version) = kind.api_version().split_once('/').unwrap_or_default();
    let gvk = GroupVersionKind::gvk(group, version, kind.kind);
    Api::all_with(cluster.client().clone(), &ApiResource::from_gvk_with_plural(&gvk, kind.plural))
}

fn key(object: &Object) -> Key {
    (object.kind.clone(), object.metadata.namespace.clone().unwrap_or_default(), object.metadata.name.clone())
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
    Some(own)
}
