//! What is in use although the blocks do not say so: after a node lost its journal, or an old backup was restored.

use super::{Ipam, Lease, SlotId};
use crate::addr::Cidr;
use crate::block::{BlockKey, Plane, Slot, State};
use crate::error::Error;
use crate::holder::{Holder, Sticky};
use crate::time::Time;
use std::net::IpAddr;

impl Ipam {
    /// Records that a pod's interface has an address, because it was seen to. No rule is asked: it has it already. False
    /// if the pod is known to have it.
    ///
    /// # Errors
    /// [`Error::AddressTaken`] if it is somebody else's, [`Error::AddressReserved`] if it is leased to another node.
    pub fn recognise(&mut self, plane: &Plane, addr: IpAddr, mut holder: Holder, now: Time) -> Result<bool, Error> {
        holder.validate()?;
        let (key, slot) = BlockKey::of(plane, plane.unit_of(addr));
        let own = holder.sticky.as_ref().map(|sticky| sticky.identity.clone()).filter(|own| !own.is_empty());
        let identity = own.unwrap_or_else(|| Sticky::of_pod(&holder.namespace, &holder.pod, &holder.ifname));
        let known = self.block(&key).and_then(|block| block.slot(slot));
        let mut sticky = None;
        if let Some(view) = known {
            match (view.state, view.holder()) {
                (State::Active, Some(user)) if user.uid == holder.uid => return Ok(false),
                (State::Active, _) if view.source().is_some_and(|source| source.uid == holder.uid) => return Ok(false),
                (State::Held, Some(user)) if user.sticky.as_ref().is_some_and(|kept| kept.identity == identity) => {
                    sticky = user.sticky;
                }
                (State::Active | State::Held, user) => return Err(Error::taken(addr, user.as_ref())),
                (State::Released | State::Quarantined, _) => {}
            }
        }
        let own = |&pool: &u32| self.pools[pool as usize].own.has(key.index, slot);
        let Some(pool) = self.owners.of(&key).into_iter().find(own) else { return Ok(false) };
        let node = holder.node.clone();
        self.may_take(pool as usize, key.unit(slot), &node, now)
            .map_err(|reason| Error::AddressReserved { address: addr, reason })?;
        if let Some(policy) = self.pools[pool as usize].pool.sticky.filter(|_| holder.sticky.is_some()) {
            sticky.get_or_insert(Sticky { identity, keep: policy.keep });
        }
        holder.sticky = sticky;
        let id = SlotId::new(self.entry(&key), slot);
        let stamp = self.tick(now);
        self.write(id, Some(Slot::active(holder, stamp)));
        Ok(true)
    }

    /// The planes of the pools that an address is in: one, unless networks overlap.
    #[must_use]
    pub fn planes_of(&self, addr: IpAddr) -> Vec<Plane> {
        let has = |pool: &&std::sync::Arc<crate::model::Pool>| pool.ranges.iter().any(|range| range.contains(addr));
        let mut planes: Vec<Plane> = self.pools().filter(has).map(|pool| pool.plane()).collect();
        planes.sort();
        planes.dedup();
        planes
    }

    /// From now on nothing new is given out from these leases; those barred before are open again. What is known to be
    /// in use there stays.
    pub fn bar(&mut self, leases: &[Lease]) {
        self.barred = leases.iter().map(|lease| (lease.pool.clone(), lease.prefix)).collect();
    }

    /// Whether an address is in a lease from which nothing is given out.
    pub(super) fn in_barred_lease(&self, pool: usize, addr: IpAddr) -> bool {
        let name = &self.pools[pool].pool.name;
        self.barred.iter().any(|(pool, prefix)| pool == name && prefix.contains(addr))
    }

    /// Whether nothing is given out from a lease.
    pub(super) fn is_barred(&self, pool: &str, prefix: Cidr) -> bool {
        self.barred.iter().any(|(name, barred)| name == pool && *barred == prefix)
    }
}
