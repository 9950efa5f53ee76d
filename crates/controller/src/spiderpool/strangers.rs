//! Events of pools in which strangers were seen to use addresses: Spiderpool's status does not say.

use crate::events::{Events, Reason, object};
use crate::facts::SpiderMirrors;
use crate::world::World;
use berth_core::addr::Count;
use berth_core::block::State;
use berth_core::ipam::Ipam;
use berth_dialects::spiderpool::POOL;
use std::collections::{BTreeSet, HashMap};

/// How many addresses an event names.
const NAMED: usize = 8;

/// Who tells of strangers.
pub(super) struct Strangers {
    events: Events,
    /// How many addresses of each pool they had when people were told last.
    told: HashMap<String, Count>,
}

impl Strangers {
    pub(super) fn new(events: Events) -> Self {
        Self { events, told: HashMap::new() }
    }

    /// Tells of those of these pools in which strangers have more addresses than they had.
    pub(super) fn tell(&mut self, world: &World, mirrors: &SpiderMirrors, pools: &BTreeSet<String>) {
        let now = berth_server::now();
        for name in pools {
            let count = world.engine.read(|ipam| ipam.pool_usage(name, now)).map(|usage| usage.quarantined);
            let known = self.told.remove(name).unwrap_or_default();
            let Some(count) = count else { continue };
            self.told.insert(name.clone(), count);
            let Some(record) = mirrors.pools.get("", name).filter(|_| count > known) else { continue };
            let which = world.engine.read(|ipam| of_strangers(ipam, name));
            let note = format!("seen in use by strangers and not given out: {which} ({count} in all)");
            self.events.tell(object(POOL, None, name, Some(&record.uid)), Reason::Conflict, note);
        }
    }
}

/// Some of the addresses of a pool that strangers use, for people.
fn of_strangers(ipam: &Ipam, pool: &str) -> String {
    let Some(pool) = ipam.pool(pool) else { return String::new() };
    let apart =
        ipam.slots().filter(|(plane, _, slot)| plane.network == pool.network && slot.state == State::Quarantined);
    let addresses = apart.map(|(plane, unit, _)| plane.addr(unit));
    let own = addresses.filter(|address| pool.ranges.iter().any(|range| range.contains(*address)));
    own.take(NAMED).map(|address| address.to_string()).collect::<Vec<_>>().join(", ")
}
