//! IPEndpoints are derived from blocks, and made anew from them: a record that somebody deleted comes back, one of which
//! no block knows goes. Agents write them as they give out addresses; this is for what went wrong in between, so it
//! looks now and then, and twice.

use crate::facts::{Fresh, Look};
use crate::leader::Seat;
use crate::world::World;
use berth_core::block::{BlockKey, Plane, State};
use berth_core::holder::Holder;
use berth_core::ipam::Ipam;
use berth_core::reclaim::{Keeper, Pod};
use berth_dialects::native::endpoint::{EndpointInterface, EndpointOwner, EndpointSpec};
use berth_kube::connect::CallError;
use berth_kube::watch::Key;
use k8s_openapi::api::core::v1 as api;
use kube::api::Api;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{debug, info};

/// How long apart two looks are: an agent commits an address before it writes the record.
const TWO_LOOKS: Duration = Duration::from_secs(15);

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// No block knows of anything that it speaks of, and its pod is gone.
    NoAddress,
    /// A pod's addresses have no record, though they should.
    NoRecord,
}

/// What a pod has, by the blocks.
#[derive(Clone, Debug, Default)]
struct Held {
    slots: Vec<(Plane, u128, State, Holder)>,
    /// Whether any of it is to have a record.
    recorded: bool,
}

impl Held {
    /// The newest pod of the name, if there are traces of several.
    fn newest(&self) -> Option<&Holder> {
        let active = self.slots.iter().find(|(.., state, _)| *state == State::Active);
        active.or(self.slots.first()).map(|(.., holder)| holder)
    }
}

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
        let twice = found.iter().filter(|(key, fault)| self.doubtful.get(*key) == Some(*fault));
        for (key, fault) in twice {
            if let Err(error) = self.mend(key, *fault) {
                debug!(%error, pod = %key, "could not put an endpoint in order; it is tried again");
            }
        }
        self.doubtful = found;
        if self.doubtful.is_empty() { self.every } else { TWO_LOOKS.min(self.every) }
    }

    fn look(&self) -> BTreeMap<Key, Fault> {
        let held = self.world.engine.read(|ipam| held(ipam, |_| true));
        let mirrors = &self.world.mirrors;
        let nobodys = mirrors.endpoints.with(|all| {
            let stray = |(key, spec): &(&Key, &Arc<EndpointSpec>)| {
                let gone = || mirrors.pod(&key.namespace, &key.name, &spec.uid);
                !held.contains_key(key) && matches!(gone(), Pod::Absent | Pod::Replaced)
            };
            all.iter().filter(stray).map(|(key, _)| (key.clone(), Fault::NoAddress)).collect::<Vec<_>>()
        });
        let missing = held.into_iter().filter(|(key, held)| {
            held.recorded && mirrors.endpoints.get(&key.namespace, &key.name).is_none() && self.is_expected(key, held)
        });
        missing.map(|(key, _)| (key, Fault::NoRecord)).chain(nobodys).collect()
    }

    /// Whether somebody would look for the record: the pod lives, or an address is kept for it.
    fn is_expected(&self, key: &Key, held: &Held) -> bool {
        held.slots.iter().any(|(.., state, holder)| {
            let lives = || self.world.mirrors.pod(&key.namespace, &holder.pod, &holder.uid);
            *state == State::Held || matches!(lives(), Pod::There(_))
        })
    }

    fn mend(&self, key: &Key, fault: Fault) -> Result<(), CallError> {
        match fault {
            Fault::NoAddress => self.remove(key),
            Fault::NoRecord => self.record(key),
        }
    }

    /// Removes a record that nothing stands behind, if the server says so too.
    fn remove(&self, key: &Key) -> Result<(), CallError> {
        let Some(spec) = self.world.mirrors.endpoints.get(&key.namespace, &key.name) else { return Ok(()) };
        let blocks: BTreeSet<BlockKey> = self.world.engine.read(|ipam| blocks_of(ipam, &spec));
        let blocks: Vec<BlockKey> = blocks.into_iter().collect();
        if self.world.engine.look_at(&blocks).is_err() || self.held_by(key).is_some() {
            return Ok(());
        }
        let fresh = Fresh::new(&self.world.cluster, &self.world.mirrors, 1)?;
        if matches!(fresh.pod(&key.namespace, &key.name, &spec.uid), Pod::Absent | Pod::Replaced) {
            self.world.endpoints.remove(&key.namespace, &key.name, &spec.uid)?;
            info!(pod = %key, "removed an endpoint whose addresses are long free");
        }
        Ok(())
    }

    /// Writes a record anew, from blocks as the server has them.
    fn record(&self, key: &Key) -> Result<(), CallError> {
        let Some(known) = self.held_by(key) else { return Ok(()) };
        let blocks: Vec<BlockKey> = known.slots.iter().map(|(plane, unit, ..)| BlockKey::of(plane, *unit).0).collect();
        if self.world.engine.look_at(&blocks).is_err() {
            return Ok(());
        }
        let Some(held) = self.held_by(key).filter(|held| held.recorded) else { return Ok(()) };
        let pods: Api<api::Pod> = Api::namespaced(self.world.cluster.client().clone(), &key.namespace);
        let newest = held.newest().cloned().unwrap_or_default();
        let pod = self.world.cluster.wait(pods.get_opt(&newest.pod))?;
        let owner = match (&pod, newest.machine()) {
            (Some(pod), _) => controller_of(pod),
            (None, Some(machine)) => Some(EndpointOwner::of_machine(machine)),
            (None, None) => self.stateful_owner(key),
        };
        let Some(spec) = self.world.engine.read(|ipam| spec_of(ipam, &held, owner)) else { return Ok(()) };
        self.world.endpoints.record(&key.namespace, &key.name, &spec)?;
        info!(pod = %key, "wrote an endpoint anew that was missing");
        Ok(())
    }

    fn held_by(&self, key: &Key) -> Option<Held> {
        let own = |holder: &Holder| holder.namespace == key.namespace && holder.lasting_name() == key.name;
        self.world.engine.read(|ipam| held(ipam, own)).remove(key)
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

/// What pods have, by pod.
fn held(ipam: &Ipam, of: impl Fn(&Holder) -> bool) -> BTreeMap<Key, Held> {
    let mut all: BTreeMap<Key, Held> = BTreeMap::new();
    for (key, block) in ipam.blocks().filter(|(key, _)| key.plane.leases_of().is_none()) {
        let recorded = ipam.pools_at(key).iter().any(|pool| pool.endpoint_objects);
        let taken = block.slots().filter(|(_, view)| matches!(view.state, State::Active | State::Held));
        for (slot, view) in taken {
            let Some(holder) = view.holder().filter(|holder| !holder.pod.is_empty() && of(holder)) else { continue };
            let pod = Key::new(&holder.namespace, holder.lasting_name());
            let kept = holder.sticky.as_ref().is_some_and(|sticky| !sticky.identity.starts_with("claim/"));
            let held = all.entry(pod).or_default();
            held.recorded |= kept || (recorded && view.state == State::Active);
            held.slots.push((key.plane.clone(), key.unit(slot), view.state, holder));
        }
    }
    all
}

/// The record of what a pod has: of the newest pod of the name, if there are traces of several.
fn spec_of(ipam: &Ipam, held: &Held, owner: Option<EndpointOwner>) -> Option<EndpointSpec> {
    let newest = held.newest()?;
    let own = held.slots.iter().filter(|(.., holder)| holder.uid == newest.uid);
    let mut by_interface: BTreeMap<(&str, &str), Vec<(Plane, u128)>> = BTreeMap::new();
    for (plane, unit, _, holder) in own {
        // What is kept while its pod is away has the interface in its identity alone.
        let identity = holder.sticky.as_ref().and_then(|sticky| sticky.identity.rsplit('/').next());
        let name = Some(holder.ifname.as_str()).filter(|name| !name.is_empty()).or(identity).unwrap_or_default();
        by_interface.entry((name, &holder.network)).or_default().push((plane.clone(), *unit));
    }
    let interface = |((name, network), addresses): ((&str, &str), Vec<(Plane, u128)>)| {
        EndpointInterface::of(name.to_owned(), network.to_owned(), &ipam.tell(&addresses))
    };
    let interfaces = by_interface.into_iter().map(interface).collect();
    Some(EndpointSpec { uid: newest.uid.clone(), node: newest.node.clone(), owner, interfaces })
}

/// The blocks that a record speaks of.
fn blocks_of(ipam: &Ipam, spec: &EndpointSpec) -> BTreeSet<BlockKey> {
    let addresses = spec.interfaces.iter().flat_map(|interface| &interface.addresses);
    let bare = addresses.filter_map(|known| known.address.split('/').next()?.parse::<IpAddr>().ok());
    let planes = bare.flat_map(|address| ipam.planes_of(address).into_iter().map(move |plane| (plane, address)));
    planes.map(|(plane, address)| BlockKey::of(&plane, plane.unit_of(address)).0).collect()
}

fn controller_of(pod: &api::Pod) -> Option<EndpointOwner> {
    let owners = pod.metadata.owner_references.iter().flatten();
    let owner = owners.into_iter().find(|owner| owner.controller == Some(true))?;
    Some(EndpointOwner { api_version: owner.api_version.clone(), kind: owner.kind.clone(), name: owner.name.clone() })
}
