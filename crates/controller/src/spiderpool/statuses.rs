//! The statuses of SpiderIPPools and SpiderSubnets: those of which something may have changed.

use super::dirty::Dirty;
use crate::condition::dated;
use crate::effects::{Answer, OnlyIf, Verb, Write, Writer};
use crate::facts::{Record, SpiderMirrors};
use crate::world::World;
use berth_core::block::SlotRef;
use berth_core::ipam::{Config, Given, Ipam};
use berth_core::time::Time;
use berth_dialects::judge;
use berth_dialects::spiderpool::status::{Allocation, pool_status, subnet_status, truncation};
use berth_dialects::spiderpool::{POOL, SUBNET};
use berth_dialects::verdicts::condition;
use berth_kube::watch::{Key, Mirror};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};

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

    /// Looks at everything, whatever has happened, and forgets what is gone.
    pub(super) fn look_at_all(&mut self, mirrors: &SpiderMirrors) {
        let names = |mirror: &Mirror<Record>| {
            mirror.with(|all| all.iter().map(|(key, own)| (key.name.clone(), own.uid.clone())).unzip())
        };
        let (pools, mut uids): (Vec<String>, BTreeSet<String>) = names(&mirrors.pools);
        let (subnets, others): (Vec<String>, BTreeSet<String>) = names(&mirrors.subnets);
        uids.extend(others);
        self.dirty.pools.extend(pools);
        self.dirty.subnets.extend(subnets);
        self.forget_all_but(&uids);
    }

    fn forget_all_but(&mut self, uids: &BTreeSet<String>) {
        self.told.retain(|uid, _| uids.contains(uid));
    }

    fn names_of(&mut self, kind: &str) -> &mut BTreeSet<String> {
        if kind == POOL { &mut self.dirty.pools } else { &mut self.dirty.subnets }
    }

    /// Writes the statuses that are not what they should be. What could not be written is tried again.
    pub(super) fn bring_up_to_date(&mut self, world: &World, mirrors: &SpiderMirrors, writer: &Writer) {
        let dirty = std::mem::take(&mut self.dirty);
        let now = berth_server::now();
        let last = |namespace: &str, name: &str| {
            mirrors.endpoints.get(namespace, name).map(|last| last.status.current.uid.clone()).unwrap_or_default()
        };
        let wanted = world.engine.read(|ipam| {
            let pools = dirty.pools.into_iter().map(|name| (POOL, pool(ipam, &name, now, last), name));
            let subnets = dirty.subnets.into_iter().map(|name| (SUBNET, subnet(ipam, &name), name));
            pools.chain(subnets).collect::<Vec<_>>()
        });
        for (kind, status, name) in wanted {
            let mirror = if kind == POOL { &mirrors.pools } else { &mirrors.subnets };
            let Some(record) = mirror.get("", &name) else { continue };
            let known = Known {
                record: &record,
                accepted: self.accepted.get(&(kind, name.clone())),
                told: self.told.get(&record.uid),
            };
            let Some((write, conditions)) = decide((kind, &name), &known, status, now) else { continue };
            match writer.carry_out(&write) {
                Answer::Done => drop(self.told.insert(record.uid.clone(), conditions)),
                // It is gone, or another has its name.
                Answer::Overtaken | Answer::Refused => {}
                Answer::Failed => drop(self.names_of(kind).insert(name)),
            }
        }
    }
}

/// What is known of an object.
struct Known<'a> {
    record: &'a Record,
    /// Whether it is accepted, in the form of a condition.
    accepted: Option<&'a Value>,
    /// The conditions that were last written.
    told: Option<&'a Value>,
}

/// What is to be written of an object, and the conditions in it; `None` if it says all that already.
fn decide(
    (kind, name): (&'static str, &str),
    known: &Known<'_>,
    wanted: Option<(Value, usize)>,
    now: Time,
) -> Option<(Write, Value)> {
    // One that is in nobody's configuration has nothing.
    let (mut status, left_out) = wanted.unwrap_or_else(|| pool_status(0u128.into(), &[]));
    let before = &known.record.status;
    let same = |(key, value): (&String, &Value)| before.get(key).unwrap_or(&Value::Null) == value;
    let counts_known = status.as_object().is_some_and(|fields| fields.iter().all(same));
    let conditions = known.accepted.cloned().into_iter().chain([truncation(left_out, "")]);
    let conditions: Value = conditions.map(|condition| dated(before, condition, now)).collect();
    // A definition that knows no conditions drops them; what was told once is not told again for that.
    let summaries = |all: &Value| all.as_array().into_iter().flatten().map(summary).collect::<Vec<_>>();
    let told = known.told.is_some_and(|told| summaries(told) == summaries(&conditions));
    if counts_known && (told || before["conditions"] == conditions) {
        return None;
    }
    status["conditions"] = conditions.clone();
    let write = Write {
        kind,
        key: Key::new("", name),
        only_if: OnlyIf { uid: Some(known.record.uid.clone()), version: None },
        verb: Verb::PatchStatus(status),
        news: Vec::new(),
    };
    Some((write, conditions))
}

/// What makes a condition the same one: not since when it is so.
fn summary(condition: &Value) -> [Value; 4] {
    ["type", "status", "reason", "message"].map(|field| condition[field].clone())
}

/// What the status of a pool is to be, and how many records were left out of it. `last` is the UID of the last pod of a
/// name, as far as its endpoint knows.
fn pool(ipam: &Ipam, name: &str, now: Time, last: impl Fn(&str, &str) -> String) -> Option<(Value, usize)> {
    ipam.pool(name).filter(|pool| pool.object == POOL)?;
    let allocations: Vec<Allocation> = ipam.holdings(name).iter().map(|holding| allocation(holding, &last)).collect();
    Some(pool_status(ipam.pool_usage(name, now)?.capacity, &allocations))
}

/// What the status of a subnet is to be, and how many records were left out of it.
fn subnet(ipam: &Ipam, name: &str) -> Option<(Value, usize)> {
    let config = ipam.config();
    let own = config.subnets.get(name).filter(|subnet| subnet.object == SUBNET)?;
    Some(subnet_status(own, config))
}

fn allocation((given, slot): &(Given, SlotRef<'_>), last: impl Fn(&str, &str) -> String) -> Allocation {
    let mut holder = slot.holder().unwrap_or_default();
    if holder.uid.is_empty() {
        // Of a pod that is away, its endpoint knows the last one.
        holder.uid = last(&holder.namespace, holder.lasting_name());
    }
    let pod = if holder.pod.is_empty() { holder.id } else { format!("{}/{}", holder.namespace, holder.lasting_name()) };
    Allocation { address: given.address(), pod, uid: holder.uid }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::holder::{Holder, Sticky};
    use berth_dialects::{Object, lower_all};
    use serde_json::json;

    const NOW: Time = Time::from_secs(1_800_000_000);

    fn accepted() -> Value {
        json!({"type": "Accepted", "status": "True", "reason": "Accepted", "message": ""})
    }

    fn record(status: Value) -> Record {
        Record { uid: "u1".to_owned(), status, ..Record::default() }
    }

    fn decided(record: &Record, told: Option<&Value>, wanted: Option<(Value, usize)>) -> Option<(Write, Value)> {
        decide((POOL, "a"), &Known { record, accepted: Some(&accepted()), told }, wanted, NOW)
    }

    #[test]
    fn a_status_is_written_once_and_again_when_it_is_another() {
        let counts = |total: u64| Some((json!({"totalIPCount": total, "allocatedIPCount": 1}), 0));
        let mut known = record(Value::Null);
        let (write, conditions) = decided(&known, None, counts(8)).unwrap();
        assert_eq!((write.kind, write.key.to_string().as_str()), (POOL, "a"));
        assert_eq!(write.only_if, OnlyIf { uid: Some("u1".to_owned()), version: None });
        let Verb::PatchStatus(status) = write.verb else { panic!("{:?}", write.verb) };
        assert_eq!(status["conditions"], conditions);
        let kinds: Vec<&Value> = conditions.as_array().unwrap().iter().map(|condition| &condition["type"]).collect();
        assert_eq!(kinds, ["Accepted", "RecordsTruncated"]);
        known.status = status;
        assert_eq!(decided(&known, None, counts(8)), None);
        assert!(decided(&known, Some(&conditions), counts(9)).is_some());
    }

    #[test]
    fn a_definition_that_drops_conditions_is_not_told_again() {
        let counts = (json!({"totalIPCount": 8}), 0);
        let without = record(counts.0.clone());
        let (_, conditions) = decided(&without, None, Some(counts.clone())).unwrap();
        assert_eq!(decided(&without, Some(&conditions), Some(counts.clone())), None);
        let many = decided(&without, Some(&conditions), Some((counts.0, 3)));
        assert!(many.is_some(), "another condition is another matter");
    }

    #[test]
    fn what_nobody_has_configured_has_nothing() {
        let (write, _) = decided(&record(json!({"totalIPCount": 8})), None, None).unwrap();
        let Verb::PatchStatus(status) = write.verb else { panic!("{:?}", write.verb) };
        assert_eq!(status["totalIPCount"], 0);
    }

    #[test]
    fn what_was_told_of_an_object_that_is_gone_is_forgotten() {
        let told = ["gone", "there"].map(|uid| (uid.to_owned(), accepted())).into();
        let mut statuses = Statuses { told, ..Statuses::default() };
        statuses.forget_all_but(&BTreeSet::from(["there".to_owned(), "new".to_owned()]));
        assert_eq!(statuses.told.into_keys().collect::<Vec<_>>(), ["there"]);
    }

    #[test]
    fn of_a_pod_that_is_away_its_endpoint_knows_the_uid() {
        let object: Object = serde_json::from_value(json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": POOL, "metadata": {"name": "a"},
            "spec": {"subnet": "10.0.0.0/24", "ips": ["10.0.0.5-10.0.0.6"]},
        }))
        .unwrap();
        let mut ipam = Ipam::new();
        ipam.configure(lower_all([&object]).unwrap());
        let plane = ipam.pool("a").unwrap().plane();
        let sticky = Some(Sticky { identity: Sticky::of_pod("web", "db-0", "eth0"), keep: None });
        let holder = Holder { namespace: "web".into(), pod: "db-0".into(), sticky, ..Holder::default() };
        ipam.hold(&plane, "10.0.0.5".parse().unwrap(), holder, NOW).unwrap();
        let last = |namespace: &str, name: &str| format!("last of {namespace}/{name}");
        let (status, left_out) = pool(&ipam, "a", NOW, last).unwrap();
        assert_eq!((&status["totalIPCount"], &status["allocatedIPCount"], left_out), (&json!(2), &json!(1), 0));
        assert!(status["allocatedIPs"].to_string().contains("last of web/db-0"), "{status}");
        assert!(pool(&ipam, "b", NOW, last).is_none() && subnet(&ipam, "a").is_none());
    }
}
