//! What statuses are to say, and what of that is to be written: pure.

use crate::condition;
use crate::effects::{OnlyIf, Verb, Write};
use crate::events::Reason;
use crate::facts::Record;
use berth_core::ipam::{Ipam, Usage};
use berth_core::model::{POOL_OBJECT, SUBNET_OBJECT};
use berth_core::time::Time;
use berth_dialects::native::{pool_status, subnet_status};
use berth_dialects::verdicts::ACCEPTED;
use berth_kube::watch::Key;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};

/// Whether each object is accepted, in the form of a condition, by kind and name.
pub(super) type Accepted = HashMap<(String, String), Value>;

/// What may have another status by now.
#[derive(Default)]
pub(super) struct Dirty {
    pub(super) pools: BTreeSet<String>,
    pub(super) subnets: BTreeSet<String>,
    pub(super) everything: bool,
}

impl Dirty {
    pub(super) fn has_pool(&self, name: &str) -> bool {
        self.everything || self.pools.contains(name)
    }

    fn has_subnet(&self, name: &str) -> bool {
        self.everything || self.subnets.contains(name)
    }

    pub(super) fn add(&mut self, kind: &str, name: String) {
        let names = if kind == POOL_OBJECT { &mut self.pools } else { &mut self.subnets };
        names.insert(name);
    }
}

/// What the status of an object is to be.
#[derive(Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) kind: &'static str,
    pub(super) name: String,
    status: Value,
}

/// The statuses of what is configured, and of what is not.
pub(super) fn wanted(ipam: &Ipam, accepted: &Accepted, dirty: &Dirty, now: Time) -> Vec<Wanted> {
    let mut all = configured(ipam, dirty, now);
    let nameless = left_out(&all, accepted, dirty);
    all.extend(nameless);
    all
}

fn configured(ipam: &Ipam, dirty: &Dirty, now: Time) -> Vec<Wanted> {
    let own = ipam.pools().filter(|pool| pool.object == POOL_OBJECT && dirty.has_pool(&pool.name));
    let pools = own.filter_map(|pool| {
        let usage: Usage = ipam.pool_usage(&pool.name, now)?;
        Some(Wanted { kind: POOL_OBJECT, name: pool.name.clone(), status: pool_status(pool, &usage) })
    });
    let own = ipam.config().subnets.values().filter(|subnet| subnet.object == SUBNET_OBJECT).map(|subnet| &subnet.name);
    let subnets = own.filter(|name| dirty.has_subnet(name)).filter_map(|name| {
        let usage = ipam.subnet_usage(name, now)?;
        Some(Wanted { kind: SUBNET_OBJECT, name: name.clone(), status: subnet_status(&usage) })
    });
    pools.chain(subnets).collect()
}

/// Objects that are in nobody's configuration, e.g. because their name is taken by one of another kind: they are to say so
/// all the same.
fn left_out(wanted: &[Wanted], accepted: &Accepted, dirty: &Dirty) -> Vec<Wanted> {
    let is_new = |kind: &str, name: &str| !wanted.iter().any(|one| one.kind == kind && one.name == name);
    let refused = accepted.iter().filter(|(_, condition)| condition["status"] == "False");
    let own = refused.filter_map(|((kind, name), _)| match kind.as_str() {
        POOL_OBJECT if dirty.has_pool(name) => Some((POOL_OBJECT, name, json!({ "phase": "NotAccepted" }))),
        SUBNET_OBJECT if dirty.has_subnet(name) => Some((SUBNET_OBJECT, name, json!({}))),
        _ => None,
    });
    own.filter(|(kind, name, _)| is_new(kind, name))
        .map(|(kind, name, status)| Wanted { kind, name: name.clone(), status })
        .collect()
}

/// What is to be written of an object as it is known; `None` if it says all that already.
pub(super) fn decide(wanted: &Wanted, record: &Record, accepted: Option<&Value>, now: Time) -> Option<Write> {
    let mut status = wanted.status.clone();
    if let Some(accepted) = accepted {
        status["conditions"] = json!([condition::dated(&record.status, accepted.clone(), now)]);
    }
    Some(Write {
        kind: wanted.kind,
        key: Key::new("", &wanted.name),
        only_if: OnlyIf { uid: Some(record.uid.clone()), version: None },
        verb: Verb::PatchStatus(difference(record, &status)?),
        news: news(&record.status, &status),
    })
}

/// What of a status is to be written; nothing if it says all that already.
fn difference(record: &Record, status: &Value) -> Option<Value> {
    let mut patch = status.clone();
    patch["observedGeneration"] = json!(record.generation);
    let known = |(key, value): (&String, &Value)| record.status.get(key) == Some(value);
    let all = patch.as_object().is_some_and(|fields| fields.iter().all(known));
    (!all).then_some(patch)
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

    fn known(kind: &str, name: &str, status: &str) -> Accepted {
        let condition = json!({"type": "Accepted", "status": status, "reason": "x", "message": "overlaps pool b"});
        Accepted::from([((kind.to_owned(), name.to_owned()), condition)])
    }

    #[test]
    fn an_object_that_is_not_configured_says_so_if_it_is_refused_and_looked_at() {
        let all = Dirty { everything: true, ..Dirty::default() };
        let names = |accepted: &Accepted, dirty: &Dirty| -> Vec<(&str, String, Value)> {
            let wanted = wanted(&Ipam::new(), accepted, dirty, Time::from_secs(1));
            wanted.into_iter().map(|one| (one.kind, one.name, one.status)).collect()
        };
        let pool = known(POOL_OBJECT, "a", "False");
        let told = [(POOL_OBJECT, "a".to_owned(), json!({"phase": "NotAccepted"}))];
        assert_eq!(names(&pool, &all), told);
        assert_eq!(names(&pool, &Dirty::default()), []);
        let mut dirty = Dirty::default();
        dirty.add(POOL_OBJECT, "a".to_owned());
        assert_eq!(names(&pool, &dirty), told);
        assert_eq!(names(&known(SUBNET_OBJECT, "a", "False"), &dirty), [], "it is the pool that is looked at");
        assert_eq!(names(&known(POOL_OBJECT, "a", "True"), &all), []);
        assert_eq!(names(&known("SpiderIPPool", "a", "False"), &all), [], "others write the status of that");
    }

    #[test]
    fn a_status_is_written_to_the_very_object_and_then_no_more() {
        let wanted = Wanted { kind: POOL_OBJECT, name: "a".to_owned(), status: json!({"phase": "NotAccepted"}) };
        let accepted = known(POOL_OBJECT, "a", "False");
        let decided = |record: &Record| decide(&wanted, record, accepted.values().next(), Time::from_secs(1));
        let mut record = Record { uid: "u1".to_owned(), generation: Some(2), ..Record::default() };
        let write = decided(&record).unwrap();
        assert_eq!((write.kind, write.key.to_string().as_str()), (POOL_OBJECT, "a"));
        assert_eq!(write.only_if, OnlyIf { uid: Some("u1".to_owned()), version: None });
        assert_eq!(write.news, [(Reason::NotAccepted, "overlaps pool b".to_owned())]);
        let Verb::PatchStatus(status) = write.verb else { panic!("{:?}", write.verb) };
        assert_eq!(status["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:01Z");
        record.status = status;
        assert_eq!(decided(&record), None);
    }
}
