//! What stands behind a SpiderEndpoint. Before one goes, the server itself is asked.

use crate::facts::{Fresh, Look};
use crate::index::blocks_at;
use crate::world::World;
use berth_core::block::{Block, BlockKey, State};
use berth_core::ipam::Ipam;
use berth_core::reclaim::Pod;
use berth_dialects::spiderpool::endpoint::EndpointStatus;
use berth_kube::connect::CallError;
use berth_kube::watch::Key;
use std::collections::BTreeSet;

/// What stands behind an endpoint.
pub(super) struct Behind {
    /// The pod that it speaks of.
    pub(super) pod: Pod,
    /// Whether something in a block is the pod's.
    pub(super) held: bool,
}

impl Behind {
    /// What the server says. Of blocks that cannot be read, nobody knows that they are empty.
    ///
    /// # Errors
    /// If it cannot be asked.
    pub(super) fn ask(world: &World, pod: &Key, status: &EndpointStatus) -> Result<Self, CallError> {
        let blocks: Vec<BlockKey> = world.engine.read(|ipam| blocks_of(ipam, status)).into_iter().collect();
        let unread = world.engine.look_at(&blocks).is_err();
        let held = unread || world.engine.read(|ipam| blocks.iter().any(|key| has(ipam, key, pod)));
        let pod = Fresh::new(&world.cluster, &world.mirrors, 1)?.pod(&pod.namespace, &pod.name, &status.current.uid);
        Ok(Self { pod, held })
    }

    /// Whether it is nothing.
    pub(super) fn is_nothing(&self) -> bool {
        matches!(self.pod, Pod::Absent | Pod::Replaced) && !self.held
    }
}

/// Whether something in a block is a pod's or a machine's, in use or kept for it.
pub(super) fn has(ipam: &Ipam, key: &BlockKey, pod: &Key) -> bool {
    let slots = ipam.block(key).into_iter().flat_map(Block::slots);
    let mut taken = slots.filter(|(_, view)| matches!(view.state, State::Active | State::Held));
    taken.any(|(_, view)| {
        let is_own = |name: &str| name == pod.name;
        view.holder()
            .is_some_and(|own| own.namespace == pod.namespace && (is_own(&own.pod) || is_own(own.lasting_name())))
    })
}

/// The blocks that a record speaks of.
fn blocks_of(ipam: &Ipam, status: &EndpointStatus) -> BTreeSet<BlockKey> {
    let texts = status.current.ips.iter().flat_map(|interface| [&interface.ipv4, &interface.ipv6]).flatten();
    blocks_at(ipam, texts.map(String::as_str))
}
