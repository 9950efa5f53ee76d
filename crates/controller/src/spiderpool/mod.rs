//! What people see of Spiderpool's kinds: statuses, labels, and an endpoint for each pod. All of it is derived from blocks
//! and written behind the answers, at most once a second for each object, and only if it changed.
//!
//! | module | what it is |
//! |---|---|
//! | [`dirty`] | which pools and subnets something has happened to |
//! | [`statuses`] | the statuses of those |
//! | [`strangers`] | events of pools in which strangers use addresses |
//! | [`endpoints`] | the endpoints of pods to which something has happened |
//! | [`metrics`] | what is counted, under Spiderpool's names |

mod dirty;
mod endpoints;
mod metrics;
mod statuses;
mod strangers;

pub(crate) use metrics::Counts;

use crate::events::Events;
use crate::facts::{Record, SpiderMirrors};
use crate::leader::Seat;
use crate::world::World;
use berth_core::ipam::{Config, Ipam};
use berth_dialects::spiderpool::metadata::defaults;
use berth_dialects::spiderpool::{API_VERSIONS, POOL, SUBNET};
use berth_dialects::{Object, kinds};
use berth_kube::objects::resource_of;
use berth_kube::store::Touched;
use berth_kube::watch::{Changes, Key};
use endpoints::Endpoints;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::json;
use statuses::Statuses;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strangers::Strangers;
use tracing::debug;

/// How long two rounds are apart at least, and so two writes of one status.
const PACE: Duration = Duration::from_secs(1);
/// How often it is looked whether the kinds are installed.
const ABSENT: Duration = Duration::from_secs(5);
/// How often everything is looked at, whatever has happened.
const AUDIT: Duration = Duration::from_secs(300);

/// The writer of what people see.
pub(crate) struct Spider {
    world: Arc<World>,
    blocks: Touched,
    followed: Option<Followed>,
    /// The configuration by which everything was last looked at, and its version.
    config: Config,
    configured: u64,
    statuses: Statuses,
    strangers: Strangers,
    endpoints: Endpoints,
    /// Whether objects may lack what they are to have.
    incomplete: bool,
    last: Option<Instant>,
    /// When everything was last looked at; never, while another replica leads.
    audited: Option<Instant>,
}

/// What changes in the mirrors.
struct Followed {
    pools: Changes,
    subnets: Changes,
    endpoints: Changes,
    pods: Changes,
}

impl Followed {
    fn new(world: &World, mirrors: &SpiderMirrors) -> Self {
        Self {
            pools: mirrors.pools.changes(),
            subnets: mirrors.subnets.changes(),
            endpoints: mirrors.endpoints.changes(),
            pods: world.mirrors.pods.changes(),
        }
    }
}

impl Spider {
    pub(crate) fn new(world: Arc<World>, events: Events) -> Self {
        Self {
            blocks: world.touched(),
            followed: None,
            config: Config::default(),
            configured: 0,
            statuses: Statuses::default(),
            strangers: Strangers::new(events),
            endpoints: Endpoints::default(),
            incomplete: true,
            last: None,
            audited: None,
            world,
        }
    }

    /// One round; how long the next may wait if nothing happens.
    pub(crate) fn round(&mut self, seat: &Seat) -> Duration {
        let world = self.world.clone();
        let Some(mirrors) = world.spider().filter(|mirrors| mirrors.is_synced()) else { return ABSENT };
        if let Some(early) = self.last.and_then(|last| PACE.checked_sub(last.elapsed())).filter(|left| !left.is_zero())
        {
            return early;
        }
        self.last = Some(Instant::now());
        self.collect(mirrors);
        if !seat.leads() {
            // Whoever takes over looks at everything.
            (self.statuses.dirty, self.endpoints, self.audited) = Default::default();
            return PACE;
        }
        if self.audited.is_none_or(|audited| audited.elapsed() >= AUDIT) {
            self.audited = Some(Instant::now());
            self.incomplete = true;
            self.statuses.look_at_all(mirrors);
            world.engine.read(|ipam| self.endpoints.look_at_all(ipam, mirrors));
        }
        self.strangers.tell(&world, mirrors, &self.statuses.dirty.pools);
        self.statuses.bring_up_to_date(&world, mirrors);
        if self.incomplete {
            self.incomplete = !self.complete(mirrors);
        }
        self.endpoints.bring_up_to_date(&world, mirrors);
        PACE
    }

    /// Finds out what something has happened to.
    fn collect(&mut self, mirrors: &SpiderMirrors) {
        let Self { world, statuses, endpoints, .. } = self;
        let followed = self.followed.get_or_insert_with(|| Followed::new(world, mirrors));
        let touched = self.blocks.take();
        world.refresh();
        let names = |changes: &Changes| changes.take().into_iter().map(|key| key.name);
        statuses.dirty.pools.extend(names(&followed.pools));
        statuses.dirty.subnets.extend(names(&followed.subnets));
        endpoints.look_at(followed.endpoints.take());
        for pod in followed.pods.take() {
            let machine = world.mirrors.pods.get(&pod.namespace, &pod.name).and_then(|facts| facts.machine.clone());
            endpoints.look_at(machine.map(|machine| Key::new(&pod.namespace, &machine)));
            endpoints.look_at([pod]);
        }
        world.engine.read(|ipam| {
            let pools = touched.iter().flat_map(|key| ipam.pools_at(key)).filter(|pool| pool.object == POOL);
            statuses.dirty.pools.extend(pools.map(|pool| pool.name.clone()));
            endpoints.take_in(ipam, &touched);
        });
        let configured = world.configured();
        if configured != self.configured {
            self.configured = configured;
            self.incomplete = true;
            let config = world.engine.read(|ipam| ipam.config().clone());
            let before = std::mem::replace(&mut self.config, config);
            statuses.reconfigure(world, &before, &self.config);
            // What pods are told about their addresses may be something else now.
            let pools = &statuses.dirty.pools;
            world.engine.read(|ipam| endpoints.look_at(pools.iter().flat_map(|pool| pods_of(ipam, pool))));
        }
    }

    /// Fills in what objects lack; whether all have it now.
    fn complete(&self, mirrors: &SpiderMirrors) -> bool {
        let mut all = true;
        for object in self.world.objects.all().iter().filter(|object| is_own(object)) {
            let name = &object.metadata.name;
            let subnet = self.world.engine.read(|ipam| {
                let subnet = ipam.pool(name).and_then(|pool| pool.subnet.clone())?;
                ipam.config().subnets.get(&subnet).filter(|subnet| subnet.object == SUBNET).cloned()
            });
            let mut owners = None;
            if let Some(subnet) = subnet.as_ref().filter(|_| object.kind == POOL) {
                // What is configured may be known a moment before the rest of it.
                match (mirrors.pools.get("", name), mirrors.subnets.get("", &subnet.name)) {
                    (Some(pool), Some(record)) => owners = owners_of(&pool, &record, &subnet.name),
                    _ => all = false,
                }
            }
            let mut patch = defaults(object, subnet.as_ref()).unwrap_or_default();
            if let Some(owners) = owners {
                patch["metadata"]["ownerReferences"] = json!(owners);
            }
            if patch.is_null() {
                continue;
            }
            patch["metadata"]["uid"] = json!(object.metadata.uid);
            let api: Api<DynamicObject> =
                Api::all_with(self.world.cluster.client().clone(), &resource_of(&object.kind));
            match self.world.cluster.wait(api.patch(name, &PatchParams::default(), &Patch::Merge(patch))) {
                Err(error) if !matches!(error.status(), Some(404 | 409 | 422)) => {
                    debug!(%error, kind = object.kind, name, "could not fill in what is missing; it is tried again");
                    all = false;
                }
                _ => {}
            }
        }
        all
    }
}

/// The owners that a pool is to have, if it has not: its subnet among them. The subnet waits for its pools all the same.
fn owners_of(pool: &Record, subnet: &Record, name: &str) -> Option<Vec<OwnerReference>> {
    if pool.going || subnet.going || pool.owners.iter().any(|owner| owner.uid == subnet.uid) {
        return None;
    }
    let mut owners: Vec<OwnerReference> = pool.owners.iter().filter(|owner| owner.kind != SUBNET).cloned().collect();
    let is_only_controller = !owners.iter().any(|owner| owner.controller == Some(true));
    owners.push(OwnerReference {
        api_version: API_VERSIONS.first().copied().unwrap_or_default().to_owned(),
        kind: SUBNET.to_owned(),
        name: name.to_owned(),
        uid: subnet.uid.clone(),
        controller: is_only_controller.then_some(true),
        block_owner_deletion: None,
    });
    Some(owners)
}

fn is_own(object: &Object) -> bool {
    object.info().is_some_and(|info| info.dialect == kinds::Dialect::Spiderpool)
}

/// The pods that have something of a pool.
fn pods_of(ipam: &Ipam, pool: &str) -> BTreeSet<Key> {
    let holders = ipam.holdings(pool).into_iter().filter_map(|(_, slot)| slot.holder());
    let named = holders.filter(|holder| !holder.pod.is_empty());
    named.map(|holder| Key::new(&holder.namespace, holder.lasting_name())).collect()
}
