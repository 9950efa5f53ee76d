//! What a pod's interface is to get: the one place where annotations, namespace, node and CNI configuration meet.
//!
//! [`plan`] is a pure function from all that a node's agent knows to what it asks of the engine. Rules are looked
//! at in order, and the first that says anything about an interface wins as a whole:
//!
//! | rule | where | module |
//! |---|---|---|
//! | 1 | pod annotation `berth.io/networks` | `networks` |
//! | 2 | pod annotations `berth.io/pools`, `berth.io/addresses`, `berth.io/claim`, `berth.io/subnets`, for the first interface | `rules` |
//! | 3 | pod annotations of Spiderpool, for every interface | [`spiderpool`] |
//! | 4 | namespace annotations `berth.io/pools` (first interface) and `berth.io/pools.IFNAME` | `rules` |
//! | 5 | namespace annotations of Spiderpool | [`spiderpool`] |
//! | 6 | the CNI configuration's own keys | `rules` |
//! | 7 | the default pools | `rules` |
//!
//! Rules are not mixed and there is no falling through from one to the next: who names a pool that is full wants to hear
//! that it is full, not to find the pod in another subnet. Inside a rule the pools are tried in the user's order.
//!
//! Two things stand outside of the rules because they are no wishes: the Berth network of the CNI configuration says
//! which wire the interface is on and binds under every rule, and routes say nothing about where an address comes from.

mod annotation;
mod application;
mod asked;
mod attachments;
mod networks;
mod routes;
mod rules;
pub mod spiderpool;
mod wish;

pub use application::{Applications, Terms};
pub use asked::{Asked, Attached, KUBEVIRT, MACHINE, MIGRATION, Namespace, Node, Owner, Pod};
pub use attachments::{SELECTED, SELECTED_FIRST, Selected, selected};
pub(super) use networks::check_interface;
pub use routes::{DefaultRoute, Routes};
pub use rules::Rule;
pub use wish::ClaimRef;

use super::Claim;
use crate::field::FieldError;
use berth_core::addr::Cidr;
use berth_core::error::Error;
use berth_core::holder::{Holder, Kind};
use berth_core::ipam::{Group, Outcome, Request};
use berth_core::model::{Machine, Subject};
use networks::Networks;
use rules::Decision;

/// The longest annotation that is read. Kubernetes allows 256 KiB for all of an object's together.
pub const MAX_ANNOTATION_BYTES: usize = 64 << 10;
/// How many interfaces a pod may ask for.
pub const MAX_INTERFACES: usize = 16;
/// How many pools, addresses or routes one list may have.
pub const MAX_LIST: usize = 64;
/// The interface that every container runtime makes first, and that a pod with a single interface has.
pub const FIRST_INTERFACE: &str = "eth0";

/// Pod annotation: what each interface is to get.
pub const NETWORKS: &str = "berth.io/networks";
/// Pod or namespace annotation: pools for the first interface.
pub const POOLS: &str = "berth.io/pools";
/// Pod annotation: addresses for the first interface.
pub const ADDRESSES: &str = "berth.io/addresses";
/// Pod annotation: the claim for the first interface.
pub const CLAIM: &str = "berth.io/claim";

/// Pod annotation: subnets, of which the pod's application has a pool of its own for the first interface.
pub const SUBNETS: &str = "berth.io/subnets";
/// Pod annotation: how large those pools are.
pub const POOL_SIZE: &str = "berth.io/pool-size";
/// Pod annotation: whether those pools stay when the application is gone.
pub const KEEP_POOL: &str = "berth.io/keep-pool";

/// Pod annotation: what is found out on the wire before addresses of those pools are used, as `spec.detect` of an IPPool
/// says it. Also an annotation of SpiderIPPools, whose own definitions drop fields that they do not know.
pub const DETECT: &str = "berth.io/detect";

/// Annotations by which a pod template asks for pools of its application, or may do so.
pub const ASKING: [&str; 4] = [SUBNETS, NETWORKS, spiderpool::SUBNET, spiderpool::SUBNETS];

/// Annotations that may speak of a pod's routes, and those that tell its interfaces apart.
pub const ROUTING: [&str; 5] =
    [NETWORKS, spiderpool::IPPOOLS, spiderpool::ROUTES, spiderpool::DEFAULT_ROUTE_NIC, attachments::SELECTED];

/// What to ask of the engine: all of it or none.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The interface of this ADD first, then the others that are served along with it.
    pub interfaces: Vec<Interface>,
}

/// What one interface is to get.
#[derive(Clone, Debug)]
pub struct Interface {
    /// What to ask for. Where a claim is used it asks for nothing yet: see [`Interface::bind`].
    pub request: Request,
    /// The claim whose addresses are to be used.
    pub claim: Option<ClaimRef>,
    /// What becomes of the pools' routes.
    pub routes: Routes,
    /// The rule that won.
    pub decided_by: Rule,
    /// The same in words, with what was silent and what was overruled.
    pub rule: String,
    /// The network it is on, if its configuration says so.
    domain: Option<String>,
}

impl Interface {
    /// Puts the claim in that [`Interface::claim`] names. Until then the request asks for nothing and is refused: a claim
    /// that was forgotten or not found must not end as an address of the default pools.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is another claim, or of another network than the interface is on.
    pub fn bind(&mut self, claim: &Claim) -> Result<(), Error> {
        let is_meant = |meant: &ClaimRef| meant.namespace == claim.namespace && meant.name == claim.name;
        if !self.claim.as_ref().is_some_and(is_meant) {
            let reason = format!("{}/{} is not the claim that was asked for", claim.namespace, claim.name);
            return Err(Error::Invalid { field: "claim".to_owned(), reason });
        }
        claim.fill(&mut self.request);
        let Some(domain) = &self.domain else { return Ok(()) };
        for group in &mut self.request.groups {
            let network = group.network.get_or_insert_with(|| domain.clone());
            if network != domain {
                let field = format!("IPClaim \"{}/{}\", spec.network", claim.namespace, claim.name);
                let reason = format!(
                    "is {network:?}, and interface {} is on network {domain:?}; use a claim of that network",
                    self.request.holder.ifname
                );
                self.request.groups.clear();
                return Err(Error::Invalid { field, reason });
            }
        }
        Ok(())
    }
}

/// Decides what to ask of the engine for an ADD.
///
/// # Guarantees
/// The first interface of the plan is the one asked about. Further ones are there only if the caller knows their
/// attachments: an address is recorded under the CNI network of its interface, and one recorded under a guess would not
/// be found when the interface asks. Each is decided as it would be by its own ADD, and marked as awaiting that. Time and
/// memory are bounded by [`MAX_ANNOTATION_BYTES`].
///
/// # Errors
/// [`Error::Invalid`] names the object, the annotation or key in it, and the fix. [`Error::PoolPending`] if the pod's
/// application has no pool yet of the subnets that it asks for.
pub fn plan(asked: &Asked<'_>) -> Result<Plan, Error> {
    let pod = asked.pod;
    annotation::refuse_misspelt(asked)?;
    let networks = Networks::read(&pod.annotations).map_err(|error| annotation::of_pod(error, pod))?;
    let mut interfaces = vec![interface(asked, asked.interface, &networks)?];
    let mut served = vec![asked.interface.ifname.as_str()];
    for other in asked.others.iter().take(MAX_INTERFACES - 1) {
        if !served.contains(&other.ifname.as_str()) {
            let mut along = interface(asked, other, &networks)?;
            along.request.holder.awaited = true;
            interfaces.push(along);
            served.push(&other.ifname);
        }
    }
    let later: Vec<&str> = networks.interfaces().filter(|name| !served.contains(name)).collect();
    if !later.is_empty() {
        let note = format!("; left to their own ADD, as nothing is known of them yet: {}", later.join(", "));
        interfaces[0].rule.push_str(&note);
    }
    Ok(Plan { interfaces })
}

/// What a pod makes of the routes of an interface.
///
/// # Errors
/// [`FieldError`] names the annotation and what is wrong with it.
pub fn routes_of(pod: &Pod, ifname: &str) -> Result<Routes, FieldError> {
    let networks = Networks::read(&pod.annotations)?;
    spiderpool::routes(pod, ifname, networks.routes(ifname))
}

/// The networks of those interfaces of a pod that come before one of them: by their place in its annotations, and those
/// that have none by name. `others` are the interfaces that have addresses.
pub fn networks_before<'a>(
    pod: &Pod,
    ifname: &str,
    others: impl IntoIterator<Item = (&'a str, &'a Outcome)>,
) -> Vec<Cidr> {
    let order = |name: &str| (spiderpool::place(pod, name).unwrap_or(usize::MAX), name.to_owned());
    let own = order(ifname);
    let before = others.into_iter().filter(|(name, _)| order(name) < own);
    before.flat_map(|(_, outcome)| routes::networks(outcome)).collect()
}

fn interface(asked: &Asked<'_>, attached: &Attached, networks: &Networks) -> Result<Interface, Error> {
    let Asked { pod, namespace, node, .. } = asked;
    let Decision { rule: decided_by, words, wish } = rules::decide(asked, attached, networks)?;
    let holder = Holder {
        kind: Kind::Container,
        network: attached.network.clone(),
        id: asked.container.to_owned(),
        ifname: attached.ifname.clone(),
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        uid: pod.uid.clone(),
        node: node.name.clone(),
        sticky: None,
        awaited: false,
    };
    let subject = Subject {
        anyone: false,
        namespace: pod.namespace.clone(),
        namespace_labels: namespace.labels.clone(),
        pod_labels: pod.labels.clone(),
        node: node.name.clone(),
        node_labels: node.labels.clone(),
        node_cidrs: node.cidrs.clone(),
        uplink: attached.uplink.clone(),
        attachment: attached.attachment.clone(),
        fleeting: pod.lasting_name().is_none(),
        of_set: pod.is_of_set(),
        machine: pod.machine().map(|name| Machine { name: name.to_owned(), moves_from: None }),
        controllers: application::controllers(pod),
    };
    let groups: Vec<Group> = wish.groups(attached.domain.as_ref());
    let routes = networks.routes(&attached.ifname);
    let routes = spiderpool::routes(pod, &attached.ifname, routes).map_err(|error| annotation::of_pod(error, pod))?;
    let request = Request { holder, subject, groups };
    Ok(Interface { request, claim: wish.claim, routes, decided_by, rule: words, domain: attached.domain.clone() })
}
