//! The interfaces of a pod that others make: which network attachment definitions it selects, and what Berth's plugin
//! will be told by the configuration in each.
//!
//! A pod lists them in `k8s.v1.cni.cncf.io/networks`, as the Network Plumbing Working Group's specification says and
//! Multus reads it. That list belongs to whoever makes the interfaces; Berth looks at it to know who will ask. So a list
//! or a configuration that makes no sense is no error here: the interface is then served when it asks, if it ever does.
//!
//! The configuration is put together as the plugin will see it, and read with the plugin's own eyes
//! ([`berth_wire::config`]): an address is recorded under the CNI network of its interface, and the interface's own ADD
//! must find it there.

use super::{Attached, FIRST_INTERFACE, MAX_ANNOTATION_BYTES, MAX_INTERFACES, Pod};
use berth_core::model;
use berth_wire::config::{NetConf, Uplink};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Pod annotation: the definitions of its further interfaces, in order.
pub const SELECTED: &str = "k8s.v1.cni.cncf.io/networks";
/// Pod annotation: the definition of its first interface, in place of the cluster's network.
pub const SELECTED_FIRST: &str = "v1.multus-cni.io/default-network";
/// Where the definition of a first interface is unless its namespace is written: where Multus is.
const FIRST_NAMESPACE: &str = "kube-system";
/// The IPAM plugin whose interfaces are ours.
const PLUGIN: &str = "berth-cni";
/// The name it goes by where Spiderpool was before.
const AS_SPIDERPOOL: &str = "spiderpool";
/// The longest configuration that is read.
const MAX_CONFIG_BYTES: usize = 64 << 10;

/// One interface, and the definition that it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Selected {
    /// The interface inside the container.
    pub interface: String,
    /// The namespace of the definition.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Addresses asked for, if its configuration lets people ask.
    ips: Vec<String>,
    /// `args.cni` of its configuration.
    args: Map<String, Value>,
}

/// One item of the list as it is written in JSON; what has nothing to do with addresses is left to others.
#[derive(Deserialize)]
struct Written {
    name: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default, alias = "interfaceRequest")]
    interface: Option<String>,
    #[serde(default)]
    ips: Option<Vec<String>>,
    #[serde(default, rename = "cni-args")]
    args: Option<Map<String, Value>>,
}

/// The interfaces that a pod selects definitions for, the first interface first if it does so for that. Each name
/// comes once.
///
/// # Errors
/// Which annotation makes no sense, and why; then nothing is known of any interface.
pub fn selected(pod: &Pod) -> Result<Vec<Selected>, String> {
    let mut all: Vec<Selected> = Vec::new();
    let first = read(&pod.annotations, SELECTED_FIRST, FIRST_NAMESPACE)?;
    if first.len() > 1 {
        return Err(format!(
            "annotation {SELECTED_FIRST} names {} definitions; a pod has one first interface",
            first.len()
        ));
    }
    let further = read(&pod.annotations, SELECTED, &pod.namespace)?;
    for (i, mut one) in
        first.into_iter().map(|one| (0, one)).chain(further.into_iter().zip(1..).map(|(one, i)| (i, one)))
    {
        if one.interface.is_empty() {
            one.interface = if i == 0 { FIRST_INTERFACE.to_owned() } else { format!("net{i}") };
        }
        if all.iter().all(|other| other.interface != one.interface) {
            all.push(one);
        }
    }
    Ok(all)
}

/// Reads `NAMESPACE/NAME@INTERFACE,…`, or the same as a list of objects in JSON.
fn read(annotations: &BTreeMap<String, String>, key: &str, namespace: &str) -> Result<Vec<Selected>, String> {
    let Some(text) = annotations.get(key).map(|text| text.trim()).filter(|text| !text.is_empty()) else {
        return Ok(Vec::new());
    };
    if text.len() > MAX_ANNOTATION_BYTES {
        return Err(format!("annotation {key} is longer than {MAX_ANNOTATION_BYTES} bytes"));
    }
    let written: Result<Vec<Written>, String> = if text.contains(['[', '{', '"']) {
        serde_json::from_str(text).map_err(|error| error.to_string())
    } else {
        text.split(',').map(short).collect()
    };
    let written = written.map_err(|why| format!("annotation {key} cannot be read: {why}"))?;
    if written.len() >= MAX_INTERFACES {
        return Err(format!("annotation {key} lists {} interfaces; a pod may have {MAX_INTERFACES}", written.len()));
    }
    let own = |written: Written| Selected {
        interface: written.interface.unwrap_or_default(),
        namespace: written.namespace.filter(|text| !text.is_empty()).unwrap_or_else(|| namespace.to_owned()),
        name: written.name,
        ips: written.ips.unwrap_or_default(),
        args: written.args.unwrap_or_default(),
    };
    Ok(written.into_iter().map(own).collect())
}

/// `NAMESPACE/NAME@INTERFACE`, of which only the name is needed.
fn short(item: &str) -> Result<Written, String> {
    let (rest, interface) = match item.split_once('@') {
        Some((rest, interface)) => (rest, Some(interface.trim().to_owned())),
        None => (item, None),
    };
    let (namespace, name) = match rest.split_once('/') {
        Some((namespace, name)) => (Some(namespace.trim().to_owned()), name.trim()),
        None => (None, rest.trim()),
    };
    if name.is_empty() || name.contains(['/', '@']) || interface.as_ref().is_some_and(|text| text.contains(['/', '@']))
    {
        return Err(format!("{:?} is not NAMESPACE/NAME@INTERFACE", item.trim()));
    }
    Ok(Written { name: name.to_owned(), namespace, interface, ips: None, args: None })
}

impl Selected {
    /// The definition: `NAMESPACE/NAME`.
    #[must_use]
    pub fn definition(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// What the interface's own ADD will say, from the configuration in its definition.
    ///
    /// # Errors
    /// Why that is not known.
    pub fn attached(&self, config: &str) -> Result<Attached, String> {
        if config.trim().is_empty() {
            return Err("its configuration is in a file on the node".to_owned());
        }
        if config.len() > MAX_CONFIG_BYTES {
            return Err(format!("spec.config is longer than {MAX_CONFIG_BYTES} bytes"));
        }
        let config: Map<String, Value> =
            serde_json::from_str(config).map_err(|error| format!("spec.config cannot be read: {error}"))?;
        let seen = Value::Object(self.as_plugin_sees_it(&config)?).to_string();
        let conf = NetConf::parse(seen.as_bytes()).map_err(|error| format!("spec.config: {}", error.msg))?;
        let ipam = conf.ipam().map_err(|error| format!("spec.config: {}", error.msg))?;
        let requested = conf.requested().map_err(|error| format!("spec.config: {}", error.msg))?;
        let uplink = match ipam.match_uplink.then(|| conf.uplink()) {
            None => None,
            // Where the NIC is, is for the node to say.
            Some(Ok(Uplink::Nic(nic))) => Some(model::Uplink { nics: vec![nic], cidrs: Vec::new() }),
            Some(_) => return Err("which NIC it is put on is said when it asks".to_owned()),
        };
        Ok(Attached {
            network: conf.name,
            ifname: self.interface.clone(),
            attachment: self.definition(),
            domain: ipam.network,
            pools: ipam.pools,
            addresses: requested.addresses,
            ranges: requested.ranges,
            families: ipam.families.into_iter().map(Into::into).collect(),
            claim: ipam.claim,
            uplink,
        })
    }

    /// The plugin's configuration: one of a list gets the name of the list, a nameless one that of its definition; and
    /// what the pod asks for is put in where the configuration allows it.
    fn as_plugin_sees_it(&self, config: &Map<String, Value>) -> Result<Map<String, Value>, String> {
        let ours = |plugin: &&Map<String, Value>| {
            plugin.get("ipam").is_some_and(|ipam| ipam["type"] == PLUGIN || ipam["type"] == AS_SPIDERPOOL)
        };
        let plugin = match config.get("plugins") {
            None => Some(config).filter(ours),
            Some(plugins) => plugins.as_array().into_iter().flatten().filter_map(Value::as_object).find(ours),
        };
        let mut plugin = plugin.ok_or_else(|| format!("its addresses are not {PLUGIN}'s to give"))?.clone();
        let name = config.get("name").filter(|name| **name != "").cloned();
        plugin.insert("name".to_owned(), name.unwrap_or_else(|| json!(self.name)));
        if !self.args.is_empty() {
            let mut args = plugin.get("args").cloned().filter(Value::is_object).unwrap_or_else(|| json!({}));
            if !args["cni"].is_object() {
                args["cni"] = json!({});
            }
            for (key, value) in &self.args {
                args["cni"][key] = value.clone();
            }
            plugin.insert("args".to_owned(), args);
        }
        let may_ask = plugin.get("capabilities").is_some_and(|capabilities| capabilities["ips"] == true);
        if may_ask && !self.ips.is_empty() {
            plugin.insert("runtimeConfig".to_owned(), json!({"ips": self.ips}));
        }
        Ok(plugin)
    }
}
