//! What people see of Spiderpool's kinds: statuses, labels, and an endpoint for each pod. All of it is derived from blocks
//! and written behind the answers, at most once a second for each object, and only if it changed.

mod endpoints;

use crate::condition::dated;
use crate::events::{Events, Reason, object};
use crate::facts::{Record, SpiderMirrors};
use crate::leader::Seat;
use crate::world::World;
use berth_core::addr::Count;
use berth_core::block::{SlotRef, State};
use berth_core::ipam::{Given, Ipam};
use berth_core::time::Time;
use berth_dialects::spiderpool::metadata::defaults;
use berth_dialects::spiderpool::status::{Allocation, pool_status, subnet_status, truncation};
use berth_dialects::spiderpool::{POOL, SUBNET};
use berth_dialects::verdicts::condition;
use berth_dialects::{Object, judge, kinds};
use berth_kube::objects::resource_of;
use berth_kube::store::Touched;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::debug;

/// How long two rounds are apart at least, and so two writes of one status.
const PACE: Duration = Duration::from_secs(1);
/// How often it is looked whether the kinds are installed.
const ABSENT: Duration = Duration::from_secs(5);
/// How often everything is looked at, whatever has happened.
const AUDIT: Duration = Duration::from_secs(300);
/// How many addresses an event names.
const NAMED: usize = 8;

/// The writer of what people see.
pub(crate) struct Spider {
    world: Arc<World>,
    blocks: Touched,
    /// What was looked at last: configuration, pools, subnets, endpoints, pods.
    seen: [u64; 5],
    /// The last conditions of each object: definitions that people have installed may not keep them.
    told: HashMap<String, Value>,
    /// How many addresses of each pool strangers had when people were told last: Spiderpool's status does not say.
    strangers: HashMap<String, Count>,
    events: Events,
    last: Option<Instant>,
    done: Option<Instant>,
}

impl Spider {
    pub(crate) fn new(world: Arc<World>, events: Events) -> Self {
        let (told, strangers) = (HashMap::new(), HashMap::new());
        Self { blocks: world.touched(), seen: [0; 5], told, strangers, events, last: None, done: None, world }
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
        let touched = !self.blocks.take().is_empty();
        world.refresh();
        let seen = [
            world.configured(),
            mirrors.pools.version(),
            mirrors.subnets.version(),
            mirrors.endpoints.version(),
            world.mirrors.pods.version(),
        ];
        let audit = self.done.is_none_or(|done| done.elapsed() >= AUDIT);
        if !seat.leads() || !(touched || audit || seen != self.seen) {
            return PACE;
        }
        self.seen = seen;
        self.tell_of_strangers(mirrors);
        let done = [self.statuses(mirrors), self.metadata(), endpoints::bring_up_to_date(&world, mirrors)];
        // What could not be written is tried again.
        self.done = done.iter().all(|done| *done).then(Instant::now);
        PACE
    }

    /// Tells of pools in which strangers have more addresses than they had.
    fn tell_of_strangers(&mut self, mirrors: &SpiderMirrors) {
        let now = berth_server::now();
        let strangers: HashMap<String, Count> = self.world.engine.read(|ipam| {
            let own = ipam.pools().filter(|pool| pool.object == POOL);
            own.filter_map(|pool| Some((pool.name.clone(), ipam.pool_usage(&pool.name, now)?.quarantined))).collect()
        });
        let known = |name: &str| self.strangers.get(name).copied().unwrap_or_default();
        for (name, count) in strangers.iter().filter(|(name, count)| **count > known(name)) {
            let Some(record) = mirrors.pools.get("", name) else { continue };
            let which = self.world.engine.read(|ipam| of_strangers(ipam, name));
            let note = format!("seen in use by strangers and not given out: {which} ({count} in all)");
            self.events.tell(object(POOL, None, name, Some(&record.uid)), Reason::Conflict, note);
        }
        self.strangers = strangers;
    }

    /// Writes the statuses that are not what they should be; whether all are now.
    fn statuses(&mut self, mirrors: &SpiderMirrors) -> bool {
        let objects = self.world.objects.all();
        let verdicts = judge(objects.iter().map(AsRef::as_ref));
        let accepted: BTreeMap<(&str, &str), Value> = verdicts
            .objects
            .iter()
            .map(|(object, refusal)| {
                let key = (object.kind.as_str(), object.metadata.name.as_str());
                (key, condition(object, refusal.as_ref(), ""))
            })
            .collect();
        let now = berth_server::now();
        let wanted = self.world.engine.read(|ipam| wanted(ipam, now));
        let mut all = true;
        self.told.retain(|uid, _| mirrors.has(uid));
        for (kind, mirror) in [(POOL, &mirrors.pools), (SUBNET, &mirrors.subnets)] {
            for (key, record) in mirror.snapshot().0 {
                // One that is in nobody's configuration has nothing.
                let nothing = || (pool_status(0u128.into(), &[]).0, 0);
                let (status, left_out) = wanted.get(&(kind, key.name.clone())).cloned().unwrap_or_else(nothing);
                let accepted = accepted.get(&(kind, key.name.as_str())).cloned();
                all &= self.write_status(kind, &key.name, &record, status, (accepted, left_out));
            }
        }
        all
    }

    fn write_status(
        &mut self,
        kind: &str,
        name: &str,
        record: &Record,
        mut status: Value,
        (accepted, left_out): (Option<Value>, usize),
    ) -> bool {
        let known = |(key, value): (&String, &Value)| record.status.get(key).unwrap_or(&Value::Null) == value;
        let counts_known = status.as_object().is_some_and(|fields| fields.iter().all(known));
        let truncated = truncation(left_out, "");
        let conditions: Vec<Value> =
            accepted.into_iter().chain([truncated]).map(|condition| dated(&record.status, condition)).collect();
        // A definition that knows no conditions drops them; what was told once is not told again for that.
        let kinds_of = |all: &Value| all.as_array().into_iter().flatten().map(summary).collect::<Vec<_>>();
        let conditions = json!(conditions);
        let told = self.told.get(&record.uid).is_some_and(|told| kinds_of(told) == kinds_of(&conditions));
        if counts_known && (told || record.status["conditions"] == conditions) {
            return true;
        }
        status["conditions"] = conditions.clone();
        let api: Api<DynamicObject> = Api::all_with(self.world.cluster.client().clone(), &resource_of(kind));
        let patch = Patch::Merge(json!({ "metadata": { "uid": record.uid }, "status": status }));
        match self.world.cluster.wait(api.patch_status(name, &PatchParams::default(), &patch)) {
            Ok(_) => {
                self.told.insert(record.uid.clone(), conditions);
                true
            }
            // It is gone, or another has its name.
            Err(error) if matches!(error.status(), Some(404 | 409 | 422)) => true,
            Err(error) => {
                debug!(%error, kind, name, "could not write a status; it is tried again");
                false
            }
        }
    }

    /// Fills in what objects lack; whether all have it now.
    fn metadata(&self) -> bool {
        let mut all = true;
        for object in self.world.objects.all().iter().filter(|object| is_own(object)) {
            let name = &object.metadata.name;
            let subnet = self.world.engine.read(|ipam| {
                let subnet = ipam.pool(name).and_then(|pool| pool.subnet.clone())?;
                ipam.config().subnets.get(&subnet).filter(|subnet| subnet.object == SUBNET).cloned()
            });
            let Some(mut patch) = defaults(object, subnet.as_ref()) else { continue };
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

fn is_own(object: &Object) -> bool {
    object.info().is_some_and(|info| info.dialect == kinds::Dialect::Spiderpool)
}

/// What makes a condition the same one: not since when it is so.
fn summary(condition: &Value) -> [Value; 4] {
    ["type", "status", "reason", "message"].map(|field| condition[field].clone())
}

/// What every status is to be: kind and name, the status, and how many records were left out of it.
fn wanted(ipam: &Ipam, now: Time) -> BTreeMap<(&'static str, String), (Value, usize)> {
    let mut out = BTreeMap::new();
    for pool in ipam.pools().filter(|pool| pool.object == POOL) {
        let Some(usage) = ipam.pool_usage(&pool.name, now) else { continue };
        let allocations: Vec<Allocation> = ipam.holdings(&pool.name).iter().map(allocation).collect();
        out.insert((POOL, pool.name.clone()), pool_status(usage.capacity, &allocations));
    }
    let config = ipam.config();
    for subnet in config.subnets.values().filter(|subnet| subnet.object == SUBNET) {
        out.insert((SUBNET, subnet.name.clone()), subnet_status(subnet, config));
    }
    out
}

/// Some of the addresses of a pool that strangers use, for people.
fn of_strangers(ipam: &Ipam, pool: &str) -> String {
    let Some(pool) = ipam.pool(pool) else { return String::new() };
    let apart =
        ipam.slots().filter(|(plane, _, slot)| plane.network == pool.network && slot.state == State::Quarantined);
    let addresses = apart.map(|(plane, unit, _)| plane.addr(unit));
    let own = addresses.filter(|address| pool.ranges.iter().any(|range| range.contains(*address)));
    own.take(NAMED).map(|address| address.to_string()).collect::<Vec<_>>().join(", ")
}

fn allocation((given, slot): &(Given, SlotRef<'_>)) -> Allocation {
    let holder = slot.holder().unwrap_or_default();
    let pod = if holder.pod.is_empty() { holder.id } else { format!("{}/{}", holder.namespace, holder.pod) };
    Allocation { address: given.address(), pod, uid: holder.uid }
}
