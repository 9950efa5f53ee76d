//! What is said on spiderpool-agent's socket.

use berth_core::addr::Family;
use berth_core::detect::{Conflicts, Detection, GatewayCheck};
use berth_core::ipam::{Given, Outcome};
use berth_core::net::{Dns, Route};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The CNI network of attachments that are made here.
pub(super) const NETWORK: &str = "spiderpool";
/// The interface that a pod has in any case.
const FIRST: &str = "eth0";

/// The pod's interface that an ADD or a DEL is for.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Args {
    #[serde(rename = "containerID")]
    pub(super) container: String,
    #[serde(default = "first")]
    pub(super) if_name: String,
    pub(super) pod_namespace: String,
    pub(super) pod_name: String,
    #[serde(rename = "podUID")]
    pub(super) pod_uid: String,
    /// Pools for pods that say nothing.
    #[serde(default, rename = "defaultIPv4IPPool")]
    pools_v4: Option<Vec<String>>,
    #[serde(default, rename = "defaultIPv6IPPool")]
    pools_v6: Option<Vec<String>>,
    /// No default route.
    #[serde(default)]
    pub(super) clean_gateway: bool,
    /// Whether it is to be forgotten because strangers use the addresses.
    #[serde(default, rename = "isReleaseConflictIPs")]
    pub(super) for_conflict: bool,
}

fn first() -> String {
    FIRST.to_owned()
}

impl Args {
    /// What is missing, if anything is.
    pub(super) fn missing(&self) -> Option<&'static str> {
        let Self { container, if_name, pod_namespace, pod_name, pod_uid, .. } = self;
        let fields = [
            ("containerID", container),
            ("ifName", if_name),
            ("podNamespace", pod_namespace),
            ("podName", pod_name),
            ("podUID", pod_uid),
        ];
        fields.into_iter().find(|(_, value)| value.is_empty()).map(|(name, _)| name)
    }

    /// The pools of both families.
    pub(super) fn pools(&self) -> Vec<String> {
        [&self.pools_v4, &self.pools_v6].into_iter().flatten().flatten().cloned().collect()
    }
}

/// What an ADD answers: the addresses of all interfaces that were served.
#[derive(Debug, Default, Serialize)]
pub(super) struct Added {
    ips: Vec<Ip>,
    routes: Vec<OwnRoute>,
    #[serde(skip_serializing_if = "Dns::is_empty")]
    dns: Dns,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Ip {
    version: u8,
    address: String,
    nic: String,
    ip_pool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<IpAddr>,
    vlan: u16,
    enable_gateway_detection: bool,
    #[serde(rename = "enableIPConflictDetection")]
    enable_conflict_detection: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OwnRoute {
    if_name: String,
    dst: String,
    gw: IpAddr,
}

impl Added {
    /// Takes in what one interface got.
    pub(super) fn add(&mut self, nic: &str, outcome: &Outcome, clean_gateway: bool) {
        let ip = |given: &Given| Ip {
            version: version(given.unit.family()),
            address: format!("{}/{}", given.address(), given.prefix_len),
            nic: nic.to_owned(),
            ip_pool: given.pool.clone(),
            gateway: given.gateway.filter(|_| !clean_gateway),
            vlan: 0,
            // Whoever asks here stands at the wire, and looks himself.
            enable_gateway_detection: looks(given, |detect| detect.gateway != GatewayCheck::Ignore),
            enable_conflict_detection: looks(given, |detect| detect.conflicts != Conflicts::Ignore),
        };
        self.ips.extend(outcome.given.iter().map(ip));
        // The gateway of the address says the default route; a route without a next hop goes there too.
        let explicit = outcome.routes.iter().filter(|route| !is_default(route));
        self.routes.extend(explicit.filter_map(|route| {
            let gateway = outcome.given.iter().find_map(|given| given.gateway.filter(|gw| same_family(route, *gw)));
            Some(OwnRoute { if_name: nic.to_owned(), dst: route.dst.clone(), gw: route.gw.or(gateway)? })
        }));
        if self.dns.is_empty() {
            self.dns = outcome.dns.clone();
        }
    }
}

fn looks(given: &Given, test: impl Fn(&Detection) -> bool) -> bool {
    given.detect.as_ref().is_some_and(test)
}

const fn version(family: Family) -> u8 {
    match family {
        Family::V4 => 4,
        Family::V6 => 6,
    }
}

fn is_default(route: &Route) -> bool {
    matches!(route.dst.as_str(), "0.0.0.0/0" | "::/0")
}

fn same_family(route: &Route, gateway: IpAddr) -> bool {
    route.dst.contains(':') == gateway.is_ipv6()
}

/// What a pod has, by interface.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Endpoint {
    pub(super) pod_namespace: String,
    pub(super) pod_name: String,
    #[serde(rename = "podUID")]
    pub(super) pod_uid: String,
    pub(super) node: String,
    pub(super) interfaces: Vec<Interface>,
}

/// One interface of a pod.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Interface {
    interface: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipv4: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipv6: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipv4_pool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipv6_pool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipv4_gateway: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipv6_gateway: Option<IpAddr>,
    vlan: u16,
    routes: Vec<OwnRoute>,
}

impl Interface {
    pub(super) fn of(name: &str, outcome: &Outcome) -> Self {
        let mut own = Self { interface: name.to_owned(), ..Self::default() };
        for given in &outcome.given {
            let (address, pool) = (format!("{}/{}", given.address(), given.prefix_len), given.pool.clone());
            match given.unit.family() {
                Family::V4 => (own.ipv4, own.ipv4_pool, own.ipv4_gateway) = (Some(address), Some(pool), given.gateway),
                Family::V6 => (own.ipv6, own.ipv6_pool, own.ipv6_gateway) = (Some(address), Some(pool), given.gateway),
            }
        }
        let mut added = Added::default();
        added.add(name, outcome, false);
        own.routes = added.routes;
        own
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.interface
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::ipam::Reason;
    use serde_json::json;

    fn outcome() -> Outcome {
        let given = |unit: &str, prefix_len, gateway: &str, pool: &str| Given {
            pool: pool.to_owned(),
            network: "default".to_owned(),
            unit: unit.parse().unwrap(),
            prefix_len,
            gateway: Some(gateway.parse().unwrap()),
            detect: None,
            reason: Reason::LowestFree,
        };
        let route = |dst: &str| Route { dst: dst.to_owned(), ..Route::default() };
        Outcome {
            given: vec![given("10.0.0.5/32", 24, "10.0.0.1", "blue"), given("fd00::5/128", 64, "fd00::1", "blue6")],
            routes: vec![route("0.0.0.0/0"), route("10.9.0.0/16"), route("fd09::/48")],
            dns: Dns::default(),
        }
    }

    #[test]
    fn an_answer_has_the_fields_that_plugins_read() {
        let mut added = Added::default();
        added.add("eth0", &outcome(), false);
        let said = serde_json::to_value(&added).unwrap();
        assert_eq!(
            said["ips"][0],
            json!({"version": 4, "address": "10.0.0.5/24", "nic": "eth0", "ipPool": "blue", "gateway": "10.0.0.1",
                "vlan": 0, "enableGatewayDetection": false, "enableIPConflictDetection": false})
        );
        assert_eq!(said["ips"][1]["version"], 6);
        assert_eq!(
            said["routes"],
            json!([{"ifName": "eth0", "dst": "10.9.0.0/16", "gw": "10.0.0.1"},
                {"ifName": "eth0", "dst": "fd09::/48", "gw": "fd00::1"}])
        );
        assert!(said.get("dns").is_none());
        let mut clean = Added::default();
        clean.add("eth0", &outcome(), true);
        assert!(serde_json::to_value(&clean).unwrap()["ips"][0].get("gateway").is_none());
    }

    #[test]
    fn what_must_be_said_is_named_if_it_is_not() {
        let mut said = json!({"containerID": "c", "ifName": "eth0", "podNamespace": "n", "podName": "p", "podUID": "u",
            "netNamespace": "/run/netns/x", "defaultIPv4IPPool": ["a"], "defaultIPv6IPPool": null});
        let args: Args = serde_json::from_value(said.clone()).unwrap();
        assert_eq!((args.missing(), args.pools()), (None, vec!["a".to_owned()]));
        said["podUID"] = json!("");
        let args: Args = serde_json::from_value(said).unwrap();
        assert_eq!(args.missing(), Some("podUID"));
    }
}
