//! How full pools and subnets are, written to their status: at most once a second each, and only if it changed.

mod decide;

use crate::effects::{Answer, Writer};
use crate::events::Events;
use crate::leader::Seat;
use crate::metrics::Metrics;
use crate::world::World;
use berth_core::model::POOL_OBJECT;
use berth_core::time::Time;
use berth_dialects::verdicts::{Refusal, condition};
use berth_dialects::{Object, judge};
use berth_kube::store::Touched;
use berth_kube::watch::Changes;
use decide::{Accepted, Dirty, Wanted, decide, wanted};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long two rounds are apart at least, and so two writes of one status.
const PACE: Duration = Duration::from_secs(1);

/// The writer of statuses.
pub(crate) struct Status {
    world: Arc<World>,
    writer: Writer,
    metrics: Arc<Metrics>,
    blocks: Touched,
    pools: Changes,
    subnets: Changes,
    configured: u64,
    /// Whether each object is accepted, in the form of a condition, by kind and name.
    accepted: Accepted,
    dirty: Dirty,
    last: Option<Instant>,
    /// Whether this replica led in the last round.
    led: bool,
}

impl Status {
    pub(crate) fn new(world: Arc<World>, events: Events, metrics: Arc<Metrics>) -> Self {
        Self {
            blocks: world.touched(),
            pools: world.mirrors.pools.changes(),
            subnets: world.mirrors.subnets.changes(),
            configured: 0,
            accepted: Accepted::new(),
            dirty: Dirty { everything: true, ..Dirty::default() },
            last: None,
            led: false,
            writer: Writer::new(&world.cluster, events),
            world,
            metrics,
        }
    }

    /// One round; how long the next is to wait.
    pub(crate) fn round(&mut self, seat: &Seat) -> Duration {
        if let Some(early) = self.last.and_then(|last| PACE.checked_sub(last.elapsed())).filter(|left| !left.is_zero())
        {
            return early;
        }
        self.last = Some(Instant::now());
        self.collect();
        let now = berth_server::now();
        let mut dirty = std::mem::take(&mut self.dirty);
        // What a follower leaves undone is all done by who takes over.
        dirty.everything |= seat.leads() && !self.led;
        self.led = seat.leads();
        self.count(&dirty, now);
        if self.led {
            let wanted = self.world.engine.read(|ipam| wanted(ipam, &self.accepted, &dirty, now));
            wanted.into_iter().for_each(|one| self.bring_up_to_date(one));
        }
        PACE
    }

    /// Finds out what something has happened to.
    fn collect(&mut self) {
        let touched = self.blocks.take();
        self.world.refresh();
        let configured = self.world.configured();
        if configured != self.configured {
            self.configured = configured;
            self.dirty.everything = true;
            let objects = self.world.objects.all();
            let verdicts = judge(objects.iter().map(AsRef::as_ref)).objects;
            let accepted = |(object, refusal): (&Object, Option<Refusal>)| {
                let key = (object.kind.clone(), object.metadata.name.clone());
                (key, condition(object, refusal.as_ref(), ""))
            };
            self.accepted = verdicts.into_iter().map(accepted).collect();
        }
        self.dirty.pools.extend(self.pools.take().into_iter().map(|key| key.name));
        self.dirty.subnets.extend(self.subnets.take().into_iter().map(|key| key.name));
        let (pools, subnets): (Vec<String>, Vec<Option<String>>) = self.world.engine.read(|ipam| {
            let of_block = touched.iter().flat_map(|key| ipam.pools_at(key));
            // Where addresses rest, time alone changes the counts.
            let resting = ipam.pools().filter(|pool| !pool.cool_down.is_zero()).cloned();
            of_block.chain(resting).map(|pool| (pool.name.clone(), pool.subnet.clone())).unzip()
        });
        self.dirty.pools.extend(pools);
        self.dirty.subnets.extend(subnets.into_iter().flatten());
    }

    /// Every replica counts, so that whichever is asked knows.
    fn count(&self, dirty: &Dirty, now: Time) {
        if dirty.everything {
            self.metrics.clear_pools();
        }
        self.world.engine.read(|ipam| {
            for pool in ipam.pools().filter(|pool| dirty.has_pool(&pool.name)) {
                if let Some(usage) = ipam.pool_usage(&pool.name, now) {
                    self.metrics.pool(&pool.name, &pool.network, &usage);
                }
            }
        });
    }

    fn bring_up_to_date(&mut self, wanted: Wanted) {
        let mirrors = &self.world.mirrors;
        let mirror = if wanted.kind == POOL_OBJECT { &mirrors.pools } else { &mirrors.subnets };
        let Some(record) = mirror.get("", &wanted.name) else { return };
        let accepted = self.accepted.get(&(wanted.kind.to_owned(), wanted.name.clone()));
        let Some(write) = decide(&wanted, &record, accepted, berth_server::now()) else { return };
        match self.writer.carry_out(&write) {
            Answer::Done => self.metrics.wrote_status(wanted.kind),
            // It is gone, or another has its name.
            Answer::Overtaken | Answer::Refused => {}
            Answer::Failed => self.dirty.add(wanted.kind, wanted.name),
        }
    }
}
