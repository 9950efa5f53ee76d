//! Addresses that strangers were seen to use: set apart, and others given in their place.

use super::pool_index::EVERYWHERE;
use super::{Entropy, Ipam, Outcome, Request, SlotId};
use crate::block::{BlockKey, Plane, Slot};
use crate::error::Error;
use crate::holder::{Attachment, Holder};
use crate::time::Time;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

/// What came of a conflict.
#[derive(Clone, Debug)]
pub struct Replaced {
    /// Which addresses were set apart.
    pub quarantined: Vec<IpAddr>,
    /// What the attachment has now. If that is an error, it has nothing.
    pub outcome: Result<Outcome, Error>,
}

impl Ipam {
    /// Sets apart what strangers use of an attachment's addresses, and gives it others; those it has beside them it keeps.
    /// Free addresses of the same networks that strangers use are set apart as well.
    ///
    /// # Guarantees
    /// What strangers use is set apart even if nothing else is left to give; the attachment then has nothing, rather than
    /// part of what it asked for. Done again, it changes nothing.
    pub fn replace(
        &mut self,
        request: &Request,
        strangers: &[IpAddr],
        until: Time,
        now: Time,
        entropy: &mut Entropy,
    ) -> Replaced {
        let known = self.find_attachment(request.holder.attachment());
        let networks = self.networks_of(request.holder.attachment());
        // Who answers for the address of a machine that is moving is the machine.
        let is_moving = |id: &SlotId| self.view(*id).is_some_and(|view| view.is_moving());
        let is_told = |id: &SlotId| self.unit(*id).is_some_and(|(plane, unit)| strangers.contains(&plane.addr(unit)));
        let is_used = |id: &SlotId| is_told(id) && !is_moving(id);
        let (used, own): (Vec<SlotId>, Vec<SlotId>) = known.into_iter().partition(is_used);
        let mut quarantined = Vec::with_capacity(strangers.len());
        for id in used {
            quarantined.extend(self.unit(id).map(|(plane, unit)| plane.addr(unit)));
            let stamp = self.tick(now);
            self.write(id, Some(Slot::quarantined(stamp, Some(until))));
        }
        for &addr in strangers {
            let planes: Vec<Plane> =
                self.planes_of(addr).into_iter().filter(|plane| networks.contains(&plane.network)).collect();
            for plane in planes {
                // What one of our own has by now is used by no stranger.
                if !quarantined.contains(&addr) && self.quarantine(&plane, addr, Some(until), now).is_ok() {
                    quarantined.push(addr);
                }
            }
        }
        let mark = self.changes.len();
        let outcome = match self.allocate_new(request, own.clone(), now, entropy, None) {
            Ok(given) => {
                let is_left = |id: &SlotId| {
                    self.unit(*id).is_some_and(|(plane, unit)| {
                        let addr = plane.addr(unit);
                        !given.iter().any(|given| given.address() == addr && *given.network == *plane.network)
                    })
                };
                let left: Vec<SlotId> = own.into_iter().filter(is_left).collect();
                left.into_iter().for_each(|id| self.let_go(id, now));
                Ok(self.outcome(given))
            }
            Err(error) => {
                self.rollback_to(mark);
                own.into_iter().for_each(|id| self.let_go(id, now));
                Err(error)
            }
        };
        Replaced { quarantined, outcome }
    }

    /// The networks in which an attachment has addresses.
    #[must_use]
    pub fn networks_of(&self, key: Attachment<'_>) -> BTreeSet<Arc<str>> {
        let planes = self.find_attachment(key).into_iter().filter_map(|id| self.unit(id));
        planes.map(|(plane, _)| plane.network.clone()).collect()
    }

    /// The next single addresses that a pool would give to a node, as far as that can be told; changes nothing.
    pub fn upcoming(&mut self, pool: &str, node: &str, count: usize, now: Time, entropy: &mut Entropy) -> Vec<IpAddr> {
        let Some(&pool) = self.names.get(pool) else { return Vec::new() };
        let (mark, mut upcoming) = (self.changes.len(), Vec::with_capacity(count));
        while upcoming.len() < count {
            let state = &mut self.pools[pool];
            let pick = if state.pool.lending.is_some() && (self.apart.is_some() || !node.is_empty()) {
                self.pick_leased(pool, node, EVERYWHERE, now, entropy)
            } else {
                state.index.next(now, entropy, EVERYWHERE)
            };
            let Some((unit, _)) = pick else { break };
            let plane = &self.pools[pool].plane;
            upcoming.push(plane.addr(unit));
            let (key, slot) = BlockKey::of(plane, unit);
            let (id, stamp) = (SlotId::new(self.entry(&key), slot), self.tick(now));
            self.write(id, Some(Slot::active(Holder::default(), stamp)));
            let cursor = &mut self.pools[pool].index.cursor;
            self.cursors.push((self.changes.len(), pool, *cursor));
            *cursor = (stamp, unit);
        }
        self.rollback_to(mark);
        upcoming
    }
}
