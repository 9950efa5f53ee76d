//! What an edit would take away: addresses in use, held or quarantined keep the pool they are of.

use super::units::{Units, split};
use super::{Config, Ipam};
use crate::addr::RangeSet;
use crate::block::{Plane, SlotRef, State};
use crate::error::Error;
use crate::holder::Kind;
use crate::model::{LEASE_TYPE, Pool, Reservation, Subnet};

/// How many holders a message names.
const NAMED: usize = 5;

impl Ipam {
    /// Whether `next` could be put in force: it makes sense, and no address in use, held or quarantined would lose its
    /// pool or be left out of it. A reservation may cover addresses in use; it keeps them from the next holder.
    ///
    /// # Errors
    /// [`Error::Invalid`] or [`Error::InUse`].
    pub fn admits(&self, next: &Config) -> Result<(), Error> {
        next.validate()?;
        let mut own = self.pools.iter().filter(|state| state.pool.kind != LEASE_TYPE);
        own.try_for_each(|state| self.keeps(&state.pool, self.config.subnet_of(&state.pool), next))
    }

    /// Whether everything of a pool that is in use, held or quarantined has its pool in `next` too.
    ///
    /// An address that another pool has as well, before and after, is not lost: pools that overlap by mistake must not
    /// keep each other from being mended.
    ///
    /// # Errors
    /// [`Error::InUse`] names some of those that would lose theirs.
    pub fn keeps(&self, old: &Pool, subnet: Option<&Subnet>, next: &Config) -> Result<(), Error> {
        let new = next.pools.get(&old.name);
        self.keeps_units(old, subnet, new, next)?;
        // The pool behind one that lends is not configured by itself.
        let Some(lender) = old.of_leases() else { return Ok(()) };
        self.keeps_units(&lender, None, new.and_then(Pool::of_leases).as_ref(), next)
    }

    fn keeps_units(&self, old: &Pool, subnet: Option<&Subnet>, new: Option<&Pool>, next: &Config) -> Result<(), Error> {
        let plane = old.plane();
        let units = |set: &RangeSet| Units::new(set, old.family, old.unit_len);
        let of = |pool: &Pool| units(&pool.ranges.iter().copied().collect());
        let new = new.filter(|new| new.plane() == plane);
        let (old_own, old_members) = (of(old), units(&old.members(subnet)));
        let own = new.map(of).unwrap_or_default();
        let members = new.map(|new| units(&new.members(next.subnet_of(new)))).unwrap_or_default();
        if own == old_own && members == old_members {
            return Ok(());
        }
        let lost = |unit: u128| {
            let (block, slot) = split(unit);
            let left_out = old_members.has(block, slot) && !members.has(block, slot);
            left_out || !own.has(block, slot)
        };
        let taken = self.slots_in(&plane, &old_own).filter(|(_, view)| view.state != State::Released);
        let mut lost = taken.filter(|(unit, _)| lost(*unit)).peekable();
        if lost.peek().is_none() {
            return Ok(());
        }
        let spared = self.others(old, &plane, next);
        let holders = lost.filter(|(unit, _)| {
            let (block, slot) = split(*unit);
            !spared.iter().any(|units| units.has(block, slot))
        });
        let object = match new {
            Some(_) => format!("a part that {} {:?} would lose", old.object, of_pool(&old.name)),
            None => format!("{} {:?}", old.object, of_pool(&old.name)),
        };
        in_use(object, holders.map(|(unit, view)| named(&plane, unit, &view)))
    }

    /// What other pools of the plane have, now and then.
    fn others(&self, old: &Pool, plane: &Plane, next: &Config) -> Vec<Units> {
        let units = |pool: Pool, subnet: Option<&Subnet>| {
            let members = pool.members(subnet);
            (pool.plane() == *plane).then(|| Units::new(&members, plane.family, plane.unit_len))
        };
        let of = |config: &Config, pool: &Pool| {
            let lent = pool.of_leases().and_then(|lender| units(lender, None));
            lent.or_else(|| units(pool.clone(), config.subnet_of(pool)))
        };
        let mut all = Vec::new();
        for pool in next.pools.values().filter(|pool| pool.name != of_pool(&old.name)) {
            let before = self.config.pools.get(&pool.name).and_then(|known| of(&self.config, known));
            if let (Some(before), Some(after)) = (before, of(next, pool)) {
                all.push(before.both(&after));
            }
        }
        all
    }

    /// Whether nobody from outside has an address that a reservation keeps: a stranger that was seen using it, or a
    /// holder with a name (a host, a VM, a service). They are what reservations are made for. Pods that had their address
    /// before it was reserved do not count.
    ///
    /// # Errors
    /// [`Error::InUse`] names some of them.
    pub fn frees(&self, reservation: &Reservation, title: &str) -> Result<(), Error> {
        let set: RangeSet = reservation.ranges.iter().copied().collect();
        let planes = self.planes.iter().filter(|plane| plane.network == reservation.network);
        let slots = planes.flat_map(|plane| {
            let units = Units::new(&set, plane.family, plane.unit_len);
            self.slots_in(plane, &units).map(move |(unit, view)| (plane, unit, view))
        });
        let outside = slots.filter(|(_, _, view)| match view.state {
            State::Quarantined => true,
            State::Active => view.holder().is_some_and(|holder| holder.kind == Kind::Named),
            _ => false,
        });
        in_use(title.to_owned(), outside.map(|(plane, unit, view)| named(plane, unit, &view)))
    }
}

/// The pool that the pool of its leases belongs to.
fn of_pool(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

fn named(plane: &Plane, unit: u128, view: &SlotRef<'_>) -> String {
    let by = view.holder().map_or_else(|| "quarantine".to_owned(), |holder| holder.to_string());
    format!("{} by {by}", plane.addr(unit))
}

/// An error that names a few of the holders, if there are any.
///
/// # Errors
/// [`Error::InUse`].
pub fn in_use(object: String, holders: impl Iterator<Item = String>) -> Result<(), Error> {
    let mut named: Vec<String> = holders.take(NAMED + 1).collect();
    if named.is_empty() {
        return Ok(());
    }
    if named.len() > NAMED {
        named[NAMED] = "and more".to_owned();
    }
    Err(Error::InUse { object, holders: named.join(", ") })
}
