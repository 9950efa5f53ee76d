//! What Spiderpool has given out, read from what it wrote: the records in the status of its pools, and its endpoints.

use super::endpoint::EndpointStatus;
use crate::native::pod::MACHINE;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// An address that Spiderpool gave out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The address.
    pub address: IpAddr,
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// UID of the pod; empty if nothing tells.
    pub uid: String,
    /// Its interface, if an endpoint tells.
    pub interface: Option<String>,
    /// Its node, if an endpoint tells.
    pub node: Option<String>,
    /// Whether the address stays with the pod while it is away.
    pub kept: bool,
    /// Whether what is named as the pod is the virtual machine that one runs.
    pub of_machine: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    #[serde(default)]
    pod: String,
    #[serde(default)]
    pod_uid: String,
}

/// All that is known of addresses in use, each once: endpoints, which say more, and records that no endpoint speaks of. What
/// cannot be read is told, with the object it is in.
#[must_use]
pub fn taken(pools: &[(String, Value)], endpoints: &[(String, String, Value)]) -> (Vec<Taken>, Vec<String>) {
    let (mut all, mut unreadable): (BTreeMap<IpAddr, Taken>, Vec<String>) = Default::default();
    for (namespace, name, status) in endpoints {
        match serde_json::from_value::<EndpointStatus>(status.clone()) {
            Ok(status) => of_endpoint(namespace, name, &status, &mut all),
            Err(error) => unreadable.push(format!("SpiderEndpoint {namespace}/{name}, status: {error}")),
        }
    }
    for (pool, status) in pools {
        let Some(text) = status["allocatedIPs"].as_str().filter(|text| !text.is_empty()) else { continue };
        let records: BTreeMap<String, Record> = match serde_json::from_str(text) {
            Ok(records) => records,
            Err(error) => {
                unreadable.push(format!("SpiderIPPool {pool}, status.allocatedIPs: {error}"));
                continue;
            }
        };
        for (address, Record { pod, pod_uid }) in records {
            let (Ok(address), Some((namespace, pod))) = (address.parse(), pod.split_once('/')) else {
                unreadable.push(format!("SpiderIPPool {pool}, status.allocatedIPs: {address:?} of {pod:?}"));
                continue;
            };
            all.entry(address).or_insert_with(|| Taken {
                address,
                namespace: namespace.to_owned(),
                pod: pod.to_owned(),
                uid: pod_uid,
                interface: None,
                node: None,
                kept: false,
                of_machine: false,
            });
        }
    }
    (all.into_values().collect(), unreadable)
}

fn of_endpoint(namespace: &str, name: &str, status: &EndpointStatus, all: &mut BTreeMap<IpAddr, Taken>) {
    for interface in &status.current.ips {
        let addresses = [&interface.ipv4, &interface.ipv6].into_iter().flatten();
        for address in addresses.filter_map(|text| text.split('/').next()?.parse().ok()) {
            let taken = Taken {
                address,
                namespace: namespace.to_owned(),
                pod: name.to_owned(),
                uid: status.current.uid.clone(),
                interface: Some(interface.interface.clone()).filter(|name| !name.is_empty()),
                node: Some(status.current.node.clone()).filter(|node| !node.is_empty()),
                kept: matches!(status.owner_controller_type.as_str(), "StatefulSet" | MACHINE),
                of_machine: status.owner_controller_type == MACHINE,
            };
            all.insert(address, taken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn endpoints_say_more_and_records_say_the_rest() {
        let records = r#"{"10.0.0.5":{"pod":"shop/web-1","podUid":"u1"},"10.0.0.6":{"pod":"shop/db-0","podUid":"u2"},
            "nonsense":{"pod":"a/b","podUid":"c"}}"#;
        let pools =
            [("p".to_owned(), json!({"allocatedIPs": records})), ("q".to_owned(), json!({"allocatedIPs": "{"}))];
        let endpoint = json!({"current": {"uid": "u2", "node": "n1", "ips": [
            {"interface": "eth0", "ipv4": "10.0.0.6/24", "ipv6": "fd00::6/64", "ipv4Pool": "p", "vlan": 0}]},
            "ownerControllerType": "StatefulSet", "ownerControllerName": "db"});
        let (found, unreadable) = taken(&pools, &[("shop".into(), "db-0".into(), endpoint)]);
        let told: Vec<_> = found.iter().map(|one| (one.address.to_string(), one.pod.as_str(), one.kept)).collect();
        assert_eq!(
            told,
            [("10.0.0.5".into(), "web-1", false), ("10.0.0.6".into(), "db-0", true), ("fd00::6".into(), "db-0", true)]
        );
        assert_eq!((found[1].interface.as_deref(), found[1].node.as_deref()), (Some("eth0"), Some("n1")));
        assert_eq!((found[0].uid.as_str(), &found[0].node), ("u1", &None));
        assert_eq!(unreadable.len(), 2, "{unreadable:?}");
        let machine = json!({"current": {"uid": "u3", "node": "n1", "ips": [{"interface": "eth0", "ipv4": "10.0.0.7/24"}]},
            "ownerControllerType": "VirtualMachineInstance", "ownerControllerName": "vm"});
        let (found, _) = taken(&[], &[("shop".into(), "vm".into(), machine)]);
        assert_eq!((found[0].pod.as_str(), found[0].kept, found[0].of_machine), ("vm", true, true));
    }
}
