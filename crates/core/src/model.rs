//! The one model: what every dialect's objects are lowered into.

use crate::addr::{Cidr, Family, Range, RangeSet};
use crate::apps::{Application, Controller};
use crate::block::Plane;
use crate::detect::Detection;
use crate::labels::{Labels, Selector};
use crate::net::{Dns, Route};
use crate::time::Time;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The network a pool is in when it names none.
pub const DEFAULT_NETWORK: &str = "default";

/// The pool type that Berth serves itself.
pub const LOCAL_TYPE: &str = "local";

/// The type of the pools behind pools that lend: their units are leases.
pub(crate) const LEASE_TYPE: &str = "lease";

/// Runs of a pool are lent to nodes, which then allocate from them alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lending {
    /// The prefix length of one lease.
    pub block_len: u8,
    /// Whether a node that gets no more leases goes without, instead of borrowing single addresses of others.
    pub strict: bool,
    /// How many leases a node may have; beyond, it borrows.
    pub most: Option<u32>,
}

/// In which order free addresses are picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// Never used first, then the one that was given back longest ago.
    #[default]
    LeastRecentlyReleased,
    /// The lowest free one.
    Sequential,
    /// Any free one.
    Random,
}

/// The router of a subnet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gateway {
    /// The first host address of each range's subnet, unless the subnet object says otherwise.
    #[default]
    Auto,
    /// There is none.
    None,
    /// This one.
    At(IpAddr),
    /// The subnet object's; there is none without a subnet object.
    OfSubnet,
}

/// Addresses that most networks do not give to anyone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// Give out the network address.
    pub network: bool,
    /// Give out the broadcast address (IPv4).
    pub broadcast: bool,
    /// Give out the gateway.
    pub gateway: bool,
}

/// Who may use a pool. Binding even when a request names the pool or an address of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audience {
    /// Namespaces by name, wildcards allowed; empty admits every namespace.
    pub namespaces: Vec<String>,
    /// Namespaces by label.
    pub namespace_selector: Selector,
    /// Pods by label.
    pub pod_selector: Selector,
    /// Nodes by name, wildcards allowed; empty admits every node.
    pub nodes: Vec<String>,
    /// Nodes by label.
    pub node_selector: Selector,
    /// Only nodes that have an address in the pool's subnet.
    pub reachable: bool,
    /// Attachments by name, wildcards allowed: `NAMESPACE/NAME` of a network attachment definition, or the name of a CNI
    /// network; empty admits every attachment.
    pub attachments: Vec<String>,
}

/// How many addresses of a pool one namespace may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// For every namespace that has no number of its own.
    pub per_namespace: Option<u32>,
    /// For these namespaces.
    pub namespaces: BTreeMap<String, u32>,
}

impl Quota {
    /// The limit of a namespace.
    #[must_use]
    pub fn limit(&self, namespace: &str) -> Option<u32> {
        self.namespaces.get(namespace).copied().or(self.per_namespace)
    }
}

/// Addresses of a pool stay with the pod that had them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StickyPolicy {
    /// For how long after it is gone; `None` is for ever.
    pub keep: Option<Duration>,
    /// For whom of those that come back.
    pub whom: Whom,
}

impl StickyPolicy {
    /// Whether it is for a pod: one that comes back (not `fleeting`), of a StatefulSet, of a virtual machine, or neither.
    #[must_use]
    pub const fn is_for(self, fleeting: bool, of_set: bool, of_machine: bool) -> bool {
        !fleeting
            && match self.whom {
                Whom::Everyone => true,
                Whom::SetsAndMachines => of_set || of_machine,
                Whom::Sets => of_set,
                Whom::Machines => of_machine,
            }
    }
}

/// Whom a pool keeps addresses for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whom {
    /// Every pod that comes back.
    #[default]
    Everyone,
    /// Pods of StatefulSets and of virtual machines.
    SetsAndMachines,
    /// Pods of StatefulSets.
    Sets,
    /// Pods of virtual machines.
    Machines,
}

/// The object that a pool is made from unless a dialect says otherwise.
pub const POOL_OBJECT: &str = "IPPool";
/// The object that a subnet is made from unless a dialect says otherwise.
pub const SUBNET_OBJECT: &str = "IPSubnet";

/// A set of ranges of one family in one network, with who may use it and how addresses are picked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// The kind of object it was made from, for messages.
    pub object: &'static str,
    /// The network its addresses are unique in.
    pub network: Arc<str>,
    /// The family of all its ranges.
    pub family: Family,
    /// The prefix length of what it gives out: 32 or 128 for single addresses.
    pub unit_len: u8,
    /// Which allocator serves it.
    pub kind: String,
    /// Its addresses.
    pub ranges: Vec<Range>,
    /// Those of them that are written as `FIRST-LAST`: just those addresses, also where they happen to fill a CIDR.
    pub spelled_out: Vec<Range>,
    /// Addresses inside the ranges that it does not have.
    pub exclude: Vec<Range>,
    /// The subnet it is cut from.
    pub subnet: Option<String>,
    /// The prefix length that goes with its addresses; else the subnet's, else the range's.
    pub prefix_len: Option<u8>,
    /// Its router.
    pub gateway: Gateway,
    /// Which of the addresses that are usually left out it gives out.
    pub edges: Edges,
    /// Routes for its addresses; empty inherits the subnet's.
    pub routes: Vec<Route>,
    /// Whether it inherits routes at all.
    pub inherits_routes: bool,
    /// Whether the default route by its gateway comes along with its addresses, without being among the routes.
    pub default_route: bool,
    /// Resolver settings for its addresses; empty inherits the subnet's.
    pub dns: Dns,
    /// In which order it picks.
    pub pick: Pick,
    /// How long a released address rests.
    pub cool_down: Duration,
    /// Whether a resting address is given out when nothing else is free.
    pub reuse_cooling: bool,
    /// Whether requests that name no pool may use it.
    pub default: bool,
    /// Whether requests that name no pool do without it also where no pool is a default.
    pub named_only: bool,
    /// Gives out nothing new.
    pub disabled: bool,
    /// Why it is not accepted, if so: it gives out nothing new, and what is in use stays.
    pub refused: Option<String>,
    /// Who may use it.
    pub audience: Audience,
    /// How much of it a namespace may have.
    pub quota: Quota,
    /// Set if addresses stay with the pod that had them.
    pub sticky: Option<StickyPolicy>,
    /// Set if nodes lease runs of it.
    pub lending: Option<Lending>,
    /// Whether every pod with an address of it gets an IPEndpoint object, not only those that come back for it.
    pub endpoint_objects: bool,
    /// Set if it is for the pods of one application, and for no others, even by name.
    pub application: Option<Application>,
    /// Set if something is found out on the wire before its addresses are used.
    pub detect: Option<Detection>,
}

impl Pool {
    /// A pool with nothing but ranges. The first range decides the family.
    #[must_use]
    pub fn new(name: impl Into<String>, ranges: Vec<Range>) -> Self {
        let family = ranges.first().map_or(Family::V4, |r| r.family());
        Self {
            name: name.into(),
            object: POOL_OBJECT,
            network: DEFAULT_NETWORK.into(),
            family,
            unit_len: family.bits(),
            kind: LOCAL_TYPE.to_owned(),
            ranges,
            spelled_out: Vec::new(),
            exclude: Vec::new(),
            subnet: None,
            prefix_len: None,
            gateway: Gateway::Auto,
            edges: Edges::default(),
            routes: Vec::new(),
            inherits_routes: true,
            default_route: false,
            dns: Dns::default(),
            pick: Pick::default(),
            cool_down: Duration::ZERO,
            reuse_cooling: false,
            default: false,
            named_only: false,
            disabled: false,
            refused: None,
            audience: Audience::default(),
            quota: Quota::default(),
            sticky: None,
            lending: None,
            endpoint_objects: false,
            application: None,
            detect: None,
        }
    }

    /// `IPPool "blue"`: how messages call it.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{} {:?}", self.object, self.name)
    }

    /// The plane its blocks lie in.
    #[must_use]
    pub fn plane(&self) -> Plane {
        Plane { network: self.network.clone(), family: self.family, unit_len: self.unit_len }
    }

    /// The plane in which its leases are recorded, if it lends.
    #[must_use]
    pub fn plane_of_leases(&self) -> Option<Plane> {
        let unit_len = self.lending?.block_len;
        Some(Plane { network: Plane::network_of_leases(&self.network), family: self.family, unit_len })
    }

    /// Whether an address that was given back at `since` must still rest.
    #[must_use]
    pub fn rests(&self, since: Time, now: Time) -> bool {
        rests(since, self.cool_down, now)
    }

    /// Whether it gives out single addresses rather than prefixes.
    #[must_use]
    pub const fn gives_addresses(&self) -> bool {
        self.unit_len == self.family.bits()
    }

    /// The subnets that its ranges imply: the subnet object's, or the prefix asked for, or each range's own.
    pub(crate) fn subnets(&self, subnet: Option<&Subnet>) -> Vec<Cidr> {
        match (subnet, self.prefix_len) {
            (Some(subnet), _) => vec![subnet.cidr],
            (None, Some(len)) => self.ranges.iter().map(|r| Cidr::containing(r.first(), len)).collect(),
            (None, None) => self.ranges.iter().map(|&r| Cidr::covering(r)).collect(),
        }
    }

    /// The subnet that an address of the pool lives in.
    #[must_use]
    pub fn subnet_of(&self, addr: IpAddr, subnet: Option<&Subnet>) -> Cidr {
        match (self.prefix_len, subnet) {
            (Some(len), _) => Cidr::containing(addr, len),
            (None, Some(subnet)) => subnet.cidr,
            (None, None) => {
                let range = self.ranges.iter().find(|r| r.contains(addr)).copied();
                range.map_or(Cidr::containing(addr, self.family.bits()), Cidr::covering)
            }
        }
    }

    /// The CIDR that a range of the pool is, if it is written as one. Anything else says nothing about its surroundings.
    #[must_use]
    pub fn cidr_of(&self, range: Range) -> Option<Cidr> {
        range.as_cidr().filter(|_| !self.spelled_out.contains(&range))
    }

    /// The router for an address of the pool.
    #[must_use]
    pub fn gateway_of(&self, addr: IpAddr, subnet: Option<&Subnet>) -> Option<IpAddr> {
        match self.gateway {
            Gateway::At(gateway) => Some(gateway),
            Gateway::None => None,
            Gateway::OfSubnet => subnet.and_then(Subnet::router),
            Gateway::Auto if !self.gives_addresses() => None,
            Gateway::Auto => match subnet {
                Some(subnet) => subnet.router(),
                // A range that is no CIDR says nothing about its surroundings: no router is made up for it.
                None => {
                    let known = self.prefix_len.is_some()
                        || self.ranges.iter().any(|&r| r.contains(addr) && self.cidr_of(r).is_some());
                    known.then(|| self.subnet_of(addr, None).first_host()).flatten()
                }
            },
        }
    }

    /// Every address the pool may ever give out: its ranges without excludes, network, broadcast and gateway addresses.
    #[must_use]
    pub fn members(&self, subnet: Option<&Subnet>) -> RangeSet {
        let mut set: RangeSet = self.ranges.iter().copied().collect();
        for &range in &self.exclude {
            set.remove(range);
        }
        for &range in if self.edges.gateway { &[][..] } else { &self.ranges[..] } {
            if let Some(gateway) = self.gateway_of(range.first(), subnet) {
                set.remove_addr(gateway);
            }
        }
        if !self.gives_addresses() {
            return set;
        }
        for cidr in self.subnets(subnet).into_iter().filter(|cidr| !cidr.is_usable_whole()) {
            // A range written as FIRST-LAST without a subnet means just those addresses.
            let implied = subnet.is_none() && self.prefix_len.is_none();
            if implied && !self.ranges.iter().any(|&r| self.cidr_of(r) == Some(cidr)) {
                continue;
            }
            if !self.edges.network {
                set.remove_addr(cidr.network());
            }
            if !self.edges.broadcast && self.family == Family::V4 {
                set.remove_addr(cidr.last());
            }
        }
        set
    }
}

/// Whether what was given back at `since` is to rest for longer. Without a cool-down never: stamps may be a little ahead
/// of the clock, and an address must not be missing for that.
pub(crate) fn rests(since: Time, cool_down: Duration, now: Time) -> bool {
    !cool_down.is_zero() && since.after(cool_down) > now
}

/// A CIDR with its gateway, routes and DNS, from which pools are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// Its name.
    pub name: String,
    /// The kind of object it was made from, for messages.
    pub object: &'static str,
    /// The network it is in.
    pub network: Arc<str>,
    /// Its addresses.
    pub cidr: Cidr,
    /// Those of them that pools may have; all if absent.
    pub available: Option<RangeSet>,
    /// Its router.
    pub gateway: Gateway,
    /// Routes that its pools inherit.
    pub routes: Vec<Route>,
    /// Resolver settings that its pools inherit.
    pub dns: Dns,
    /// Whether it is not accepted beside others: then no pool is part of it that does not name it.
    pub refused: bool,
}

impl Subnet {
    /// `IPSubnet "office"`: how messages call it.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{} {:?}", self.object, self.name)
    }

    /// The router: the one given, or the first host address.
    #[must_use]
    pub const fn router(&self) -> Option<IpAddr> {
        match self.gateway {
            Gateway::At(gateway) => Some(gateway),
            Gateway::None | Gateway::OfSubnet => None,
            Gateway::Auto => self.cidr.first_host(),
        }
    }
}

/// Addresses that nobody gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Its name.
    pub name: String,
    /// The network they are in.
    pub network: Arc<str>,
    /// The addresses.
    pub ranges: Vec<Range>,
}

/// NICs of a node, and where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uplink {
    /// Their names; none stands for all of the node's.
    pub nics: Vec<String>,
    /// The networks that they have addresses in.
    pub cidrs: Vec<Cidr>,
}

/// Who asks, as far as a pool cares: what its audience and its stickiness are checked against.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// Namespace; empty outside of Kubernetes.
    pub namespace: String,
    /// Labels of the namespace.
    pub namespace_labels: Labels,
    /// Labels of the pod.
    pub pod_labels: Labels,
    /// Node.
    pub node: String,
    /// Labels of the node.
    pub node_labels: Labels,
    /// Set where nobody in particular asks: rules about namespaces and pods, quotas among them, do not apply.
    pub anyone: bool,
    /// The networks that the node has addresses in; an address whose network is not known stands as a network of one.
    pub node_cidrs: Vec<Cidr>,
    /// What the interface is put on, if only pools of its networks are of use there, whatever the pools say.
    pub uplink: Option<Uplink>,
    /// The attachment: `NAMESPACE/NAME` of a network attachment definition, or the name of the CNI network.
    pub attachment: String,
    /// Whether the holder's name never comes back, as that of a Deployment's pod. A pool that is sticky by pod is not so
    /// for it: every rollout would leave addresses behind that nobody can come back to.
    pub fleeting: bool,
    /// Whether the holder is a pod of a StatefulSet.
    pub of_set: bool,
    /// The virtual machine that the holder runs, if it runs one. What comes back is the machine, in a pod of whatever name.
    pub machine: Option<Machine>,
    /// The controllers that the pod is of; a pool of an application is for the pods of that one.
    pub controllers: Vec<Controller>,
}

/// A virtual machine that a pod runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// UID of the pod that it is moving from: what that one has of the machine's is this one's too, until either goes.
    pub moves_from: Option<String>,
}
