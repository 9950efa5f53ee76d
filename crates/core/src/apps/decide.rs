//! Everything that is to be done about one application now, from what is wanted, configured and in use.

use super::cut::{Cut, Cutting, cut};
use super::{Application, Identity, Size};
use crate::addr::{Family, Range, RangeSet};
use crate::block::State;
use crate::detect::Detection;
use crate::ipam::{Config, Ipam};
use crate::model::{Pool, StickyPolicy, Subnet, rests};
use crate::time::Time;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// As many controllers in between as one pool may list. Those that Kubernetes makes are known by name as well.
const MOST_CONTROLLERS: usize = 64;

/// An application that there is, as its own object describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Group and version, e.g. `apps/v1`.
    pub api_version: String,
    /// What makes it the same one again.
    pub identity: Identity,
    /// UID.
    pub uid: String,
    /// UIDs of controllers in between, whose pods are its pods; those that matter most first.
    pub controllers: Vec<String>,
    /// The subnets asked for, in order, by interface; empty if it asks for none.
    pub interfaces: Vec<(String, Vec<String>)>,
    /// The size asked for.
    pub size: Option<Size>,
    /// Whether its pools stay when it is gone.
    pub keep: bool,
    /// What is found out on the wire before its addresses are used; `None` leaves that to its pools.
    pub detect: Option<Detection>,
    /// How many pods it is to have; `None` if nobody can tell.
    pub replicas: Option<u32>,
    /// How many more a rollout starts before it stops others.
    pub surge: u32,
    /// How many pods are on their way out.
    pub leaving: u32,
    /// Whether its pods may keep their names, so that each gets its address back.
    pub stable: bool,
    /// The numbers that its pods have, where they are numbered.
    pub ordinals: Option<std::ops::Range<u32>>,
}

impl Workload {
    /// Whether there is to be a pod of this name, so that what is kept for it is kept for somebody; `None` if that cannot
    /// be told from here.
    #[must_use]
    pub fn has_pod(&self, name: &str) -> Option<bool> {
        let ordinals = self.ordinals.as_ref()?;
        let number = name.strip_prefix(&self.identity.name).and_then(|rest| rest.strip_prefix('-'));
        let number = number.filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        Some(number.and_then(|digits| digits.parse().ok()).is_some_and(|number: u32| ordinals.contains(&number)))
    }
}

/// What holders have of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Occupied {
    /// In use, or kept for who comes back.
    pub busy: RangeSet,
    /// Given back a moment ago.
    pub resting: RangeSet,
    /// Seen in use by a stranger.
    pub quarantined: RangeSet,
}

/// What is decided upon.
#[derive(Clone, Copy, Debug)]
pub struct World<'a> {
    /// What is configured, the pools of all applications among it.
    pub config: &'a Config,
    /// What holders have, by network.
    pub occupied: &'a BTreeMap<Arc<str>, Occupied>,
    /// What the pool of an application is called, for an interface and in a subnet: see [`super::pool_name`].
    pub name: fn(&Workload, &str, &Subnet) -> String,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Make this pool.
    Create(Box<Pool>),
    /// Give a pool these ranges and this application.
    Update {
        /// Its name.
        pool: String,
        /// All its ranges from now on.
        ranges: Vec<Range>,
        /// Its application from now on.
        application: Application,
        /// What is found out on the wire from now on; `None` leaves it as it is.
        detect: Option<Detection>,
    },
    /// Delete a pool: nothing of it is in use.
    Delete {
        /// Its name.
        pool: String,
    },
    /// Tell who looks at the application.
    Tell(Event),
}

/// Something that people should know about an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// One word for it.
    pub reason: &'static str,
    /// What happened, and what to do.
    pub message: String,
    /// Whether something is wrong.
    pub warning: bool,
}

/// What is to be done about an application; `None` for one that is gone, which must be certain: its pools go with it.
///
/// # Guarantees
/// Nothing in use is taken from a pool, and no pool with something in use or held is deleted. What a new pool gets is in
/// no other pool, nobody's, and not reserved. Done once, there is nothing left to be done: a second call with the effects
/// [enacted](enact) returns no change.
#[must_use]
pub fn decide(who: &Identity, workload: Option<&Workload>, world: &World<'_>) -> Vec<Effect> {
    let mut desk = Desk { world, effects: Vec::new(), promised: Vec::new() };
    let own = |pool: &&Pool| pool.application.as_ref().is_some_and(|application| application.identity() == *who);
    let own: Vec<&Pool> = world.config.pools.values().filter(own).collect();
    let Some(workload) = workload else {
        let kept = |pool: &Pool| pool.application.as_ref().is_some_and(|application| application.keep);
        own.iter().filter(|pool| !kept(pool)).for_each(|pool| desk.retire(pool));
        return desk.effects;
    };
    let want = Size::desired(workload.size, workload.replicas, workload.surge, workload.leaving);
    let Some(want) = want else {
        // Nothing is shrunk or deleted because a number is not known.
        if !workload.interfaces.is_empty() {
            let message = format!(
                "nobody can tell how many pods {who} is to have; write a fixed size into its pod template, e.g. \
                 berth.io/pool-size: \"5\""
            );
            desk.tell("PoolSizeUnknown", message, true);
        }
        return desk.effects;
    };
    let mut tended: Vec<&str> = Vec::new();
    for (interface, subnets) in &workload.interfaces {
        for name in subnets.iter().filter(|name| !world.config.subnets.contains_key(*name)) {
            let message = format!("subnet {name:?} does not exist; make it, or name another one");
            desk.tell("UnknownSubnet", message, true);
        }
        for family in [Family::V4, Family::V6] {
            let here = |pool: &&&Pool| pool.family == family && is_for(pool, interface);
            let in_place =
                |name: &String| own.iter().filter(here).copied().find(|pool| pool.subnet.as_ref() == Some(name));
            let present = subnets.iter().find_map(in_place);
            tended.extend(present.map(|pool| pool.name.as_str()));
            let subnet = |name: &String| world.config.subnets.get(name).filter(|s| s.cidr.family() == family);
            match present {
                Some(pool) => desk.tend(pool, workload, want),
                None => desk.make(who, workload, interface, subnets.iter().filter_map(subnet), want),
            }
        }
    }
    own.iter().filter(|pool| !tended.contains(&pool.name.as_str())).for_each(|pool| desk.retire(pool));
    desk.effects
}

/// Does to a configuration what an effect will do to the objects, so that the next application is decided upon with it.
pub fn enact(config: &mut Config, effect: &Effect) {
    match effect {
        Effect::Create(pool) => _ = config.pools.insert(pool.name.clone(), Pool::clone(pool)),
        Effect::Update { pool, ranges, application, detect } => {
            if let Some(pool) = config.pools.get_mut(pool) {
                pool.ranges.clone_from(ranges);
                pool.detect = detect.or(pool.detect);
                pool.application = Some(application.clone());
            }
        }
        Effect::Delete { pool } => _ = config.pools.remove(pool),
        Effect::Tell(_) => {}
    }
}

/// What holders have, by network.
#[must_use]
pub fn occupied(ipam: &Ipam, now: Time) -> BTreeMap<Arc<str>, Occupied> {
    let mut out: BTreeMap<Arc<str>, Occupied> = BTreeMap::new();
    let mut rest: BTreeMap<&str, Duration> = BTreeMap::new();
    for pool in ipam.pools() {
        let longest = rest.entry(&pool.network).or_default();
        *longest = pool.cool_down.max(*longest);
    }
    for (plane, unit, view) in ipam.slots() {
        let longest = rest.get(&*plane.network).copied().unwrap_or_default();
        let all = out.entry(plane.network.clone()).or_default();
        let set = match view.state {
            State::Active | State::Held => &mut all.busy,
            State::Quarantined => &mut all.quarantined,
            State::Released if rests(view.since, longest, now) => &mut all.resting,
            State::Released => continue,
        };
        set.insert(plane.prefix(unit).range());
    }
    out
}

fn is_for(pool: &Pool, interface: &str) -> bool {
    pool.application.as_ref().is_some_and(|application| application.interface == interface)
}

struct Desk<'a> {
    world: &'a World<'a>,
    effects: Vec<Effect>,
    /// What the pools of this application's other interfaces have just got, by network.
    promised: Vec<(Arc<str>, Range)>,
}

impl Desk<'_> {
    fn tell(&mut self, reason: &'static str, message: String, warning: bool) {
        let event = Effect::Tell(Event { reason, message, warning });
        // Several interfaces may have the same trouble.
        if !self.effects.contains(&event) {
            self.effects.push(event);
        }
    }

    /// Grows or shrinks a pool, and writes down whose it is.
    fn tend(&mut self, pool: &Pool, workload: &Workload, want: u32) {
        let cutting = match self.subnet_of(pool) {
            Some(subnet) => self.cut(Some(pool), &pool.name, subnet, want),
            // Without its subnet nobody knows what it could have; what it has, it keeps.
            None => Cutting { ranges: pool.ranges.iter().copied().collect(), ..Cutting::default() },
        };
        if cutting.missing > 0 {
            let subnet = self.subnet_of(pool).map(Subnet::title).unwrap_or_default();
            self.tell_short(&subnet, &cutting, want, &workload.identity);
        }
        let before = pool.application.clone().unwrap_or_default();
        let application = Application {
            uid: workload.uid.clone(),
            controllers: workload.controllers.iter().take(MOST_CONTROLLERS).cloned().collect(),
            keep: workload.keep,
            ..before
        };
        self.update(pool, &cutting.ranges, application, workload.detect);
    }

    /// Makes a pool in the first subnet that has room; where none has, in the one that has most.
    fn make<'s>(
        &mut self,
        who: &Identity,
        workload: &Workload,
        interface: &str,
        subnets: impl Iterator<Item = &'s Subnet>,
        want: u32,
    ) {
        let mut best: Option<(&Subnet, String, Cutting)> = None;
        for subnet in subnets {
            let name = (self.world.name)(workload, interface, subnet);
            if let Some(other) = self.world.config.pools.get(&name) {
                let message = format!("{} is there and is another's; delete or rename it", other.title());
                self.tell("PoolNameTaken", message, true);
                continue;
            }
            let cutting = self.cut(None, &name, subnet, want);
            if best.as_ref().is_none_or(|(_, _, known)| known.usable < cutting.usable) {
                best = Some((subnet, name, cutting));
            }
            if best.as_ref().is_some_and(|(_, _, known)| known.missing == 0) {
                break;
            }
        }
        let Some((subnet, name, cutting)) = best else { return };
        if cutting.missing > 0 {
            self.tell_short(&subnet.title(), &cutting, want, who);
        }
        if cutting.ranges.is_empty() {
            return;
        }
        self.promised.extend(cutting.ranges.ranges().iter().map(|&range| (subnet.network.clone(), range)));
        let application = Application {
            api_version: workload.api_version.clone(),
            kind: who.kind.clone(),
            namespace: who.namespace.clone(),
            name: who.name.clone(),
            uid: workload.uid.clone(),
            interface: interface.to_owned(),
            controllers: workload.controllers.iter().take(MOST_CONTROLLERS).cloned().collect(),
            keep: workload.keep,
        };
        self.effects.push(Effect::Create(Box::new(Pool {
            network: subnet.network.clone(),
            subnet: Some(subnet.name.clone()),
            sticky: workload.stable.then_some(StickyPolicy::default()),
            application: Some(application),
            detect: workload.detect,
            ..Pool::new(name, cutting.ranges.ranges().to_vec())
        })));
    }

    /// Lets go of what nobody uses, and of the pool when that is all of it.
    fn retire(&mut self, pool: &Pool) {
        let ranges: RangeSet = pool.ranges.iter().copied().collect();
        let none = Occupied::default();
        let all = self.world.occupied.get(&pool.network).unwrap_or(&none);
        if all.busy.intersection(&ranges).is_empty() {
            return self.effects.push(Effect::Delete { pool: pool.name.clone() });
        }
        let left = [&all.busy, &all.resting, &all.quarantined].map(|set| set.intersection(&ranges));
        let left: RangeSet = left.iter().flat_map(RangeSet::ranges).copied().collect();
        self.update(pool, &left, pool.application.clone().unwrap_or_default(), None);
    }

    fn update(&mut self, pool: &Pool, ranges: &RangeSet, application: Application, detect: Option<Detection>) {
        let before: RangeSet = pool.ranges.iter().copied().collect();
        // A pool without ranges is none; with nothing to have, it keeps what it has.
        let ranges = if ranges.is_empty() { &before } else { ranges };
        let detect = detect.filter(|_| detect != pool.detect);
        if *ranges != before || pool.application.as_ref() != Some(&application) || detect.is_some() {
            let (network, pool, ranges) = (&pool.network, pool.name.clone(), ranges.ranges().to_vec());
            self.promised.extend(ranges.iter().map(|&range| (network.clone(), range)));
            self.effects.push(Effect::Update { pool, ranges, application, detect });
        }
    }

    fn subnet_of(&self, pool: &Pool) -> Option<&Subnet> {
        pool.subnet.as_ref().and_then(|name| self.world.config.subnets.get(name))
    }

    /// Cuts a pool of this name from a subnet.
    fn cut(&self, pool: Option<&Pool>, name: &str, subnet: &Subnet, want: u32) -> Cutting {
        let whole = Pool { network: subnet.network.clone(), ..Pool::new("", vec![subnet.cidr.range()]) };
        let mut allowed = subnet.available.clone().unwrap_or_else(|| whole.members(Some(subnet)));
        subnet.router().into_iter().for_each(|router| allowed.remove_addr(router));
        for reservation in self.world.config.reservations.values().filter(|r| r.network == subnet.network) {
            reservation.ranges.iter().for_each(|&range| allowed.remove(range));
        }
        let inside = |range: &&Range| range.overlaps(subnet.cidr.range());
        let mut free = allowed.clone();
        for other in self.world.config.pools.values().filter(|other| other.network == subnet.network) {
            other.ranges.iter().filter(inside).for_each(|&range| free.remove(range));
            // Two planners at once may have cut the same addresses for two applications. One of the two yields, always
            // the same one; and both do to a pool that people made.
            if other.name != name && (other.application.is_none() || *other.name < *name) {
                other.ranges.iter().filter(inside).for_each(|&range| allowed.remove(range));
            }
        }
        for (_, range) in self.promised.iter().filter(|(network, _)| *network == subnet.network) {
            free.remove(*range);
        }
        let present: RangeSet = pool.iter().flat_map(|pool| pool.ranges.iter().copied()).collect();
        let (mut used, mut quarantined) = (RangeSet::new(), RangeSet::new());
        if let Some(all) = self.world.occupied.get(&subnet.network) {
            let window = subnet.cidr.range();
            let within = |set: &RangeSet| set.within(window).collect::<RangeSet>();
            used = within(&all.busy);
            within(&all.resting).ranges().iter().for_each(|&range| used.insert(range));
            quarantined = within(&all.quarantined);
            free = free.difference(&used).difference(&quarantined);
        }
        cut(Cut { present: &present, allowed: &allowed, free: &free, used: &used, quarantined: &quarantined, want })
    }

    fn tell_short(&mut self, subnet: &str, cutting: &Cutting, want: u32, who: &Identity) {
        let message = format!(
            "{subnet} has only {} of {want} addresses for {who}; free some, or name a larger subnet",
            cutting.usable
        );
        self.tell("SubnetExhausted", message, true);
    }
}
