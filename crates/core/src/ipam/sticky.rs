//! Addresses that stay with their holder while it is away, and what a holder left behind when it came back.

use super::select::Candidate;
use super::{Entropy, Given, Group, Ipam, Reason, Request, SlotId};
use crate::block::{Plane, Slot, State};
use crate::error::Error;
use crate::holder::{Holder, Sticky};
use crate::model::{StickyPolicy, Whom};
use crate::time::Time;
use std::net::IpAddr;

impl Ipam {
    /// What is kept for the holder of a request.
    pub(super) fn kept_for(&self, request: &Request) -> Vec<SlotId> {
        let own = request.holder.sticky.as_ref().map(|sticky| sticky.identity.clone());
        own.or_else(|| pod_identity(request)).map(|id| self.find_identity(&id)).unwrap_or_default()
    }

    /// Picks what a request asks for and keeps it, without a deadline, until its holder first uses it. What is kept for the
    /// holder already stays.
    ///
    /// # Errors
    /// Those of [`Ipam::allocate`]; [`Error::Invalid`] if the holder has no identity to keep it for.
    pub fn keep(&mut self, request: &Request, now: Time, entropy: &mut Entropy) -> Result<Vec<IpAddr>, Error> {
        let identity = request.holder.sticky.as_ref().map(|sticky| sticky.identity.clone()).unwrap_or_default();
        let (kept, mark) = (self.of_identity(&identity), self.savepoint());
        // What is in use is what it is, whoever decided so.
        if !identity.is_empty() && !self.active_of_identity(&identity).is_empty() {
            return Ok(kept);
        }
        // Of what is kept, the other half may have met a conflict.
        let given = self.allocate(request, now, entropy)?.given;
        if given.len() == kept.len() && given.iter().all(|given| kept.contains(&given.address())) {
            self.rollback_to(mark);
            return Ok(kept);
        }
        for given in &given {
            let (family, unit_len) = (given.unit.family(), given.unit.prefix_len());
            let plane = Plane { network: given.network.as_str().into(), family, unit_len };
            self.release_address(&given.network, given.address(), now)?;
            self.hold(&plane, given.address(), request.holder.clone(), now)?;
        }
        Ok(given.iter().map(Given::address).collect())
    }

    /// Gives the first kept address that fits the group back to its holder.
    ///
    /// An address that was reserved since, or is resting for others, still goes back: it never ceased to be the
    /// holder's. One in a pool that the holder may no longer use does not.
    pub(super) fn take_back(
        &mut self,
        kept: &mut Vec<SlotId>,
        request: &Request,
        group: &Group,
        candidates: &[Candidate],
        now: Time,
        fits: impl Fn(IpAddr) -> bool,
    ) -> Result<Option<Given>, Error> {
        let position = kept.iter().position(|&id| {
            let Some(entry) = &self.entries[id.block()] else { return false };
            let usable = |&pool: &u32| {
                let pool = pool as usize;
                let has = self.pools[pool].own.has(entry.key.index, id.slot());
                // What another node leases, this one knows nothing of, whatever it has seen of it once.
                let leased = || self.apart.as_ref().and_then(|_| self.lessee(pool, entry.key.unit(id.slot())));
                has && leased().is_none_or(|lessee| lessee == request.subject.node)
                    && candidates.iter().any(|c| c.pool == pool)
                    && self.pools[pool].refuses(request, group).is_none()
            };
            let addr = entry.key.plane.addr(entry.key.unit(id.slot()));
            let inside = group.within.is_empty() || group.within.iter().any(|range| range.contains(addr));
            inside && fits(addr) && entry.pools.iter().any(usable)
        });
        let Some(id) = position.map(|position| kept.remove(position)) else { return Ok(None) };
        let own = self.view(id).filter(|view| view.state == State::Active).map(|view| view.to_slot());
        let mut source = None;
        if let Some(Slot { holder: Some(user), source: before, .. }) = own {
            let is_own = user.attachment() == request.holder.attachment() || replaces(&request.holder, &user);
            let may_join = before.is_none() && moves(request, &user);
            if !is_own && !may_join {
                let addr = self.unit(id).map(|(plane, unit)| plane.addr(unit));
                return addr.map_or(Ok(None), |addr| Err(Error::taken(addr, Some(&user))));
            }
            // Who gets another sandbox on the way is still on the way.
            source = if is_own { before } else { Some(Box::new(user)) };
        }
        let stamp = self.tick(now);
        // Kept for as long as the holder says, or else the pool: both may have changed since it was first given out.
        let sticky = request.holder.sticky.clone().or_else(|| self.policy(id, request));
        let holder = Holder { sticky, ..request.holder.clone() };
        self.write(id, Some(Slot { source, ..Slot::active(holder, stamp) }));
        Ok(self.given(id, Reason::KeptForHolder))
    }

    /// Lets go of what was kept for a holder that has something else now. Only where the pool is for sets and machines, not
    /// for everyone: their pods are all of one mind, so none comes back for it.
    pub(super) fn give_up(&mut self, kept: &[SlotId], now: Time) {
        for &id in kept {
            let is_held = self.view(id).is_some_and(|view| view.state == State::Held);
            let of_one_mind = self.entries[id.block()].as_ref().is_some_and(|entry| {
                let own = |&&pool: &&u32| self.pools[pool as usize].own.has(entry.key.index, id.slot());
                let pool = entry.pools.iter().find(own);
                let policy = pool.and_then(|&pool| self.pools[pool as usize].pool.sticky);
                policy.is_some_and(|policy| policy.whom != Whom::Everyone)
            });
            if is_held && of_one_mind {
                let stamp = self.tick(now);
                self.write(id, Some(Slot::released(stamp)));
            }
        }
    }

    /// What the pool of a slot says about keeping the addresses of a pod.
    fn policy(&self, id: SlotId, request: &Request) -> Option<Sticky> {
        let entry = self.entries[id.block()].as_ref()?;
        let own = |&&pool: &&u32| self.pools[pool as usize].own.has(entry.key.index, id.slot());
        let policy = self.pools[*entry.pools.iter().find(own)? as usize]
            .pool
            .sticky
            .filter(|policy| applies(*policy, request))?;
        pod_identity(request).map(|identity| Sticky { identity, keep: policy.keep })
    }

    /// A pod has one address per interface. A sandbox that was replaced without a DEL keeps its address for one more
    /// round (its DEL may be on the way); older ones are given up, so that a crash loop cannot drain a pool.
    pub(super) fn retire_old_sandboxes(&mut self, holder: &Holder, now: Time) {
        if holder.uid.is_empty() {
            return;
        }
        // What was recognised by looking at the pod has no network, and is older than whatever has.
        let mut all = self.find_pod(&holder.uid, "", &holder.ifname);
        if !holder.network.is_empty() {
            all.extend(self.find_pod(&holder.uid, &holder.network, &holder.ifname));
        }
        let container = |id: SlotId| self.view(id).and_then(|view| view.holder()).map(|holder| holder.id);
        let Some(grace) = all.last().and_then(|&id| container(id)) else { return };
        let is_old = |&id: &SlotId| self.view(id).is_some_and(|view| !view.is_container(&grace));
        let old: Vec<SlotId> = all.into_iter().filter(is_old).collect();
        for id in old {
            self.let_go(id, now);
        }
    }
}

/// Whether a new container is the old one's pod in a new sandbox, so that the old one is gone. The UID proves it; where
/// nobody tells it, a pod of the same name on the same node does, since a node runs one sandbox of a pod at a time.
fn replaces(new: &Holder, old: &Holder) -> bool {
    // Another interface of the pod is another user of the address, not a new sandbox.
    let same_network = new.network == old.network || (old.network.is_empty() && !old.uid.is_empty());
    if new.id == old.id || new.ifname != old.ifname || !same_network {
        return false;
    }
    if !old.uid.is_empty() || !new.uid.is_empty() {
        return old.uid == new.uid;
    }
    let same_pod = !old.pod.is_empty() && old.pod == new.pod && old.namespace == new.namespace;
    same_pod && old.kind == new.kind && old.node == new.node
}

/// Whether whoever asks is the machine that another pod still runs, on its way from there.
fn moves(request: &Request, from: &Holder) -> bool {
    let Request { holder, subject, .. } = request;
    subject.machine.as_ref().is_some_and(|machine| {
        let is_meant = !from.uid.is_empty() && from.uid != holder.uid && machine.moves_from.as_ref() == Some(&from.uid);
        is_meant && from.machine() == Some(&machine.name) && from.ifname == holder.ifname
    })
}

/// Whether a pool's policy is for the pod that asks.
pub(super) const fn applies(policy: StickyPolicy, request: &Request) -> bool {
    let subject = &request.subject;
    policy.is_for(subject.fleeting, subject.of_set, subject.machine.is_some())
}

/// The identity of a pod's interface, for pools whose addresses stay with the pod; none if no pod of that name comes back.
pub(super) fn pod_identity(request: &Request) -> Option<String> {
    let Request { holder, subject, .. } = request;
    let Holder { namespace, pod, ifname, .. } = holder;
    (!pod.is_empty() && !subject.fleeting).then(|| match &subject.machine {
        None => Sticky::of_pod(namespace, pod, ifname),
        Some(machine) => Sticky::of_machine(namespace, &machine.name, ifname),
    })
}
