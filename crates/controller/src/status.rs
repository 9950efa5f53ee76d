//! How full pools and subnets are, written to their status: at most once a second each, and only if it changed.

use crate::condition;
use crate::events::{Events, Reason, object};
use crate::facts::Record;
use crate::leader::Seat;
use crate::metrics::Metrics;
use crate::world::World;
use berth_core::ipam::{Ipam, Usage};
use berth_core::model::{POOL_OBJECT, SUBNET_OBJECT};
use berth_core::time::Time;
use berth_dialects::native::{pool_status, subnet_status};
use berth_dialects::verdicts::{ACCEPTED, Refusal, condition};
use berth_dialects::{Object, judge};
use berth_kube::objects::resource_of;
use berth_kube::store::Touched;
use berth_kube::watch::{Changes, Mirror};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::debug;

/// How long two rounds are apart at least, and so two writes of one status.
const PACE: Duration = Duration::from_secs(1);

/// The writer of statuses.
pub(crate) struct Status {
    world: Arc<World>,
    events: Events,
    metrics: Arc<Metrics>,
    blocks: Touched,
    pools: Changes,
    subnets: Changes,
    configured: u64,
    /// Whether each object is accepted, in the form of a condition, by kind and name.
    accepted: HashMap<(String, String), Value>,
    dirty: Dirty,
    last: Option<Instant>,
    /// Whether this replica led in the last round.
    led: bool,
}

/// What may have another status by now.
#[derive(Default)]
struct Dirty {
    pools: BTreeSet<String>,
    subnets: BTreeSet<String>,
    everything: bool,
}

impl Dirty {
    fn has_pool(&self, name: &str) -> bool {
        self.everything || self.pools.contains(name)
    }

    fn has_subnet(&self, name: &str) -> bool {
        self.everything || self.subnets.contains(name)
    }
}

impl Status {
    pub(crate) fn new(world: Arc<World>, events: Events, metrics: Arc<Metrics>) -> Self {
        Self {
            blocks: world.touched(),
            pools: world.mirrors.pools.changes(),
            subnets: world.mirrors.subnets.changes(),
            configured: 0,
            accepted: HashMap::new(),
            dirty: Dirty { everything: true, ..Dirty::default() },
            last: None,
            led: false,
            world,
            events,
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
            let wanted: Vec<Wanted> = self.world.engine.read(|ipam| wanted(ipam, &dirty, now));
            let nameless = self.left_out(&wanted, &dirty);
            wanted.into_iter().chain(nameless).for_each(|one| self.bring_up_to_date(one));
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

    /// Objects that are in nobody's configuration, e.g. because their name is taken by one of another kind: they are to say
    /// so all the same.
    fn left_out(&self, wanted: &[Wanted], dirty: &Dirty) -> Vec<Wanted> {
        let is_new = |kind: &str, name: &str| !wanted.iter().any(|one| one.kind == kind && one.name == name);
        let refused = self.accepted.iter().filter(|(_, condition)| condition["status"] == "False");
        let own = refused.filter_map(|((kind, name), _)| match kind.as_str() {
            POOL_OBJECT if dirty.has_pool(name) => Some((POOL_OBJECT, name, json!({ "phase": "NotAccepted" }))),
            SUBNET_OBJECT if dirty.has_subnet(name) => Some((SUBNET_OBJECT, name, json!({}))),
            _ => None,
        });
        own.filter(|(kind, name, _)| is_new(kind, name))
            .map(|(kind, name, status)| Wanted { kind, name: name.clone(), status })
            .collect()
    }

    fn bring_up_to_date(&mut self, wanted: Wanted) {
        let Wanted { kind, name, mut status } = wanted;
        let mirror: &Mirror<Record> =
            if kind == "IPPool" { &self.world.mirrors.pools } else { &self.world.mirrors.subnets };
        let Some(record) = mirror.get("", &name) else { return };
        if let Some(accepted) = self.accepted.get(&(kind.to_owned(), name.clone())) {
            status["conditions"] = json!([condition::dated(&record.status, accepted.clone())]);
        }
        let Some(patch) = difference(&record, &status) else { return };
        let api: Api<DynamicObject> = Api::all_with(self.world.cluster.client().clone(), &resource_of(kind));
        let patch = Patch::Merge(json!({"metadata": {"uid": record.uid}, "status": patch}));
        match self.world.cluster.wait(api.patch_status(&name, &PatchParams::default(), &patch)) {
            Ok(_) => {
                self.metrics.wrote_status(kind);
                for (reason, note) in news(&record.status, &status) {
                    self.events.tell(object(kind, None, &name, Some(&record.uid)), reason, note);
                }
            }
            // It is gone, or another has its name.
            Err(error) if matches!(error.status(), Some(404 | 409 | 422)) => {}
            Err(error) => {
                debug!(%error, kind, name, "could not write a status; it is tried again");
                let again = if kind == "IPPool" { &mut self.dirty.pools } else { &mut self.dirty.subnets };
                again.insert(name);
            }
        }
    }
}

/// What people are told when a status changes.
fn news(before: &Value, now: &Value) -> Vec<(Reason, String)> {
    let mut news = Vec::new();
    let count = |status: &Value, what: &str| -> u128 {
        status["usage"][what].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    if now["phase"] == "Full" && before["phase"] != "Full" {
        let note = format!("{} of {} addresses are in use", count(now, "inUse"), count(now, "capacity"));
        news.push((Reason::Exhausted, note));
    }
    let strangers = count(now, "quarantined");
    // A pool tells of its own; a subnet would say the same again.
    if now["phase"].is_string() && strangers > count(before, "quarantined") {
        let note = format!("{strangers} addresses were seen in use by strangers and are not given out");
        news.push((Reason::Conflict, note));
    }
    if let Some(refused) = condition::of(now, ACCEPTED).filter(|accepted| accepted["status"] == "False")
        && condition::of(before, ACCEPTED).is_none_or(|known| known["message"] != refused["message"])
    {
        news.push((Reason::NotAccepted, refused["message"].as_str().unwrap_or_default().to_owned()));
    }
    news
}

/// What the status of an object is to be.
struct Wanted {
    kind: &'static str,
    name: String,
    status: Value,
}

fn wanted(ipam: &Ipam, dirty: &Dirty, now: Time) -> Vec<Wanted> {
    let own = ipam.pools().filter(|pool| pool.object == POOL_OBJECT && dirty.has_pool(&pool.name));
    let pools = own.filter_map(|pool| {
        let usage: Usage = ipam.pool_usage(&pool.name, now)?;
        Some(Wanted { kind: "IPPool", name: pool.name.clone(), status: pool_status(pool, &usage) })
    });
    let own = ipam.config().subnets.values().filter(|subnet| subnet.object == SUBNET_OBJECT).map(|subnet| &subnet.name);
    let subnets = own.filter(|name| dirty.has_subnet(name)).filter_map(|name| {
        let usage = ipam.subnet_usage(name, now)?;
        Some(Wanted { kind: "IPSubnet", name: name.clone(), status: subnet_status(&usage) })
    });
    pools.chain(subnets).collect()
}

/// What of a status is to be written; nothing if it says all that already.
fn difference(record: &Record, status: &Value) -> Option<Value> {
    let mut patch = status.clone();
    patch["observedGeneration"] = json!(record.generation);
    let known = |(key, value): (&String, &Value)| record.status.get(key) == Some(value);
    let all = patch.as_object().is_some_and(|fields| fields.iter().all(known));
    (!all).then_some(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_when_it_gets_worse_and_once() {
        let status = |phase: &str, quarantined: &str, accepted: &str| {
            json!({
                "phase": phase,
                "usage": {"inUse": "3", "capacity": "3", "quarantined": quarantined},
                "conditions": [{"type": "Accepted", "status": accepted, "message": "overlaps pool b"}],
            })
        };
        let reasons =
            |before: &Value, now: &Value| news(before, now).into_iter().map(|(reason, _)| reason).collect::<Vec<_>>();
        let (fine, bad) = (status("Ready", "1", "True"), status("Full", "2", "False"));
        assert_eq!(reasons(&Value::Null, &status("Ready", "0", "True")), []);
        assert_eq!(reasons(&fine, &bad)[..2], [Reason::Exhausted, Reason::Conflict]);
        assert_eq!(reasons(&bad, &bad), []);
        assert_eq!(reasons(&bad, &fine), []);
        assert_eq!(reasons(&Value::Null, &status("NotAccepted", "0", "False")), [Reason::NotAccepted]);
    }

    #[test]
    fn only_what_changed_is_written() {
        let status = json!({"phase": "Ready", "usage": {"free": "3"}});
        let mut record = Record { generation: Some(2), ..Record::default() };
        let written = difference(&record, &status).unwrap();
        assert_eq!(written["observedGeneration"], 2);
        record.status = written;
        // Others may say more there.
        record.status["conditions"] = json!([{"type": "Accepted"}]);
        assert_eq!(difference(&record, &status), None);
        record.generation = Some(3);
        assert!(difference(&record, &status).is_some());
        record.generation = Some(2);
        assert!(difference(&record, &json!({"phase": "Full", "usage": {"free": "0"}})).is_some());
    }
}
