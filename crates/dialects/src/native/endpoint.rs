//! IPEndpoint: what one pod holds, under the pod's name, or that of the virtual machine it runs. Derived from blocks and never the truth about an address; it is
//! how the address of a sticky pod is found again, and what people look at.
//!
//! Fields that are not known here are let be: a newer version may have written them, and a record that cannot be read would
//! keep everybody from all the others.

use super::net::{DnsSpec, RouteSpec};
use super::pod::{KUBEVIRT, MACHINE};
use berth_core::ipam::{Given, Outcome};
use berth_core::net::{Dns, Route};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What one pod holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSpec {
    /// UID of the pod: a pod of the same name that came later is another one. Empty if nobody knows it any more, because
    /// the record was made anew while the pod was away.
    pub uid: String,
    /// The node that the pod runs on, or ran on last. Empty if nobody knows it any more.
    pub node: String,
    /// The controller that made the pod: what tells whether a pod of this name comes back. Absent for a pod without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<EndpointOwner>,
    /// Its interfaces, in the order in which they were attached.
    #[serde(default)]
    pub interfaces: Vec<EndpointInterface>,
}

/// The controller of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointOwner {
    /// Group and version, e.g. `apps/v1`.
    pub api_version: String,
    /// Kind, e.g. `StatefulSet`.
    pub kind: String,
    /// Name.
    pub name: String,
}

impl EndpointOwner {
    /// The owner of pods that run a virtual machine.
    #[must_use]
    pub fn of_machine(name: &str) -> Self {
        Self { api_version: format!("{KUBEVIRT}/v1"), kind: MACHINE.to_owned(), name: name.to_owned() }
    }

    /// Whether it is one of Kubernetes' own workloads.
    #[must_use]
    pub fn is_of_kubernetes(&self) -> bool {
        self.api_version.split('/').next() == Some("apps")
    }
}

/// One interface of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointInterface {
    /// Name of the interface inside the pod.
    pub name: String,
    /// The CNI network that attached it.
    pub network: String,
    /// Its addresses.
    #[serde(default)]
    pub addresses: Vec<EndpointAddress>,
    /// Routes that came along with the addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<RouteSpec>)]
    pub routes: Vec<Route>,
    /// Resolver settings that came along with the addresses.
    #[serde(default, skip_serializing_if = "Dns::is_empty")]
    #[schema(value_type = DnsSpec)]
    pub dns: Dns,
}

impl EndpointInterface {
    /// An interface with what it was given.
    #[must_use]
    pub fn of(name: String, network: String, outcome: &Outcome) -> Self {
        let address = |given: &Given| EndpointAddress {
            address: format!("{}/{}", given.address(), given.prefix_len),
            pool: given.pool.clone(),
            gateway: given.gateway.map(|gateway| gateway.to_string()),
        };
        let addresses = outcome.given.iter().map(address).collect();
        Self { name, network, addresses, routes: outcome.routes.clone(), dns: outcome.dns.clone() }
    }
}

/// One address of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointAddress {
    /// The address with the prefix length of its subnet.
    #[schema(example = "10.0.0.5/24")]
    pub address: String,
    /// The pool it is from.
    pub pool: String,
    /// Its router, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn it_is_written_as_it_is_read() {
        let full = json!({
            "uid": "0f3c1f5e-8b7d-4c6e-9a35-1d2f3a4b5c6d",
            "node": "n1",
            "owner": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"},
            "interfaces": [{
                "name": "eth0",
                "network": "blue",
                "addresses": [
                    {"address": "10.0.0.5/24", "pool": "blue", "gateway": "10.0.0.1"},
                    {"address": "fd00::5/64", "pool": "blue6"},
                ],
                "routes": [{"dst": "0.0.0.0/0", "gw": "10.0.0.1"}],
                "dns": {"nameservers": ["10.0.0.53"]},
            }],
        });
        let spec: EndpointSpec = serde_json::from_value(full.clone()).expect("reads");
        assert_eq!(serde_json::to_value(&spec).expect("writes"), full);
        let mut newer = full;
        (newer["since"], newer["owner"]["uid"]) = (json!("2030-01-01"), json!("u"));
        (newer["interfaces"][0]["mac"], newer["interfaces"][0]["addresses"][0]["vlan"]) = (json!("02::"), json!(7));
        assert_eq!(serde_json::from_value::<EndpointSpec>(newer).expect("reads what a newer one wrote"), spec);
    }
}
