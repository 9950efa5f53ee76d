//! Claims: bound when they are made, so that their addresses are known before anybody uses them.

use crate::leader::Seat;
use crate::world::World;
use berth_core::error::Error;
use berth_core::ipam::Given;
use berth_dialects::native::claim_status;
use berth_dialects::{Lowered, lower};
use berth_kube::watch::{Changes, Key};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tracing::{debug, info};

/// How long to wait before a claim is tried again that could not be served.
const AGAIN: Duration = Duration::from_secs(10);

/// The binder of claims.
pub(crate) struct Claims {
    world: Arc<World>,
    changes: Changes,
    /// Claims that are not bound yet.
    open: BTreeSet<Key>,
}

impl Claims {
    pub(crate) fn new(world: Arc<World>) -> Self {
        Self { changes: world.mirrors.claims.changes(), open: BTreeSet::new(), world }
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
        if record.going || record.status["phase"] == "Bound" {
            return true;
        }
        match self.try_to_bind(key) {
            Ok(done) => done,
            Err(error) => {
                debug!(claim = %key, %error, "a claim cannot be bound yet");
                false
            }
        }
    }

    fn try_to_bind(&self, key: &Key) -> Result<bool, Error> {
        let object = self.world.objects.get("IPClaim", &key.namespace, &key.name)?;
        let Lowered::Claim(claim) = lower(&object)? else { return Ok(true) };
        let unreachable = |error: berth_kube::connect::CallError| Error::Unreachable(error.to_string());
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
        }
        Ok(bound)
    }
}
