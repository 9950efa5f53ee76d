//! Holders that come back: their addresses are found again, also on another node.
//!
//! A node knows only the blocks it has to do with. What a pod of this name held is in its IPEndpoint, what a claim is
//! bound to in the claim's status; the blocks of those addresses are read before anything is decided, and then the
//! engine finds what is kept as it does on one machine.
//!
//! An address that is still in use by an earlier pod of the name moves only when that pod is proven gone: the server,
//! asked right now, has the new pod under the name. A name has one pod.
//!
//! The pods of a virtual machine have a name each, so each is asked about. One that is there keeps the address, unless it
//! is where the machine is moving from: then both have it, as one holder, until one of them goes.

use crate::agent::{Agent, unreachable};
use berth_core::block::BlockKey;
use berth_core::error::Error;
use berth_core::holder::{Attachment, Holder};
use berth_core::ipam::{Given, Outcome};
use berth_core::model::StickyPolicy;
use berth_dialects::native::claim_status;
use berth_dialects::native::endpoint::{EndpointAddress, EndpointInterface, EndpointOwner, EndpointSpec};
use berth_dialects::native::pod::{self, Interface, Pod, Routes};
use berth_door::door::before_waiting;
use berth_kube::endpoints::BoundClaim;
use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use tracing::{debug, info};

/// What is remembered of an ADD until it is answered.
pub struct Note {
    pub(crate) pod: Arc<Pod>,
    /// The interface asked about, then those that are served along with it.
    pub(crate) interfaces: Vec<Noted>,
}

/// What is remembered of one interface.
pub(crate) struct Noted {
    /// The container, with the interface and the network: the attachment.
    container: String,
    ifname: String,
    network: String,
    routes: Routes,
    /// The claim it uses, as it was before.
    claim: Option<BoundClaim>,
}

impl Noted {
    pub(crate) fn new(interface: &Interface, claim: Option<BoundClaim>) -> Self {
        let (holder, routes) = (&interface.request.holder, interface.routes.clone());
        let Holder { id, ifname, network, .. } = holder.clone();
        Self { container: id, ifname, network, routes, claim }
    }
}

impl Agent {
    /// Finds what is kept for a pod that comes back, on the interfaces that use no claim.
    pub(crate) fn recall(&self, pod: &Pod, interfaces: &mut [Interface]) -> Result<(), Error> {
        let own = interfaces.iter().filter(|interface| interface.claim.is_none());
        let names: Vec<String> = own.map(|interface| interface.request.holder.ifname.clone()).collect();
        let Some(lasting) = pod.lasting_name().filter(|name| !name.is_empty()) else { return Ok(()) };
        if names.is_empty() || !self.keeps_for_pods() {
            return Ok(());
        }
        before_waiting();
        let Some(endpoint) = self.endpoints.read(&pod.namespace, lasting).map_err(|error| unreachable(&error))? else {
            return Ok(());
        };
        let own = endpoint.interfaces.iter().filter(|known| names.contains(&known.name));
        let addresses = own.flat_map(|known| &known.addresses);
        let bare = |known: &EndpointAddress| known.address.split('/').next().and_then(|text| text.parse().ok());
        let addresses: Vec<IpAddr> = addresses.filter_map(bare).collect();
        self.look_at(&addresses)?;
        let mut identities = names.iter().filter_map(|ifname| pod.identity(ifname));
        if pod.machine().is_some() {
            return self.relieve_machine(pod, &identities.collect::<Vec<_>>(), interfaces);
        }
        if endpoint.uid == pod.uid {
            return Ok(());
        }
        identities.try_for_each(|identity| self.relieve(pod, &identity))
    }

    /// Finds what a claim is bound to.
    pub(crate) fn recall_claim(&self, namespace: &str, name: &str) -> Result<BoundClaim, Error> {
        before_waiting();
        let missing = || Error::Invalid {
            field: "claim".to_owned(),
            reason: format!("there is no IPClaim {namespace}/{name}; apply it first"),
        };
        let claim = self.endpoints.claim(namespace, name).map_err(|error| unreachable(&error))?.ok_or_else(missing)?;
        self.look_at(&claim.addresses)?;
        Ok(claim)
    }

    /// Whether any pool keeps addresses for pods.
    pub(crate) fn keeps_for_pods(&self) -> bool {
        self.engine.read(|ipam| ipam.pools().any(|pool| pool.sticky.is_some()))
    }

    /// Reads the blocks that addresses are in, and those that say which node leases them: what another node leases is in
    /// its hands alone.
    fn look_at(&self, addresses: &[IpAddr]) -> Result<(), Error> {
        let mut keys: Vec<BlockKey> = self.engine.read(|ipam| {
            let of = |&address: &IpAddr| {
                let own = ipam.pools().filter(move |pool| pool.ranges.iter().any(|range| range.contains(address)));
                let planes = own.flat_map(|pool| [Some(pool.plane()), pool.plane_of_leases()]).flatten();
                planes.map(move |plane| BlockKey::of(&plane, plane.unit_of(address)).0)
            };
            addresses.iter().flat_map(of).collect()
        });
        keys.sort();
        keys.dedup();
        if keys.is_empty() { Ok(()) } else { self.engine.look_at(&keys) }
    }

    /// Takes an identity's addresses from an earlier pod of the name, if it is proven gone.
    fn relieve(&self, pod: &Pod, identity: &str) -> Result<(), Error> {
        let earlier = |holder: &Holder| !holder.uid.is_empty() && holder.uid != pod.uid;
        let users = self.engine.read(|ipam| ipam.active_of_identity(identity));
        if !users.iter().any(|(_, holder)| earlier(holder)) {
            return Ok(());
        }
        let now_there =
            self.pods.read(&pod.namespace, &pod.name, Some(&pod.uid)).map_err(|error| unreachable(&error))?;
        if now_there.is_none() {
            // Neither is proven: whoever has the address keeps it.
            return Ok(());
        }
        let (uid, identity, node) = (pod.uid.clone(), identity.to_owned(), self.node.clone());
        let moved = self.engine.transact(move |context| {
            let gone = |holder: &Holder| !holder.uid.is_empty() && holder.uid != uid;
            Ok(context.ipam.relieve(&identity, &node, gone, context.now))
        })?;
        info!(pod = pod.name, addresses = moved.len(), "an earlier pod of this name is gone; its address moves");
        Ok(())
    }

    /// Takes a machine's addresses from those of its earlier pods that are gone. From one that is not, it may be moving.
    fn relieve_machine(&self, pod: &Pod, identities: &[String], interfaces: &mut [Interface]) -> Result<(), Error> {
        let mut earlier: BTreeMap<String, String> = self.engine.read(|ipam| {
            let users = identities.iter().flat_map(|identity| ipam.active_of_identity(identity));
            users.map(|(_, holder)| (holder.uid, holder.pod)).collect()
        });
        earlier.retain(|uid, _| !uid.is_empty() && *uid != pod.uid);
        for (uid, name) in earlier {
            let found = self.pods.read(&pod.namespace, &name, Some(&uid)).map_err(|error| unreachable(&error))?;
            let Some(other) = found else {
                self.take_from_gone(identities, &uid)?;
                info!(pod = pod.name, earlier = name, "an earlier pod of the machine is gone; its address moves");
                continue;
            };
            if pod.moves_from(&other) {
                let machines = interfaces.iter_mut().filter_map(|own| own.request.subject.machine.as_mut());
                machines.for_each(|machine| machine.moves_from = Some(uid.clone()));
                info!(pod = pod.name, from = name, "the machine is moving; its address is that of both pods");
            }
        }
        Ok(())
    }

    fn take_from_gone(&self, identities: &[String], uid: &str) -> Result<(), Error> {
        let (identities, uid, node) = (identities.to_vec(), uid.to_owned(), self.node.clone());
        self.engine.transact(move |context| {
            for identity in &identities {
                context.ipam.release_gone(identity, &uid, &node, context.now);
            }
            Ok(())
        })
    }

    /// Records where the holder's addresses are, before it is told of them: of all interfaces that were served, in one
    /// object.
    pub(crate) fn settle(&self, note: Note, outcomes: &mut [Outcome]) -> Result<(), Error> {
        let Note { pod, interfaces } = note;
        let mut served = Vec::with_capacity(outcomes.len());
        let neighbours = self.neighbours(&pod, &interfaces, outcomes);
        for (Noted { container, ifname, network, routes, claim }, outcome) in interfaces.into_iter().zip(&mut *outcomes)
        {
            if let Some(claim) = claim {
                self.bind(claim, outcome, (&network, &container, &ifname))?;
            }
            let others = neighbours.iter().map(|(name, outcome)| (name.as_str(), outcome));
            routes.apply(outcome, &pod::networks_before(&pod, &ifname, others));
            served.push(EndpointInterface::of(ifname, network, outcome));
        }
        let (kept, wanted) = self.engine.read(|ipam| {
            let given = outcomes.iter().flat_map(|outcome| &outcome.given);
            let pools: Vec<_> = given.filter_map(|given| ipam.pool(&given.pool)).collect();
            let (fleeting, of_machine) = (pod.lasting_name().is_none(), pod.machine().is_some());
            let keeps = |sticky: StickyPolicy| sticky.is_for(fleeting, pod.is_of_set(), of_machine);
            let kept = pools.iter().any(|pool| pool.sticky.is_some_and(keeps));
            (kept, kept || pools.iter().any(|pool| pool.endpoint_objects))
        });
        if wanted && !pod.name.is_empty() {
            // Where it is looked for by whoever comes back.
            let name = pod.lasting_name().filter(|_| kept).unwrap_or(&pod.name);
            before_waiting();
            let owner = pod.owners.iter().find(|owner| owner.controller).map(|owner| EndpointOwner {
                api_version: owner.api_version.clone(),
                kind: owner.kind.clone(),
                name: owner.name.clone(),
            });
            let held = EndpointSpec { uid: pod.uid.clone(), node: self.node.clone(), owner, interfaces: served };
            self.endpoints.record(&pod.namespace, name, &held).map_err(|error| unreachable(&error))?;
        }
        Ok(())
    }

    /// What the interfaces of a pod have, those that were served before among them; nothing, if no route is for whichever
    /// of them reaches its gateway.
    fn neighbours(&self, pod: &Pod, served: &[Noted], outcomes: &[Outcome]) -> BTreeMap<String, Outcome> {
        if served.iter().all(|one| one.routes.reachable.is_empty()) {
            return BTreeMap::new();
        }
        let earlier = self.held_where(|holder| holder.namespace == pod.namespace && holder.uid == pod.uid);
        let mut all: BTreeMap<String, Outcome> =
            earlier.into_iter().map(|(holder, outcome)| (holder.ifname, outcome)).collect();
        all.extend(served.iter().map(|one| one.ifname.clone()).zip(outcomes.iter().cloned()));
        all
    }

    /// Binds a claim at its first use. If another pod was quicker, this one gives back what it got and asks again.
    fn bind(&self, claim: BoundClaim, outcome: &Outcome, user: (&str, &str, &str)) -> Result<(), Error> {
        let given: Vec<IpAddr> = outcome.given.iter().map(Given::address).collect();
        if given.iter().all(|address| claim.addresses.contains(address)) {
            return Ok(());
        }
        before_waiting();
        if self.endpoints.bind(claim, claim_status(&given)).map_err(|error| unreachable(&error))? {
            return Ok(());
        }
        let (given, user) = (outcome.given.clone(), [user.0, user.1, user.2].map(str::to_owned));
        self.engine.transact(move |context| {
            let [network, id, ifname] = &user;
            // What this very container has still. It may be gone by now, and another have what was kept for the claim.
            let own = context.ipam.of_attachment(Attachment { network, id, ifname });
            for given in given.iter().filter(|given| own.contains(&given.address())) {
                // Not merely released: it would be kept for the claim, which is bound to another now.
                context.ipam.release_address(&given.network, given.address(), context.now)?;
            }
            Ok(())
        })?;
        Err(Error::RetriesExhausted)
    }

    /// Removes the records of pods that are gone and do not come back.
    pub(crate) fn forget_endpoints(&self, living: &HashSet<String>) {
        let (any, sticky): (bool, HashSet<String>) = self.engine.read(|ipam| {
            let sticky = ipam.pools().filter(|pool| pool.sticky.is_some()).map(|pool| pool.name.clone());
            (ipam.pools().any(|pool| pool.endpoint_objects), sticky.collect())
        });
        if !any {
            return;
        }
        let endpoints = match self.endpoints.of_node(&self.node) {
            Ok(endpoints) => endpoints,
            Err(error) => return debug!(%error, "cannot list the endpoints of this node"),
        };
        for (namespace, name, spec) in endpoints {
            let mut pools = spec.interfaces.iter().flat_map(|interface| &interface.addresses);
            if living.contains(&spec.uid) || pools.any(|address| sticky.contains(&address.pool)) {
                continue;
            }
            if let Err(error) = self.endpoints.remove(&namespace, &name, &spec.uid) {
                debug!(%error, name, "cannot remove the endpoint of a pod that is gone");
            }
        }
    }
}
