//! Giving addresses out: all of a request or nothing.

use super::pool_index::{EVERYWHERE, Window};
use super::request::{Given, Group, MAX_PER_REQUEST, Outcome, Request, Trace};
use super::select::{Candidate, Rule};
use super::sticky::{applies, pod_identity};
use super::{Entropy, Ipam, Reason, SlotId};
use crate::addr::{Family, whole_units};
use crate::block::{BlockKey, Slot, SlotRef, State};
use crate::error::Error;
use crate::holder::Sticky;
use crate::time::Time;
use std::net::IpAddr;

impl Ipam {
    /// Gives out what is asked for.
    ///
    /// # Guarantees
    /// A holder that has addresses already gets the same answer; if they awaited it, they no longer do. Either everything asked for is given, or nothing
    /// changes.
    ///
    /// # Errors
    /// See [`Error`]; none of them leaves a change behind.
    pub fn allocate(&mut self, request: &Request, now: Time, entropy: &mut Entropy) -> Result<Outcome, Error> {
        self.allocate_traced(request, now, entropy, None)
    }

    /// Serves several requests, e.g. for all interfaces of a pod: all of them, or none.
    ///
    /// # Errors
    /// Those of the first request that cannot be served, with its place in the list; no change is left behind.
    pub fn allocate_all(
        &mut self,
        requests: &[Request],
        now: Time,
        entropy: &mut Entropy,
    ) -> Result<Vec<Outcome>, (usize, Error)> {
        let (mark, mut outcomes) = (self.changes.len(), Vec::with_capacity(requests.len()));
        for (place, request) in requests.iter().enumerate() {
            match self.allocate(request, now, entropy) {
                Ok(outcome) => outcomes.push(outcome),
                Err(error) => {
                    self.rollback_to(mark);
                    return Err((place, error));
                }
            }
        }
        Ok(outcomes)
    }

    /// Records addresses that the holder has already from elsewhere, one request for each: unlike [`Self::allocate`],
    /// it adds to what the holder has.
    ///
    /// # Errors
    /// See [`Error`]; none of them leaves a change behind.
    pub fn adopt(&mut self, request: &Request, now: Time, entropy: &mut Entropy) -> Result<Outcome, Error> {
        let mark = self.changes.len();
        let result = self.allocate_new(request, Vec::new(), now, entropy, None);
        if result.is_err() {
            self.rollback_to(mark);
        }
        result.map(|given| self.outcome(given))
    }

    /// What [`Self::allocate`] would do, and why. Changes nothing.
    pub fn explain(&mut self, request: &Request, now: Time, entropy: &mut Entropy) -> (Trace, Result<Outcome, Error>) {
        let (mark, mut trace) = (self.changes.len(), Trace::default());
        let outcome = self.allocate_traced(request, now, entropy, Some(&mut trace));
        self.rollback_to(mark);
        (trace, outcome)
    }

    /// Whether a request like this could be served now; changes nothing. The holder is not looked at: it stands for one
    /// that has nothing yet.
    ///
    /// # Errors
    /// Those that [`Self::allocate`] would give it.
    pub fn could_serve(&mut self, request: &Request, now: Time, entropy: &mut Entropy) -> Result<(), Error> {
        let mark = self.changes.len();
        let result = self.allocate_new(request, Vec::new(), now, entropy, None);
        self.rollback_to(mark);
        result.map(drop)
    }

    fn allocate_traced(
        &mut self,
        request: &Request,
        now: Time,
        entropy: &mut Entropy,
        trace: Option<&mut Trace>,
    ) -> Result<Outcome, Error> {
        let known = self.find_attachment(request.holder.attachment());
        if !known.is_empty() {
            self.arrive(&known, request);
            let given = known.into_iter().filter_map(|id| self.given(id, Reason::AlreadyHeld)).collect();
            return Ok(self.outcome(given));
        }
        let (mark, promised) = (self.changes.len(), self.promised_to(&request.holder));
        // First, so that what it frees can serve this very request when nothing else is left.
        self.retire_old_sandboxes(&request.holder, now);
        let result = self.allocate_new(request, promised.clone(), now, entropy, trace);
        match result {
            Ok(_) => self.drop_promises(&promised, now),
            Err(_) => self.rollback_to(mark),
        }
        result.map(|given| self.outcome(given))
    }

    /// The ADD that addresses awaited is here: from now on they are somebody's.
    fn arrive(&mut self, known: &[SlotId], request: &Request) {
        for &id in known.iter().filter(|_| !request.holder.awaited) {
            let awaits = |view: &SlotRef<'_>| view.is_awaited() && view.is_held_by(request.holder.attachment());
            let Some(before) = self.view(id).filter(awaits).map(|view| view.to_slot()) else { continue };
            let mut after = before.clone();
            after.holder.iter_mut().for_each(|holder| holder.awaited = false);
            self.write_over(id, Some(before), Some(after));
        }
    }

    /// `kept` is what the holder has already and keeps, as far as it fits.
    pub(super) fn allocate_new(
        &mut self,
        request: &Request,
        mut kept: Vec<SlotId>,
        now: Time,
        entropy: &mut Entropy,
        mut trace: Option<&mut Trace>,
    ) -> Result<Vec<Given>, Error> {
        request.holder.validate()?;
        let wanted = request.groups.iter().map(|group| group.addresses.len().max(group.count as usize));
        if wanted.fold(0, usize::saturating_add) > MAX_PER_REQUEST {
            let reason = format!("at most {MAX_PER_REQUEST} addresses may be asked for at once");
            return Err(Error::Invalid { field: "count".to_owned(), reason });
        }
        let awaits = self.kept_for(request).into_iter().filter(|id| !kept.contains(id)).collect::<Vec<_>>();
        kept.extend(awaits);
        let mut given = Vec::with_capacity(2);
        for group in &request.groups {
            let candidates = self.candidates(group)?;
            for &address in &group.addresses {
                let back = self.take_back(&mut kept, request, group, &candidates, now, |addr| addr == address)?;
                given.push(match back {
                    Some(back) => back,
                    None => self.give_address(request, group, &candidates, address, now, trace.as_deref_mut())?,
                });
            }
            if !group.addresses.is_empty() {
                continue;
            }
            let families = self.families(request, group, &candidates);
            if families.is_empty() {
                return Err(self.refusal(request, group, &[], now));
            }
            for family in families {
                for _ in 0..group.count {
                    let fits = |addr| Family::of(addr) == family;
                    let back = self.take_back(&mut kept, request, group, &candidates, now, fits)?;
                    given.push(match back {
                        Some(back) => back,
                        None => {
                            let step = Step { request, group, candidates: &candidates, now };
                            self.give_any(step, family, entropy, trace.as_deref_mut())?
                        }
                    });
                }
            }
        }
        if given.is_empty() {
            let reason = "the request asks for no address".to_owned();
            return Err(Error::Invalid { field: "count".to_owned(), reason });
        }
        // What a claim keeps is the claim's to give up.
        if request.holder.sticky.is_none() {
            self.give_up(&kept, now);
        }
        Ok(given)
    }

    /// Gives out the address asked for. It need not have cooled down: who names an address wants that one, and most
    /// often it is a restarted container that wants its own.
    fn give_address(
        &mut self,
        request: &Request,
        group: &Group,
        candidates: &[Candidate],
        address: IpAddr,
        now: Time,
        mut trace: Option<&mut Trace>,
    ) -> Result<Given, Error> {
        let mut dropped = Vec::new();
        for candidate in candidates {
            let state = &self.pools[candidate.pool];
            let here = group.network().is_none_or(|asked| asked == &*state.pool.network);
            if !here || !state.pool.ranges.iter().any(|range| range.contains(address)) {
                continue;
            }
            let rule = state.refuses(request, group).or_else(|| self.over_quota(candidate.pool, request));
            self.note(trace.as_deref_mut(), candidate.pool, rule.as_ref());
            if let Some(rule) = rule {
                dropped.push((candidate.pool, rule));
                continue;
            }
            let (key, slot) = BlockKey::of(&state.plane, state.plane.unit_of(address));
            if !state.index.has(key.index, slot) {
                let reason = if let Some(name) = self.config.reservation_of(&state.plane.network, address) {
                    format!("IPReservation {name:?} keeps it")
                } else {
                    format!("pool {:?} leaves it out (network, broadcast, gateway or excluded)", state.pool.name)
                };
                return Err(Error::AddressReserved { address, reason });
            }
            let taken = self.block(&key).and_then(|block| block.slot(slot)).filter(|v| v.state != State::Released);
            if let Some(view) = taken {
                return Err(Error::taken(address, view.holder().as_ref()));
            }
            if self.in_barred_lease(candidate.pool, address) {
                let reason = "what is in use in its lease is being found out; try again".to_owned();
                return Err(Error::AddressReserved { address, reason });
            }
            self.may_take(candidate.pool, key.unit(slot), &request.subject.node, now)
                .map_err(|reason| Error::AddressReserved { address, reason })?;
            return Ok(self.give(candidate.pool, key.unit(slot), request, now, Reason::Requested));
        }
        if dropped.is_empty() {
            let names = candidates.iter().map(|c| self.pools[c.pool].pool.name.as_str());
            let pools = names.collect::<Vec<_>>().join(", ");
            let pools = if pools.is_empty() { "(none)".to_owned() } else { pools };
            return Err(Error::AddressOutside { address, pools });
        }
        Err(self.refusal(request, group, &dropped, now))
    }

    /// Gives out one unit of a family from the first pool that has one.
    fn give_any(
        &mut self,
        step: Step<'_>,
        family: Family,
        entropy: &mut Entropy,
        mut trace: Option<&mut Trace>,
    ) -> Result<Given, Error> {
        let Step { request, group, candidates, now } = step;
        let mut dropped = Vec::new();
        for candidate in candidates {
            let state = &self.pools[candidate.pool];
            if state.pool.family != family {
                continue;
            }
            let rule = state.refuses(request, group).or_else(|| self.over_quota(candidate.pool, request));
            let state = &mut self.pools[candidate.pool];
            let pick = if rule.is_some() {
                None
            } else {
                let inside = group.within.iter().filter(|range| range.family() == family);
                let windows: Vec<Window> =
                    inside.filter_map(|&range| whole_units(range, state.plane.unit_len)).collect();
                let windows = if group.within.is_empty() { EVERYWHERE } else { &windows };
                let node = &request.subject.node;
                let by_lease = self.apart.is_some() || (group.within.is_empty() && !node.is_empty());
                if state.pool.lending.is_some() && by_lease {
                    self.pick_leased(candidate.pool, node, windows, now, entropy)
                } else {
                    state.index.next(now, entropy, windows)
                }
            };
            let rule = rule.or_else(|| pick.is_none().then_some(Rule::Exhausted));
            self.note(trace.as_deref_mut(), candidate.pool, rule.as_ref());
            if let Some((unit, reason)) = pick {
                return Ok(self.give(candidate.pool, unit, request, now, reason));
            }
            dropped.extend(rule.map(|rule| (candidate.pool, rule)));
        }
        Err(self.refusal(request, group, &dropped, now))
    }

    fn give(&mut self, pool: usize, unit: u128, request: &Request, now: Time, reason: Reason) -> Given {
        let (key, slot) = BlockKey::of(&self.pools[pool].plane, unit);
        let stamp = self.tick(now);
        let mut holder = request.holder.clone();
        if let (None, Some(policy)) =
            (&holder.sticky, self.pools[pool].pool.sticky.filter(|policy| applies(*policy, request)))
        {
            holder.sticky = pod_identity(request).map(|identity| Sticky { identity, keep: policy.keep });
        }
        let id = SlotId::new(self.entry(&key), slot);
        self.write(id, Some(Slot::active(holder, stamp)));
        self.take_ticket(pool, key.plane.addr(unit), request, stamp);
        if reason != Reason::Requested {
            let cursor = &mut self.pools[pool].index.cursor;
            self.cursors.push((self.changes.len(), pool, *cursor));
            *cursor = (stamp, unit);
        }
        self.present(pool, &key.plane, unit, reason)
    }
}

/// What stays the same while a group is served.
#[derive(Clone, Copy)]
struct Step<'a> {
    request: &'a Request,
    group: &'a Group,
    candidates: &'a [Candidate],
    now: Time,
}
