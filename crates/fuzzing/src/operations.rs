//! A sequence of operations, done to the engine and to the model; after each the two must agree.

use crate::bytes::Bytes;
use crate::model::{Model, Refusal, Slot, Wish};
use crate::world::{self, CONTAINERS};
use berth_core::addr::{Count, Family};
use berth_core::block::{Block, Reader, State, Writer};
use berth_core::error::Error;
use berth_core::holder::{Holder, Sticky};
use berth_core::ipam::{Entropy, Group, Ipam, Request, Usage};
use berth_core::model::Subject;
use berth_core::time::Time;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// Plays the bytes.
///
/// # Panics
/// Where engine and model differ, or the engine's own check finds something.
pub fn check(data: &[u8]) {
    let mut bytes = Bytes(data);
    let pools = world::pools(&mut bytes);
    let mut play = Play {
        ipam: Ipam::new(),
        model: Model::new(pools.clone()),
        now: Time::from_secs(1_000),
        entropy: Entropy(u64::from(bytes.below(255))),
    };
    let config = world::config(&pools, &[]);
    assert_eq!(config.validate(), Ok(()));
    play.ipam.configure(config);
    while !bytes.is_empty() {
        play.step(&mut bytes);
        play.agree();
    }
}

struct Play {
    ipam: Ipam,
    model: Model,
    now: Time,
    entropy: Entropy,
}

impl Play {
    fn step(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.below(16) {
            0..=4 => self.allocate(bytes),
            5..=7 => self.release(bytes.below(CONTAINERS)),
            8 => self.sweep(),
            9 => self.now = self.now.after(Duration::from_secs(bytes.one_of(&[1, 9, 10, 11, 61, 200]))),
            10 => self.quarantine(bytes),
            11 => self.hold(bytes),
            12 => self.edit(bytes),
            13 => self.collect(bytes),
            14 => self.undo(bytes),
            _ => match bytes.below(3) {
                0 => self.reload(),
                1 => self.forget_cold(),
                _ => self.forget_identity(bytes),
            },
        }
    }

    fn wish(&self, bytes: &mut Bytes<'_>) -> (Wish, Group) {
        let names = ["a", "b", "s", "u", "v"];
        let pool = usize::from(bytes.below(5));
        let mut pools = vec![pool];
        let mut group = Group { pools: vec![names[pool].to_owned()], ..Group::default() };
        let (mut addresses, mut within) = (Vec::new(), None);
        match bytes.below(6) {
            0 => {
                pools = vec![0, 4];
                group.pools = vec!["a".to_owned(), "v".to_owned()];
            }
            1 => {
                pools = vec![0, 1, 2, 3, 4];
                group.pools = vec!["?".to_owned()];
            }
            2 => {
                // Any address in or around the pools.
                let text = bytes.one_of(&["10.0.0.", "10.0.1."]);
                addresses.push(world::addr(&format!("{text}{}", bytes.below(80))));
                pools = vec![0, 1, 2, 3, 4];
                group.pools.clear();
            }
            3 => {
                within = Some((world::addr("10.0.1.62"), world::addr("10.0.1.66")));
                pools = vec![1];
                group.pools = vec!["b".to_owned()];
                group.within = vec!["10.0.1.62-10.0.1.66".parse().expect("a range")];
            }
            _ => group.count = u32::from(bytes.below(3)) + 1,
        }
        group.addresses.clone_from(&addresses);
        let mut families: Vec<Family> = pools.iter().map(|&pool| world::family(&self.model.pools[pool])).collect();
        families.sort();
        families.dedup();
        (Wish { pools, families, count: group.count, addresses, within }, group)
    }

    fn allocate(&mut self, bytes: &mut Bytes<'_>) {
        let container = bytes.below(CONTAINERS);
        let claim = (bytes.below(8) == 0).then(|| format!("claim/{}", bytes.below(3)));
        let (wish, group) = self.wish(bytes);
        let holder = world::holder(container, claim.as_deref());
        let subject = Subject { namespace: holder.namespace.clone(), ..Subject::default() };
        let request = Request { holder, subject, groups: vec![group] };

        let before = snapshot(&self.ipam);
        let (_, explained) = self.ipam.explain(&request, self.now, &mut self.entropy.clone());
        assert_eq!(snapshot(&self.ipam), before, "explain changed something");
        let outcome = self.ipam.allocate(&request, self.now, &mut self.entropy);
        assert_eq!(explained, outcome, "explain said otherwise");

        let given: Vec<IpAddr> =
            outcome.iter().flat_map(|outcome| outcome.given.iter().map(berth_core::ipam::Given::address)).collect();
        let expected = self.model.allocate(container, claim.as_deref(), &wish, &given, self.now);
        match (&outcome, &expected) {
            (Ok(_), Ok(expected)) => assert_eq!(&given, expected),
            (Err(error), Err(refusal)) => assert_eq!(kind(error), Some(*refusal), "{error}"),
            _ => panic!("the engine says {outcome:?}, the model {expected:?}, to {request:?}"),
        }
        if outcome.is_err() {
            assert_eq!(snapshot(&self.ipam), before, "a refused request changed something");
        }
        self.ipam.commit();
    }

    fn release(&mut self, container: u8) {
        let holder = world::holder(container, None);
        let expected = self.model.of_container(container);
        assert_eq!(self.ipam.of_attachment(holder.attachment()), expected);
        assert_eq!(self.ipam.release(holder.attachment(), self.now), expected);
        for addr in expected {
            self.model.let_go(addr, self.now);
        }
        self.ipam.commit();
    }

    fn sweep(&mut self) {
        let due = |slot: &&Slot| slot.until.is_some_and(|until| until <= self.now);
        let due: Vec<IpAddr> = self.model.slots.iter().filter(|(_, slot)| due(slot)).map(|(&addr, _)| addr).collect();
        let mut swept = self.ipam.sweep(self.now);
        swept.sort();
        assert_eq!(swept, due);
        for addr in due {
            self.model.free(addr, self.now);
        }
        self.ipam.commit();
    }

    fn any_member(&self, bytes: &mut Bytes<'_>) -> (usize, IpAddr) {
        let pool = usize::from(bytes.below(5));
        (pool, bytes.one_of(&self.model.members[pool]))
    }

    fn quarantine(&mut self, bytes: &mut Bytes<'_>) {
        let (pool, addr) = self.any_member(bytes);
        let until = bytes.one_of(&[None, Some(self.now.after(Duration::from_secs(30)))]);
        let plane = self.model.pools[pool].plane();
        let ours = self.model.slots.get(&addr).is_some_and(|s| matches!(s.state, State::Active | State::Held));
        assert_eq!(self.ipam.quarantine(&plane, addr, until, self.now).is_err(), ours);
        if !ours {
            self.model.free(addr, self.now);
            let slot = self.model.slots.get_mut(&addr).expect("just put");
            (slot.state, slot.until) = (State::Quarantined, until);
        }
        self.ipam.commit();
    }

    fn hold(&mut self, bytes: &mut Bytes<'_>) {
        let (pool, addr) = self.any_member(bytes);
        let identity = format!("claim/{}", bytes.below(3));
        let sticky = Some(Sticky { identity: identity.clone(), keep: None });
        let holder = Holder { namespace: "n0".to_owned(), sticky, ..Holder::default() };
        let result = self.ipam.hold(&self.model.pools[pool].plane(), addr, holder, self.now);
        let known = self.model.slots.get(&addr).filter(|slot| slot.state != State::Released);
        match known {
            Some(slot) if slot.sticky.as_ref().is_some_and(|(own, _)| *own == identity) => assert_eq!(result, Ok(())),
            Some(_) => assert!(matches!(result, Err(Error::AddressTaken { .. }))),
            None if self.model.reserved.contains(&addr) => {
                assert!(matches!(result, Err(Error::AddressReserved { .. })));
            }
            None => {
                assert_eq!(result, Ok(()));
                self.model.free(addr, self.now);
                let slot = self.model.slots.get_mut(&addr).expect("just put");
                *slot =
                    Slot { state: State::Held, sticky: Some((identity, None)), namespace: "n0".into(), ..slot.clone() };
            }
        }
        self.ipam.commit();
    }

    /// Reserves some addresses, or none; and tries to take a part of a pool away.
    fn edit(&mut self, bytes: &mut Bytes<'_>) {
        self.model.reserved = (0..bytes.below(4)).map(|_| self.any_member(bytes).1).collect();
        let reserved: Vec<IpAddr> = self.model.reserved.iter().copied().collect();
        let config = world::config(&self.model.pools, &reserved);
        assert_eq!(self.ipam.admits(&config), Ok(()), "a reservation may cover what is in use");
        self.ipam.configure(config.clone());

        let (pool, lost) = self.any_member(bytes);
        let mut smaller = config;
        let name = &self.model.pools[pool].name;
        let exclude = berth_core::addr::Range::single(lost);
        smaller.pools.get_mut(name).expect("the pool").exclude.push(exclude);
        let taken = self.model.slots.get(&lost).is_some_and(|slot| slot.state != State::Released);
        assert_eq!(self.ipam.admits(&smaller).is_err(), taken, "{lost} would be lost to {name}");
    }

    fn collect(&mut self, bytes: &mut Bytes<'_>) {
        let modulus = bytes.below(6) + 1;
        let id = |container| world::holder(container, None).id;
        let stays = |container: u8| container.is_multiple_of(modulus);
        let valid: Vec<(String, String)> =
            (0..CONTAINERS).filter(|c| stays(*c)).map(|c| (id(c), "eth0".to_owned())).collect();
        assert_eq!(self.ipam.collect_garbage("other", "", &[], self.now, |_| false), Vec::<IpAddr>::new());
        let mut collected = self.ipam.collect_garbage("net", "", &valid, self.now, |_| false);
        let gone = |slot: &Slot| slot.state == State::Active && slot.container.is_some_and(|c| !stays(c));
        let gone: Vec<IpAddr> = self.model.slots.iter().filter(|(_, slot)| gone(slot)).map(|(&a, _)| a).collect();
        collected.sort();
        assert_eq!(collected, gone);
        for addr in gone {
            self.model.let_go(addr, self.now);
        }
        self.ipam.commit();
    }

    /// A step that the store refuses.
    fn undo(&mut self, bytes: &mut Bytes<'_>) {
        let before = snapshot(&self.ipam);
        for _ in 0..bytes.below(4) {
            let (_, group) = self.wish(bytes);
            let holder = world::holder(bytes.below(CONTAINERS), None);
            let request = Request { holder: holder.clone(), groups: vec![group], ..Request::default() };
            let _ = self.ipam.allocate(&request, self.now, &mut self.entropy);
            self.ipam.release(world::holder(bytes.below(CONTAINERS), None).attachment(), self.now);
            self.ipam.sweep(self.now);
        }
        self.ipam.rollback();
        assert_eq!(snapshot(&self.ipam), before, "rollback left something behind");
    }

    /// A restart: every block goes through its bytes, one of them twice.
    fn reload(&mut self) {
        let mut fresh = Ipam::new();
        fresh.configure(self.ipam.config().clone());
        for (key, block) in self.ipam.blocks() {
            let mut out = Writer::default();
            block.encode(&mut out);
            let read = Block::decode(&mut Reader(&out.0)).expect("what was encoded");
            assert_eq!(&read, block);
            fresh.load(key, Block::default());
            fresh.load(key, read.clone());
            fresh.load(key, read);
        }
        assert_eq!(snapshot(&fresh), snapshot(&self.ipam));
        self.ipam = fresh;
    }

    fn forget_cold(&mut self) {
        self.ipam.forget_cold(self.now);
        let left: Vec<IpAddr> = self.ipam.slots().map(|(plane, unit, _)| plane.addr(unit)).collect();
        // Whole blocks go, and only what has cooled down: from then on it counts as never used.
        self.model.slots.retain(|addr, slot| {
            let pool = self.model.pools.iter().find(|pool| pool.ranges.iter().any(|range| range.contains(*addr)));
            let cold = pool.is_some_and(|pool| slot.since.after(pool.cool_down) < self.now);
            let gone = !left.contains(addr);
            assert!(!gone || (slot.state == State::Released && cold), "{addr} was forgotten too early");
            !gone
        });
        self.ipam.commit();
    }

    fn forget_identity(&mut self, bytes: &mut Bytes<'_>) {
        let identity = match bytes.below(2) {
            0 => format!("claim/{}", bytes.below(3)),
            _ => world::pod_identity(bytes.below(CONTAINERS)),
        };
        let own = self.model.of_identity(&identity);
        assert_eq!(self.ipam.forget_identity(&identity, self.now), own);
        for addr in own {
            let slot = self.model.slots.get_mut(&addr).expect("it was listed");
            slot.sticky = None;
            if slot.state == State::Held {
                self.model.free(addr, self.now);
            }
        }
        self.ipam.commit();
    }

    /// The engine has what the model has, counts it as the model does, and finds nothing wrong with itself.
    fn agree(&mut self) {
        let real = snapshot(&self.ipam);
        let addresses = |slots: &mut dyn Iterator<Item = IpAddr>| slots.collect::<Vec<_>>();
        assert_eq!(
            addresses(&mut real.keys().copied()),
            addresses(&mut self.model.slots.keys().copied()),
            "not the same addresses are known"
        );
        for (addr, own) in &mut self.model.slots {
            let slot = &real[addr];
            let container = slot.holder.as_ref().filter(|h| !h.id.is_empty()).map(|h| h.id.clone());
            let sticky = slot.holder.as_ref().and_then(|h| h.sticky.clone()).map(|s| (s.identity, s.keep));
            assert_eq!(slot.state, own.state, "{addr}");
            assert_eq!(container, own.container.map(|c| world::holder(c, None).id), "{addr}");
            assert_eq!(sticky, own.sticky, "{addr}");
            // Stamps are a few microseconds later than the model's, so that no two are the same.
            let near = |real: Time, model: Time| real.since(model) < Duration::from_millis(1) && real >= model;
            assert!(slot.since == own.since || near(slot.since, own.since), "{addr}: {slot:?} {own:?}");
            match (slot.until, own.until) {
                (None, None) => {}
                (Some(real), Some(model)) if near(real, model) => {}
                other => panic!("{addr}: {other:?}"),
            }
            (own.since, own.until) = (slot.since, slot.until);
        }
        for (i, pool) in self.model.pools.iter().enumerate() {
            let usage = self.ipam.pool_usage(&pool.name, self.now).expect("the pool");
            assert_eq!(usage, self.usage(i), "pool {}", pool.name);
        }
        assert_eq!(self.ipam.check(self.now), Vec::new());
    }

    fn usage(&self, pool: usize) -> Usage {
        let mut usage = Usage::default();
        for addr in &self.model.members[pool] {
            usage.capacity += Count::ONE;
            let reserved = self.model.reserved.contains(addr);
            let cool_down = self.model.pools[pool].cool_down;
            let hot = |slot: &Slot| !cool_down.is_zero() && slot.since.after(cool_down) > self.now;
            *match self.model.slots.get(addr) {
                Some(slot) if slot.state == State::Active => &mut usage.in_use,
                Some(slot) if slot.state == State::Held => &mut usage.held,
                Some(slot) if slot.state == State::Quarantined => &mut usage.quarantined,
                _ if reserved => &mut usage.reserved,
                Some(slot) if hot(slot) => &mut usage.cooling,
                _ => &mut usage.free,
            } += Count::ONE;
        }
        usage
    }
}

fn snapshot(ipam: &Ipam) -> BTreeMap<IpAddr, berth_core::block::Slot> {
    ipam.slots().map(|(plane, unit, view)| (plane.addr(unit), view.to_slot())).collect()
}

fn kind(error: &Error) -> Option<Refusal> {
    Some(match error {
        Error::PoolExhausted { .. } => Refusal::Exhausted,
        Error::QuotaReached { .. } => Refusal::Quota,
        Error::AddressTaken { .. } => Refusal::Taken,
        Error::AddressReserved { .. } => Refusal::Reserved,
        Error::AddressOutside { .. } => Refusal::Outside,
        _ => return None,
    })
}
