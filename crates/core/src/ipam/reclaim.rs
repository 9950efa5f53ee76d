//! Carrying out what [`crate::reclaim`] has judged: only if the slot is still the one that was judged.

use super::{Ipam, Lease, SlotId};
use crate::block::{BlockKey, Slot, State};
use crate::error::Error;
use crate::model::Pool;
use crate::time::Time;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

impl Ipam {
    /// Frees a slot if it is to the instant what was judged; says which address came back. What a sticky holder used is
    /// kept for it.
    pub fn reclaim(&mut self, key: &BlockKey, slot: u8, judged: &Slot, now: Time) -> Option<IpAddr> {
        let id = self.judged(key, slot, judged)?;
        let stamp = self.tick(now);
        let after = match judged.state {
            State::Active => judged.after_release(stamp),
            _ => Slot::released(stamp),
        };
        self.write_over(id, Some(judged.clone()), Some(after));
        Some(key.plane.addr(key.unit(slot)))
    }

    /// Sees to it that nobody comes back for an address that is in use; whether it was what was judged.
    pub fn keep_no_longer(&mut self, key: &BlockKey, slot: u8, judged: &Slot) -> bool {
        let Some(id) = self.judged(key, slot, judged) else { return false };
        let mut after = judged.clone();
        if let Some(holder) = &mut after.holder {
            holder.sticky = None;
        }
        self.write_over(id, Some(judged.clone()), Some(after));
        true
    }

    fn judged(&self, key: &BlockKey, slot: u8, judged: &Slot) -> Option<SlotId> {
        let id = SlotId::new(*self.keys.get(key)?, slot);
        self.view(id).is_some_and(|view| view.to_slot() == *judged).then_some(id)
    }

    /// The node that leases a slot, if one does.
    #[must_use]
    pub fn lessee_of(&self, key: &BlockKey, slot: u8) -> Option<String> {
        let pools = self.owners.of(key);
        pools.into_iter().find_map(|pool| self.lessee(pool as usize, key.unit(slot)))
    }

    /// The pools that have a slot.
    #[must_use]
    pub fn pools_of(&self, key: &BlockKey, slot: u8) -> Vec<String> {
        let own = self.owners.of(key).into_iter().map(|pool| &self.pools[pool as usize]);
        own.filter(|state| state.own.has(key.index, slot)).map(|state| state.pool.name.clone()).collect()
    }

    /// The pools that have slots of a block.
    #[must_use]
    pub fn pools_at(&self, key: &BlockKey) -> Vec<Arc<Pool>> {
        self.owners.of(key).into_iter().map(|pool| self.pools[pool as usize].pool.clone()).collect()
    }

    /// Ends the lease of a node that is gone: it is anybody's again or, while something in it is taken, nobody's alone.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the node has no such lease any more.
    pub fn end_lease(&mut self, lease: &Lease, now: Time) -> Result<(), Error> {
        match self.return_lease(lease, now) {
            Err(Error::InUse { .. }) => self.open_lease(lease, now),
            outcome => outcome,
        }
    }

    /// Has what is taken in a lease written to the store once more: whoever wrote it last may have kept it to itself.
    pub fn record_lease_anew(&mut self, lease: &Lease) {
        let Some((plane, units)) = self.units_of(lease) else { return };
        let taken = self.slots_in(&plane, &units).filter(|(_, view)| view.state != State::Released);
        let keys: BTreeSet<BlockKey> = taken.map(|(unit, _)| BlockKey::of(&plane, unit).0).collect();
        keys.iter().for_each(|key| self.record_anew(key, u64::MAX));
    }

    /// Whether somebody uses an address of a lease at this moment.
    #[must_use]
    pub fn is_used(&self, lease: &Lease) -> bool {
        let Some((plane, units)) = self.units_of(lease) else { return false };
        self.slots_in(&plane, &units).any(|(_, view)| view.state == State::Active)
    }
}
