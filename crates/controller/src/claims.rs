//! Claims: bound when they are made, so that their addresses are known before anybody uses them.

use crate::condition;
use crate::events::{Events, Reason, object};
use crate::facts::Record;
use crate::leader::Seat;
use crate::world::World;
use berth_core::error::Error;
use berth_core::ipam::Given;
use berth_dialects::native::claim_status;
use berth_dialects::{Lowered, lower};
use berth_kube::connect::CallError;
use berth_kube::endpoints::claim_resource;
use berth_kube::watch::{Changes, Key};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tracing::{debug, info};

/// How long to wait before a claim is tried again that could not be served.
const AGAIN: Duration = Duration::from_secs(10);

/// The condition that says whether a claim has its addresses.
const BOUND: &str = "Bound";

/// The binder of claims.
pub(crate) struct Claims {
    world: Arc<World>,
    events: Events,
    changes: Changes,
    /// Claims that are not bound yet.
    open: BTreeSet<Key>,
}

impl Claims {
    pub(crate) fn new(world: Arc<World>, events: Events) -> Self {
        Self { changes: world.mirrors.claims.changes(), open: BTreeSet::new(), world, events }
    }

    /// One round; how long the next may wait if nothing happens.
    pub(crate) fn round(&mut self, seat: &Seat) -> Duration {
        self.open.extend(self.changes.take());
        if seat.leads() && !self.open.is_empty() {
            self.world.refresh();
            let open = std::mem::take(&mut self.open);
            self.open = open.into_iter().filter(|key| !self.bind(key)).collect();
        }
        if self.open.is_empty() { Duration::from_secs(60) } else { AGAIN }
    }

    /// Whether there is nothing left to do for a claim.
    fn bind(&self, key: &Key) -> bool {
        let Some(record) = self.world.mirrors.claims.get(&key.namespace, &key.name) else { return true };
        if record.going {
            return true;
        }
        if record.status["phase"] == "Bound" {
            return self.tell(key, &record, &Ok(())).is_ok();
        }
        match self.try_to_bind(key) {
            // The change of the claim brings it here once more.
            Ok(done) => done,
            Err(error) => {
                debug!(claim = %key, %error, "a claim cannot be bound yet");
                if let Err(error) = self.tell(key, &record, &Err(error)) {
                    debug!(claim = %key, %error, "could not write why");
                }
                false
            }
        }
    }

    /// Writes into the claim's status whether it is bound, and tells it, unless that is known.
    fn tell(&self, key: &Key, record: &Record, bound: &Result<(), Error>) -> Result<(), CallError> {
        let condition = match bound {
            Ok(()) => json!({"type": BOUND, "status": "True", "reason": "Bound", "message": ""}),
            Err(error) => {
                json!({"type": BOUND, "status": "False", "reason": "NotBound", "message": error.to_string()})
            }
        };
        let same = |known: &Value| ["status", "message"].iter().all(|field| known[field] == condition[field]);
        if condition::of(&record.status, BOUND).is_some_and(same) {
            return Ok(());
        }
        let mut condition = condition::dated(&record.status, condition);
        condition["observedGeneration"] = json!(record.generation);
        let (reason, note) = match bound {
            Ok(()) => (Reason::Bound, format!("bound to {}", listed(&record.status["addresses"]))),
            Err(error) => (Reason::NotBound, error.to_string()),
        };
        let mut status = json!({"conditions": [condition], "observedGeneration": record.generation});
        if bound.is_err() {
            status["phase"] = json!("Pending");
        }
        // Only if it is as it was read: it may be bound by now.
        let patch = json!({"metadata": {"uid": record.uid, "resourceVersion": record.version}, "status": status});
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.world.cluster.client().clone(), &key.namespace, &claim_resource());
        match self.world.cluster.wait(api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch))) {
            Ok(_) => {
                let about = object("IPClaim", Some(&key.namespace), &key.name, Some(&record.uid));
                self.events.tell(about, reason, note);
                Ok(())
            }
            Err(error) if matches!(error.status(), Some(404 | 409 | 422)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn try_to_bind(&self, key: &Key) -> Result<bool, Error> {
        let object = self.world.objects.get("IPClaim", &key.namespace, &key.name)?;
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
        let lent = self.world.engine.explain(&request).1.is_ok_and(|outcome| {
            self.world.engine.read(|ipam| {
                let lends = |given: &Given| ipam.pool(&given.pool).is_some_and(|pool| pool.lending.is_some());
                outcome.given.iter().any(lends)
            })
        });
        if lent {
            return Ok(true);
        }
        let addresses =
            self.world.engine.transact(move |context| context.ipam.keep(&request, context.now, context.entropy))?;
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
            self.world.engine.transact(move |context| {
                context.ipam.give_up_kept(&identity, &others, context.now);
                Ok(())
            })?;
        }
        Ok(false)
    }
}

/// A list of texts, as people write it.
fn listed(texts: &Value) -> String {
    let texts: Vec<&str> = texts.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    texts.join(", ")
}
