//! What is said on spiderpool-agent's socket: the bodies of requests and answers.

use super::endpoint::{EndpointRoute, Interface, routes};
use super::plot::number;
use crate::native::pod::FIRST_INTERFACE;
use berth_core::detect::{Conflicts, Detection, GatewayCheck};
use berth_core::ipam::{Given, Outcome};
use berth_core::net::Dns;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The pod's interface that an ADD or a DEL is for.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Args {
    /// The pod's sandbox.
    #[serde(rename = "containerID")]
    pub container: String,
    /// The interface inside of it; the first if absent, which stands for a whole pod.
    #[serde(default = "first")]
    pub if_name: String,
    /// Namespace of the pod.
    pub pod_namespace: String,
    /// Its name.
    pub pod_name: String,
    /// Its UID.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// Pools for pods that say nothing.
    #[serde(default, rename = "defaultIPv4IPPool")]
    pools_v4: Option<Vec<String>>,
    #[serde(default, rename = "defaultIPv6IPPool")]
    pools_v6: Option<Vec<String>>,
    /// No default route.
    #[serde(default)]
    pub clean_gateway: bool,
    /// Only pools whose subnet the node has an address in.
    #[serde(default)]
    pub match_master_subnet: bool,
    /// Whether it is to be forgotten because strangers use the addresses.
    #[serde(default, rename = "isReleaseConflictIPs")]
    pub for_conflict: bool,
}

fn first() -> String {
    FIRST_INTERFACE.to_owned()
}

impl Args {
    /// What is missing, if anything is.
    #[must_use]
    pub fn missing(&self) -> Option<&'static str> {
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
    #[must_use]
    pub fn pools(&self) -> Vec<String> {
        [&self.pools_v4, &self.pools_v6].into_iter().flatten().flatten().cloned().collect()
    }
}

/// What an ADD answers: the addresses of all interfaces that were served.
#[derive(Debug, Default, Serialize)]
pub struct Added {
    ips: Vec<Ip>,
    routes: Vec<OwnRoute>,
    #[serde(skip_serializing_if = "Dns::is_empty")]
    dns: Dns,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Ip {
    version: i64,
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
    gw: String,
}

impl Added {
    /// Takes in what one interface got. With `clean_gateway` its default route is left out.
    pub fn add(&mut self, nic: &str, outcome: &Outcome, clean_gateway: bool) {
        let ip = |given: &Given| Ip {
            version: number(given.unit.family()),
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
        let named = |route: EndpointRoute| OwnRoute { if_name: nic.to_owned(), dst: route.dst, gw: route.gw };
        self.routes.extend(routes(outcome).into_iter().map(named));
        if self.dns.is_empty() {
            self.dns = outcome.dns.clone();
        }
    }
}

fn looks(given: &Given, test: impl Fn(&Detection) -> bool) -> bool {
    given.detect.as_ref().is_some_and(test)
}

/// What a pod has, by interface.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Namespace of the pod.
    pub pod_namespace: String,
    /// Its name.
    pub pod_name: String,
    /// Its UID.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// The node it runs on.
    pub node: String,
    /// Its interfaces.
    pub interfaces: Vec<Interface>,
}

/// The pod that is asked about.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Asked {
    /// Its namespace.
    pub pod_namespace: String,
    /// Its name.
    pub pod_name: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::ipam::Reason;
    use berth_core::net::Route;
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
    fn a_default_route_that_its_gateway_does_not_say_is_said() {
        let mut elsewhere = outcome();
        elsewhere.routes[0].gw = Some("10.0.0.254".parse().unwrap());
        let said = Interface::of("eth0".to_owned(), &elsewhere).routes;
        let told: Vec<(&str, &str)> = said.iter().map(|route| (route.dst.as_str(), route.gw.as_str())).collect();
        let rest = [("10.9.0.0/16", "10.0.0.1"), ("fd09::/48", "fd00::1")];
        assert_eq!(told, [[("0.0.0.0/0", "10.0.0.254")].as_slice(), &rest].concat());
        elsewhere.routes[0].gw = Some("10.0.0.1".parse().unwrap());
        assert_eq!(Interface::of("eth0".to_owned(), &elsewhere).routes, said[1..]);
    }

    #[test]
    fn what_must_be_said_is_named_if_it_is_not() {
        let mut said = json!({"containerID": "c", "ifName": "eth0", "podNamespace": "n", "podName": "p", "podUID": "u",
            "netNamespace": "/run/netns/x", "defaultIPv4IPPool": ["a"], "defaultIPv6IPPool": null});
        let args: Args = serde_json::from_value(said.clone()).unwrap();
        assert_eq!((args.missing(), args.pools()), (None, vec!["a".to_owned()]));
        assert!(!args.match_master_subnet);
        said["matchMasterSubnet"] = json!(true);
        assert!(serde_json::from_value::<Args>(said.clone()).unwrap().match_master_subnet);
        said["podUID"] = json!("");
        let args: Args = serde_json::from_value(said).unwrap();
        assert_eq!(args.missing(), Some("podUID"));
    }
}
