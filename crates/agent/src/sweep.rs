//! Holders whose pods are gone: the runtime should have said DEL, and did not.
//!
//! An address is freed only if its pod was missing in two looks, each a consistent list of the node's pods, and if it is
//! nowhere else either: right before, the server is asked for the pod by name, whatever node it is on. A pod that is not
//! where its record says is alive all the same. If the server cannot be asked, nothing is freed.
//!
//! That a pod is gone from the server does not end its container: its kubelet does. So nothing is freed while nothing is
//! heard of the kubelet, either.

use crate::agent::Agent;
use berth_core::block::State;
use berth_core::holder::Kind;
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};
use tracing::{debug, info};

/// How long a pod must have been missing. By then a cluster has noticed if its kubelet went silent (after 50 s).
pub(crate) const MISSING_FOR: Duration = Duration::from_secs(60);

/// The sweeper's memory.
#[derive(Default)]
pub(crate) struct Sweep {
    /// Pods of holders that were not among the living, and since when.
    missing: BTreeMap<String, Instant>,
}

/// Namespace, name and UID of a pod.
type Who = (String, String, String);

/// Of pods that are missing, those that are nowhere.
fn nowhere(agent: &Agent, missing: HashSet<Who>) -> HashSet<String> {
    let is_nowhere = |(namespace, name, uid): &Who| match agent.pods.is_alive(namespace, name, uid) {
        Ok(alive) => !alive,
        Err(error) => {
            debug!(%error, name, "cannot tell whether a pod lives; nothing of it is freed");
            false
        }
    };
    missing.into_iter().filter(is_nowhere).map(|(_, _, uid)| uid).collect()
}

impl Sweep {
    /// One look; what it frees was missing before too.
    pub(crate) fn look(&mut self, agent: &Agent, missing_for: Duration) {
        let node = &agent.node;
        // Holders first, pods second: a pod that came in between is among the living.
        let holders: HashSet<Who> = agent.engine.read(|ipam| {
            let active = ipam.slots().filter(|(_, _, view)| view.state == State::Active);
            let own = active.filter_map(|(_, _, view)| view.holder());
            own.filter(|holder| holder.kind == Kind::Container && holder.node == *node && !holder.uid.is_empty())
                .map(|holder| (holder.namespace, holder.pod, holder.uid))
                .collect()
        });
        let living: HashSet<String> = match agent.pods.living() {
            Ok(living) => living.into_iter().collect(),
            Err(error) => return debug!(%error, "cannot tell which pods live; nothing is freed"),
        };
        agent.forget_endpoints(&living);
        let holders: HashSet<Who> = holders.into_iter().filter(|(_, _, uid)| !living.contains(uid)).collect();
        let now = Instant::now();
        let before = std::mem::take(&mut self.missing);
        let since = |uid: &String| before.get(uid).copied().unwrap_or(now);
        self.missing = holders.iter().map(|(_, _, uid)| (uid.clone(), since(uid))).collect();
        let long = |(_, _, uid): &Who| now.duration_since(since(uid)) >= missing_for;
        let gone = nowhere(agent, holders.into_iter().filter(long).collect());
        if gone.is_empty() {
            return;
        }
        match agent.places.kubelet_is_silent() {
            Ok(false) => {}
            Ok(true) => return debug!("nothing is heard of the kubelet, so its containers may run; nothing is freed"),
            Err(error) => return debug!(%error, "cannot tell whether the kubelet runs; nothing is freed"),
        }
        let node = node.clone();
        let freed = agent.engine.transact(move |context| {
            let dead = |holder: &berth_core::holder::Holder| {
                holder.kind == Kind::Container && holder.node == node && gone.contains(&holder.uid)
            };
            Ok(context.ipam.release_where(dead, context.now))
        });
        match freed {
            Ok(freed) => {
                info!(addresses = freed.len(), "freed what pods held that are gone and whose deletion nobody told");
                self.missing.clear();
            }
            Err(error) => debug!(%error, "could not free what dead pods hold"),
        }
    }
}
