//! How full pools and subnets are, written to their status: at most once a second each, and only if it changed.

use crate::events::{Events, Reason};
use crate::facts::Record;
use crate::leader::Seat;
use crate::metrics::Metrics;
use crate::world::World;
use berth_core::ipam::{Ipam, Usage};
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
use std::time::Duration;
use tracing::debug;

/// How long two writes of one status are apart at least: a round takes as long.
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
    /// Pools whose status may have changed; `None` stands for all.
    dirty: BTreeSet<String>,
    everything: bool,
}

impl Status {
    pub(crate) fn new(world: Arc<World>, events: Events, metrics: Arc<Metrics>) -> Self {
        Self {
            blocks: world.touched(),
            pools: world.mirrors.pools.changes(),
            subnets: world.mirrors.subnets.changes(),
            configured: 0,
            dirty: BTreeSet::new(),
            everything: true,
            world,
            events,
            metrics,
        }
    }

    /// One round; how long the next is to wait.
    pub(crate) fn round(&mut self, seat: &Seat) -> Duration {
        let touched = self.blocks.take();
        self.world.refresh();
        let configured = self.world.configured();
        self.everything |= configured != self.configured || !self.subnets.take().is_empty();
        self.configured = configured;
        self.dirty.extend(self.pools.take().into_iter().map(|key| key.name));
        let now = berth_server::now();
        let world = self.world.clone();
        self.dirty.extend(world.engine.read(|ipam| {
            let of_block = touched.iter().flat_map(|key| ipam.pools_at(key));
            // Where addresses rest, time alone changes the counts.
            let resting = ipam.pools().filter(|pool| !pool.cool_down.is_zero()).cloned();
            of_block.chain(resting).map(|pool| pool.name.clone()).collect::<Vec<_>>()
        }));
        self.count(now);
        if !seat.leads() || (self.dirty.is_empty() && !self.everything) {
            return PACE;
        }
        let dirty = std::mem::take(&mut self.dirty);
        let everything = std::mem::take(&mut self.everything);
        let wanted: Vec<Wanted> = world.engine.read(|ipam| wanted(ipam, &dirty, everything, now));
        let objects = world.objects.all();
        let verdicts = judge(objects.iter().map(AsRef::as_ref));
        let refusals: HashMap<(&str, &str), &(&Object, Option<Refusal>)> = (verdicts.objects.iter())
            .map(|verdict| ((verdict.0.kind.as_str(), verdict.0.metadata.name.as_str()), verdict))
            .collect();
        for one in wanted {
            let verdict = refusals.get(&(one.kind, one.name.as_str())).copied();
            self.bring_up_to_date(one, verdict);
        }
        PACE
    }

    /// Every replica counts, so that whichever is asked knows.
    fn count(&self, now: Time) {
        if self.everything {
            self.metrics.clear_pools();
        }
        self.world.engine.read(|ipam| {
            for pool in ipam.pools().filter(|pool| self.everything || self.dirty.contains(&pool.name)) {
                if let Some(usage) = ipam.pool_usage(&pool.name, now) {
                    self.metrics.pool(&pool.name, &pool.network, &usage);
                }
            }
        });
    }

    fn bring_up_to_date(&mut self, wanted: Wanted, verdict: Option<&(&Object, Option<Refusal>)>) {
        let Wanted { kind, name, mut status } = wanted;
        let mirror: &Mirror<Record> =
            if kind == "IPPool" { &self.world.mirrors.pools } else { &self.world.mirrors.subnets };
        let Some(record) = mirror.get("", &name) else { return };
        if let Some((object, refusal)) = verdict {
            status["conditions"] = conditions(&record.status, object, refusal.as_ref());
        }
        let Some(patch) = difference(&record, &status) else { return };
        let filled = status["phase"] == "Full" && record.status["phase"] != "Full";
        let api: Api<DynamicObject> = Api::all_with(self.world.cluster.client().clone(), &resource_of(kind));
        let patch = Patch::Merge(json!({"metadata": {"uid": record.uid}, "status": patch}));
        match self.world.cluster.wait(api.patch_status(&name, &PatchParams::default(), &patch)) {
            Ok(_) => {
                self.metrics.wrote_status(kind);
                if filled {
                    let note =
                        format!("{} of {} addresses are in use", status["usage"]["inUse"], status["usage"]["capacity"]);
                    self.events.pool(&name, Reason::Exhausted, note.replace('"', ""));
                }
            }
            // It is gone, or another has its name.
            Err(error) if matches!(error.status(), Some(404 | 409 | 422)) => {}
            Err(error) => {
                debug!(%error, kind, name, "could not write a status; it is tried again");
                if kind == "IPPool" {
                    self.dirty.insert(name);
                } else {
                    self.everything = true;
                }
            }
        }
    }
}

/// What the status of an object is to be.
struct Wanted {
    kind: &'static str,
    name: String,
    status: Value,
}

fn wanted(ipam: &Ipam, dirty: &BTreeSet<String>, everything: bool, now: Time) -> Vec<Wanted> {
    let concerned = ipam.pools().filter(|pool| everything || dirty.contains(&pool.name));
    let pools = concerned.filter_map(|pool| {
        let usage: Usage = ipam.pool_usage(&pool.name, now)?;
        Some(Wanted { kind: "IPPool", name: pool.name.clone(), status: pool_status(pool, &usage) })
    });
    let of_pools: BTreeSet<&String> =
        ipam.pools().filter(|pool| dirty.contains(&pool.name)).filter_map(|pool| pool.subnet.as_ref()).collect();
    let concerned = ipam.config().subnets.keys().filter(|name| everything || of_pools.contains(name));
    let subnets = concerned.filter_map(|name| {
        let usage = ipam.subnet_usage(name, now)?;
        Some(Wanted { kind: "IPSubnet", name: name.clone(), status: subnet_status(&usage) })
    });
    pools.chain(subnets).collect()
}

/// The conditions of an object. A condition that says what it said before has been so since then.
fn conditions(before: &Value, object: &Object, refusal: Option<&Refusal>) -> Value {
    let now = jiff::Timestamp::now().round(jiff::Unit::Second).unwrap_or_default().to_string();
    let mut next = condition(object, refusal, &now);
    let known = before["conditions"].as_array().into_iter().flatten().find(|known| known["type"] == ACCEPTED);
    if let Some(known) = known.filter(|known| known["status"] == next["status"]) {
        next["lastTransitionTime"] = known["lastTransitionTime"].clone();
    }
    json!([next])
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
