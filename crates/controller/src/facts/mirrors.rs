//! Copies of what the API server has, kept by watches.

use super::Look;
use super::machines::{Machines, Served};
use super::owners;
use super::read::{self, EndpointRecord, Ordinals, PodFacts, Record};
use berth_core::reclaim::{Keeper, Node, Pod};
use berth_dialects::native::endpoint::{EndpointOwner, EndpointSpec};
use berth_dialects::spiderpool;
use berth_kube::Cluster;
use berth_kube::connect::CallError;
use berth_kube::endpoints::{EndpointObject, endpoint_resource};
use berth_kube::objects::resource_of;
use berth_kube::watch::{Bell, Mirror};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1 as api;
use kube::api::{Api, DynamicObject};
use kube::runtime::watcher::Config;
use std::sync::OnceLock;

/// The copies.
pub(crate) struct Mirrors {
    pub(crate) pods: Mirror<PodFacts>,
    pub(crate) nodes: Mirror<Node>,
    /// Which there are.
    pub(crate) namespaces: Mirror<()>,
    pub(crate) sets: Mirror<Ordinals>,
    pub(crate) endpoints: Mirror<EndpointSpec>,
    /// IPPools, IPSubnets, IPReservations and IPClaims, without their specs.
    pub(crate) pools: Mirror<Record>,
    pub(crate) subnets: Mirror<Record>,
    pub(crate) reservations: Mirror<Record>,
    pub(crate) claims: Mirror<Record>,
    machines: OnceLock<Machines>,
}

/// Copies of what there is of Spiderpool's kinds, where they are installed.
pub(crate) struct SpiderMirrors {
    /// SpiderIPPools and SpiderSubnets, without their specs.
    pub(crate) pools: Mirror<Record>,
    pub(crate) subnets: Mirror<Record>,
    pub(crate) endpoints: Mirror<EndpointRecord>,
}

impl SpiderMirrors {
    /// Begins to follow them.
    pub(crate) fn new(cluster: &Cluster, bell: &Bell) -> Self {
        let api = |kind: &str| -> Api<DynamicObject> { Api::all_with(cluster.client().clone(), &resource_of(kind)) };
        let records = |kind: &'static str| {
            Mirror::new(cluster, (kind, api(kind)), Config::default(), bell, |object| Some(Record::read(object)))
        };
        let endpoints = (spiderpool::ENDPOINT, api(spiderpool::ENDPOINT));
        Self {
            pools: records(spiderpool::POOL),
            subnets: records(spiderpool::SUBNET),
            endpoints: Mirror::new(cluster, endpoints, Config::default(), bell, |object| {
                Some(EndpointRecord::read(&object))
            }),
        }
    }

    /// Whether everything has been listed once.
    pub(crate) fn is_synced(&self) -> bool {
        self.pools.is_synced() && self.subnets.is_synced() && self.endpoints.is_synced()
    }
}

impl Mirrors {
    /// Begins to follow everything.
    pub(crate) fn new(cluster: &Cluster, bell: &Bell) -> Self {
        let client = || cluster.client().clone();
        let (pods, nodes): (Api<api::Pod>, Api<api::Node>) = (Api::all(client()), Api::all(client()));
        let namespaces: Api<api::Namespace> = Api::all(client());
        let sets: Api<StatefulSet> = Api::all(client());
        let endpoints: Api<EndpointObject> = Api::all_with(client(), &endpoint_resource());
        let all = Config::default;
        let records = |kind: &'static str| {
            let api: Api<DynamicObject> = Api::all_with(client(), &resource_of(kind));
            Mirror::new(cluster, (kind, api), all(), bell, |object| Some(Record::read(object)))
        };
        Self {
            pods: Mirror::new(cluster, ("Pod", pods), all(), bell, |pod| Some(PodFacts::read(&pod))),
            nodes: Mirror::new(cluster, ("Node", nodes), all(), bell, |node| Some(read::node(&node))),
            namespaces: Mirror::new(cluster, ("Namespace", namespaces), all(), bell, |_| Some(())),
            sets: Mirror::new(cluster, ("StatefulSet", sets), all(), bell, |set| Some(Ordinals::read(&set))),
            endpoints: Mirror::new(cluster, ("IPEndpoint", endpoints), all(), bell, |object| Some(object.spec)),
            pools: records("IPPool"),
            subnets: records("IPSubnet"),
            reservations: records("IPReservation"),
            claims: records("IPClaim"),
            machines: OnceLock::new(),
        }
    }

    /// Waits until everything has been listed once.
    pub(crate) fn wait_for_sync(&self) -> Result<(), CallError> {
        self.pods.wait_for_sync()?;
        self.nodes.wait_for_sync()?;
        self.namespaces.wait_for_sync()?;
        self.sets.wait_for_sync()?;
        self.endpoints.wait_for_sync()?;
        self.pools.wait_for_sync()?;
        self.subnets.wait_for_sync()?;
        self.reservations.wait_for_sync()?;
        self.claims.wait_for_sync()
    }

    /// KubeVirt's virtual machines, if they are followed.
    pub(crate) fn machines(&self) -> Option<&Machines> {
        self.machines.get()
    }

    /// Begins to follow KubeVirt's virtual machines, if there are such things.
    pub(crate) fn find_machines(&self, cluster: &Cluster, bell: &Bell) {
        if let Ok(Some(served)) = Served::find(cluster) {
            self.machines.get_or_init(|| Machines::new(cluster, &served, bell));
        }
    }

    /// Who made the pod that an address is kept for.
    pub(crate) fn owner(&self, namespace: &str, pod: &str) -> Option<EndpointOwner> {
        self.endpoints.get(namespace, pod)?.owner.clone()
    }
}

impl Look for Mirrors {
    fn pod(&self, namespace: &str, name: &str, uid: &str) -> Pod {
        if !self.pods.is_synced() {
            return Pod::Unknown;
        }
        self.pods.get(namespace, name).map_or(Pod::Absent, |pod| pod.seen_by(uid))
    }

    fn node(&self, name: &str) -> Node {
        if !self.nodes.is_synced() {
            return Node::Unknown;
        }
        self.nodes.get("", name).map_or(Node::Gone, |node| *node)
    }

    fn will_return(&self, namespace: &str, pod: &str) -> Keeper {
        // The endpoint, which says whose pod it was, went with the namespace; so did whoever would make it again.
        if self.namespaces.is_synced() && self.namespaces.get("", namespace).is_none() {
            return Keeper::NotWanted;
        }
        let Some(owner) = self.owner(namespace, pod) else { return Keeper::Unknown };
        if owners::is_of_others(&owner) {
            // Not watched here; the server is asked when it comes to it.
            return Keeper::NotWanted;
        }
        if !self.sets.is_synced() || owner.kind != "StatefulSet" {
            return Keeper::Unknown;
        }
        self.sets.get(namespace, &owner.name).map_or(Keeper::NotWanted, |set| set.want(&owner.name, pod))
    }

    fn machine(&self, namespace: &str, name: &str) -> Keeper {
        if self.namespaces.is_synced() && self.namespaces.get("", namespace).is_none() {
            return Keeper::NotWanted;
        }
        self.machines().map_or(Keeper::Unknown, |machines| machines.will_return(namespace, name))
    }

    fn claim(&self, namespace: &str, name: &str) -> Keeper {
        let gone = self.claims.is_synced() && self.claims.get(namespace, name).is_none();
        if gone { Keeper::NoClaim } else { Keeper::Unknown }
    }
}
