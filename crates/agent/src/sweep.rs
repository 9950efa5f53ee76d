//! Holders whose pods are gone: the runtime should have said DEL, and did not.
//!
//! An address is freed only if its pod was missing in two looks, the second right before, each a consistent list of the
//! node's pods. If the server cannot be asked, nothing is freed.

use crate::agent::Agent;
use berth_core::block::State;
use berth_core::holder::Kind;
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};
use tracing::{debug, info};

/// How long a pod must have been missing.
pub(crate) const MISSING_FOR: Duration = Duration::from_secs(30);

/// The sweeper's memory.
#[derive(Default)]
pub(crate) struct Sweep {
    /// Pods of holders that were not among the living, and since when.
    missing: BTreeMap<String, Instant>,
}

impl Sweep {
    /// One look; what it frees was missing before too.
    pub(crate) fn look(&mut self, agent: &Agent, missing_for: Duration) {
        let node = &agent.node;
        // Holders first, pods second: a pod that came in between is among the living.
        let holders: HashSet<String> = agent.engine.read(|ipam| {
            let active = ipam.slots().filter(|(_, _, view)| view.state == State::Active);
            let own = active.filter_map(|(_, _, view)| view.holder());
            own.filter(|holder| holder.kind == Kind::Container && holder.node == *node && !holder.uid.is_empty())
                .map(|holder| holder.uid)
                .collect()
        });
        let living: HashSet<String> = match agent.pods.living() {
            Ok(living) => living.into_iter().collect(),
            Err(error) => return debug!(%error, "cannot tell which pods live; nothing is freed"),
        };
        agent.forget_endpoints(&living);
        self.missing.retain(|uid, _| holders.contains(uid) && !living.contains(uid));
        let now = Instant::now();
        for uid in holders.difference(&living) {
            self.missing.entry(uid.clone()).or_insert(now);
        }
        let gone: HashSet<String> = self
            .missing
            .iter()
            .filter(|(_, since)| now.duration_since(**since) >= missing_for)
            .map(|(uid, _)| uid.clone())
            .collect();
        if gone.is_empty() {
            return;
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
