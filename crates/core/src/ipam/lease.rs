//! Leases: aligned runs of units lent to one node, which then allocates from them alone.
//!
//! A lease is itself an allocation: a prefix of the pool's block size, held by a node, in a plane of its own beside the
//! network's (`NETWORK/leases`). So it is stored, compared and swapped like everything else, and needs no second kind
//! of record. The addresses inside stay in the blocks of the network: a lease says who may take them, not who has them.

use super::pool_index::{EVERYWHERE, Window};
use super::units::Units;
use super::{Entropy, Ipam, Reason, SlotId};
use crate::addr::{Cidr, Count, Range, RangeSet, whole_units};
use crate::block::{BlockKey, Plane, Slot, SlotRef, State};
use crate::error::Error;
use crate::holder::{Attachment, Holder, Kind};
use crate::model::{Gateway, LEASE_TYPE, Pool};
use crate::time::Time;

/// A run of units lent to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The pool it is of.
    pub pool: String,
    /// Who has it.
    pub node: String,
    /// Its addresses.
    pub prefix: Cidr,
    /// Since when.
    pub since: Time,
}

impl Pool {
    /// The pool that this one's leases are given out from.
    pub(super) fn of_leases(&self) -> Option<Self> {
        let lending = self.lending?;
        Some(Self {
            network: Plane::network_of_leases(&self.network),
            kind: LEASE_TYPE.to_owned(),
            family: self.family,
            unit_len: lending.block_len,
            gateway: Gateway::None,
            ..Self::new(lease_pool(&self.name), self.ranges.clone())
        })
    }
}

/// No manifest has a slash in its name.
fn lease_pool(pool: &str) -> String {
    format!("{pool}/leases")
}

/// What a node's leases of a pool are found by.
const fn key<'a>(pool: &'a str, node: &'a str) -> Attachment<'a> {
    Attachment { network: "", id: node, ifname: pool }
}

impl Ipam {
    /// Lends a node another run of a pool.
    ///
    /// # Errors
    /// [`Error::UnknownPool`], [`Error::Invalid`] if the pool does not lend, [`Error::PoolExhausted`] if all is lent.
    pub fn lend(&mut self, pool: &str, node: &str, now: Time, entropy: &mut Entropy) -> Result<Lease, Error> {
        if !self.names.contains_key(pool) {
            return Err(Error::UnknownPool(pool.to_owned()));
        }
        let Some(&lender) = self.names.get(&lease_pool(pool)) else {
            let reason = format!("pool {pool:?} lends nothing; set its blockSize");
            return Err(Error::Invalid { field: "pool".to_owned(), reason });
        };
        let exhausted = || Error::PoolExhausted { pools: vec![pool.to_owned()], cooling: 0, next_free: None };
        let pick = self.pools[lender].index.next(now, entropy, EVERYWHERE);
        let (unit, _) = pick.ok_or_else(exhausted)?;
        self.lend_unit(lender, unit, pool, node, now)
    }

    fn lend_unit(&mut self, lender: usize, unit: u128, pool: &str, node: &str, now: Time) -> Result<Lease, Error> {
        let (block, slot) = BlockKey::of(&self.pools[lender].plane, unit);
        let (id, ifname) = (node.to_owned(), pool.to_owned());
        let holder = Holder { kind: Kind::Named, id, ifname, node: node.to_owned(), ..Holder::default() };
        holder.validate()?;
        let since = self.tick(now);
        let id = SlotId::new(self.entry(&block), slot);
        self.write(id, Some(Slot::active(holder, since)));
        let prefix = block.plane.prefix(unit);
        Ok(Lease { pool: pool.to_owned(), node: node.to_owned(), prefix, since })
    }

    /// Lends a node another run of a pool before it needs one: if its leases are used to three quarters of the last of
    /// them. Not its first, which waits for the first pod, and not beyond what it may have.
    pub fn lend_ahead(&mut self, pool: &str, node: &str, now: Time, entropy: &mut Entropy) -> Option<Lease> {
        let lending = self.pool(pool)?.lending?;
        let own: Vec<Lease> = self.leases(pool).into_iter().filter(|lease| lease.node == node).collect();
        if own.is_empty() || lending.most.is_some_and(|most| own.len() >= most as usize) {
            return None;
        }
        (!self.is_ample(&own)).then(|| self.lend(pool, node, now, entropy).ok()).flatten()
    }

    /// Whether leases have room for a quarter of one of them, so that no other is needed soon.
    #[must_use]
    pub fn is_ample(&self, leases: &[Lease]) -> bool {
        let free = |lease: &Lease| {
            let (used, size) = self.lease_usage(lease);
            (size.as_f64() - used.as_f64(), size.as_f64())
        };
        let (free, size) = leases.iter().map(free).fold((0.0, 0.0f64), |all, one| (all.0 + one.0, all.1.max(one.1)));
        free * 4.0 >= size
    }

    /// Every lease of a pool, in order of address.
    #[must_use]
    pub fn leases(&self, pool: &str) -> Vec<Lease> {
        let Some(&lender) = self.names.get(&lease_pool(pool)) else { return Vec::new() };
        let state = &self.pools[lender];
        self.slots_in(&state.plane, &state.own)
            .filter(|(_, view)| view.state == State::Active)
            .filter_map(|(unit, view)| {
                let prefix = state.plane.prefix(unit);
                Some(Lease { pool: pool.to_owned(), node: view.holder()?.id, prefix, since: view.since })
            })
            .collect()
    }

    /// The plane of a lease's units, and the units.
    pub(super) fn units_of(&self, lease: &Lease) -> Option<(Plane, Units)> {
        let plane = self.pool(&lease.pool)?.plane();
        let units = Units::new(&[lease.prefix.range()].into_iter().collect(), plane.family, plane.unit_len);
        Some((plane, units))
    }

    /// The units of a lease that are in use, held or quarantined.
    fn taken_in<'a>(&'a self, plane: &'a Plane, units: &'a Units) -> impl Iterator<Item = (u128, SlotRef<'a>)> {
        self.slots_in(plane, units).filter(|(_, view)| view.state != State::Released)
    }

    /// How many units of a lease are in use, held or quarantined, and how many it has.
    #[must_use]
    pub fn lease_usage(&self, lease: &Lease) -> (Count, Count) {
        let Some((plane, units)) = self.units_of(lease) else { return (Count::ZERO, Count::ZERO) };
        (Count::from(self.taken_in(&plane, &units).count()), units.count())
    }

    /// Takes a lease back in which nothing is in use.
    ///
    /// # Errors
    /// [`Error::InUse`] names the holders; [`Error::Invalid`] if the node has no such lease.
    pub fn return_lease(&mut self, lease: &Lease, now: Time) -> Result<(), Error> {
        let id = self.lease_slot(lease)?;
        if let Some((plane, units)) = self.units_of(lease) {
            let by = |view: SlotRef<'_>| view.holder().map_or_else(|| "quarantine".to_owned(), |h| h.to_string());
            let named =
                self.taken_in(&plane, &units).map(|(unit, view)| format!("{} by {}", plane.addr(unit), by(view)));
            let users: Vec<String> = named.take(5).collect();
            if !users.is_empty() {
                let object = format!("lease {} of node {:?}", lease.prefix, lease.node);
                return Err(Error::InUse { object, holders: users.join(", ") });
            }
        }
        let stamp = self.tick(now);
        self.write(id, Some(Slot::released(stamp)));
        Ok(())
    }

    /// Ends a lease although addresses of it are in use. What is free in it is nobody's alone from then on: whoever is
    /// short takes single addresses of it, as of a shared pool, and nobody leases it again.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the node has no such lease.
    pub fn open_lease(&mut self, lease: &Lease, now: Time) -> Result<(), Error> {
        let id = self.lease_slot(lease)?;
        let stamp = self.tick(now);
        self.write(id, Some(Slot::quarantined(stamp, None)));
        Ok(())
    }

    fn lease_slot(&self, lease: &Lease) -> Result<SlotId, Error> {
        let own = self.find_attachment(key(&lease.pool, &lease.node));
        let is = |&&id: &&SlotId| self.unit(id).is_some_and(|(plane, unit)| plane.prefix(unit) == lease.prefix);
        own.iter().find(is).copied().ok_or_else(|| {
            let reason = format!("node {:?} has no lease {} of pool {:?}", lease.node, lease.prefix, lease.pool);
            Error::Invalid { field: "lease".to_owned(), reason }
        })
    }

    /// The node that a unit is leased to, if it is.
    pub(super) fn lessee(&self, pool: usize, unit: u128) -> Option<String> {
        let (state, &lender) = (&self.pools[pool], self.names.get(&lease_pool(&self.pools[pool].pool.name))?);
        let plane = &self.pools[lender].plane;
        let (block, slot) = BlockKey::of(plane, plane.unit_of(state.plane.addr(unit)));
        let view = self.block(&block)?.slot(slot)?;
        (view.state == State::Active).then(|| view.holder().map(|holder| holder.id)).flatten()
    }

    /// Whether a node may take a unit of a pool at all. Among others, what is leased is the lessee's alone, since only
    /// the lessee knows what of it is free.
    pub(super) fn may_take(&mut self, pool: usize, unit: u128, node: &str, now: Time) -> Result<(), String> {
        if self.apart.is_none() || self.pools[pool].pool.lending.is_none() {
            return Ok(());
        }
        match self.lessee(pool, unit) {
            Some(lessee) if lessee == node => return Ok(()),
            Some(lessee) => return Err(format!("it is in a run that is leased to node {lessee:?}")),
            None => {}
        }
        if self.open_windows(pool).iter().any(|window| window.0 <= unit && unit <= window.1) {
            return Ok(());
        }
        let name = self.pools[pool].pool.name.clone();
        let Some(&lender) = self.names.get(&lease_pool(&name)) else { return Ok(()) };
        let plane = &self.pools[lender].plane;
        let run = plane.unit_of(self.pools[pool].plane.addr(unit));
        self.lend_unit(lender, run, &name, node, now).map(drop).map_err(|error| error.to_string())
    }

    /// What of a pool nobody leases and nobody can: runs that were opened, and what is too small for a lease.
    fn open_windows(&self, pool: usize) -> Vec<Window> {
        let (state, name) = (&self.pools[pool], lease_pool(&self.pools[pool].pool.name));
        let Some(&lender) = self.names.get(&name) else { return Vec::new() };
        let lender = &self.pools[lender];
        let mut rest: RangeSet = state.pool.ranges.iter().copied().collect();
        for &(first, last) in lender.own.runs() {
            let (first, last) = (lender.plane.prefix(first).range().first(), lender.plane.prefix(last).range().last());
            if let Some(range) = Range::new(first, last) {
                rest.remove(range);
            }
        }
        let opened = self.slots_in(&lender.plane, &lender.own).filter(|(_, view)| view.state == State::Quarantined);
        let opened = opened.map(|(unit, _)| lender.plane.prefix(unit).range());
        let all = rest.ranges().iter().copied().chain(opened);
        all.filter_map(|range| whole_units(range, state.plane.unit_len)).collect()
    }

    /// A unit for a node from a pool that lends: from its leases, from a new lease, or borrowed.
    pub(super) fn pick_leased(
        &mut self,
        pool: usize,
        node: &str,
        within: &[Window],
        now: Time,
        entropy: &mut Entropy,
    ) -> Option<(u128, Reason)> {
        let (name, unit_len) = (self.pools[pool].pool.name.clone(), self.pools[pool].plane.unit_len);
        let lending = self.pools[pool].pool.lending?;
        let leased = self.find_attachment(key(&name, node));
        let inside = |window: Window| within.iter().map(move |w| (window.0.max(w.0), window.1.min(w.1)));
        let window = |prefix: Cidr| whole_units(prefix.range(), unit_len).into_iter().flat_map(inside);
        let clipped = |windows: Vec<Window>| windows.into_iter().filter(|w| w.0 <= w.1).collect::<Vec<Window>>();
        let own = leased.iter().filter_map(|&id| self.unit(id).map(|(plane, unit)| plane.prefix(unit)));
        let own = own.filter(|&prefix| !self.is_barred(&name, prefix));
        let own = clipped(own.flat_map(window).collect());
        let mut pick = self.pools[pool].index.next(now, entropy, &own);
        let mut count = leased.len();
        let may_lease = |count: usize| lending.most.is_none_or(|most| count < most as usize);
        while pick.is_none() && within == EVERYWHERE && may_lease(count) {
            // A lease may hold nothing that can be given out, e.g. where all of it is reserved; then another is taken.
            let Ok(lease) = self.lend(&name, node, now, entropy) else { break };
            count += 1;
            let fresh: Vec<Window> = window(lease.prefix).collect();
            pick = self.pools[pool].index.next(now, entropy, &fresh);
        }
        if pick.is_some() || lending.strict {
            return pick;
        }
        if self.apart.is_none() {
            return self.pools[pool].index.next(now, entropy, within);
        }
        // Among others, a node alone knows what is free in its leases: nobody may help himself to them.
        let open = clipped(self.open_windows(pool).into_iter().flat_map(inside).collect());
        pick = self.pools[pool].index.next(now, entropy, &open);
        if pick.is_none() && within == EVERYWHERE && !may_lease(count) {
            // It has all it may have: it opens another run for everybody, and takes from that.
            let lease = self.lend(&name, node, now, entropy).ok()?;
            self.open_lease(&lease, now).ok()?;
            let fresh: Vec<Window> = window(lease.prefix).collect();
            pick = self.pools[pool].index.next(now, entropy, &fresh);
        }
        pick
    }
}
