//! Addresses that a pod has before it asks.
//!
//! A pod is bound to its node some time before the node has a container ready for it. What it will get can be written to
//! a slow store in that time: it is *promised* to the pod, by its UID, and taken up by the first container that asks in
//! the pod's name. Who takes it up changes nothing for anybody else, so the store may hear of that later.

use super::{Change, Entropy, Ipam, Outcome, Request, SlotId};
use crate::block::{BlockKey, Slot, State};
use crate::error::Error;
use crate::holder::{Attachment, Holder};
use crate::time::Time;
use std::net::IpAddr;

impl Ipam {
    /// Promises a pod what a container of it will ask for; nothing if the pod has, or was promised, something there.
    ///
    /// # Errors
    /// Those of [`Ipam::allocate`]; [`Error::Invalid`] if the pod has no UID to be known by.
    pub fn promise(&mut self, request: &Request, now: Time, entropy: &mut Entropy) -> Result<Option<Outcome>, Error> {
        let Holder { uid, network, ifname, .. } = &request.holder;
        if uid.is_empty() {
            let reason = "a pod without one cannot be promised an address".to_owned();
            return Err(Error::Invalid { field: "holder.uid".to_owned(), reason });
        }
        // What was recognised by looking at the pod has no network.
        if ["", network].iter().any(|network| !self.find_pod(uid, network, ifname).is_empty()) {
            return Ok(None);
        }
        let holder = Holder { id: Holder::id_of_pod(uid), awaited: true, ..request.holder.clone() };
        self.allocate(&Request { holder, ..request.clone() }, now, entropy).map(Some)
    }

    /// Takes back what a pod was promised on an interface and no container of it has taken up.
    pub fn break_promise(&mut self, uid: &str, network: &str, ifname: &str, now: Time) -> Vec<IpAddr> {
        self.release(Attachment { network, id: &Holder::id_of_pod(uid), ifname }, now)
    }

    /// What the pod of a container was promised.
    pub(super) fn promised_to(&self, holder: &Holder) -> Vec<SlotId> {
        if holder.uid.is_empty() {
            return Vec::new();
        }
        let own = Holder::id_of_pod(&holder.uid);
        let mut all = self.find_pod(&holder.uid, &holder.network, &holder.ifname);
        all.retain(|&id| self.view(id).is_some_and(|view| view.is_awaited() && view.is_container(&own)));
        all
    }

    /// Takes back what was promised and turned out not to be what the container asked for.
    pub(super) fn drop_promises(&mut self, promised: &[SlotId], now: Time) {
        for &id in promised {
            if self.view(id).is_some_and(|view| view.is_awaited()) {
                self.let_go(id, now);
            }
        }
    }

    /// Has slots that are taken written to the store once more, as they are.
    pub fn record_anew(&mut self, key: &BlockKey, slots: u64) {
        let Some(&block) = self.keys.get(key) else { return };
        for id in (0..64).filter(|slot| slots & (1 << slot) != 0).map(|slot| SlotId::new(block, slot)) {
            if let Some(slot) = self.view(id).filter(|view| view.state != State::Released).map(|view| view.to_slot()) {
                self.write_over(id, Some(slot.clone()), Some(slot));
            }
        }
    }
}

impl Change {
    /// Whether a container merely took up what its pod had already.
    #[must_use]
    pub fn is_arrival(&self) -> bool {
        self.before.as_ref().zip(self.after.as_ref()).is_some_and(|(before, after)| took_up(before, after))
    }
}

/// Whether a slot that awaits its pod's container is the other one, once the container is there.
#[must_use]
pub fn took_up(before: &Slot, after: &Slot) -> bool {
    let (Some(pod), Some(container)) = (&before.holder, &after.holder) else { return false };
    let both_active = before.state == State::Active && after.state == State::Active;
    // Without a UID it may be another pod, and without a node another node's.
    let is_known = !pod.uid.is_empty() && !pod.node.is_empty();
    let same = || Holder { id: container.id.clone(), awaited: false, ..pod.clone() } == *container;
    // Where whoever is moving comes from may have changed meanwhile.
    let none_moves = before.source.is_none() && after.source.is_none();
    both_active && none_moves && is_known && pod.awaited && same()
}
