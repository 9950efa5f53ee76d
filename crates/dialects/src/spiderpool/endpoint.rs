//! SpiderEndpoint: what one pod holds, under the pod's name. Derived from blocks and never the truth about an address.

use super::{API_VERSIONS, ENDPOINT};
use berth_core::addr::Family;
use berth_core::ipam::Outcome;
use berth_core::net::Route;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::net::IpAddr;
use utoipa::ToSchema;

/// The annotation that tells objects that Berth makes out of blocks from those that were there before.
pub const DERIVED: &str = "berth.io/derived";

/// What a pod holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointStatus {
    /// What it holds now.
    pub current: Current,
    /// The kind of its controller; `Pod` for a pod without one.
    pub owner_controller_type: String,
    /// The name of its controller; its own for a pod without one.
    pub owner_controller_name: String,
}

/// What a pod holds now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Current {
    /// UID of the pod.
    pub uid: String,
    /// The node it runs on, or ran on last.
    pub node: String,
    /// Its interfaces.
    pub ips: Vec<Interface>,
}

/// One interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Interface {
    /// Name of the interface inside the pod.
    pub interface: String,
    /// Its IPv4 address with the length of the subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<String>,
    /// Its IPv6 address with the length of the subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<String>,
    /// The pool of the IPv4 address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4_pool: Option<String>,
    /// The pool of the IPv6 address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6_pool: Option<String>,
    /// VLAN; 0 is none.
    #[serde(default)]
    pub vlan: i64,
    /// The router of the IPv4 address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4_gateway: Option<String>,
    /// The router of the IPv6 address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6_gateway: Option<String>,
    /// Whether the default route was left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean_gateway: Option<bool>,
    /// Routes that came along.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<EndpointRoute>,
    /// Hardware address, if one was given out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
}

/// One route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndpointRoute {
    /// Destination, as a CIDR.
    pub dst: String,
    /// Next hop.
    pub gw: String,
}

impl Interface {
    /// What an interface got.
    #[must_use]
    pub fn of(interface: String, outcome: &Outcome) -> Self {
        let mut own = Self { interface, ..Self::default() };
        for given in &outcome.given {
            let address = Some(format!("{}/{}", given.address(), given.prefix_len));
            let (pool, gateway) = (Some(given.pool.clone()), given.gateway.map(|gateway| gateway.to_string()));
            match given.unit.family() {
                Family::V4 => (own.ipv4, own.ipv4_pool, own.ipv4_gateway) = (address, pool, gateway),
                Family::V6 => (own.ipv6, own.ipv6_pool, own.ipv6_gateway) = (address, pool, gateway),
            }
        }
        own.routes = routes(outcome);
        own
    }
}

/// The routes of an interface beside the default route, which the gateway of its address says. One without a next hop
/// goes to that gateway too.
pub(super) fn routes(outcome: &Outcome) -> Vec<EndpointRoute> {
    let gateway_for = |route: &Route| {
        let reaches = |gateway: &IpAddr| route.dst.contains(':') == gateway.is_ipv6();
        outcome.given.iter().find_map(|given| given.gateway.filter(reaches))
    };
    let is_default = |route: &Route| matches!(route.dst.as_str(), "0.0.0.0/0" | "::/0");
    let said = |route: &Route| {
        let gateway = gateway_for(route);
        let gw = route.gw.or(gateway)?;
        let is_said_by_gateway = is_default(route) && (route.gw.is_none() || route.gw == gateway);
        (!is_said_by_gateway).then(|| EndpointRoute { dst: route.dst.clone(), gw: gw.to_string() })
    };
    outcome.routes.iter().filter_map(said).collect()
}

/// The object of a pod. A pod that does not come back takes its object along: `owner` is the pod itself.
#[must_use]
pub fn raise(namespace: &str, pod: &str, status: &EndpointStatus, owned: bool) -> Value {
    let mut metadata = json!({ "namespace": namespace, "name": pod, "annotations": { DERIVED: "true" } });
    if owned {
        metadata["ownerReferences"] =
            json!([{ "apiVersion": "v1", "kind": "Pod", "name": pod, "uid": status.current.uid }]);
    }
    json!({
        "apiVersion": API_VERSIONS.first(),
        "kind": ENDPOINT,
        "metadata": metadata,
        "status": status,
    })
}
