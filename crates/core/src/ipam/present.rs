//! What is told about addresses that were given out: pool, subnet, router, routes, resolver.

use super::{Given, Ipam, Outcome, Reason, SlotId};
use crate::addr::Cidr;
use crate::block::{BlockKey, Plane, SlotRef, State};
use crate::holder::Attachment;
use crate::net::{Dns, Route};

impl Ipam {
    /// What is told about addresses to whoever has them, wherever they came from.
    #[must_use]
    pub fn tell(&self, addresses: &[(Plane, u128)]) -> Outcome {
        let given = |(plane, unit): &(Plane, u128)| {
            let (key, slot) = BlockKey::of(plane, *unit);
            let block = *self.keys.get(&key)?;
            self.given(SlotId::new(block, slot), Reason::AlreadyHeld)
        };
        self.outcome(addresses.iter().filter_map(given).collect())
    }

    /// What an attachment was told about its addresses.
    #[must_use]
    pub fn told_to(&self, key: Attachment<'_>) -> Outcome {
        let slots = self.find_attachment(key).into_iter();
        self.outcome(slots.filter_map(|id| self.given(id, Reason::AlreadyHeld)).collect())
    }

    /// What a slot is to its holder.
    pub(super) fn given(&self, id: SlotId, reason: Reason) -> Option<Given> {
        let entry = self.entries[id.block()].as_ref()?;
        let unit = entry.key.unit(id.slot());
        let owns = |&&pool: &&u32| self.pools[pool as usize].own.has(entry.key.index, id.slot());
        let pool = entry.pools.iter().find(owns);
        // Whoever is moving answers for the address from where it still is: that is no stranger.
        let is_moving = entry.block.slot(id.slot()).is_some_and(|view| view.is_moving());
        Some(match pool {
            Some(&pool) => {
                let given = self.present(pool as usize, &entry.key.plane, unit, reason);
                Given { detect: given.detect.filter(|_| !is_moving), ..given }
            }
            None => {
                let unit = entry.key.plane.prefix(unit);
                let network = entry.key.plane.network.to_string();
                let prefix_len = unit.prefix_len();
                Given { pool: String::new(), network, unit, prefix_len, gateway: None, reason, detect: None }
            }
        })
    }

    pub(super) fn present(&self, pool: usize, plane: &Plane, unit: u128, reason: Reason) -> Given {
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
            detect: pool.detect.filter(|_| pool.gives_addresses()),
        }
    }

    /// What holders have of a pool, in order: each address as its holder was told of it, and its slot. Slots that nobody
    /// has are left out.
    #[must_use]
    pub fn holdings(&self, pool: &str) -> Vec<(Given, SlotRef<'_>)> {
        let Some(&index) = self.names.get(pool) else { return Vec::new() };
        let state = &self.pools[index];
        let slots = self.slots_in(&state.plane, &state.own);
        let had = slots.filter(|(_, view)| matches!(view.state, State::Active | State::Held));
        had.map(|(unit, view)| (self.present(index, &state.plane, unit, Reason::KeptForHolder), view)).collect()
    }

    /// What whoever was given these addresses is told about them, routes and all.
    #[must_use]
    pub fn outcome(&self, given: Vec<Given>) -> Outcome {
        let mut routes: Vec<Route> = Vec::new();
        let mut dns = Dns::default();
        for (given, pool) in given.iter().filter_map(|given| Some((given, self.pool(&given.pool)?))) {
            let default = Route { dst: Cidr::containing(pool.family.addr(0), 0).to_string(), ..Route::default() };
            if pool.default_route && given.gateway.is_some() && !routes.contains(&default) {
                routes.push(default);
            }
            let subnet = self.config.subnet_of(pool);
            let inherited =
                subnet.filter(|_| pool.inherits_routes && pool.routes.is_empty()).map(|subnet| &subnet.routes);
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
