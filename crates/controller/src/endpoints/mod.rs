//! IPEndpoints are derived from blocks, and made anew from them: a record that somebody deleted comes back, one of which
//! no block knows goes. Agents write them as they give out addresses; this is for what went wrong in between, so it
//! looks now and then, and twice.

mod decide;

use crate::facts::{Fresh, Look};
use crate::leader::Seat;
use crate::world::World;
use berth_core::block::BlockKey;
use berth_core::reclaim::Keeper;
use berth_dialects::native::endpoint::EndpointOwner;
use berth_kube::connect::CallError;
use berth_kube::watch::Key;
use decide::{Effect, Fault, Said, blocks_of, confirmed, decide, faults, held, held_by};
use k8s_openapi::api::core::v1 as api;
use kube::api::Api;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{debug, info};

/// How long apart two looks are: an agent commits an address before it writes the record.
const TWO_LOOKS: Duration = Duration::from_secs(15);

/// Puts records in order.
pub(crate) struct Mender {
    world: Arc<World>,
    every: Duration,
    last: Option<Instant>,
    doubtful: BTreeMap<Key, Fault>,
}

impl Mender {
    pub(crate) fn new(world: Arc<World>, every: Duration) -> Self {
        Self { world, every, last: None, doubtful: BTreeMap::new() }
    }

    /// One round; how long the next may wait.
    pub(crate) fn round(&mut self, seat: &Seat) -> Duration {
        let pace = if self.doubtful.is_empty() { self.every } else { TWO_LOOKS.min(self.every) };
        if let Some(left) = self.last.map(|last| pace.saturating_sub(last.elapsed())).filter(|left| !left.is_zero()) {
            return left;
        }
        if !seat.leads() {
            return Duration::from_secs(1);
        }
        self.last = Some(Instant::now());
        self.world.refresh();
        let found = self.look();
        for (key, fault) in confirmed(&self.doubtful, &found) {
            if let Err(error) = self.mend(&key, fault) {
                debug!(%error, pod = %key, "could not put an endpoint in order; it is tried again");
            }
        }
        self.doubtful = found;
        if self.doubtful.is_empty() { self.every } else { TWO_LOOKS.min(self.every) }
    }

    fn look(&self) -> BTreeMap<Key, Fault> {
        let held = self.world.engine.read(|ipam| held(ipam, |_| true));
        let mirrors = &self.world.mirrors;
        mirrors
            .endpoints
            .with(|records| faults(&held, records, |namespace, name, uid| mirrors.pod(namespace, name, uid)))
    }

    /// Asks the server about a fault, and does what is to be done if it says the same.
    fn mend(&self, key: &Key, fault: Fault) -> Result<(), CallError> {
        let effect = match fault {
            Fault::NoAddress => self.ask_about_stray(key)?,
            Fault::NoRecord => self.ask_about_missing(key)?,
        };
        match effect {
            None => {}
            Some(Effect::Remove { uid }) => {
                self.world.endpoints.remove(&key.namespace, &key.name, &uid)?;
                info!(pod = %key, "removed an endpoint whose addresses are long free");
            }
            Some(Effect::Record(spec)) => {
                self.world.endpoints.record(&key.namespace, &key.name, &spec)?;
                info!(pod = %key, "wrote an endpoint anew that was missing");
            }
        }
        Ok(())
    }

    fn ask_about_stray(&self, key: &Key) -> Result<Option<Effect>, CallError> {
        let (world, namespace) = (&self.world, key.namespace.as_str());
        let Some(spec) = world.mirrors.endpoints.get(namespace, &key.name) else { return Ok(None) };
        let blocks: Vec<BlockKey> = world.engine.read(|ipam| blocks_of(ipam, &spec)).into_iter().collect();
        if world.engine.look_at(&blocks).is_err() {
            return Ok(None);
        }
        let pod = Fresh::new(&world.cluster, &world.mirrors, 1)?.pod(namespace, &key.name, &spec.uid);
        Ok(world.engine.read(|ipam| decide(ipam, key, Said::Stray { spec: &spec, pod })))
    }

    fn ask_about_missing(&self, key: &Key) -> Result<Option<Effect>, CallError> {
        let world = &self.world;
        let held = || world.engine.read(|ipam| held_by(ipam, key));
        let Some(known) = held() else { return Ok(None) };
        if world.engine.look_at(&known.blocks()).is_err() {
            return Ok(None);
        }
        let Some(newest) = held().and_then(|held| held.newest().cloned()) else { return Ok(None) };
        let pods: Api<api::Pod> = Api::namespaced(world.cluster.client().clone(), &key.namespace);
        let pod = world.cluster.wait(pods.get_opt(&newest.pod))?;
        let owner = match (&pod, newest.machine()) {
            (Some(pod), _) => controller_of(pod),
            (None, Some(machine)) => Some(EndpointOwner::of_machine(machine)),
            (None, None) => self.stateful_owner(key),
        };
        Ok(world.engine.read(|ipam| decide(ipam, key, Said::Missing { owner })))
    }

    /// The StatefulSet that will make a pod of this name again, if there is one.
    fn stateful_owner(&self, key: &Key) -> Option<EndpointOwner> {
        let (set, _) = key.name.rsplit_once('-')?;
        let ordinals = self.world.mirrors.sets.get(&key.namespace, set)?;
        let wanted = ordinals.want(set, &key.name) == Keeper::Wanted;
        let owner = |name: &str| EndpointOwner {
            api_version: "apps/v1".to_owned(),
            kind: "StatefulSet".to_owned(),
            name: name.to_owned(),
        };
        wanted.then(|| owner(set))
    }
}

fn controller_of(pod: &api::Pod) -> Option<EndpointOwner> {
    let owners = pod.metadata.owner_references.iter().flatten();
    let owner = owners.into_iter().find(|owner| owner.controller == Some(true))?;
    Some(EndpointOwner { api_version: owner.api_version.clone(), kind: owner.kind.clone(), name: owner.name.clone() })
}
