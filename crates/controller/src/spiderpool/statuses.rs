//! The statuses of SpiderIPPools and SpiderSubnets: those of which something may have changed.

use super::dirty::Dirty;
use crate::condition::dated;
use crate::facts::{Record, SpiderMirrors};
use crate::world::World;
use berth_core::block::SlotRef;
use berth_core::ipam::{Config, Given, Ipam};
use berth_core::time::Time;
use berth_dialects::judge;
use berth_dialects::spiderpool::status::{Allocation, pool_status, subnet_status, truncation};
use berth_dialects::spiderpool::{POOL, SUBNET};
use berth_dialects::verdicts::condition;
use berth_kube::objects::resource_of;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tracing::debug;

/// The writer of statuses.
#[derive(Default)]
pub(super) struct Statuses {
    /// What may have another status by now.
    pub(super) dirty: Dirty,
    /// Whether each object is accepted, in the form of a condition, by kind and name.
    accepted: BTreeMap<(&'static str, String), Value>,
    /// The last conditions of each object: definitions that people have installed may not keep them.
    told: HashMap<String, Value>,
}

impl Statuses {
    /// Takes in another configuration: who is accepted now, and what that changes.
    pub(super) fn reconfigure(&mut self, world: &World, before: &Config, after: &Config) {
        self.dirty.add_changes(before, after);
        let objects = world.objects.all();
        let verdicts = judge(objects.iter().map(AsRef::as_ref));
        let accepted: BTreeMap<(&'static str, String), Value> = verdicts
            .objects
            .iter()
            .filter_map(|(object, refusal)| {
                let kind = [POOL, SUBNET].into_iter().find(|kind| *kind == object.kind)?;
                let switched_off = || world.spiderpool.refusal(object);
                let refusal = refusal.clone().or_else(switched_off);
                Some(((kind, object.metadata.name.clone()), condition(object, refusal.as_ref(), "")))
            })
            .collect();
        for ((kind, name), condition) in &accepted {
            if self.accepted.get(&(*kind, name.clone())) != Some(condition) {
                self.names_of(kind).insert(name.clone());
            }
        }
        self.accepted = accepted;
    }

    /// Looks at everything, whatever has happened.
    pub(super) fn look_at_all(&mut self, mirrors: &SpiderMirrors) {
        let names = |mirror: &berth_kube::watch::Mirror<Record>| {
            mirror.with(|all| all.iter().map(|(key, own)| (key.name.clone(), own.uid.clone())).unzip())
        };
        let (pools, mut uids): (Vec<String>, BTreeSet<String>) = names(&mirrors.pools);
        let (subnets, others): (Vec<String>, BTreeSet<String>) = names(&mirrors.subnets);
        uids.extend(others);
        self.dirty.pools.extend(pools);
        self.dirty.subnets.extend(subnets);
        self.told.retain(|uid, _| uids.contains(uid));
    }

    fn names_of(&mut self, kind: &str) -> &mut BTreeSet<String> {
        if kind == POOL { &mut self.dirty.pools } else { &mut self.dirty.subnets }
    }

    /// Writes the statuses that are not what they should be. What could not be written is tried again.
    pub(super) fn bring_up_to_date(&mut self, world: &World, mirrors: &SpiderMirrors) {
        let dirty = std::mem::take(&mut self.dirty);
        let now = berth_server::now();
        let wanted = world.engine.read(|ipam| {
            let pools = dirty.pools.into_iter().map(|name| (POOL, pool(ipam, &name, now, mirrors), name));
            let subnets = dirty.subnets.into_iter().map(|name| (SUBNET, subnet(ipam, &name), name));
            pools.chain(subnets).collect::<Vec<_>>()
        });
        for (kind, status, name) in wanted {
            let mirror = if kind == POOL { &mirrors.pools } else { &mirrors.subnets };
            let Some(record) = mirror.get("", &name) else { continue };
            // One that is in nobody's configuration has nothing.
            let status = status.unwrap_or_else(|| pool_status(0u128.into(), &[]));
            if !self.write(world, kind, &name, &record, status) {
                self.names_of(kind).insert(name);
            }
        }
    }

    fn write(
        &mut self,
        world: &World,
        kind: &'static str,
        name: &str,
        record: &Record,
        (mut status, left_out): (Value, usize),
    ) -> bool {
        let known = |(key, value): (&String, &Value)| record.status.get(key).unwrap_or(&Value::Null) == value;
        let counts_known = status.as_object().is_some_and(|fields| fields.iter().all(known));
        let truncated = truncation(left_out, "");
        let accepted = self.accepted.get(&(kind, name.to_owned())).cloned();
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
        let api: Api<DynamicObject> = Api::all_with(world.cluster.client().clone(), &resource_of(kind));
        let patch = Patch::Merge(json!({ "metadata": { "uid": record.uid }, "status": status }));
        match world.cluster.wait(api.patch_status(name, &PatchParams::default(), &patch)) {
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
}

/// What makes a condition the same one: not since when it is so.
fn summary(condition: &Value) -> [Value; 4] {
    ["type", "status", "reason", "message"].map(|field| condition[field].clone())
}

/// What the status of a pool is to be, and how many records were left out of it.
fn pool(ipam: &Ipam, name: &str, now: Time, mirrors: &SpiderMirrors) -> Option<(Value, usize)> {
    ipam.pool(name).filter(|pool| pool.object == POOL)?;
    let allocations: Vec<Allocation> = ipam.holdings(name).iter().map(|holding| allocation(holding, mirrors)).collect();
    Some(pool_status(ipam.pool_usage(name, now)?.capacity, &allocations))
}

/// What the status of a subnet is to be, and how many records were left out of it.
fn subnet(ipam: &Ipam, name: &str) -> Option<(Value, usize)> {
    let config = ipam.config();
    let own = config.subnets.get(name).filter(|subnet| subnet.object == SUBNET)?;
    Some(subnet_status(own, config))
}

fn allocation((given, slot): &(Given, SlotRef<'_>), mirrors: &SpiderMirrors) -> Allocation {
    let mut holder = slot.holder().unwrap_or_default();
    if holder.uid.is_empty() {
        // Of a pod that is away, its endpoint knows the last one.
        let last = mirrors.endpoints.get(&holder.namespace, holder.lasting_name());
        holder.uid = last.map(|last| last.status.current.uid.clone()).unwrap_or_default();
    }
    let pod = if holder.pod.is_empty() { holder.id } else { format!("{}/{}", holder.namespace, holder.lasting_name()) };
    Allocation { address: given.address(), pod, uid: holder.uid }
}
