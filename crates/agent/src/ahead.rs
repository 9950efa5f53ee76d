//! Addresses before they are asked for.
//!
//! Between the moment a pod is bound to this node and the ADD of its container the kubelet mounts volumes and makes a
//! sandbox. In that time what the pod will get is promised to it in the API server, for all pods that came together in
//! one write; the ADD then finds it and needs no server. It is only a head start: a pod to which nothing was promised,
//! because there was no time or nothing to give, is served as ever, and what was promised to one that asks for something
//! else, goes before it asks, or does not ask for a while, is taken back.
//!
//! What a pod will ask for is what the last one asked for: the same network, and the pools that its CNI configuration
//! names. Promises are made where they save a write and cost nobody anything: not in pools that lend to nodes, whose
//! addresses are given out without the server; not where somebody has to be asked first, about a claim, an address that
//! is kept, or strangers on the wire; and only to pods with one interface.

use crate::agent::Agent;
use berth_core::holder::Holder;
use berth_core::ipam::{Ipam, Outcome, Request};
use berth_dialects::native::pod::Pod;
use berth_kube::watch::{Bell, Changes, Key, Mirror};
use berth_wire::protocol::{self, AddRequest};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::debug;

/// The interface that every pod has.
const FIRST: &str = "eth0";
/// How long to sleep at most before looking whether to stop.
const LOOK: Duration = Duration::from_millis(200);
/// How long to wait for more pods after the first of several: much less than a sandbox takes.
const GATHER: Duration = Duration::from_millis(5);

/// How long an address waits for its pod. Most ask within seconds; some never do, having their address from elsewhere.
pub(crate) const KEEP: Duration = Duration::from_secs(120);

/// What pods will ask for.
#[derive(Default)]
pub(crate) struct Ahead(Mutex<Option<AddRequest>>);

impl Ahead {
    /// This is what a pod of this node asked for.
    pub(crate) fn learn(&self, add: &AddRequest) {
        // Which NIC the next one is put on is not known before it asks.
        let is_plain = add.addresses.is_empty() && add.claim.is_none() && add.uplink.is_none();
        if add.pod.is_none() || add.attachment.ifname != FIRST || !is_plain {
            return;
        }
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|last| !asks_alike(last, add)) {
            *last = Some(add.clone());
        }
    }

    /// What another pod will ask for, if any has asked yet.
    fn request_of(&self, pod: &Pod) -> Option<AddRequest> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let Pod { namespace, name, uid, .. } = pod;
        let told = protocol::Pod { namespace: namespace.clone(), name: name.clone(), uid: Some(uid.clone()) };
        let attachment = protocol::Attachment { container: Holder::id_of_pod(uid), ..last.attachment };
        Some(AddRequest { attachment, pod: Some(told), ..last })
    }
}

fn asks_alike(one: &AddRequest, other: &AddRequest) -> bool {
    one.attachment.network == other.attachment.network
        && one.domain == other.domain
        && (&one.pools, &one.ranges, &one.families) == (&other.pools, &other.ranges, &other.families)
}

/// A pod to which something may have been promised.
struct Promised {
    uid: String,
    /// In which CNI network, and when; none if nothing was promised, or not any more.
    promise: Option<(String, Instant)>,
}

impl Promised {
    /// The pod and the network of the promise, if there is one.
    fn what(&self) -> Option<(String, String)> {
        self.promise.as_ref().map(|(network, _)| (self.uid.clone(), network.clone()))
    }

    /// Whether the promise has waited for too long.
    fn is_late(&self, keep: Duration) -> bool {
        self.promise.as_ref().is_some_and(|(_, since)| since.elapsed() > keep)
    }

    /// A late promise was taken back, or could not be: then it is tried again after a while.
    fn end(&mut self, ended: bool) {
        self.promise = self.promise.take().filter(|_| !ended).map(|(network, _)| (network, Instant::now()));
    }
}

/// Promises addresses to pods as they are bound to this node, until told to stop. A thread of its own: nothing that is
/// slow may come between a pod and what it will need in a moment.
pub(crate) fn promise_to_new_pods(agent: &Agent, keep: Duration, stop: &AtomicBool) {
    let Some((pods, bell)) = agent.pods.followed() else {
        return debug!("the API server does not tell which pods are on the host's network: nothing is promised to any");
    };
    let Some((changes, mut known)) = begin(agent, pods, bell, stop) else { return };
    let mut heard = bell.rung();
    while !stop.load(Ordering::SeqCst) {
        let rung = bell.wait(heard, LOOK);
        if rung != heard {
            std::thread::sleep(GATHER);
        }
        heard = rung;
        let late: Vec<Key> = known.iter().filter(|(_, it)| it.is_late(keep)).map(|(key, _)| key.clone()).collect();
        let mut broken: Vec<(String, String)> = late.iter().filter_map(|key| known.get(key)?.what()).collect();
        let mut wanted = Vec::new();
        for key in changes.take() {
            let pod = pods.get(&key.namespace, &key.name);
            if pod.as_ref().map(|pod| &pod.uid) == known.get(&key).map(|promised| &promised.uid) {
                continue;
            }
            // If this fails, the sweep finds that the pod is gone.
            broken.extend(known.remove(&key).and_then(|promised| promised.what()));
            if let Some(pod) = pod {
                let request = agent.expected_of(&pod);
                let promise = request.as_ref().map(|request| (request.holder.network.clone(), Instant::now()));
                wanted.extend(request);
                known.insert(key, Promised { uid: pod.uid.clone(), promise });
            }
        }
        let done = agent.promise(wanted, broken);
        for key in late {
            known.entry(key).and_modify(|promised| promised.end(done));
        }
    }
}

/// Waits until it is known which pods are there already. Their containers may have asked long ago; or something was
/// promised to them by this agent before it was started anew, and is still.
fn begin(
    agent: &Agent,
    pods: &Mirror<Pod>,
    bell: &Bell,
    stop: &AtomicBool,
) -> Option<(Changes, HashMap<Key, Promised>)> {
    while !pods.is_synced() {
        if stop.load(Ordering::SeqCst) {
            return None;
        }
        let _ = bell.wait(bell.rung(), LOOK);
    }
    let changes = pods.changes();
    let promises = agent.engine.read(promises);
    let there = |key: Key| {
        let uid = pods.get(&key.namespace, &key.name)?.uid.clone();
        let promise = promises.get(&uid).map(|network| (network.clone(), Instant::now()));
        Some((key, Promised { uid, promise }))
    };
    let known = changes.take().into_iter().filter_map(there).collect();
    Some((changes, known))
}

/// The pods to which something is promised, by UID, with the CNI network of the promise.
fn promises(ipam: &Ipam) -> HashMap<String, String> {
    let awaited = ipam.slots().filter(|(_, _, view)| view.is_awaited()).filter_map(|(_, _, view)| view.holder());
    let promised = awaited.filter(|holder| holder.ifname == FIRST && holder.id == Holder::id_of_pod(&holder.uid));
    promised.map(|holder| (holder.uid, holder.network)).collect()
}

impl Agent {
    /// What a pod will ask for, if it can be told and may be promised.
    fn expected_of(&self, pod: &Pod) -> Option<Request> {
        let add = self.ahead.request_of(pod)?;
        if pod.lasting_name().is_some() && self.keeps_for_pods() {
            return None;
        }
        let planned = self.interfaces(add).inspect_err(|error| debug!(pod = pod.name, %error, "nothing is promised"));
        let [interface] = <[_; 1]>::try_from(planned.ok()?.1).ok()?;
        let names_addresses = interface.request.groups.iter().any(|group| !group.addresses.is_empty());
        (interface.claim.is_none() && !names_addresses).then_some(interface.request)
    }

    /// Promises what pods will ask for, and takes back what others were promised, by UID and network; whether it was done.
    fn promise(&self, wanted: Vec<Request>, broken: Vec<(String, String)>) -> bool {
        if wanted.is_empty() && broken.is_empty() {
            return true;
        }
        let done = self.engine.transact(move |context| {
            for (uid, network) in &broken {
                context.ipam.break_promise(uid, network, FIRST, context.now);
            }
            let mut made = 0usize;
            for request in &wanted {
                let savepoint = context.ipam.savepoint();
                match context.ipam.promise(request, context.now, context.entropy) {
                    Ok(Some(outcome)) if saves_a_write(context.ipam, &outcome) => made += 1,
                    Ok(None) => {}
                    // Its ADD will say why, if that is still so.
                    Ok(Some(_)) | Err(_) => context.ipam.rollback_to(savepoint),
                }
            }
            Ok(made)
        });
        match &done {
            Ok(0) => {}
            Ok(pods) => debug!(pods, "promised addresses to pods that will ask for them"),
            Err(error) => debug!(%error, "could not promise addresses to pods that will ask for them"),
        }
        done.is_ok()
    }
}

/// Whether everything given is of pools that give out in the API server, and need not look at the wire.
fn saves_a_write(ipam: &Ipam, outcome: &Outcome) -> bool {
    let lends = |pool: &str| ipam.pool(pool).is_none_or(|pool| pool.lending.is_some());
    outcome.given.iter().all(|given| given.detect.is_none() && !lends(&given.pool))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(ifname: &str, pools: &[&str]) -> AddRequest {
        let attachment =
            protocol::Attachment { network: "pods".into(), container: "c".into(), ifname: ifname.to_owned() };
        let pod = protocol::Pod { namespace: "shop".into(), name: "web".into(), uid: Some("u".into()) };
        AddRequest {
            attachment,
            pod: Some(pod),
            domain: None,
            pools: pools.iter().map(|&pool| pool.to_owned()).collect(),
            addresses: Vec::new(),
            ranges: Vec::new(),
            families: Vec::new(),
            claim: None,
            uplink: None,
        }
    }

    #[test]
    fn another_pod_will_ask_as_the_last_one_did_in_its_own_name() {
        let (ahead, pod) = (Ahead::default(), Pod { name: "db".into(), uid: "v".into(), ..Pod::default() });
        assert!(ahead.request_of(&pod).is_none(), "nobody has asked yet");
        ahead.learn(&add("eth0", &["old"]));
        ahead.learn(&add("eth0", &["blue"]));
        let expected = ahead.request_of(&pod).unwrap();
        assert_eq!((expected.attachment.container.as_str(), expected.pools), ("pod-v", vec!["blue".to_owned()]));
        assert_eq!(expected.pod.unwrap().uid.as_deref(), Some("v"));
    }

    #[test]
    fn who_asks_for_something_of_his_own_teaches_nothing() {
        let ahead = Ahead::default();
        ahead.learn(&add("net1", &[]));
        ahead.learn(&AddRequest { pod: None, ..add("eth0", &[]) });
        ahead.learn(&AddRequest { claim: Some("printer".into()), ..add("eth0", &[]) });
        ahead.learn(&AddRequest { addresses: vec!["10.0.0.7".parse().unwrap()], ..add("eth0", &[]) });
        ahead.learn(&AddRequest { uplink: Some(vec!["ens1f0".into()]), ..add("eth0", &[]) });
        assert!(ahead.request_of(&Pod::default()).is_none());
    }

    #[test]
    fn a_promise_that_waits_for_too_long_ends_once_that_is_written() {
        let Some(before) = Instant::now().checked_sub(KEEP + Duration::from_secs(1)) else { return };
        let promised = |since| Promised { uid: "u".into(), promise: Some(("pods".into(), since)) };
        assert!(!promised(Instant::now()).is_late(KEEP));
        let mut late = promised(before);
        assert!(late.is_late(KEEP));
        late.end(false);
        assert!(!late.is_late(KEEP) && late.what().is_some(), "it is tried again after a while");
        late.end(true);
        assert!(late.what().is_none());
    }
}
