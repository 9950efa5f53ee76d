//! Who gives addresses.

use anyhow::{Context, Result};
use berth_cluster::{Cluster, Node, berth};
use serde_json::{Value, json};
use std::fmt;
use std::fs;
use std::thread;
use std::time::Duration;
use timed_ipam::PREFIX;

/// The name of the CNI network, whoever gives its addresses.
const NETWORK: &str = "pods";
/// Where host-local keeps a file for each address.
const HOST_LOCAL_DATA: &str = "/var/lib/cni/networks";
/// The runtime watches its directory of configurations; that takes it less than this.
const NOTICED: Duration = Duration::from_secs(1);

/// Who gives addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Contestant {
    /// The CNI project's plugin: a directory on each node, and a range for each.
    HostLocal,
    /// Berth with one pool that all nodes take single addresses of.
    Shared,
    /// Berth with a pool of which nodes lease 64 addresses at a time.
    Affine,
}

impl fmt::Display for Contestant {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::HostLocal => "host-local",
            Self::Shared => "shared",
            Self::Affine => "affine",
        })
    }
}

/// Makes the pools of Berth: each has a thousand addresses, and host-local has others.
pub(crate) fn make_pools(cluster: &Cluster) -> Result<()> {
    let number = cluster.underlay().number();
    for (name, third, more) in [("shared", 16, json!({})), ("affine", 32, json!({"blockSize": 26}))] {
        let mut spec = json!({
            "ranges": [format!("10.{number}.{third}.0/22")],
            "prefixLength": 16,
            "gateway": cluster.underlay().gateway(),
            "routes": [{"dst": "0.0.0.0/0"}],
        });
        more.as_object().into_iter().flatten().for_each(|(key, value)| spec[key] = value.clone());
        let metadata = json!({"name": name});
        let pool = json!({"apiVersion": "berth.io/v1alpha1", "kind": "IPPool", "metadata": metadata, "spec": spec});
        cluster.control_plane().apply(&pool.to_string())?;
    }
    Ok(())
}

impl Contestant {
    /// All, the floor first.
    pub(crate) const ALL: [Self; 3] = [Self::HostLocal, Self::Shared, Self::Affine];

    /// Its plugin.
    pub(crate) fn plugin(self) -> &'static str {
        match self {
            Self::HostLocal => "host-local",
            Self::Shared | Self::Affine => "berth-cni",
        }
    }

    /// Whether it is Berth.
    pub(crate) fn is_berth(self) -> bool {
        self != Self::HostLocal
    }

    /// What a pod has to say to get its addresses.
    pub(crate) fn annotations(self) -> Value {
        if self.is_berth() { json!({"berth.io/pools": self.to_string()}) } else { json!({}) }
    }

    /// Lets it give addresses from now on. Nobody may have any.
    pub(crate) fn enter(self, cluster: &Cluster) -> Result<()> {
        let plane = cluster.control_plane();
        // Nodes that do not exist: an agent that only watches would still cost host-local something.
        let nodes = if self.is_berth() { Value::Null } else { json!({"berth.io/absent": "true"}) };
        let patch = json!({"spec": {"template": {"spec": {"nodeSelector": nodes}}}}).to_string();
        let agents = ["--namespace", berth::NAMESPACE];
        let patch = ["patch", "daemonset", "berth-agent", "--type", "merge", "--patch", &patch];
        plane.kubectl_ok(&[&patch[..], &agents].concat())?;
        if self.is_berth() {
            berth::wait_for_agents(cluster)?;
        } else {
            let gone = ["wait", "--for=delete", "pod", "--selector", "app.kubernetes.io/name=berth-agent"];
            plane.kubectl_ok(&[&gone[..], &agents, &["--timeout", "60s"]].concat())?;
        }
        for (index, node) in cluster.nodes().iter().enumerate() {
            let dir = node.cni_conf_dir();
            let fresh = dir.join("fresh");
            fs::write(&fresh, format!("{:#}", self.network(cluster, index + 1)))?;
            // By a rename: without a network the node would not be ready for a moment.
            fs::rename(&fresh, dir.join("10-berth.conflist")).context("cannot put the CNI configuration in place")?;
        }
        thread::sleep(NOTICED);
        Ok(())
    }

    /// The CNI configuration of a node.
    fn network(self, cluster: &Cluster, node: usize) -> Value {
        let mut ipam = json!({"type": format!("{PREFIX}{}", self.plugin())});
        if !self.is_berth() {
            let prefix = format!("10.{}.{node}", cluster.underlay().number());
            ipam["ranges"] = json!([[{
                "subnet": cluster.underlay().subnet(),
                "rangeStart": format!("{prefix}.1"),
                "rangeEnd": format!("{prefix}.254"),
                "gateway": cluster.underlay().gateway(),
            }]]);
            ipam["routes"] = json!([{"dst": "0.0.0.0/0"}]);
            ipam["dataDir"] = json!(HOST_LOCAL_DATA);
        }
        json!({
            "cniVersion": "1.0.0",
            "name": NETWORK,
            "plugins": [{"type": "bridge", "bridge": "cni0", "ipam": ipam}],
        })
    }

    /// How many addresses are taken, where its truth is.
    pub(crate) fn in_use(self, cluster: &Cluster) -> Result<u64> {
        if self.is_berth() {
            return blocks_in_use(cluster);
        }
        cluster.nodes().iter().map(files_in_use).sum()
    }
}

/// host-local has a file for each address, and two others.
fn files_in_use(node: &Node) -> Result<u64> {
    let dir = node.path(HOST_LOCAL_DATA).join(NETWORK);
    let entries = fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    Ok(names.filter(|name| name.parse::<std::net::IpAddr>().is_ok()).count() as u64)
}

/// What the API server has; leases are no addresses.
fn blocks_in_use(cluster: &Cluster) -> Result<u64> {
    let text = cluster.control_plane().kubectl_ok(&["get", "ipblocks", "-o", "json"])?;
    let list: Value = serde_json::from_str(&text)?;
    let blocks = list["items"].as_array().into_iter().flatten();
    let addresses = blocks.filter(|it| !it["metadata"]["name"].as_str().unwrap_or_default().contains("--2fleases"));
    Ok(addresses.map(|block| block["spec"]["used"].as_u64().unwrap_or_default()).sum())
}
