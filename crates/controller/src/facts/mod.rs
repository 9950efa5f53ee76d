//! What is known about pods, nodes and whoever an address is kept for.
//!
//! The same questions are asked twice: of the [`Mirrors`], which cost nothing and may be a moment behind, and, right
//! before an address comes back, of the API server itself ([`Fresh`]).

mod fresh;
mod machines;
mod mirrors;
mod owners;
mod read;

pub(crate) use fresh::Fresh;
pub(crate) use mirrors::{Mirrors, SpiderMirrors};
pub(crate) use read::{EndpointRecord, Ordinals, PodFacts, Record};

use berth_core::block::{Slot, State};
use berth_core::reclaim::{Facts, Keeper, Node, Pod};

/// Who can be asked.
pub(crate) trait Look {
    /// The pod of a name; with an empty UID, whichever it is.
    fn pod(&self, namespace: &str, name: &str, uid: &str) -> Pod;
    /// A node.
    fn node(&self, name: &str) -> Node;
    /// Whether the pod of a name, which is away, comes back.
    fn will_return(&self, namespace: &str, pod: &str) -> Keeper;
    /// Whether a virtual machine, which is away, comes back.
    fn machine(&self, namespace: &str, name: &str) -> Keeper;
    /// Whether there is a claim.
    fn claim(&self, namespace: &str, name: &str) -> Keeper;
}

/// All that is known about the holder of a slot, which may be leased to a node.
pub(crate) fn about(look: &impl Look, slot: &Slot, lessee: Option<&str>) -> Facts {
    let lessee = lessee.map(|node| look.node(node));
    let Some(holder) = &slot.holder else { return Facts { lessee, ..Facts::default() } };
    let pod = match holder.pod.as_str() {
        "" => Pod::Unknown,
        name => look.pod(&holder.namespace, name, &holder.uid),
    };
    let node = if holder.node.is_empty() { Node::Unknown } else { look.node(&holder.node) };
    let identity = holder.sticky.as_ref().map_or("", |sticky| sticky.identity.as_str());
    let keeper = match identity.split_once('/') {
        Some(("claim", claim)) => claim.split_once('/').map(|(namespace, name)| look.claim(namespace, name)),
        Some(("machine", _)) if slot.state == State::Held => {
            holder.machine().map(|machine| look.machine(&holder.namespace, machine))
        }
        Some(("pod", _)) if slot.state == State::Held => Some(look.will_return(&holder.namespace, &holder.pod)),
        _ => None,
    };
    Facts { pod, node, keeper: keeper.unwrap_or_default(), lessee }
}
