//! Pools, subnets and reservations that are in use are not deleted: a finalizer keeps them, whatever admission let
//! through, until the last address is back. Meanwhile a pool gives out nothing new, and says who holds it up.

use crate::events::{Events, Reason, object};
use crate::facts::Record;
use crate::leader::Seat;
use crate::world::World;
use berth_core::block::BlockKey;
use berth_core::error::Error;
use berth_core::ipam::{Config, Ipam};
use berth_kube::blocks::Blocks;
use berth_kube::connect::CallError;
use berth_kube::objects::resource_of;
use berth_kube::watch::Mirror;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{debug, info};

/// What keeps an object that is in use.
pub(crate) const FINALIZER: &str = "berth.io/in-use";
/// Addresses that nobody gets.
pub(crate) const RESERVATION: &str = "IPReservation";
/// How often an object that cannot go yet is looked at and its users named.
const PACE: Duration = Duration::from_secs(2);
const REMIND: Duration = Duration::from_secs(60);

/// Keeps objects that are in use.
pub(crate) struct Guard {
    world: Arc<World>,
    events: Events,
    told: HashMap<String, Instant>,
    seen: Vec<u64>,
    waiting: bool,
    /// When all blocks were last read for this.
    read: Option<Instant>,
}

impl Guard {
    pub(crate) fn new(world: Arc<World>, events: Events) -> Self {
        Self { world, events, told: HashMap::new(), seen: Vec::new(), waiting: true, read: None }
    }

    /// One round; how long the next may wait if nothing happens.
    pub(crate) fn round(&mut self, seat: &Seat) -> Duration {
        let world = self.world.clone();
        let guarded = world.guarded();
        let versions: Vec<u64> = guarded.iter().map(|(_, _, mirror)| mirror.version()).collect();
        if !seat.leads() || (versions == self.seen && !self.waiting) {
            return PACE;
        }
        self.seen = versions;
        self.world.refresh();
        self.waiting = false;
        let mut sure = None;
        for (kind, finalizer, mirror) in guarded {
            self.look((kind, finalizer), mirror, &mut sure);
        }
        PACE
    }

    /// Looks at all objects of a kind. What the watches say is believed of whoever uses one; that nobody does, the server
    /// is to say itself. `sure` says whether it did in this round.
    fn look(
        &mut self,
        (kind, finalizer): (&'static str, &'static str),
        mirror: &Mirror<Record>,
        sure: &mut Option<bool>,
    ) {
        for (key, record) in mirror.snapshot().0 {
            let guarded = record.finalizers.iter().any(|own| own == finalizer);
            let outcome = match (record.going, guarded) {
                (false, false) => self.set((kind, finalizer), &key.name, &record, true),
                (true, true) => match self.users(kind, &key.name, sure) {
                    None if *sure == Some(false) => {
                        self.waiting = true;
                        Ok(())
                    }
                    None => self.set((kind, finalizer), &key.name, &record, false),
                    Some(users) => {
                        self.waiting = true;
                        self.remind(kind, &key.name, &record, users);
                        Ok(())
                    }
                },
                _ => Ok(()),
            };
            if let Err(error) = outcome {
                debug!(%error, kind, name = key.name, "could not change the finalizer; it is tried again");
                self.waiting = true;
            }
        }
    }

    fn users(&mut self, kind: &str, name: &str, sure: &mut Option<bool>) -> Option<String> {
        let known = |guard: &Self| guard.world.engine.read(|ipam| users(ipam, kind, name));
        known(self).or_else(|| {
            sure.get_or_insert_with(|| self.read_all());
            known(self)
        })
    }

    /// Reads all blocks from the server, now and then, and takes in those that are not as they were known; whether that
    /// was done.
    fn read_all(&mut self) -> bool {
        if self.read.is_some_and(|read| read.elapsed() < PACE / 2) {
            return false;
        }
        self.read = Some(Instant::now());
        let world = &self.world;
        let blocks = Blocks::new(world.cluster.client().clone(), "");
        let Ok(listed) = world.cluster.wait(blocks.list(None)) else { return false };
        let other: Vec<BlockKey> = world.engine.read(|ipam| {
            let other = listed.into_iter().filter(|(key, block, _)| ipam.block(key) != Some(block));
            other.map(|(key, ..)| key).collect()
        });
        world.engine.look_at(&other).is_ok()
    }

    /// Puts the finalizer on or takes it off, if the object is what it was.
    fn set(&self, (kind, finalizer): (&str, &str), name: &str, record: &Record, on: bool) -> Result<(), CallError> {
        let mut finalizers: Vec<&str> =
            record.finalizers.iter().map(String::as_str).filter(|own| *own != finalizer).collect();
        if on {
            finalizers.push(finalizer);
        }
        let api: Api<DynamicObject> = Api::all_with(self.world.cluster.client().clone(), &resource_of(kind));
        let patch = json!({"metadata": {"resourceVersion": record.version, "finalizers": finalizers}});
        match self.world.cluster.wait(api.patch(name, &PatchParams::default(), &Patch::Merge(patch))) {
            // It is gone, or changed meanwhile and is looked at again.
            Err(error) if !matches!(error.status(), Some(404 | 409)) => Err(error),
            outcome => {
                if outcome.is_ok() && !on {
                    info!(kind, name, "nothing of it is in use any more; it may go");
                }
                Ok(())
            }
        }
    }

    fn remind(&mut self, kind: &str, name: &str, record: &Record, users: String) {
        let now = Instant::now();
        self.told.retain(|_, told| now.duration_since(*told) < REMIND);
        if !self.told.contains_key(&record.uid) {
            self.told.insert(record.uid.clone(), now);
            self.events.tell(object(kind, None, name, Some(&record.uid)), Reason::InUse, users);
        }
    }
}

/// Who uses an object, in words; `None` if nobody does.
fn users(ipam: &Ipam, kind: &str, name: &str) -> Option<String> {
    let config = ipam.config();
    if kind.ends_with("Subnet") {
        let own = config.pools.values().filter(|pool| pool.subnet.as_deref() == Some(name));
        let pools: Vec<&str> = own.map(|pool| pool.name.as_str()).take(5).collect();
        return (!pools.is_empty()).then(|| format!("pools are cut from it: {}", pools.join(", ")));
    }
    if kind == RESERVATION {
        return in_words(ipam.frees(config.reservations.get(name)?, kind));
    }
    let pool = config.pools.get(name)?;
    let mut without: Config = config.clone();
    without.pools.remove(name);
    in_words(ipam.keeps(pool, pool.subnet.as_ref().and_then(|subnet| config.subnets.get(subnet)), &without))
}

fn in_words(free: Result<(), Error>) -> Option<String> {
    match free {
        Err(Error::InUse { holders, .. }) => Some(format!("in use: {holders}")),
        _ => None,
    }
}
