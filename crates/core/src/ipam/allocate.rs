//! Giving addresses out: all of a request or nothing.

use super::request::{Given, Group, Outcome, Request, Trace};
use super::select::{Candidate, Rule};
use super::{Entropy, Ipam, Reason, SlotId, hash_of};
use crate::addr::Family;
use crate::block::{BlockKey, Plane, Slot, State};
use crate::error::Error;
use crate::holder::{Holder, Sticky};
use crate::net::{Dns, Route};
use crate::time::Time;
use std::net::IpAddr;

impl Ipam {
    /// Gives out what is asked for.
    ///
    /// # Guarantees
    /// A holder that has addresses already gets the same answer. Either everything asked for is given, or nothing
    /// changes.
    ///
    /// # Errors
    /// See [`Error`]; none of them leaves a change behind.
    pub fn allocate(&mut self, request: &Request, now: Time, entropy: &mut Entropy) -> Result<Outcome, Error> {
        self.allocate_traced(request, now, entropy, &mut Trace::default())
    }

    /// What [`Self::allocate`] would do, and why. Changes nothing.
    pub fn explain(&mut self, request: &Request, now: Time, entropy: &mut Entropy) -> (Trace, Result<Outcome, Error>) {
        let (mark, mut trace) = (self.changes.len(), Trace::default());
        let cursors: Vec<_> = self.pools.iter().map(|state| state.index.cursor()).collect();
        let outcome = self.allocate_traced(request, now, entropy, &mut trace);
        self.rollback_to(mark);
        for (state, (at, unit)) in self.pools.iter_mut().zip(cursors) {
            state.index.advance(at, unit);
        }
        (trace, outcome)
    }

    fn allocate_traced(
        &mut self,
        request: &Request,
        now: Time,
        entropy: &mut Entropy,
        trace: &mut Trace,
    ) -> Result<Outcome, Error> {
        let known = self.find_attachment(request.holder.attachment());
        if !known.is_empty() {
            let given = known.into_iter().filter_map(|id| self.given(id, Reason::AlreadyHeld)).collect();
            return Ok(self.outcome(given));
        }
        let mark = self.changes.len();
        let result = self.allocate_new(request, now, entropy, trace);
        if result.is_err() {
            self.rollback_to(mark);
        }
        result.map(|given| self.outcome(given))
    }

    fn allocate_new(
        &mut self,
        request: &Request,
        now: Time,
        entropy: &mut Entropy,
        trace: &mut Trace,
    ) -> Result<Vec<Given>, Error> {
        let mut kept = self.kept_for(request)?;
        let mut given = Vec::new();
        for group in &request.groups {
            let candidates = self.candidates(group)?;
            for &address in &group.addresses {
                given.push(match self.take_back(&mut kept, request, group, &candidates, now, |addr| addr == address) {
                    Some(id) => id,
                    None => self.give_address(request, group, address, now, trace)?,
                });
            }
            if !group.addresses.is_empty() {
                continue;
            }
            let families = self.families(request, group, &candidates);
            if families.is_empty() {
                return Err(self.refusal(request, &[], now));
            }
            for family in families {
                for _ in 0..group.count {
                    let fits = |addr| Family::of(addr) == family;
                    given.push(match self.take_back(&mut kept, request, group, &candidates, now, fits) {
                        Some(id) => id,
                        None => self.give_any(request, group, &candidates, family, now, entropy, trace)?,
                    });
                }
            }
        }
        self.retire_old_sandboxes(&request.holder, now);
        Ok(given)
    }

    /// What is kept for a sticky holder.
    fn kept_for(&self, request: &Request) -> Result<Vec<SlotId>, Error> {
        let own = request.holder.sticky.as_ref().map(|sticky| sticky.identity.clone());
        let Some(identity) = own.or_else(|| pod_identity(&request.holder)) else { return Ok(Vec::new()) };
        let kept = self.find_identity(&identity);
        for &id in &kept {
            let (Some(view), Some((plane, unit))) = (self.view(id), self.unit(id)) else { continue };
            let own = view.holder().unwrap_or_default();
            // While another container uses it, the address moves only if it is the same pod in a new sandbox.
            let same_pod = !own.uid.is_empty() && own.uid == request.holder.uid;
            if view.state == State::Active && !same_pod {
                return Err(Error::taken(plane.addr(unit), Some(&own)));
            }
        }
        Ok(kept)
    }

    /// Gives the first kept address that fits the group back to its holder.
    fn take_back(
        &mut self,
        kept: &mut Vec<SlotId>,
        request: &Request,
        group: &Group,
        candidates: &[Candidate],
        now: Time,
        fits: impl Fn(IpAddr) -> bool,
    ) -> Option<Given> {
        let position = kept.iter().position(|&id| {
            let Some(entry) = &self.entries[id.block()] else { return false };
            let usable = |&pool: &u32| {
                let pool = pool as usize;
                let wanted = candidates.iter().any(|c| c.pool == pool);
                wanted && self.pools[pool].refuses(request, group).is_none()
            };
            fits(entry.key.plane.addr(entry.key.unit(id.slot()))) && entry.pools.iter().any(usable)
        })?;
        let id = kept.remove(position);
        let stamp = self.tick(now);
        // How long an address is kept was settled when it was first given out.
        let sticky = self.view(id).and_then(|view| view.holder()).and_then(|holder| holder.sticky);
        self.write(id, Some(Slot::active(Holder { sticky, ..request.holder.clone() }, stamp)));
        self.given(id, Reason::KeptForHolder)
    }

    /// Gives out the address asked for.
    fn give_address(
        &mut self,
        request: &Request,
        group: &Group,
        address: IpAddr,
        now: Time,
        trace: &mut Trace,
    ) -> Result<Given, Error> {
        let candidates = self.candidates(group)?;
        let in_network = |pool: usize| {
            let network = &*self.pools[pool].pool.network;
            let asked = group.network.as_deref();
            asked.map_or(!group.pools.is_empty() || network == crate::model::DEFAULT_NETWORK, |asked| asked == network)
        };
        let mut dropped = Vec::new();
        for candidate in candidates.iter().filter(|c| in_network(c.pool)) {
            let state = &self.pools[candidate.pool];
            if !state.pool.ranges.iter().any(|range| range.contains(address)) {
                continue;
            }
            let rule = state.refuses(request, group).or_else(|| state.over_quota(&request.subject.namespace));
            self.note(trace, candidate.pool, rule.as_ref());
            if let Some(rule) = rule {
                dropped.push((candidate.pool, rule));
                continue;
            }
            let state = &self.pools[candidate.pool];
            let plane = state.pool.plane();
            let (key, slot) = BlockKey::of(&plane, plane.unit_of(address));
            if !state.index.has(key.index, slot) {
                let reserved = state.members.contains(address);
                let reason = if reserved {
                    "an IPReservation keeps it".to_owned()
                } else {
                    format!("pool {:?} leaves it out (network, broadcast, gateway or excluded)", state.pool.name)
                };
                return Err(Error::AddressReserved { address, reason });
            }
            let taken = self.block(&key).and_then(|block| block.slot(slot)).filter(|v| v.state != State::Released);
            if let Some(view) = taken {
                return Err(Error::taken(address, view.holder().as_ref()));
            }
            return Ok(self.give(candidate.pool, &plane, key.unit(slot), request, now, Reason::Requested));
        }
        if dropped.is_empty() {
            let names = candidates.iter().map(|c| self.pools[c.pool].pool.name.as_str());
            let pools = names.collect::<Vec<_>>().join(", ");
            return Err(Error::AddressOutside {
                address,
                pools: if pools.is_empty() { "(none)".into() } else { pools },
            });
        }
        Err(self.refusal(request, &dropped, now))
    }

    /// Gives out one unit of a family from the first pool that has one.
    #[expect(clippy::too_many_arguments, reason = "one step of allocate, cut out for reading")]
    fn give_any(
        &mut self,
        request: &Request,
        group: &Group,
        candidates: &[Candidate],
        family: Family,
        now: Time,
        entropy: &mut Entropy,
        trace: &mut Trace,
    ) -> Result<Given, Error> {
        let mut dropped = Vec::new();
        for candidate in candidates {
            let state = &mut self.pools[candidate.pool];
            if state.pool.family != family {
                continue;
            }
            let plane = state.pool.plane();
            let rule = state.refuses(request, group).or_else(|| state.over_quota(&request.subject.namespace));
            let pick = if rule.is_some() {
                None
            } else if group.within.is_empty() {
                state.index.next(now, entropy, (0, u128::MAX))
            } else {
                let inside = group.within.iter().filter(|range| range.family() == family);
                let windows = inside.map(|range| (plane.unit_of(range.first()), plane.unit_of(range.last())));
                windows.into_iter().find_map(|window| state.index.next(now, entropy, window))
            };
            let rule = rule.or_else(|| pick.is_none().then_some(Rule::Exhausted));
            self.note(trace, candidate.pool, rule.as_ref());
            if let Some((unit, reason)) = pick {
                return Ok(self.give(candidate.pool, &plane, unit, request, now, reason));
            }
            dropped.extend(rule.map(|rule| (candidate.pool, rule)));
        }
        Err(self.refusal(request, &dropped, now))
    }

    fn give(&mut self, pool: usize, plane: &Plane, unit: u128, request: &Request, now: Time, reason: Reason) -> Given {
        let (key, slot) = BlockKey::of(plane, unit);
        let stamp = self.tick(now);
        let mut holder = request.holder.clone();
        if let (None, Some(policy)) = (&holder.sticky, self.pools[pool].pool.sticky) {
            holder.sticky = pod_identity(&holder).map(|identity| Sticky { identity, keep: policy.keep });
        }
        let id = SlotId::new(self.entry(&key), slot);
        self.write(id, Some(Slot::active(holder, stamp)));
        if reason != Reason::Requested {
            self.pools[pool].index.advance(stamp, unit);
        }
        self.present(pool, plane, unit, reason)
    }

    /// A pod has one address per interface. A sandbox that was replaced without a DEL keeps its address for one more
    /// round (its DEL may be on the way); older ones are given up, so that a crash loop cannot drain a pool.
    fn retire_old_sandboxes(&mut self, holder: &Holder, now: Time) {
        if holder.uid.is_empty() {
            return;
        }
        let hash = hash_of((&*holder.uid, &*holder.network, &*holder.ifname));
        let mut old: Vec<(Time, SlotId, String)> = (self.pods.iter_hash(hash).copied())
            .filter_map(|id| {
                let view = self.view(id)?;
                let own = view.is_of_pod(&holder.uid, &holder.network, &holder.ifname);
                let container = view.holder().map(|h| h.id).filter(|container| *container != holder.id)?;
                own.then_some((view.since, id, container))
            })
            .collect();
        old.sort_by_key(|&(since, id, _)| (std::cmp::Reverse(since), id));
        let grace = old.first().map(|(_, _, container)| container.clone());
        for (_, id, _) in old.into_iter().filter(|(_, _, container)| Some(container) != grace.as_ref()) {
            self.let_go(id, now);
        }
    }

    /// What a slot is to its holder.
    pub(super) fn given(&self, id: SlotId, reason: Reason) -> Option<Given> {
        let entry = self.entries[id.block()].as_ref()?;
        let unit = entry.key.unit(id.slot());
        let addr = entry.key.plane.addr(unit);
        let inside = |&&pool: &&u32| self.pools[pool as usize].pool.ranges.iter().any(|range| range.contains(addr));
        let pool = entry.pools.iter().find(inside);
        Some(match pool {
            Some(&pool) => self.present(pool as usize, &entry.key.plane, unit, reason),
            None => {
                let unit = entry.key.plane.prefix(unit);
                let network = entry.key.plane.network.to_string();
                Given { pool: String::new(), network, unit, prefix_len: unit.prefix_len(), gateway: None, reason }
            }
        })
    }

    fn present(&self, pool: usize, plane: &Plane, unit: u128, reason: Reason) -> Given {
        let pool = &self.pools[pool].pool;
        let subnet = self.config.subnet_of(pool);
        let addr = plane.addr(unit);
        Given {
            pool: pool.name.clone(),
            network: pool.network.to_string(),
            unit: plane.prefix(unit),
            prefix_len: if pool.gives_addresses() { pool.subnet_of(addr, subnet).prefix_len() } else { pool.unit_len },
            gateway: pool.gateway_of(addr, subnet),
            reason,
        }
    }

    fn outcome(&self, given: Vec<Given>) -> Outcome {
        let mut routes: Vec<Route> = Vec::new();
        let mut dns = Dns::default();
        for pool in given.iter().filter_map(|g| self.pool(&g.pool)) {
            let subnet = self.config.subnet_of(pool);
            let inherited = subnet.filter(|_| pool.routes.is_empty()).map(|subnet| &subnet.routes);
            for route in inherited.unwrap_or(&pool.routes) {
                if !routes.contains(route) {
                    routes.push(route.clone());
                }
            }
            if dns.is_empty() {
                dns = if pool.dns.is_empty() {
                    subnet.map(|s| s.dns.clone()).unwrap_or_default()
                } else {
                    pool.dns.clone()
                };
            }
        }
        Outcome { given, routes, dns }
    }
}

/// The identity of a pod's interface, for pools whose addresses stay with the pod.
fn pod_identity(holder: &Holder) -> Option<String> {
    (!holder.pod.is_empty()).then(|| format!("pod/{}/{}/{}", holder.namespace, holder.pod, holder.ifname))
}
