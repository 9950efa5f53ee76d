//! What this node's pods have although the blocks do not say so.
//!
//! What is answered is in the API server or in the journal. If the state directory is lost, or an old backup of the API
//! server is restored, it is in neither, and the pods still run. So before the first answer every address that a pod of
//! this node says it has, and that nobody holds, is recorded as its own.
//!
//! Without a journal that does not do: a pod may have got an address that its kubelet has not told of yet. The leases
//! that the node had are *barred*: nothing new is given out from them, until every pod that was there has told its
//! addresses, has asked for one again, or is gone. New pods get addresses from a new lease meanwhile.

use crate::agent::Agent;
use berth_core::block::State;
use berth_core::holder::{Holder, Sticky};
use berth_core::ipam::{Ipam, Lease};
use berth_dialects::native::pod::Pod;
use berth_kube::connect::CallError;
use berth_kube::pods::Running;
use std::collections::HashSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tracing::{debug, info, warn};

/// How long leases stay barred at least: a pod that was given a new sandbox a moment ago tells its old address still.
const AT_LEAST: Duration = Duration::from_secs(20);
/// And at most: a pod that has told no address by then has none.
const AT_MOST: Duration = Duration::from_secs(600);

/// A node that has lost its journal, until it knows again what its pods have.
pub(crate) struct Recovery {
    since: Instant,
    /// The pods that may have an address that nobody knows of.
    silent: HashSet<String>,
}

/// An address in use.
struct Told {
    address: IpAddr,
    holder: Holder,
}

/// Records what pods of this node have and nobody holds. If the journal was lost, bars its leases and says so.
///
/// # Errors
/// If the server cannot be asked.
pub(crate) fn begin(agent: &Agent, lost_journal: bool) -> Result<Option<Recovery>, CallError> {
    if !lost_journal || !agent.engine.with_store(|store| store.has_leases()) {
        recognise(agent, &agent.pods.running()?, false);
        return Ok(None);
    }
    let node = agent.node.clone();
    let barred = agent.engine.transact(move |context| {
        let pools: Vec<String> = context.ipam.pools().map(|pool| pool.name.clone()).collect();
        let leases = pools.iter().flat_map(|pool| context.ipam.leases(pool)).filter(|lease| lease.node == node);
        let leases: Vec<Lease> = leases.collect();
        context.ipam.bar(&leases);
        Ok(leases.len())
    });
    warn!(leases = barred.unwrap_or(0), "the journal is lost: nothing new from these leases until all pods have told");
    let pods = agent.pods.running()?;
    recognise(agent, &pods, true);
    let silent = pods.into_iter().filter(|pod| pod.addresses.is_empty()).flat_map(|pod| pod.uids).collect();
    Ok(Some(Recovery { since: Instant::now(), silent }))
}

/// Looks again; true if everything is known and the leases are open.
pub(crate) fn go_on(agent: &Agent, recovery: &mut Recovery) -> bool {
    let pods = match agent.pods.running() {
        Ok(pods) => pods,
        Err(error) => {
            debug!(%error, "cannot ask which addresses pods have; leases stay barred");
            return false;
        }
    };
    recognise(agent, &pods, true);
    let told: HashSet<&String> =
        pods.iter().filter(|pod| !pod.addresses.is_empty()).flat_map(|pod| &pod.uids).collect();
    let there: HashSet<&String> = pods.iter().flat_map(|pod| &pod.uids).collect();
    let asked: HashSet<String> = agent.engine.read(active_uids);
    recovery.silent.retain(|uid| there.contains(uid) && !told.contains(uid) && !asked.contains(uid));
    let waited = recovery.since.elapsed();
    if waited < AT_LEAST || (!recovery.silent.is_empty() && waited < AT_MOST) {
        return false;
    }
    let opened = agent.engine.transact(|context| {
        context.ipam.bar(&[]);
        Ok(())
    });
    info!(silent = recovery.silent.len(), "it is known again what pods of this node have; their leases are open");
    opened.is_ok()
}

fn active_uids(ipam: &Ipam) -> HashSet<String> {
    let active = ipam.slots().filter(|(_, _, view)| view.state == State::Active);
    active.filter_map(|(_, _, view)| view.holder()).map(|holder| holder.uid).collect()
}

/// Records the addresses that pods tell of and nobody holds. What the blocks say of a pod counts for more than what its
/// status says, which may be late: it may have another address by now, or have given it back. Unless the blocks are late.
fn recognise(agent: &Agent, pods: &[Running], blocks_are_late: bool) {
    let known = if blocks_are_late { HashSet::new() } else { agent.engine.read(active_uids) };
    let pods: Vec<&Running> = pods.iter().filter(|pod| blocks_are_late || !pod.is_leaving).collect();
    let node = &agent.node;
    let mut told: Vec<Told> = Vec::new();
    for pod in pods.iter().filter(|pod| !pod.uids.iter().any(|uid| known.contains(uid))) {
        let (namespace, name) = pod.name.split_once('/').unwrap_or_default();
        let uid = pod.uids.last().cloned().unwrap_or_default();
        let holder = Holder {
            // Nobody tells which sandbox it is. The record ends with the pod, or when the pod gets another sandbox.
            id: Holder::id_of_pod(&uid),
            ifname: "eth0".to_owned(),
            namespace: namespace.to_owned(),
            pod: name.to_owned(),
            uid,
            node: node.clone(),
            sticky: sticky(&pod.pod, "eth0"),
            ..Holder::default()
        };
        told.extend(pod.addresses.iter().map(|&address| Told { address, holder: holder.clone() }));
    }
    // An endpoint also says what is merely kept for a pod, so it counts only where nothing better is known.
    if blocks_are_late {
        let more = from_endpoints(agent, &pods, &known, &told);
        told.extend(more);
    }
    let mut recorded = 0usize;
    for Told { address, holder } in told {
        let found = agent.engine.read(|ipam| ipam.planes_of(address));
        let [plane] = found.as_slice() else {
            if !found.is_empty() {
                warn!(%address, pod = holder.pod, "in use, and in several networks: nobody knows in which");
            }
            continue;
        };
        let (plane, pod) = (plane.clone(), holder.pod.clone());
        // The block may be one that this node has nothing in, as far as it knows.
        let key = berth_core::block::BlockKey::of(&plane, plane.unit_of(address)).0;
        let done = agent.engine.look_at(&[key]).and_then(|()| {
            agent.engine.transact(move |context| context.ipam.recognise(&plane, address, holder.clone(), context.now))
        });
        match done {
            Ok(true) => {
                recorded += 1;
                warn!(%address, pod, "in use, and nobody held it: it is recorded as the pod's");
            }
            Ok(false) => {}
            Err(error) => warn!(%address, pod, %error, "a pod of this node says it has an address that is not its own"),
        }
    }
    if recorded > 0 {
        info!(addresses = recorded, "recorded what pods of this node have");
    }
}

/// What its address is kept for, if its pool keeps any.
fn sticky(pod: &Pod, ifname: &str) -> Option<Sticky> {
    pod.identity(ifname).map(|identity| Sticky { identity, keep: None })
}

/// What the endpoints of living pods say beyond that: the addresses of further interfaces.
fn from_endpoints(agent: &Agent, pods: &[&Running], known: &HashSet<String>, told: &[Told]) -> Vec<Told> {
    let has_endpoints = |ipam: &Ipam| ipam.pools().any(|pool| pool.endpoint_objects || pool.sticky.is_some());
    if !agent.engine.read(has_endpoints) {
        return Vec::new();
    }
    let endpoints = agent.endpoints.of_node(&agent.node).unwrap_or_else(|error| {
        debug!(%error, "cannot list the endpoints of this node");
        Vec::new()
    });
    let mut more = Vec::new();
    for (namespace, _, spec) in endpoints {
        let Some(pod) = pods.iter().find(|pod| pod.uids.contains(&spec.uid)) else { continue };
        if known.contains(&spec.uid) {
            continue;
        }
        for interface in &spec.interfaces {
            for text in &interface.addresses {
                let Some(address) = text.address.split('/').next().and_then(|text| text.parse().ok()) else { continue };
                if told.iter().any(|told| told.address == address) {
                    continue;
                }
                let holder = Holder {
                    id: Holder::id_of_pod(&spec.uid),
                    ifname: interface.name.clone(),
                    namespace: namespace.clone(),
                    pod: pod.pod.name.clone(),
                    uid: spec.uid.clone(),
                    node: agent.node.clone(),
                    sticky: sticky(&pod.pod, &interface.name),
                    ..Holder::default()
                };
                more.push(Told { address, holder });
            }
        }
    }
    more
}
