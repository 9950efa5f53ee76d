//! All that an agent knows about an ADD.

use super::{Applications, application};
use berth_core::addr::{Cidr, Family};
use berth_core::apps::Controller;
use berth_core::apps::application::group;
use berth_core::holder::Sticky;
use berth_core::labels::Labels;
use berth_core::model::Uplink;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The group of KubeVirt's kinds.
pub const KUBEVIRT: &str = "kubevirt.io";
/// Its kind for a virtual machine that runs, whose pods have names that never come back.
pub const MACHINE: &str = "VirtualMachineInstance";
/// The annotation of a pod that a virtual machine is to move to: the migration it is made for.
pub const MIGRATION: &str = "kubevirt.io/migrationJobName";

/// Who asks for what, and where. The objects are borrowed: an agent has them in its caches.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// Its namespace.
    pub namespace: &'a Namespace,
    /// The node it runs on.
    pub node: &'a Node,
    /// The container ID of its sandbox.
    pub container: &'a str,
    /// The interface that this ADD is for.
    pub interface: &'a Attached,
    /// The pod's other interfaces that will ask Berth too, as far as the caller can tell, e.g. from the pod's network
    /// attachment definitions ([`super::selected`]). Empty is always right: each is then served by its own ADD alone.
    pub others: &'a [Attached],
    /// The pools of applications that are configured.
    pub applications: &'a Applications,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its owner references.
    pub owners: Vec<Owner>,
}

impl Pod {
    /// The controller furthest up, as far as names tell: a Deployment rather than its ReplicaSet.
    #[must_use]
    pub fn top_controller(&self) -> Option<Controller> {
        application::controllers(self).pop()
    }

    /// Whether it is a pod of a StatefulSet, of whatever group.
    #[must_use]
    pub fn is_of_set(&self) -> bool {
        self.owners.iter().any(|owner| owner.controller && owner.kind == "StatefulSet")
    }

    /// The virtual machine that it runs, if it is the pod of one: its controller is a VirtualMachineInstance of KubeVirt.
    #[must_use]
    pub fn machine(&self) -> Option<&str> {
        self.machine_owner().map(|owner| owner.name.as_str())
    }

    fn machine_owner(&self) -> Option<&Owner> {
        let is_machine =
            |owner: &&Owner| owner.controller && owner.kind == MACHINE && group(&owner.api_version) == KUBEVIRT;
        self.owners.iter().find(is_machine)
    }

    /// Whether it is made for the machine of the other pod to move to: KubeVirt says of a pod which migration it is for,
    /// and both have to be of one and the same instance, not merely of one name.
    #[must_use]
    pub fn moves_from(&self, other: &Self) -> bool {
        let instance = |pod: &Self| pod.machine_owner().map(|owner| owner.uid.clone()).filter(|uid| !uid.is_empty());
        let is_target = self.annotations.get(MIGRATION).is_some_and(|name| !name.is_empty());
        is_target
            && self.uid != other.uid
            && self.namespace == other.namespace
            && instance(self).is_some()
            && instance(self) == instance(other)
    }

    /// The name that comes back, and that an address is kept for: of the machine that it runs, else its own if that does.
    #[must_use]
    pub fn lasting_name(&self) -> Option<&str> {
        self.machine().or_else(|| self.has_stable_name().then_some(self.name.as_str()))
    }

    /// What the address of an interface is kept for, if it is of use to keep it.
    #[must_use]
    pub fn identity(&self, ifname: &str) -> Option<String> {
        let name = self.lasting_name().filter(|name| !name.is_empty())?;
        let of = if self.machine().is_some() { Sticky::of_machine } else { Sticky::of_pod };
        Some(of(&self.namespace, name, ifname))
    }

    /// Whether a pod of the same name comes after it, so that keeping its address is of use: a StatefulSet's (of
    /// whatever group: there are several that number their pods), a node's own (a mirror pod), a pod without a
    /// controller, whose name a person chose, and one of any controller that calls it like itself or numbers it. Every
    /// other controller draws new names.
    #[must_use]
    pub fn has_stable_name(&self) -> bool {
        let controller = self.owners.iter().find(|owner| owner.controller);
        controller.is_none_or(|owner| {
            let rest = self.name.strip_prefix(&owner.name);
            matches!(owner.kind.as_str(), "StatefulSet" | "Node") || rest.is_some_and(is_numbered)
        })
    }
}

/// Whether this is what a controller puts behind its own name for a pod that comes back: nothing, or a number. Names that
/// Kubernetes draws end in five letters and digits, which may all be digits; fewer are a number.
fn is_numbered(rest: &str) -> bool {
    let number = rest.strip_prefix('-').unwrap_or_default();
    let digits = (1..=4).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
    rest.is_empty() || digits && (number == "0" || !number.starts_with('0'))
}

/// An owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// Group and version, e.g. `apps/v1`.
    pub api_version: String,
    /// Kind, e.g. `StatefulSet`.
    pub kind: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Whether it is the one that manages the pod.
    pub controller: bool,
}

/// A namespace, whose name the pod has.
#[derive(Clone, Debug, Default)]
pub struct Namespace {
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// A node.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    /// The networks it has addresses in; an address whose network is not known as a network of one (`/32`, `/128`).
    pub cidrs: Vec<Cidr>,
}

/// An interface and what its CNI configuration says, with the fields of the plugin's ADD.
#[derive(Clone, Debug, Default)]
pub struct Attached {
    /// The CNI network.
    pub network: String,
    /// The interface inside the container.
    pub ifname: String,
    /// What pools know the attachment by: `NAMESPACE/NAME` of its definition, else the CNI network.
    pub attachment: String,
    /// Berth's network; `None` is that of the pools named, else the default one.
    pub domain: Option<String>,
    /// Pools by name or wildcard, in order.
    pub pools: Vec<String>,
    /// Exactly these addresses.
    pub addresses: Vec<IpAddr>,
    /// Sets of ranges; one address is wanted from each set.
    pub ranges: Vec<Vec<String>>,
    /// One address of each.
    pub families: Vec<Family>,
    /// The claim to use.
    pub claim: Option<String>,
    /// What it is put on, if only pools of the networks there are of use to it.
    pub uplink: Option<Uplink>,
}
