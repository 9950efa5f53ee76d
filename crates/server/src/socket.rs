//! The daemon behind its door: a container's ADD, without a cluster to look its pod up in.

use crate::node::{DaemonStore, Node};
use crate::status;
use berth_core::error::Error;
use berth_core::holder::{Holder, Kind};
use berth_core::ipam::{Group, Outcome, Request as CoreRequest};
use berth_core::model::Subject;
use berth_door::words::{self, Host, Planned, groups};
use berth_door::{Answer, Quiet, Service, networks};
use berth_engine::Engine;
use berth_wire::cni;
use berth_wire::protocol::{self, AddRequest, Findings, Request, Response, StatusRequest};
use std::time::Duration;

impl Service for Node {
    fn answer_all(&self, requests: Vec<Request>) -> Vec<Answer> {
        words::answer_all(self, requests)
    }

    fn drained(&self, deletions: u64) {
        self.metrics.queue_drained.inc_by(deletions);
    }
}

impl Host for Node {
    type Store = DaemonStore;
    type Note = ();

    fn engine(&self) -> &Engine<DaemonStore> {
        &self.engine
    }

    fn plan(&self, add: AddRequest) -> Result<Planned<()>, Error> {
        self::add(self, add).map(|request| Planned { requests: vec![request], note: () })
    }

    fn finish(&self, (): (), _outcomes: &mut [Outcome]) -> Result<(), Error> {
        Ok(())
    }

    fn status(&self, wanted: StatusRequest) -> Result<Response, cni::Error> {
        status::answer(self, wanted)
    }

    fn quiet(&self) -> &Quiet {
        &self.quiet
    }

    fn observe_wire(&self, findings: &Findings) {
        self.metrics.observe_wire(findings);
    }

    fn observe(&self, verb: &'static str, refusal: Option<u32>, took: Duration) {
        self.metrics.observe(verb, refusal.is_none(), took);
    }
}

/// What an ADD asks for.
fn add(node: &Node, add: AddRequest) -> Result<CoreRequest, Error> {
    let families = add.families.iter().map(|&family| family.into()).collect();
    let base = Group { pools: add.pools, network: add.domain, families, ..Group::default() };
    let groups = groups(base, add.addresses, &add.ranges)?;
    let pod = add.pod.unwrap_or_else(|| protocol::Pod { namespace: String::new(), name: String::new(), uid: None });
    let mut request = CoreRequest {
        subject: Subject {
            namespace: pod.namespace.clone(),
            node: node.name.clone(),
            uplink: add.uplink.map(networks::uplink),
            ..Subject::default()
        },
        holder: Holder {
            kind: Kind::Container,
            network: add.attachment.network,
            id: add.attachment.container,
            ifname: add.attachment.ifname,
            namespace: pod.namespace,
            pod: pod.name,
            uid: pod.uid.unwrap_or_default(),
            node: String::new(),
            sticky: None,
            awaited: false,
        },
        groups,
    };
    if let Some(claim) = &add.claim {
        node.use_claim(claim, &mut request)?;
    }
    Ok(request)
}
