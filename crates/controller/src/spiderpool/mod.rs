//! What people see of Spiderpool's kinds: statuses, labels, and an endpoint for each pod. All of it is derived from blocks
//! and written behind the answers, at most once a second for each object, and only if it changed.
//!
//! | module | what it is |
//! |---|---|
//! | [`complete`] | what objects lack that the webhook would have filled in |
//! | [`dirty`] | which pools and subnets something has happened to |
//! | [`statuses`] | the statuses of those |
//! | [`strangers`] | events of pools in which strangers use addresses |
//! | [`endpoints`] | the endpoints of pods to which something has happened |
//! | [`outdated`] | endpoints that Spiderpool has left behind |
//! | [`behind`] | what stands behind an endpoint that is to go |
//! | [`metrics`] | what is counted, under Spiderpool's names |

mod behind;
mod complete;
mod dirty;
mod endpoints;
mod metrics;
mod outdated;
mod statuses;
mod strangers;

pub(crate) use complete::subnet_uid;
pub(crate) use metrics::Counts;

use crate::effects::Writer;
use crate::events::Events;
use crate::facts::SpiderMirrors;
use crate::leader::Seat;
use crate::world::World;
use berth_core::ipam::{Config, Ipam};
use berth_dialects::spiderpool::POOL;
use berth_kube::store::Touched;
use berth_kube::watch::{Changes, Key};
use complete::complete;
use endpoints::Endpoints;
use outdated::Outdated;
use statuses::Statuses;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strangers::Strangers;

/// How long two rounds are apart at least, and so two writes of one status.
const PACE: Duration = Duration::from_secs(1);
/// How often it is looked whether the kinds are installed.
const ABSENT: Duration = Duration::from_secs(5);
/// How often everything is looked at, whatever has happened.
const AUDIT: Duration = Duration::from_secs(300);

/// The writer of what people see.
pub(crate) struct Spider {
    world: Arc<World>,
    writer: Writer,
    blocks: Touched,
    followed: Option<Followed>,
    /// The configuration by which everything was last looked at, and its version.
    config: Config,
    configured: u64,
    statuses: Statuses,
    strangers: Strangers,
    endpoints: Endpoints,
    outdated: Outdated,
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
            writer: Writer::new(&world.cluster, events.clone()),
            blocks: world.touched(),
            followed: None,
            config: Config::default(),
            configured: 0,
            statuses: Statuses::default(),
            strangers: Strangers::new(events),
            endpoints: Endpoints::default(),
            outdated: Outdated::default(),
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
            (self.statuses.dirty, self.endpoints, self.outdated, self.audited) = Default::default();
            return PACE;
        }
        if self.audited.is_none_or(|audited| audited.elapsed() >= AUDIT) {
            self.audited = Some(Instant::now());
            self.incomplete = true;
            self.statuses.look_at_all(mirrors);
            world.engine.read(|ipam| self.endpoints.look_at_all(ipam, mirrors));
        }
        self.strangers.tell(&world, mirrors, &self.statuses.dirty.pools);
        self.statuses.bring_up_to_date(&world, mirrors, &self.writer);
        if self.incomplete {
            self.incomplete = !complete(&world, mirrors, &self.writer);
        }
        self.endpoints.bring_up_to_date(&world, mirrors, &self.writer);
        self.outdated.clean(&world, mirrors, &self.endpoints, &self.writer);
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
}

/// The pods that have something of a pool.
fn pods_of(ipam: &Ipam, pool: &str) -> BTreeSet<Key> {
    let holders = ipam.holdings(pool).into_iter().filter_map(|(_, slot)| slot.holder());
    let named = holders.filter(|holder| !holder.pod.is_empty());
    named.map(|holder| Key::new(&holder.namespace, holder.lasting_name())).collect()
}
