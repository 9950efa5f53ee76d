//! Who asks for what: the pod behind an ADD, and what it is to get.

use crate::ahead::Ahead;
use crate::news::{News, PATIENCE};
use crate::spiderpool;
use crate::sticky::{Note, Noted};
use crate::store::ClusterStore;
use berth_core::addr::Cidr;
use berth_core::error::Error;
use berth_core::ipam::{Group, Outcome, Request as CoreRequest};
use berth_core::model::Subject;
use berth_dialects::native::pod::{self, Asked, Attached, Interface, Namespace, Pod};
use berth_dialects::spiderpool::settings::Conf;
use berth_dialects::{Lowered, lower};
use berth_door::door::before_waiting;
use berth_door::words::{self, Host, Planned, groups};
use berth_door::{Answer, Later, Quiet, Service, networks};
use berth_engine::Engine;
use berth_kube::connect::CallError;
use berth_kube::definitions::Definitions;
use berth_kube::endpoints::Endpoints;
use berth_kube::objects::Objects;
use berth_kube::places::Places;
use berth_kube::pods::Pods;
use berth_server::Metrics;
use berth_wire::cni;
use berth_wire::protocol::{AddRequest, Findings, Request, Response, StatusRequest};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The agent of one node.
pub struct Agent {
    pub(crate) engine: Engine<ClusterStore>,
    pub(crate) objects: Objects,
    pub(crate) pods: Pods,
    pub(crate) places: Places,
    pub(crate) endpoints: Endpoints,
    pub(crate) definitions: Definitions,
    pub(crate) node: String,
    /// The networks this node is in.
    pub(crate) cidrs: Vec<Cidr>,
    pub(crate) metrics: Metrics,
    /// The same under Spiderpool's names.
    pub(crate) aliases: spiderpool::Aliases,
    /// What Spiderpool's switches come to.
    pub(crate) spiderpool: Conf,
    /// What is known of the wire.
    pub(crate) quiet: Quiet,
    /// What requests may wait for.
    pub(crate) news: News,
    /// Pools that had nothing left for a pod of this node.
    pub(crate) short_of: Mutex<BTreeSet<String>>,
    /// What pods will ask for.
    pub(crate) ahead: Ahead,
}

impl Service for Agent {
    fn answer_all(&self, requests: Vec<Request>) -> Vec<Answer> {
        words::answer_all(self, requests)
    }

    fn answer_later(&self, requests: Vec<Later>) -> Vec<Response> {
        words::answer_later(self, requests, PATIENCE)
    }

    fn drained(&self, deletions: u64) {
        self.metrics.drained(deletions);
    }
}

impl Host for Agent {
    type Store = ClusterStore;
    type Note = Note;

    fn engine(&self) -> &Engine<ClusterStore> {
        &self.engine
    }

    fn plan(&self, add: AddRequest) -> Result<Planned<Note>, Error> {
        self.ahead.learn(&add);
        let (pod, mut interfaces) = self.interfaces(add)?;
        let mut noted = Vec::with_capacity(interfaces.len());
        for interface in &mut interfaces {
            let claim = interface.claim.clone().map(|claim| {
                let object = self.objects.get("IPClaim", &claim.namespace, &claim.name)?;
                if let Lowered::Claim(claim) = lower(&object)? {
                    interface.bind(&claim)?;
                }
                self.recall_claim(&claim.namespace, &claim.name)
            });
            noted.push(Noted::new(interface, claim.transpose()?));
        }
        self.recall(&pod, &mut interfaces)?;
        let note = Note { pod, interfaces: noted };
        Ok(Planned { requests: interfaces.into_iter().map(|interface| interface.request).collect(), note })
    }

    fn finish(&self, note: Note, outcomes: &mut [Outcome]) -> Result<(), Error> {
        self.settle(note, outcomes)
    }

    fn node(&self) -> &str {
        &self.node
    }

    fn status(&self, wanted: StatusRequest) -> Result<Response, cni::Error> {
        let unavailable =
            |error: Error| cni::Error::new(cni::code::UNAVAILABLE, error.to_string()).hint(error.names().hint);
        let request = self.any_request(wanted).map_err(unavailable)?;
        let served = self.engine.transact(move |context| context.could_serve(&request));
        served.map(|()| Response::Done).map_err(unavailable)
    }

    fn refused(&self, error: &Error) {
        if let Error::PoolExhausted { pools, .. } = error.cause() {
            self.short_of.lock().unwrap_or_else(PoisonError::into_inner).extend(pools.iter().cloned());
        }
    }

    fn is_patient(&self) -> bool {
        true
    }

    fn outlook(&self, error: &Error) -> Option<u64> {
        self.news.outlook(error)
    }

    fn news(&self) -> u64 {
        self.news.count()
    }

    fn wait_for_news(&self, seen: u64, at_most: Duration) -> bool {
        self.news.wait(seen, at_most)
    }

    fn quiet(&self) -> &Quiet {
        &self.quiet
    }

    fn observe_wire(&self, findings: &Findings) {
        self.metrics.observe_wire(findings);
    }

    fn observe(&self, verb: &'static str, refusal: Option<u32>, took: Duration) {
        if refusal.is_none() && verb == "del" {
            self.news.released();
        }
        self.metrics.observe(verb, refusal.is_none(), took);
        self.aliases.observe(verb, refusal, took);
    }
}

impl Agent {
    /// The pod of an ADD, and what its interfaces are to get, the one asked about first.
    pub(crate) fn interfaces(&self, add: AddRequest) -> Result<(Arc<Pod>, Vec<Interface>), Error> {
        let asked = add.pod.clone();
        let pod = match &asked {
            Some(pod) => self.pod(&pod.namespace, &pod.name, pod.uid.as_deref())?,
            // A container without a pod, e.g. started by hand on the node.
            None => Arc::new(Pod::default()),
        };
        let namespace = if pod.namespace.is_empty() { Namespace::default() } else { self.namespace(&pod.namespace)? };
        let place = self.places.node();
        let node = pod::Node { name: self.node.clone(), labels: place.labels.clone(), cidrs: self.cidrs.clone() };
        let container = add.attachment.container.clone();
        let mut interface = attached(add);
        let others = self.others(&pod, &container, &mut interface);
        let asked = Asked {
            pod: &pod,
            namespace: &namespace,
            node: &node,
            container: &container,
            interface: &interface,
            others: &others,
            applications: &self.news.applications(),
        };
        let interfaces = pod::plan(&asked)?.interfaces;
        Ok((pod, interfaces))
    }

    /// The pod that the runtime means. One that is gone gets nothing: its address would be nobody's.
    fn pod(&self, namespace: &str, name: &str, uid: Option<&str>) -> Result<Arc<Pod>, Error> {
        if let Some(pod) = self.pods.known(namespace, name, uid) {
            return Ok(pod);
        }
        before_waiting();
        let found = self.pods.read(namespace, name, uid).map_err(|error| unreachable(&error))?;
        found.ok_or_else(|| Error::Invalid {
            field: "K8S_POD_NAME".to_owned(),
            reason: format!("pod {namespace}/{name} {} is gone", uid.map(|uid| format!("({uid})")).unwrap_or_default()),
        })
    }

    fn namespace(&self, name: &str) -> Result<Namespace, Error> {
        let place = match self.places.namespace(name) {
            Some(place) => place,
            None => {
                before_waiting();
                self.places.read_namespace(name).map_err(|error| unreachable(&error))?
            }
        };
        Ok(Namespace { labels: place.labels.clone(), annotations: place.annotations.clone() })
    }

    /// An ADD of nobody in particular.
    fn any_request(&self, wanted: StatusRequest) -> Result<CoreRequest, Error> {
        let families = wanted.families.into_iter().map(Into::into).collect();
        let base = Group { pools: wanted.pools, network: wanted.domain, families, ..Group::default() };
        let subject = Subject {
            node: self.node.clone(),
            node_labels: self.places.node().labels.clone(),
            node_cidrs: self.cidrs.clone(),
            anyone: true,
            ..Subject::default()
        };
        Ok(CoreRequest { subject, groups: groups(base, Vec::new(), &wanted.ranges)?, ..CoreRequest::default() })
    }
}

/// The interface that an ADD is for, with what its configuration says.
fn attached(add: AddRequest) -> Attached {
    Attached {
        attachment: add.attachment.network.clone(),
        network: add.attachment.network,
        ifname: add.attachment.ifname,
        domain: add.domain,
        pools: add.pools,
        addresses: add.addresses,
        ranges: add.ranges,
        families: add.families.into_iter().map(Into::into).collect(),
        claim: add.claim,
        uplink: add.uplink.map(networks::uplink),
    }
}

pub(crate) fn unreachable(error: &CallError) -> Error {
    match error.status() {
        Some(_) => Error::Store(error.to_string()),
        None => Error::Unreachable(error.to_string()),
    }
}
