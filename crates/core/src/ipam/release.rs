//! Taking addresses back: by attachment, by address, by node; keeping, setting apart, and what time does.

use super::indexes::{Keys, hash_of};
use super::{Entry, Ipam, SlotId};
use crate::addr::Family;
use crate::block::{BLOCK_UNITS, BlockKey, Plane, Slot, SlotRef, State};
use crate::error::Error;
use crate::holder::{Attachment, Holder, Kind};
use crate::time::Time;
use std::collections::HashSet;
use std::net::IpAddr;

impl Ipam {
    /// Takes back everything an attachment has. Idempotent; says what was taken back.
    pub fn release(&mut self, key: Attachment<'_>, now: Time) -> Vec<IpAddr> {
        let mut own = self.find_attachment(key);
        let left = self.find_sources(key);
        if !left.is_empty() {
            // Whoever moves away has arrived: what it has left behind is nobody's.
            own.retain(|id| !left.contains(id));
            left.into_iter().for_each(|id| self.leave_source(id));
        } else if own.is_empty() {
            // Taken over from an allocator that did not record interfaces: the container alone decides.
            own = self.find_attachment(Attachment { ifname: "", ..key });
            own.retain(|&id| self.view(id).is_some_and(|view| view.kind() == Some(Kind::Container)));
        }
        self.release_slots(own, now)
    }

    /// Takes back every active address that the test picks, e.g. those of a node.
    pub fn release_where(&mut self, test: impl Fn(&Holder) -> bool, now: Time) -> Vec<IpAddr> {
        let picked = self.find_active(|view| view.holder().is_some_and(|holder| test(&holder)));
        self.release_slots(picked, now)
    }

    /// Who has what was given along to a container and still awaits its own ADD. Nobody has been told of it, so it can
    /// be taken back at any time; it has to be when the container goes, since nobody else will ask for that.
    #[must_use]
    pub fn awaited(&self, container: &str) -> Vec<Holder> {
        let mut holders: Vec<Holder> =
            self.find_awaited(container).into_iter().filter_map(|id| self.view(id)?.holder()).collect();
        holders.dedup_by(|a, b| a.attachment() == b.attachment());
        holders
    }

    /// Takes back every attachment of a node's CNI network that is not in the list of valid ones. What was given along
    /// to a container is in no list before its ADD has come; it goes when nothing else of the container is left.
    ///
    /// `spare` keeps what the list could not know of yet.
    pub fn collect_garbage(
        &mut self,
        network: &str,
        node: &str,
        valid: &[(String, String)],
        now: Time,
        spare: impl Fn(Attachment<'_>) -> bool,
    ) -> Vec<IpAddr> {
        // By hash: two that collide keep each other, which is the safe side. A record without an interface is valid if
        // its container is.
        let of = |id: &str, ifname: &str| hash_of(Attachment { network, id, ifname });
        let valid: HashSet<u64> = valid.iter().flat_map(|(id, ifname)| [of(id, ifname), of(id, "")]).collect();
        let is_valid = |view: &SlotRef<'_>| Keys::of(view).attachment.is_some_and(|hash| valid.contains(&hash));
        let spared = |view: &SlotRef<'_>| view.holder().is_some_and(|holder| spare(holder.attachment()));
        let here = |view: &SlotRef<'_>, awaited: bool| is_container_of(view, node) && view.is_awaited() == awaited;
        let unlisted = |view: &SlotRef<'_>| view.network() == network && !is_valid(view) && !spared(view);
        let mut stale = self.find_active(|view| here(view, false) && unlisted(view));
        let container = |id: &SlotId| self.view(*id).and_then(|view| view.holder()).map(|holder| hash_of(&*holder.id));
        let dying: HashSet<u64> = stale.iter().filter_map(container).collect();
        let asked = self.find_active(|view| here(view, false));
        let living: HashSet<u64> =
            asked.iter().filter(|id| stale.binary_search(id).is_err()).filter_map(container).collect();
        let mut along = self.find_active(|view| {
            let of = |containers: &HashSet<u64>| Keys::of(view).awaited.is_some_and(|hash| containers.contains(&hash));
            // What was promised to a pod goes with the pod.
            let is_promise = || view.holder().is_some_and(|holder| holder.is_promise());
            here(view, true)
                && !of(&living)
                && !is_promise()
                && (unlisted(view) || (of(&dying) && !is_valid(view) && !spared(view)))
        });
        stale.append(&mut along);
        self.release_slots(stale, now)
    }

    /// Everything that died with the last boot of this node: its containers.
    pub fn release_dead_boot(&mut self, node: &str, now: Time) -> Vec<IpAddr> {
        let dead = self.find_active(|view| is_container_of(view, node));
        self.release_slots(dead, now)
    }

    /// Takes one address back, whoever has it, kept or not.
    ///
    /// # Errors
    /// [`Error::Invalid`] if nobody has it.
    pub fn release_address(&mut self, network: &str, addr: IpAddr, now: Time) -> Result<Option<Holder>, Error> {
        let (key, slot) = self.taken_slot(network, addr)?;
        let id = SlotId::new(self.entry(&key), slot);
        let holder = self.view(id).and_then(|view| view.holder());
        let stamp = self.tick(now);
        self.write(id, Some(Slot::released(stamp)));
        Ok(holder)
    }

    /// Keeps an address for a holder that does not use it yet (a claim). Idempotent for the same identity.
    ///
    /// # Errors
    /// [`Error::AddressTaken`] if someone has it, [`Error::AddressOutside`] if no pool has it,
    /// [`Error::AddressReserved`] if it is not given out, [`Error::Invalid`] if the holder has no identity to keep it
    /// for.
    pub fn hold(&mut self, plane: &Plane, addr: IpAddr, holder: Holder, now: Time) -> Result<(), Error> {
        let Some(sticky) = &holder.sticky else {
            let reason = "an address can only be kept for an identity".to_owned();
            return Err(Error::Invalid { field: "holder".to_owned(), reason });
        };
        let (key, slot) = self.own_slot(plane, addr)?;
        if let Some(view) = self.block(&key).and_then(|b| b.slot(slot)).filter(|view| view.state != State::Released) {
            let own = view.identity() == Some(&sticky.identity);
            return if own { Ok(()) } else { Err(Error::taken(addr, view.holder().as_ref())) };
        }
        let mut owners = self.owners.of(&key).into_iter().map(|pool| &self.pools[pool as usize]);
        if !owners.any(|state| state.index.has(key.index, slot)) {
            let reason = "its pool leaves it out, or an IPReservation keeps it".to_owned();
            return Err(Error::AddressReserved { address: addr, reason });
        }
        let id = SlotId::new(self.entry(&key), slot);
        let stamp = self.tick(now);
        self.write(id, Some(Slot::held(holder, stamp, None)));
        Ok(())
    }

    /// Ends the keeping for an identity: held addresses are released, active ones are no longer kept.
    pub fn forget_identity(&mut self, identity: &str, now: Time) -> Vec<IpAddr> {
        let kept = self.find_identity(identity);
        let addresses = self.addresses(&kept);
        for id in kept {
            let stamp = self.tick(now);
            let Some(mut slot) = self.view(id).map(|view| view.to_slot()) else { continue };
            match (slot.state, &mut slot.holder) {
                (State::Active, Some(holder)) => {
                    holder.sticky = None;
                    self.write(id, Some(slot));
                }
                _ => self.write(id, Some(Slot::released(stamp))),
            }
        }
        addresses
    }

    /// Frees what is kept for an identity beyond these addresses, and not in use.
    pub fn give_up_kept(&mut self, identity: &str, but: &[IpAddr], now: Time) {
        for id in self.find_identity(identity) {
            let held = self.view(id).is_some_and(|view| view.state == State::Held);
            let address = self.unit(id).map(|(plane, unit)| plane.addr(unit));
            if held && address.is_some_and(|address| !but.contains(&address)) {
                let stamp = self.tick(now);
                self.write(id, Some(Slot::released(stamp)));
            }
        }
    }

    /// The addresses kept for, or used by, an identity.
    #[must_use]
    pub fn of_identity(&self, identity: &str) -> Vec<IpAddr> {
        self.addresses(&self.find_identity(identity))
    }

    /// The addresses of an identity that are in use right now, and by whom; if it is moving, by both ends.
    #[must_use]
    pub fn active_of_identity(&self, identity: &str) -> Vec<(IpAddr, Holder)> {
        let active = self.find_identity(identity).into_iter().filter_map(|id| {
            let view = self.view(id).filter(|view| view.state == State::Active)?;
            let (plane, unit) = self.unit(id)?;
            Some(view.holders().map(move |holder| (plane.addr(unit), holder)).collect::<Vec<_>>())
        });
        active.flatten().collect()
    }

    /// Takes back what those have of an identity that the test picks. What another node leases is for that one to say.
    pub fn relieve(&mut self, identity: &str, node: &str, test: impl Fn(&Holder) -> bool, now: Time) -> Vec<IpAddr> {
        let mut own = self.find_identity(identity);
        own.retain(|&id| {
            let user = self.view(id).filter(|view| view.state == State::Active).and_then(|view| view.holder());
            user.is_some_and(|user| test(&user)) && !self.is_leased_to_another(id, node)
        });
        self.release_slots(own, now)
    }

    /// Whether a slot is in a run that is leased to another node than this.
    fn is_leased_to_another(&self, id: SlotId, node: &str) -> bool {
        let Some(entry) = self.entries[id.block()].as_ref().filter(|_| self.apart.is_some()) else { return false };
        self.lessee_of(&entry.key, id.slot()).is_some_and(|lessee| lessee != node)
    }

    /// The addresses of an attachment.
    #[must_use]
    pub fn of_attachment(&self, key: Attachment<'_>) -> Vec<IpAddr> {
        self.addresses(&self.find_attachment(key))
    }

    /// Sets an address apart, because a stranger was seen to use it.
    ///
    /// # Errors
    /// [`Error::AddressTaken`] if one of our own holders has it: that is no stranger; [`Error::AddressOutside`] if no
    /// pool has it.
    pub fn quarantine(&mut self, plane: &Plane, addr: IpAddr, until: Option<Time>, now: Time) -> Result<(), Error> {
        let (key, slot) = self.own_slot(plane, addr)?;
        let known = self.block(&key).and_then(|block| block.slot(slot));
        if let Some(view) = known.filter(|view| matches!(view.state, State::Active | State::Held)) {
            return Err(Error::taken(addr, view.holder().as_ref()));
        }
        let id = SlotId::new(self.entry(&key), slot);
        let stamp = self.tick(now);
        self.write(id, Some(Slot::quarantined(stamp, until)));
        Ok(())
    }

    /// Ends what has run out: holds and quarantines past their deadline. Costs what is due, not what there is.
    pub fn sweep(&mut self, now: Time) -> Vec<IpAddr> {
        let due: Vec<SlotId> =
            self.indexes.deadlines.iter().take_while(|(until, _)| *until <= now).map(|&(_, id)| id).collect();
        let addresses = self.addresses(&due);
        for id in due {
            let stamp = self.tick(now);
            self.write(id, Some(Slot::released(stamp)));
        }
        addresses
    }

    /// Forgets blocks in which nothing is taken and nothing was released, or still rested, after `before` (which is
    /// not in the future), so that churn in a huge pool does not pile up records. Where a pool's search stands is kept,
    /// so they are not the next to be given out.
    pub fn forget_cold(&mut self, before: Time) -> usize {
        let cold = |entry: &Entry| {
            let pools = entry.pools.iter().map(|&pool| self.pools[pool as usize].pool.cool_down);
            let rest = pools.max().unwrap_or_default();
            entry.block.taken() == 0 && entry.block.states().all(|(.., since)| since.after(rest) < before)
        };
        let ids: Vec<usize> = (0..self.entries.len()).filter(|&i| self.entries[i].as_ref().is_some_and(cold)).collect();
        for &block in &ids {
            let released = self.entries[block].as_ref().map_or(0, |entry| entry.block.released());
            for slot in (0..BLOCK_UNITS).filter(|slot| released & (1 << slot) != 0) {
                self.write(SlotId::new(block, slot), None);
            }
        }
        ids.len()
    }

    pub(super) fn let_go(&mut self, id: SlotId, now: Time) {
        let stamp = self.tick(now);
        if let Some(before) = self.view(id).map(|view| view.to_slot()) {
            let after = before.after_release(stamp);
            self.write_over(id, Some(before), Some(after));
        }
    }

    /// The holder of a slot has moved for good.
    pub(super) fn leave_source(&mut self, id: SlotId) {
        if let Some(before) = self.view(id).map(|view| view.to_slot()) {
            let after = Slot { source: None, ..before.clone() };
            self.write_over(id, Some(before), Some(after));
        }
    }

    /// Takes an identity's addresses from a pod that is gone; what it has. If its machine was moving, the other pod has
    /// them alone now. What another node leases is for that one to say.
    pub fn release_gone(&mut self, identity: &str, uid: &str, node: &str, now: Time) -> Vec<IpAddr> {
        let mut own = self.find_identity(identity);
        own.retain(|&id| !self.is_leased_to_another(id, node));
        for &id in &own {
            if self.view(id).and_then(|view| view.source()).is_some_and(|source| source.uid == uid) {
                self.leave_source(id);
            }
        }
        let is_user = |view: &SlotRef<'_>| view.state == State::Active && view.holder().is_some_and(|it| it.uid == uid);
        let used = own.into_iter().filter(|&id| self.view(id).is_some_and(|view| is_user(&view))).collect();
        self.release_slots(used, now)
    }

    fn release_slots(&mut self, ids: Vec<SlotId>, now: Time) -> Vec<IpAddr> {
        let addresses = self.addresses(&ids);
        for id in ids {
            self.let_go(id, now);
        }
        addresses
    }

    fn find_active(&self, test: impl Fn(&SlotRef<'_>) -> bool) -> Vec<SlotId> {
        let entries = self.entries.iter().enumerate().filter_map(|(i, entry)| Some((i, entry.as_ref()?)));
        let slots = entries.flat_map(|(i, entry)| entry.block.slots().map(move |(slot, view)| (i, slot, view)));
        let active = slots.filter(|(_, _, view)| view.state == State::Active && test(view));
        active.map(|(i, slot, _)| SlotId::new(i, slot)).collect()
    }

    fn addresses(&self, ids: &[SlotId]) -> Vec<IpAddr> {
        ids.iter().filter_map(|&id| self.unit(id)).map(|(plane, unit)| plane.addr(unit)).collect()
    }

    /// Where an address of a pool is kept.
    fn own_slot(&self, plane: &Plane, addr: IpAddr) -> Result<(BlockKey, u8), Error> {
        let outside = || {
            let pools = self.pools.iter().filter(|state| state.plane == *plane).map(|state| state.pool.name.as_str());
            let pools = pools.collect::<Vec<_>>().join(", ");
            Error::AddressOutside { address: addr, pools: if pools.is_empty() { "(none)".to_owned() } else { pools } }
        };
        if Family::of(addr) != plane.family || plane.unit_len > plane.family.bits() {
            return Err(outside());
        }
        let (key, slot) = BlockKey::of(plane, plane.unit_of(addr));
        let mut owners = self.owners.of(&key).into_iter().map(|pool| &self.pools[pool as usize]);
        if owners.any(|state| state.own.has(key.index, slot)) { Ok((key, slot)) } else { Err(outside()) }
    }

    fn taken_slot(&self, network: &str, addr: IpAddr) -> Result<(BlockKey, u8), Error> {
        let mut taken = self.slots_of(network, addr).filter(|(_, _, view)| view.state != State::Released);
        let found = taken.next().map(|(plane, unit, _)| BlockKey::of(plane, unit));
        let nobody = || format!("nobody holds {addr} in network {network:?}; `berth show` lists what is held");
        found.ok_or_else(|| Error::Invalid { field: "address".to_owned(), reason: nobody() })
    }
}

/// Whether a container of this node has it. Where there is but one machine, none is recorded.
fn is_container_of(view: &SlotRef<'_>, node: &str) -> bool {
    view.kind() == Some(Kind::Container) && (view.node().is_empty() || view.node() == node)
}
