//! Quotas among several who give out from the same pools.
//!
//! What one of them knows of the others may be out of date, so none of them can count. Instead, an address that a quota
//! counts comes with a *ticket*, and there are as many tickets as the quota allows. A ticket is a slot like any other, in
//! a plane of its own (`quota/POOL/NAMESPACE`), so taking one is a compare-and-swap and needs no second kind of record.
//! It names its address, and the node that sees to it.
//!
//! A ticket is written before its address, and given back after the address is free: a crash in between leaves a ticket
//! too many, which its node finds by [`Ipam::settle_tickets`], and never an address too many.

use super::indexes::hash_of;
use super::select::Rule;
use super::{Ipam, Request, SlotId};
use crate::block::{BLOCK_UNITS, Block, BlockKey, Plane, Slot, SlotRef, State};
use crate::holder::{Attachment, Holder, Kind};
use crate::time::Time;
use std::net::IpAddr;
use std::time::Duration;

/// A ticket as it was when its address became free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    at: (BlockKey, u8),
    slot: Slot,
}

/// An address without a ticket is an old one whose pool had no quota then, or one that has just moved here, and its
/// ticket is on its way.
const ON_ITS_WAY: Duration = Duration::from_secs(60);

impl Ipam {
    /// The rule that keeps the namespace of a request from one more address of a pool.
    pub(super) fn over_quota(&self, pool: usize, request: &Request) -> Option<Rule> {
        let rule = self.pools[pool].over_quota(request);
        if rule.is_some() || self.apart.is_none() || request.subject.anyone {
            return rule;
        }
        let Holder { namespace, node, .. } = &request.holder;
        let limit = self.pools[pool].pool.quota.limit(namespace)?;
        self.vacant_ticket(pool, namespace, node, limit).is_none().then_some(Rule::Quota(limit))
    }

    /// Takes a ticket for an address that is being given out, if a quota counts it.
    pub(super) fn take_ticket(&mut self, pool: usize, address: IpAddr, request: &Request, stamp: Time) {
        let Holder { namespace, node, .. } = &request.holder;
        let limit = self.pools[pool].pool.quota.limit(namespace);
        if self.apart.is_none() || request.subject.anyone {
            return;
        }
        let Some((key, slot)) = limit.and_then(|limit| self.vacant_ticket(pool, namespace, node, limit)) else {
            return;
        };
        self.write_ticket((&key, slot), address, namespace, node, stamp);
    }

    fn write_ticket(
        &mut self,
        (key, slot): (&BlockKey, u8),
        address: IpAddr,
        namespace: &str,
        node: &str,
        stamp: Time,
    ) {
        let holder = Holder {
            kind: Kind::Named,
            network: key.plane.network.to_string(),
            id: address.to_string(),
            namespace: namespace.to_owned(),
            node: node.to_owned(),
            ..Holder::default()
        };
        let id = SlotId::new(self.entry(key), slot);
        self.write(id, Some(Slot::active(holder, stamp)));
    }

    /// A ticket that may be taken: one of this node whose address is free, else one that nobody has.
    fn vacant_ticket(&self, pool: usize, namespace: &str, node: &str, limit: u32) -> Option<(BlockKey, u8)> {
        let plane = Plane::of_quota(&self.pools[pool].pool.name, namespace);
        let mut taken = 0;
        for (key, slot, view) in self.tickets_in(&plane) {
            taken += 1;
            let is_own = !node.is_empty() && view.node() == node;
            // Only where the address is known to be free: in a block that was never seen it may be in use elsewhere.
            if is_own && self.address_of(pool, &view).is_none_or(|(at, slot)| self.is_known_free(&at, slot, namespace))
            {
                return Some((key.clone(), slot));
            }
        }
        if taken >= limit {
            return None;
        }
        let units = u128::from(BLOCK_UNITS);
        let blocks = u128::from(limit).div_ceil(units);
        // Nodes begin in different blocks, where there are several.
        let first = u128::from(hash_of(node)) % blocks;
        (0..blocks).map(|i| (first + i) % blocks).find_map(|index| {
            let key = BlockKey { plane: plane.clone(), index };
            let taken = self.block(&key).map_or(0, Block::taken);
            let slot = u8::try_from(taken.trailing_ones()).ok().filter(|&slot| slot < BLOCK_UNITS)?;
            (key.unit(slot) < u128::from(limit)).then_some((key, slot))
        })
    }

    fn tickets_in<'a>(&'a self, plane: &Plane) -> impl Iterator<Item = (&'a BlockKey, u8, SlotRef<'a>)> + use<'a> {
        let at = |index| BlockKey { plane: plane.clone(), index };
        let blocks = self.keys.range(at(0)..=at(u128::MAX)).filter_map(|(key, &id)| {
            let entry = self.entries[id].as_ref()?;
            Some((key, &entry.block))
        });
        let slots = blocks.flat_map(|(key, block)| block.slots().map(move |(slot, view)| (key, slot, view)));
        slots.filter(|(.., view)| view.state == State::Active)
    }

    /// Where the address of a ticket is recorded.
    fn address_of(&self, pool: usize, ticket: &SlotRef<'_>) -> Option<(BlockKey, u8)> {
        let address: IpAddr = ticket.holder()?.id.parse().ok()?;
        let plane = &self.pools[pool].plane;
        (crate::addr::Family::of(address) == plane.family).then(|| BlockKey::of(plane, plane.unit_of(address)))
    }

    /// The node that has an address for a namespace, empty if it is kept for somebody who is away; `None` if it is free.
    fn user_of(&self, key: &BlockKey, slot: u8, namespace: &str) -> Option<String> {
        let view = self.block(key)?.slot(slot)?;
        let is_used = matches!(view.state, State::Active | State::Held) && view.namespace() == namespace;
        is_used.then(|| view.node().to_owned())
    }

    fn is_known_free(&self, key: &BlockKey, slot: u8, namespace: &str) -> bool {
        self.block(key).is_some() && self.user_of(key, slot, namespace).is_none()
    }

    fn find_tickets(&self, plane: &Plane, address: IpAddr) -> Vec<SlotId> {
        let id = address.to_string();
        self.find_attachment(Attachment { network: &plane.network, id: &id, ifname: "" })
    }

    /// The tickets of the addresses that the changes at hand free, to be given back once those are in the store.
    #[must_use]
    pub fn spent_tickets(&self) -> Vec<Ticket> {
        let mut spent = Vec::new();
        if self.apart.is_none() {
            return spent;
        }
        for change in &self.changes {
            let holder = change.before.as_ref().filter(|slot| slot.has_holder()).and_then(|slot| slot.holder.as_ref());
            let Some(holder) = holder.filter(|_| !change.after.as_ref().is_some_and(Slot::has_holder)) else {
                continue;
            };
            for pool in self.owners.of(&change.key) {
                let state = &self.pools[pool as usize];
                if state.pool.quota.limit(&holder.namespace).is_none() {
                    continue;
                }
                let address = change.key.plane.addr(change.key.unit(change.slot));
                let plane = Plane::of_quota(&state.pool.name, &holder.namespace);
                let found = self.find_tickets(&plane, address).into_iter().filter_map(|id| {
                    let view = self.view(id).filter(|view| holder.node.is_empty() || view.node() == holder.node)?;
                    let (plane, unit) = self.unit(id)?;
                    Some(Ticket { at: BlockKey::of(plane, unit), slot: view.to_slot() })
                });
                spent.extend(found);
            }
        }
        spent
    }

    /// Gives tickets back, unless they have been used for another address, or anew, since they were spent.
    pub fn return_tickets(&mut self, spent: &[Ticket]) {
        for Ticket { at: (key, slot), slot: ticket } in spent {
            let id = SlotId::new(self.entry(key), *slot);
            if self.view(id).is_some_and(|view| view.to_slot() == *ticket) {
                let stamp = self.tick(self.clock);
                self.write(id, Some(Slot::released(stamp)));
            }
        }
    }

    /// The blocks that have to be read before [`Self::settle_tickets`]: those of addresses that are not in use on the
    /// node whose tickets they have, and where there are such, those of all tickets beside them.
    #[must_use]
    pub fn unsettled_tickets(&self, node: &str) -> Vec<BlockKey> {
        let mut keys: Vec<BlockKey> = Vec::new();
        for (plane, pool, namespace) in self.quotas() {
            let Some(pool) = pool else { continue };
            let own = self.tickets_in(&plane).filter(|(.., view)| view.node() == node);
            let places = own.filter_map(|(.., view)| self.address_of(pool, &view));
            let away = places.filter(|(key, slot)| self.user_of(key, *slot, &namespace).as_deref() != Some(node));
            let before = keys.len();
            keys.extend(away.map(|(key, _)| key));
            if keys.len() > before {
                let limit = self.pools[pool].pool.quota.limit(&namespace).unwrap_or_default();
                let blocks = u128::from(limit.div_ceil(u32::from(BLOCK_UNITS)));
                keys.extend((0..blocks).map(|index| BlockKey { plane: plane.clone(), index }));
            }
        }
        keys.sort();
        keys.dedup();
        keys
    }

    /// Puts the tickets of a node in order: those of free addresses go back, those of addresses that have moved go to the
    /// node that has them, unless it has one (it was quicker to take the address), and an address that has none gets one if there is one left. What
    /// [`Self::unsettled_tickets`] says must have been read.
    pub fn settle_tickets(&mut self, node: &str, now: Time) {
        let mut spent = Vec::new();
        let mut moved = Vec::new();
        for (plane, pool, namespace) in self.quotas() {
            let limit = pool.and_then(|pool| self.pools[pool].pool.quota.limit(&namespace));
            let mut seen = Vec::new();
            let place_of =
                |view: &SlotRef<'_>| pool.filter(|_| limit.is_some()).and_then(|pool| self.address_of(pool, view));
            let has_one = |user: &str, place: &Option<(BlockKey, u8)>| {
                self.tickets_in(&plane).any(|(.., other)| other.node() == user && place_of(&other) == *place)
            };
            for (key, slot, view) in self.tickets_in(&plane).filter(|(.., view)| view.node() == node) {
                let place = place_of(&view);
                let user = place.as_ref().and_then(|(at, slot)| self.user_of(at, *slot, &namespace));
                let ticket = || Ticket { at: (key.clone(), slot), slot: view.to_slot() };
                match user {
                    None => spent.push(ticket()),
                    Some(_) if seen.contains(&place) => spent.push(ticket()),
                    Some(user) if user != node && has_one(&user, &place) => spent.push(ticket()),
                    Some(user) if user != node && !user.is_empty() => moved.push((key.clone(), slot, user)),
                    Some(_) => seen.push(place),
                }
            }
        }
        self.return_tickets(&spent);
        for (key, slot, user) in moved {
            let id = SlotId::new(self.entry(&key), slot);
            let Some(mut ticket) = self.view(id).map(|view| view.to_slot()) else { continue };
            ticket.holder.iter_mut().for_each(|holder| holder.node.clone_from(&user));
            self.write(id, Some(ticket));
        }
        self.take_missing_tickets(node, now);
    }

    fn take_missing_tickets(&mut self, node: &str, now: Time) {
        let mut missing: Vec<(usize, IpAddr, String)> = Vec::new();
        for (pool, state) in self.pools.iter().enumerate().filter(|(_, state)| state.has_quota()) {
            for (unit, view) in self.slots_in(&state.plane, &state.own) {
                let is_own = view.state == State::Active && view.node() == node && now.since(view.since) > ON_ITS_WAY;
                if !is_own || state.pool.quota.limit(view.namespace()).is_none() {
                    continue;
                }
                let (address, plane) = (state.plane.addr(unit), Plane::of_quota(&state.pool.name, view.namespace()));
                if self.find_tickets(&plane, address).is_empty() {
                    missing.push((pool, address, view.namespace().to_owned()));
                }
            }
        }
        for (pool, address, namespace) in missing {
            let limit = self.pools[pool].pool.quota.limit(&namespace);
            let vacant = limit.and_then(|limit| self.vacant_ticket(pool, &namespace, node, limit));
            if let Some((key, slot)) = vacant {
                let stamp = self.tick(now);
                self.write_ticket((&key, slot), address, &namespace, node, stamp);
            }
        }
    }

    /// The planes of tickets that are known, with their pool, if there is one still, and their namespace.
    fn quotas(&self) -> Vec<(Plane, Option<usize>, String)> {
        let known = self.planes.iter().filter_map(|plane| {
            let (pool, namespace) = plane.quota_of()?;
            Some((plane.clone(), self.names.get(pool).copied(), namespace.to_owned()))
        });
        known.collect()
    }
}
