//! What the engine should do, written as plainly as possible: a map from address to slot, and loops over all of it.

use crate::world;
use berth_core::addr::Family;
use berth_core::block::State;
use berth_core::model::{Pick, Pool};
use berth_core::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// A slot of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// What it is.
    pub state: State,
    /// Since when.
    pub since: Time,
    /// Until when.
    pub until: Option<Time>,
    /// Which container uses it.
    pub container: Option<u8>,
    /// For whom it is kept, and for how long.
    pub sticky: Option<(String, Option<Duration>)>,
    /// Whose quota it counts against.
    pub namespace: String,
}

/// What a group asks for.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Pools, in order.
    pub pools: Vec<usize>,
    /// Families, in order.
    pub families: Vec<Family>,
    /// So many of each.
    pub count: u32,
    /// Just these, if any.
    pub addresses: Vec<IpAddr>,
    /// Only between these.
    pub within: Option<(IpAddr, IpAddr)>,
}

/// Why the model refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing is left.
    Exhausted,
    /// The namespace has enough.
    Quota,
    /// Someone has it.
    Taken,
    /// It is reserved or left out.
    Reserved,
    /// No pool has it.
    Outside,
}

/// The whole state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// The pools.
    pub pools: Vec<Pool>,
    /// What each may give out.
    pub members: Vec<Vec<IpAddr>>,
    /// What is reserved.
    pub reserved: BTreeSet<IpAddr>,
    /// What was ever used.
    pub slots: BTreeMap<IpAddr, Slot>,
}

impl Model {
    /// Nothing used yet.
    pub fn new(pools: Vec<Pool>) -> Self {
        Self { pools, members: world::members(), reserved: BTreeSet::new(), slots: BTreeMap::new() }
    }

    /// The pool that has an address in its ranges.
    pub fn pool_of(&self, addr: IpAddr) -> Option<usize> {
        self.pools.iter().position(|pool| pool.ranges.iter().any(|range| range.contains(addr)))
    }

    fn is_given_out(&self, pool: usize, addr: IpAddr) -> bool {
        self.members[pool].contains(&addr) && !self.reserved.contains(&addr)
    }

    fn over_quota(&self, pool: usize, namespace: &str) -> bool {
        let own = |(addr, slot): &(&IpAddr, &Slot)| {
            matches!(slot.state, State::Active | State::Held)
                && slot.namespace == namespace
                && self.pool_of(**addr) == Some(pool)
        };
        let limit = self.pools[pool].quota.limit(namespace);
        limit.is_some_and(|limit| self.slots.iter().filter(own).count() >= limit as usize)
    }

    /// What a container uses, in the order it was given.
    pub fn of_container(&self, container: u8) -> Vec<IpAddr> {
        let own = self.slots.iter().filter(|(_, s)| s.state == State::Active && s.container == Some(container));
        let mut own: Vec<_> = own.map(|(&addr, slot)| (slot.since, addr)).collect();
        own.sort();
        own.into_iter().map(|(_, addr)| addr).collect()
    }

    /// What is kept for, or used by, an identity, in the order it was given.
    pub fn of_identity(&self, identity: &str) -> Vec<IpAddr> {
        let own = self.slots.iter().filter(|(_, s)| s.sticky.as_ref().is_some_and(|(own, _)| own == identity));
        let mut own: Vec<_> = own.map(|(&addr, slot)| (slot.since, addr)).collect();
        own.sort();
        own.into_iter().map(|(_, addr)| addr).collect()
    }

    /// What a pool could give next: every address that would be right.
    fn choices(&self, pool: usize, wish: &Wish, now: Time) -> BTreeSet<IpAddr> {
        let Pool { pick, cool_down, reuse_cooling, .. } = &self.pools[pool];
        let is_cool = |since: Time| cool_down.is_zero() || since.after(*cool_down) <= now;
        let inside = |addr: &&IpAddr| wish.within.is_none_or(|(first, last)| first <= **addr && **addr <= last);
        let own = self.members[pool].iter().filter(inside).filter(|addr| self.is_given_out(pool, **addr));
        let (mut unused, mut waiting) = (BTreeSet::new(), BTreeSet::new());
        for &addr in own {
            match self.slots.get(&addr) {
                None => drop(unused.insert(addr)),
                Some(slot) if slot.state == State::Released => drop(waiting.insert((slot.since, addr))),
                Some(_) => {}
            }
        }
        let cooled = waiting.iter().filter(|(since, _)| is_cool(*since)).map(|(_, addr)| *addr);
        let mut cooled = cooled.peekable();
        let oldest = || waiting.first().map(|(_, addr)| *addr).filter(|_| *reuse_cooling);
        match pick {
            Pick::LeastRecentlyReleased if !unused.is_empty() => unused,
            Pick::LeastRecentlyReleased => cooled.next().or_else(oldest).into_iter().collect(),
            _ if unused.is_empty() && cooled.peek().is_none() => oldest().into_iter().collect(),
            Pick::Sequential => unused.into_iter().chain(cooled).min().into_iter().collect(),
            Pick::Random => unused.into_iter().chain(cooled).collect(),
        }
    }

    /// Serves a request: `given` says which of several right answers was taken, in order; any will do where it is
    /// silent. Says what was given.
    ///
    /// # Errors
    /// Why it cannot be served; the model is unchanged.
    pub fn allocate(
        &mut self,
        container: u8,
        claim: Option<&str>,
        wish: &Wish,
        given: &[IpAddr],
        now: Time,
    ) -> Result<Vec<IpAddr>, Refusal> {
        let known = self.of_container(container);
        if !known.is_empty() {
            return Ok(known);
        }
        let (mut next, mut out) = (self.clone(), Vec::new());
        let identity = claim.map_or_else(|| world::pod_identity(container), str::to_owned);
        let mut kept = self.of_identity(&identity);
        let steps: Vec<(Option<IpAddr>, Family)> = if wish.addresses.is_empty() {
            let each = wish.families.iter().flat_map(|&family| (0..wish.count).map(move |_| (None, family)));
            each.collect()
        } else {
            wish.addresses.iter().map(|&addr| (Some(addr), Family::of(addr))).collect()
        };
        for (asked, family) in steps {
            let addr = next.take(container, &mut kept, wish, (asked, family), given.get(out.len()).copied(), now)?;
            let policy = next.pool_of(addr).and_then(|pool| next.pools[pool].sticky);
            let before = next.slots.get(&addr).and_then(|slot| slot.sticky.clone());
            let claimed = claim.map(|identity| (identity.to_owned(), None));
            let sticky = before.or(claimed).or_else(|| policy.map(|p| (world::pod_identity(container), p.keep)));
            let slot = Slot {
                state: State::Active,
                // Only the order matters here; the real stamp is taken over afterwards.
                since: Time(now.0 + out.len() as u64),
                until: None,
                container: Some(container),
                sticky,
                namespace: world::namespace(container),
            };
            next.slots.insert(addr, slot);
            out.push(addr);
        }
        *self = next;
        Ok(out)
    }

    fn take(
        &self,
        container: u8,
        kept: &mut Vec<IpAddr>,
        wish: &Wish,
        (asked, family): (Option<IpAddr>, Family),
        given: Option<IpAddr>,
        now: Time,
    ) -> Result<IpAddr, Refusal> {
        let fits = |addr: &IpAddr| {
            asked.map_or(Family::of(*addr) == family, |asked| asked == *addr)
                && self.pool_of(*addr).is_some_and(|pool| wish.pools.contains(&pool))
                && wish.within.is_none_or(|(first, last)| first <= *addr && *addr <= last)
        };
        if let Some(at) = kept.iter().position(fits) {
            let addr = kept.remove(at);
            // Every container of this world is another pod's incarnation: what one uses, no other gets.
            return if self.slots[&addr].state == State::Active { Err(Refusal::Taken) } else { Ok(addr) };
        }
        let namespace = world::namespace(container);
        if let Some(addr) = asked {
            let pool = self.pool_of(addr).filter(|pool| wish.pools.contains(pool)).ok_or(Refusal::Outside)?;
            let taken = self.slots.get(&addr).is_some_and(|slot| slot.state != State::Released);
            return match () {
                () if self.over_quota(pool, &namespace) => Err(Refusal::Quota),
                () if !self.is_given_out(pool, addr) => Err(Refusal::Reserved),
                () if taken => Err(Refusal::Taken),
                () => Ok(addr),
            };
        }
        let mut refusal = Refusal::Quota;
        for &pool in wish.pools.iter().filter(|pool| world::family(&self.pools[**pool]) == family) {
            if self.over_quota(pool, &namespace) {
                continue;
            }
            let choices = self.choices(pool, wish, now);
            if let Some(first) = choices.first() {
                let wrong = given.filter(|given| !choices.contains(given));
                assert_eq!(wrong, None, "of pool {:?}, one of {choices:?} should be next", self.pools[pool].name);
                return Ok(given.unwrap_or(*first));
            }
            refusal = Refusal::Exhausted;
        }
        Err(refusal)
    }

    /// What becomes of an address whose container lets go.
    pub fn let_go(&mut self, addr: IpAddr, now: Time) {
        let Some(slot) = self.slots.get_mut(&addr) else { return };
        slot.container = None;
        slot.since = now;
        match &slot.sticky {
            Some((_, keep)) => {
                slot.state = State::Held;
                slot.until = keep.map(|keep| now.after(keep));
            }
            None => self.free(addr, now),
        }
    }

    /// An address becomes free.
    pub fn free(&mut self, addr: IpAddr, now: Time) {
        let namespace = String::new();
        let slot = Slot { state: State::Released, since: now, until: None, container: None, sticky: None, namespace };
        self.slots.insert(addr, slot);
    }
}
