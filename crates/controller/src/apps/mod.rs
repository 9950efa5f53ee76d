//! Pools of applications: made, grown, shrunk and deleted as [`berth_core::apps::decide`] says.

mod workloads;

use crate::events::Events;
use crate::facts::Record;
use crate::leader::Seat;
use crate::world::World;
use berth_core::apps::{self, Effect, Event, Identity, decide, enact, occupied};
use berth_core::ipam::Config;
use berth_core::model::{POOL_OBJECT, Pool};
use berth_dialects::native::application::{pool_patch, raise_pool};
use berth_dialects::native::pod::{NETWORKS, SUBNETS, spiderpool as annotations};
use berth_dialects::spiderpool::{self, owner};
use berth_dialects::{Metadata, Object};
use berth_kube::connect::CallError;
use berth_kube::objects::resource_of;
use berth_kube::store::Touched;
use berth_kube::watch::Changes;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{debug, info, warn};
use workloads::{Asking, Kept, Workloads};

/// How soon an application is looked at again for which something was done or is missing.
const AGAIN: Duration = Duration::from_secs(2);
/// How often everything is looked at.
const AUDIT: Duration = Duration::from_secs(300);
/// How often people are told the same.
const REMIND: Duration = Duration::from_secs(120);

/// The keeper of applications' pools.
pub(crate) struct Apps {
    world: Arc<World>,
    events: Events,
    workloads: Workloads,
    blocks: Touched,
    pools: Changes,
    pods: Changes,
    configured: u64,
    audited: Option<Instant>,
    /// Applications to look at, and those to look at a little later.
    dirty: BTreeSet<Identity>,
    again: BTreeMap<Identity, Instant>,
    told: HashMap<(Identity, String), Instant>,
}

impl Apps {
    pub(crate) fn new(world: Arc<World>, events: Events) -> Self {
        Self {
            workloads: Workloads::new(&world.cluster, &world.bell, &world.spiderpool),
            blocks: world.touched(),
            pools: world.mirrors.pools.changes(),
            pods: world.mirrors.pods.changes(),
            configured: 0,
            audited: None,
            dirty: BTreeSet::new(),
            again: BTreeMap::new(),
            told: HashMap::new(),
            world,
            events,
        }
    }

    /// One round; how long the next may wait if nothing happens.
    pub(crate) fn round(&mut self, seat: &Seat) -> Duration {
        self.collect();
        if !seat.leads() || self.workloads.wait_for_sync().is_err() {
            return AGAIN;
        }
        let now = Instant::now();
        let due: Vec<Identity> = self.again.iter().filter(|(_, at)| **at <= now).map(|(who, _)| who.clone()).collect();
        for who in due {
            self.again.remove(&who);
            self.dirty.insert(who);
        }
        if !self.dirty.is_empty() {
            self.work_off();
        }
        let next = self.again.values().min().map_or(AUDIT, |at| at.saturating_duration_since(Instant::now()));
        next.clamp(Duration::from_millis(100), AUDIT)
    }

    /// Finds out which applications something has happened to.
    fn collect(&mut self) {
        let touched = self.blocks.take();
        self.world.refresh();
        self.learn_kinds();
        self.dirty.extend(self.workloads.changed());
        let configured = self.world.configured();
        let pools_changed = self.pools.take();
        let all = configured != self.configured || self.audited.is_none_or(|last| last.elapsed() >= AUDIT);
        self.configured = configured;
        let of_blocks: Vec<Identity> = self.world.engine.read(|ipam| {
            let pools = touched.iter().flat_map(|key| ipam.pools_at(key));
            let changed = pools_changed.iter().filter_map(|key| ipam.pool(&key.name).cloned());
            let everything = ipam.pools().filter(|_| all).cloned();
            let pools = pools.chain(changed).chain(everything);
            pools.filter_map(|pool| pool.application.as_ref().map(apps::Application::identity)).collect()
        });
        self.dirty.extend(of_blocks);
        if all {
            self.audited = Some(Instant::now());
            self.dirty.extend(self.workloads.asking());
        }
    }

    /// A pod that asks, of a kind that is not known, makes it known; so does a pool that was made for one.
    fn learn_kinds(&mut self) {
        let kind = |own: &apps::Application| (own.api_version.clone(), own.kind.clone());
        let mut asking: BTreeSet<Asking> = self
            .world
            .engine
            .read(|ipam| ipam.pools().filter_map(|pool| pool.application.as_ref().map(kind)).collect());
        for key in self.pods.take() {
            let pod = self.world.mirrors.pods.get(&key.namespace, &key.name);
            asking.extend(pod.and_then(|pod| pod.asks_by.clone()));
        }
        self.workloads.learn(&asking);
    }

    fn work_off(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        let (mut config, occupied) =
            self.world.engine.read(|ipam| (ipam.config().clone(), occupied(ipam, berth_server::now())));
        for who in dirty {
            let effects = match self.decide(&who, &config, &occupied) {
                Ok(effects) => effects,
                Err(Later) => {
                    self.look_again(who);
                    continue;
                }
            };
            let mut changed = false;
            for effect in effects {
                if let Effect::Tell(event) = &effect {
                    self.tell(&who, &config, event);
                    self.look_again(who.clone());
                    continue;
                }
                match self.carry_out(&effect) {
                    Ok(()) => {
                        enact(&mut config, &effect);
                        changed = true;
                    }
                    Err(error) => {
                        // Somebody else was quicker, or the server is away: what is so now is looked at anew.
                        debug!(%who, %error, "a pool could not be changed yet");
                        changed = true;
                        break;
                    }
                }
            }
            if changed {
                self.look_again(who);
            }
        }
    }

    fn look_again(&mut self, who: Identity) {
        self.again.entry(who).or_insert_with(|| Instant::now() + AGAIN);
    }

    fn decide(
        &self,
        who: &Identity,
        config: &Config,
        occupied: &BTreeMap<Arc<str>, apps::Occupied>,
    ) -> Result<Vec<Effect>, Later> {
        let world = apps::World { config, occupied, name: owner::name };
        match self.workloads.get(who).as_deref() {
            Some(Kept::Application(workload)) => Ok(decide(who, Some(workload), &world)),
            Some(Kept::Wrong { why, .. }) => {
                let event = Event { reason: "InvalidAnnotation", message: why.clone(), warning: true };
                Ok(vec![Effect::Tell(event)])
            }
            Some(Kept::Part { .. }) => Ok(Vec::new()),
            None => {
                let own =
                    |pool: &&Pool| pool.application.as_ref().is_some_and(|application| application.identity() == *who);
                let Some(pool) = config.pools.values().find(own) else { return Ok(Vec::new()) };
                let api_version = pool.application.as_ref().map(|own| own.api_version.clone()).unwrap_or_default();
                if !self.workloads.is_gone(who, &api_version) {
                    return Err(Later);
                }
                Ok(decide(who, None, &world))
            }
        }
    }

    fn carry_out(&self, effect: &Effect) -> Result<(), CallError> {
        let cluster = &self.world.cluster;
        let api = |kind: &str| -> Api<DynamicObject> { Api::all_with(cluster.client().clone(), &resource_of(kind)) };
        match effect {
            Effect::Create(pool) => {
                let object = self.raise(pool);
                let api = api(&object.kind);
                let mut made = DynamicObject::new(&pool.name, &resource_of(&object.kind));
                let Metadata { labels, annotations, .. } = object.metadata;
                (made.metadata.labels, made.metadata.annotations) = (Some(labels), Some(annotations));
                made.data = json!({ "spec": object.spec });
                cluster.wait(api.create(&PostParams::default(), &made))?;
                info!(pool = pool.name, "made a pool for {}", whom(pool.application.as_ref()));
            }
            Effect::Update { pool, ranges, application, detect } => {
                let kind = self.kind(pool);
                let mut patch = match kind {
                    spiderpool::POOL => owner::pool_patch(ranges, application, self.size(application), *detect),
                    _ => pool_patch(ranges, application, *detect),
                };
                patch["metadata"]["resourceVersion"] = json!(self.version(kind, pool));
                cluster.wait(api(kind).patch(pool, &PatchParams::default(), &Patch::Merge(patch)))?;
                debug!(pool, "changed a pool of {}", whom(Some(application)));
            }
            Effect::Delete { pool } => {
                let kind = self.kind(pool);
                let resource_version = self.version(kind, pool);
                let only_if = Preconditions { resource_version, uid: None };
                let params = DeleteParams { preconditions: Some(only_if), ..DeleteParams::default() };
                match cluster.wait(api(kind).delete(pool, &params)) {
                    Err(error) if error.status() != Some(404) => return Err(error),
                    _ => info!(pool, "deleted a pool: its application is gone or asks for it no more"),
                }
            }
            Effect::Tell(_) => {}
        }
        Ok(())
    }

    /// The object of a pool that is to be made: of the dialect of its subnet.
    fn raise(&self, pool: &Pool) -> Object {
        let subnet = pool.subnet.as_ref();
        let subnet = self.world.engine.read(|ipam| subnet.and_then(|name| ipam.config().subnets.get(name)).cloned());
        match subnet.filter(|subnet| subnet.object == spiderpool::SUBNET) {
            Some(subnet) => {
                let size = pool.application.as_ref().and_then(|own| self.size(own));
                owner::raise_pool(pool, &subnet, size)
            }
            None => raise_pool(pool),
        }
    }

    /// The size that an application asks for.
    fn size(&self, own: &apps::Application) -> Option<apps::Size> {
        match self.workloads.get(&own.identity()).as_deref() {
            Some(Kept::Application(workload)) => workload.size,
            _ => None,
        }
    }

    /// The kind of object that a pool was made from.
    fn kind(&self, pool: &str) -> &'static str {
        self.world.engine.read(|ipam| ipam.pool(pool).map_or(POOL_OBJECT, |pool| pool.object))
    }

    fn version(&self, kind: &str, pool: &str) -> Option<String> {
        let spider = self.world.spider().filter(|_| kind == spiderpool::POOL).map(|own| &own.pools);
        let record: Option<Arc<Record>> = spider.unwrap_or(&self.world.mirrors.pools).get("", pool);
        record.map(|record| record.version.clone())
    }

    fn tell(&mut self, who: &Identity, config: &Config, event: &Event) {
        let now = Instant::now();
        let key = (who.clone(), event.message.clone());
        if self.told.get(&key).is_some_and(|at| now.duration_since(*at) < REMIND) {
            return;
        }
        self.told.retain(|_, at| now.duration_since(*at) < REMIND);
        self.told.insert(key, now);
        warn!(application = %who, "{}", event.message);
        let (api_version, uid) = match self.workloads.get(who).as_deref() {
            Some(Kept::Application(own)) => (own.api_version.clone(), own.uid.clone()),
            Some(Kept::Wrong { uid, .. }) => (self.workloads.api_version(who), uid.clone()),
            _ => {
                let own = config.pools.values().filter_map(|pool| pool.application.as_ref());
                let own = own.into_iter().find(|own| own.identity() == *who);
                own.map(|own| (own.api_version.clone(), own.uid.clone())).unwrap_or_default()
            }
        };
        let about = ObjectReference {
            api_version: Some(api_version),
            kind: Some(who.kind.clone()),
            namespace: Some(who.namespace.clone()),
            name: Some(who.name.clone()),
            uid: Some(uid),
            ..ObjectReference::default()
        };
        self.events.raw(about, event.warning, event.reason, event.message.clone());
    }
}

/// What is so cannot be told yet.
struct Later;

fn whom(application: Option<&apps::Application>) -> String {
    application.map(ToString::to_string).unwrap_or_default()
}

/// The kind of controller by which a pod asks for pools of its own, if it does.
pub(crate) fn asks_by(pod: &k8s_openapi::api::core::v1::Pod) -> Option<(String, String)> {
    let annotations = pod.metadata.annotations.as_ref()?;
    let listed = |text: &String| text.contains("subnets");
    let own = [SUBNETS, annotations::SUBNET, annotations::SUBNETS];
    let asks = own.iter().any(|key| annotations.contains_key(*key)) || annotations.get(NETWORKS).is_some_and(listed);
    let owner = pod.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    asks.then(|| (owner.api_version.clone(), owner.kind.clone()))
}
