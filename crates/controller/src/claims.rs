//! Claims: bound when they are made, so that their addresses are known before anybody uses them.

use crate::condition;
use crate::effects::{OnlyIf, Verb, Write, Writer};
use crate::events::{Events, Reason};
use crate::facts::Record;
use crate::leader::Seat;
use crate::world::World;
use berth_core::error::Error;
use berth_core::ipam::{Given, Ipam};
use berth_core::time::Time;
use berth_dialects::native::claim_status;
use berth_dialects::{Lowered, lower};
use berth_kube::connect::CallError;
use berth_kube::watch::{Changes, Key};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tracing::{debug, info};

/// How long to wait before a claim is tried again that could not be served.
const AGAIN: Duration = Duration::from_secs(10);

/// The kind, as objects write it.
const CLAIM: &str = "IPClaim";
/// The condition that says whether a claim has its addresses.
const BOUND: &str = "Bound";

/// The binder of claims.
pub(crate) struct Claims {
    world: Arc<World>,
    writer: Writer,
    changes: Changes,
    /// Claims that are not bound yet.
    open: BTreeSet<Key>,
}

impl Claims {
    pub(crate) fn new(world: Arc<World>, events: Events) -> Self {
        let writer = Writer::new(&world.cluster, events);
        Self { changes: world.mirrors.claims.changes(), open: BTreeSet::new(), world, writer }
    }

    /// One round; how long the next may wait if nothing happens.
    pub(crate) fn round(&mut self, seat: &Seat) -> Duration {
        self.open.extend(self.changes.take());
        if seat.leads() && !self.open.is_empty() {
            self.world.refresh();
            let open = std::mem::take(&mut self.open);
            self.open = open.into_iter().filter(|key| !self.bring_up_to_date(key)).collect();
        }
        if self.open.is_empty() { Duration::from_secs(60) } else { AGAIN }
    }

    /// Whether there is nothing left to do for a claim.
    fn bring_up_to_date(&self, key: &Key) -> bool {
        let Some(record) = self.world.mirrors.claims.get(&key.namespace, &key.name) else { return true };
        let now = berth_server::now();
        match decide(key, &record, None, now) {
            None => true,
            Some(Effect::Say(write)) => self.writer.carry_out(&write).is_settled(),
            Some(Effect::Bind) => match self.try_to_bind(key) {
                // The change of the claim brings it here once more.
                Ok(done) => done,
                Err(error) => {
                    debug!(claim = %key, %error, "a claim cannot be bound yet");
                    if let Some(Effect::Say(why)) = decide(key, &record, Some(&error), now) {
                        self.writer.carry_out(&why);
                    }
                    false
                }
            },
        }
    }

    fn try_to_bind(&self, key: &Key) -> Result<bool, Error> {
        let object = self.world.objects.get(CLAIM, &key.namespace, &key.name)?;
        let Lowered::Claim(claim) = lower(&object)? else { return Ok(true) };
        let unreachable = |error: CallError| Error::Unreachable(error.to_string());
        let Some(current) = self.world.endpoints.claim(&key.namespace, &key.name).map_err(unreachable)? else {
            return Ok(true);
        };
        if !current.addresses.is_empty() {
            return Ok(true);
        }
        // A pool that lends gives its addresses to nodes; which one the claim's first user is on, nobody knows yet.
        let request = claim.request();
        let engine = &self.world.engine;
        let wanted = engine.explain(&request).1;
        if wanted.is_ok_and(|outcome| engine.read(|ipam| is_lent(ipam, &outcome.given))) {
            return Ok(true);
        }
        let addresses = engine.transact(move |context| context.ipam.keep(&request, context.now, context.entropy))?;
        let bound = self.world.endpoints.bind(current, claim_status(&addresses)).map_err(unreachable)?;
        if bound {
            info!(claim = %key, ?addresses, "bound");
            return Ok(true);
        }
        // Somebody was quicker. If the claim has others now, nobody would ever ask for these.
        let now = self.world.endpoints.claim(&key.namespace, &key.name).map_err(unreachable)?;
        let others = now.map(|claim| claim.addresses).unwrap_or_default();
        if !others.is_empty() {
            let identity = claim.identity.clone();
            engine.transact(move |context| {
                context.ipam.give_up_kept(&identity, &others, context.now);
                Ok(())
            })?;
        }
        Ok(false)
    }
}

/// What is to be done about a claim.
#[derive(Debug, PartialEq)]
enum Effect {
    /// It is to get its addresses.
    Bind,
    /// Its status is to say whether it has them, and people are told.
    Say(Write),
}

/// What is to be done about a claim as it is known; `failure` is why it could not be bound, if that was tried just now.
fn decide(key: &Key, record: &Record, failure: Option<&Error>, now: Time) -> Option<Effect> {
    if record.going {
        return None;
    }
    match failure {
        None if record.status["phase"] != "Bound" => Some(Effect::Bind),
        None => said(key, record, None, now).map(Effect::Say),
        Some(failure) => said(key, record, Some(failure.to_string()), now).map(Effect::Say),
    }
}

/// The status that says that a claim is bound, or why not; `None` if it says so already.
fn said(key: &Key, record: &Record, failure: Option<String>, now: Time) -> Option<Write> {
    let condition = match &failure {
        None => json!({"type": BOUND, "status": "True", "reason": "Bound", "message": ""}),
        Some(why) => json!({"type": BOUND, "status": "False", "reason": "NotBound", "message": why}),
    };
    let same = |known: &Value| ["status", "message"].iter().all(|field| known[field] == condition[field]);
    if condition::of(&record.status, BOUND).is_some_and(same) {
        return None;
    }
    let mut condition = condition::dated(&record.status, condition, now);
    condition["observedGeneration"] = json!(record.generation);
    let mut status = json!({"conditions": [condition], "observedGeneration": record.generation});
    if failure.is_some() {
        status["phase"] = json!("Pending");
    }
    let bound = || (Reason::Bound, format!("bound to {}", listed(&record.status["addresses"])));
    Some(Write {
        kind: CLAIM,
        key: key.clone(),
        // Only if it is as it was read: it may be bound by now.
        only_if: OnlyIf { uid: Some(record.uid.clone()), version: Some(record.version.clone()) },
        verb: Verb::PatchStatus(status),
        news: vec![failure.map_or_else(bound, |why| (Reason::NotBound, why))],
    })
}

/// Whether some of what would be given is of a pool that lends.
fn is_lent(ipam: &Ipam, given: &[Given]) -> bool {
    given.iter().any(|given| ipam.pool(&given.pool).is_some_and(|pool| pool.lending.is_some()))
}

/// A list of texts, as people write it.
fn listed(texts: &Value) -> String {
    let texts: Vec<&str> = texts.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(status: Value) -> Record {
        let (uid, version) = ("u1".to_owned(), "7".to_owned());
        Record { uid, version, generation: Some(2), status, ..Record::default() }
    }

    fn decided(record: &Record, failure: Option<&Error>) -> Option<Effect> {
        decide(&Key::new("web", "vip"), record, failure, Time::from_secs(1_800_000_000))
    }

    fn full() -> Error {
        Error::Unreachable("the pool is full".to_owned())
    }

    #[test]
    fn a_claim_without_addresses_is_to_be_bound_and_one_that_goes_is_left_alone() {
        for status in [Value::Null, json!({"phase": "Pending"})] {
            assert_eq!(decided(&record(status.clone()), None), Some(Effect::Bind));
            let going = Record { going: true, ..record(status) };
            assert_eq!((decided(&going, None), decided(&going, Some(&full()))), (None, None));
        }
        let going = Record { going: true, ..record(json!({"phase": "Bound"})) };
        assert_eq!(decided(&going, None), None);
    }

    #[test]
    fn a_bound_claim_says_so_once() {
        let mut known = record(json!({"phase": "Bound", "addresses": ["10.0.0.5/24", "fd00::5/64"]}));
        let Some(Effect::Say(write)) = decided(&known, None) else { panic!("nothing is said") };
        assert_eq!((write.kind, write.key.to_string().as_str()), (CLAIM, "web/vip"));
        assert_eq!(write.only_if, OnlyIf { uid: Some("u1".to_owned()), version: Some("7".to_owned()) });
        assert_eq!(write.news, [(Reason::Bound, "bound to 10.0.0.5/24, fd00::5/64".to_owned())]);
        let Verb::PatchStatus(status) = write.verb else { panic!("{:?}", write.verb) };
        let bound = json!({"type": "Bound", "status": "True", "reason": "Bound", "message": "",
            "lastTransitionTime": "2027-01-15T08:00:00Z", "observedGeneration": 2});
        assert_eq!(status, json!({"conditions": [bound], "observedGeneration": 2}), "the phase is not touched");
        known.status["conditions"] = status["conditions"].clone();
        assert_eq!(decided(&known, None), None);
    }

    #[test]
    fn why_a_claim_is_not_bound_is_said_again_only_if_it_is_something_else() {
        let mut known = record(Value::Null);
        let Some(Effect::Say(write)) = decided(&known, Some(&full())) else { panic!("nothing is said") };
        assert_eq!(write.news, [(Reason::NotBound, full().to_string())]);
        let Verb::PatchStatus(status) = write.verb else { panic!("{:?}", write.verb) };
        assert_eq!((&status["phase"], &status["conditions"][0]["status"]), (&json!("Pending"), &json!("False")));
        known.status = status;
        assert_eq!(decided(&known, Some(&full())), None);
        let other = Error::Unreachable("the server is away".to_owned());
        let Some(Effect::Say(write)) = decided(&known, Some(&other)) else { panic!("nothing is said") };
        assert_eq!(write.news, [(Reason::NotBound, other.to_string())]);
    }
}
