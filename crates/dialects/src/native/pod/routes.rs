//! What a pod makes of its pools' routes.

use berth_core::addr::{Cidr, Family};
use berth_core::ipam::Outcome;
use berth_core::net::Route;
use std::net::IpAddr;

/// Whether the default route is on an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultRoute {
    /// As the pools and subnets of its addresses say.
    #[default]
    AsPools,
    /// Yes, for every family that it has an address and a gateway of.
    Here,
    /// No: the pod said so, or put it on another interface.
    Elsewhere,
}

/// What becomes of the routes that come with an interface's addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// The default route.
    pub default: DefaultRoute,
    /// The pod's own routes for the interface.
    pub extra: Vec<Route>,
    /// Routes of the pod, each for the first of its interfaces that has the gateway in its subnet.
    pub reachable: Vec<Route>,
}

impl Routes {
    /// Changes an answer accordingly. A route of the pod takes the place of the pools' route to the same destination in
    /// the same table. `before` are the networks of the pod's interfaces that come before this one
    /// ([`super::networks_before`]): routes whose gateway is there are theirs.
    pub fn apply(&self, outcome: &mut Outcome, before: &[Cidr]) {
        if self.default == DefaultRoute::Elsewhere {
            outcome.routes.retain(|route| !is_default(route));
        }
        let neighbours = networks(outcome);
        let has = |networks: &[Cidr], gw: IpAddr| networks.iter().any(|cidr| cidr.contains(gw));
        let near = |route: &&Route| route.gw.is_some_and(|gw| has(&neighbours, gw) && !has(before, gw));
        for own in self.extra.iter().chain(self.reachable.iter().filter(near)) {
            outcome.routes.retain(|route| !same_place(route, own));
            outcome.routes.push(own.clone());
        }
        if self.default != DefaultRoute::Here {
            return;
        }
        for family in [Family::V4, Family::V6] {
            let routed = |given: &&berth_core::ipam::Given| given.unit.family() == family && given.gateway.is_some();
            let there = |route: &Route| destination(route).is_some_and(|dst| is_all(dst) && dst.family() == family);
            if outcome.given.iter().any(|given| routed(&given)) && !outcome.routes.iter().any(there) {
                let dst = Cidr::containing(family.addr(0), 0).to_string();
                outcome.routes.push(Route { dst, ..Route::default() });
            }
        }
    }
}

/// The networks that an interface is in.
pub(super) fn networks(outcome: &Outcome) -> Vec<Cidr> {
    outcome.given.iter().map(|given| Cidr::containing(given.address(), given.prefix_len)).collect()
}

/// Whether it is a default route.
pub(super) fn is_default(route: &Route) -> bool {
    destination(route).is_some_and(is_all)
}

const fn is_all(cidr: Cidr) -> bool {
    cidr.prefix_len() == 0
}

fn destination(route: &Route) -> Option<Cidr> {
    route.dst.parse().ok()
}

fn same_place(a: &Route, b: &Route) -> bool {
    a.table == b.table && (a.dst == b.dst || destination(a).is_some_and(|dst| destination(b) == Some(dst)))
}
