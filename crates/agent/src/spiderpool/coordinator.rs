//! SpiderCoordinator: how the coordinator plugin is to set up a pod. It is written by its own controller; here it is read
//! and handed on.

use berth_dialects::native::pod::spiderpool::DEFAULT_ROUTE_NIC;
use berth_kube::Cluster;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What of the spec the plugin is told as it is.
const HANDED_ON: [&str; 11] = [
    "mode",
    "hijackCIDR",
    "policyRoutes",
    "podMACPrefix",
    "tunePodRoutes",
    "podDefaultRouteNIC",
    "hostRuleTable",
    "podRPFilter",
    "txQueueLen",
    "vethLinkAddress",
    "vethMTU",
];

/// How a pod is to be set up.
#[derive(Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub(super) struct Config(Map<String, Value>);

/// The SpiderCoordinator of a cluster.
#[derive(Debug)]
pub(super) struct Coordinator {
    name: String,
    spec: Value,
    status: Value,
}

/// Reads the coordinator: the first there is, as there is to be but one.
pub(super) fn read(cluster: &Cluster) -> Result<Coordinator, String> {
    let kind = GroupVersionKind::gvk("spiderpool.spidernet.io", "v2beta1", "SpiderCoordinator");
    let resource = ApiResource::from_gvk_with_plural(&kind, "spidercoordinators");
    let api: Api<DynamicObject> = Api::all_with(cluster.client().clone(), &resource);
    let all = cluster.wait(api.list(&ListParams::default().limit(1))).map_err(|error| error.to_string())?;
    let found = all.items.into_iter().next().ok_or("there is no SpiderCoordinator; apply one")?;
    Ok(Coordinator {
        name: found.metadata.name.unwrap_or_default(),
        spec: found.data.get("spec").cloned().unwrap_or_default(),
        status: found.data.get("status").cloned().unwrap_or_default(),
    })
}

impl Coordinator {
    /// What the plugin is told about a pod with these annotations and interfaces.
    pub(super) fn of_pod(&self, annotations: &BTreeMap<String, String>, nics: &[String]) -> Result<Config, String> {
        let phase = self.status["phase"].as_str().unwrap_or_default();
        if phase != "Synced" {
            let reason = self.status["reason"].as_str().unwrap_or("its controller has not said why");
            return Err(format!("SpiderCoordinator {:?} is {phase:?}, not Synced: {reason}", self.name));
        }
        let mut config = Map::new();
        for field in HANDED_ON {
            if let Some(value) = self.spec.get(field).filter(|value| !value.is_null()) {
                config.insert(field.to_owned(), value.clone());
            }
        }
        config.entry("mode").or_insert_with(|| json!("auto"));
        for field in ["overlayPodCIDR", "serviceCIDR"] {
            config.insert(field.to_owned(), self.status.get(field).cloned().unwrap_or_else(|| json!([])));
        }
        config.insert("podNICs".to_owned(), json!(nics));
        if let Some(nic) = annotations.get(DEFAULT_ROUTE_NIC).filter(|nic| !nic.is_empty()) {
            config.insert("podDefaultRouteNIC".to_owned(), json!(nic));
        }
        Ok(Config(config))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coordinator(phase: &str) -> Coordinator {
        Coordinator {
            name: "default".to_owned(),
            spec: json!({"mode": "underlay", "tunePodRoutes": true, "hijackCIDR": ["169.254.0.0/16"], "vethMTU": 1500,
                "podCIDRType": "auto"}),
            status: json!({"phase": phase, "reason": "no CIDR", "serviceCIDR": ["10.96.0.0/12"]}),
        }
    }

    #[test]
    fn it_is_handed_on_with_what_the_pod_says() {
        let annotations = [(DEFAULT_ROUTE_NIC.to_owned(), "net1".to_owned())].into();
        let Config(said) = coordinator("Synced").of_pod(&annotations, &["eth0".to_owned()]).unwrap();
        assert_eq!(
            Value::Object(said),
            json!({"mode": "underlay", "tunePodRoutes": true, "hijackCIDR": ["169.254.0.0/16"], "vethMTU": 1500,
                "overlayPodCIDR": [], "serviceCIDR": ["10.96.0.0/12"], "podNICs": ["eth0"], "podDefaultRouteNIC": "net1"})
        );
    }

    #[test]
    fn one_that_is_not_synced_says_why() {
        let error = coordinator("NotReady").of_pod(&BTreeMap::new(), &[]).unwrap_err();
        assert!(error.contains("NotReady") && error.contains("no CIDR"), "{error}");
    }
}
