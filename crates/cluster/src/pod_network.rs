//! The CNI plugins and configuration of a node.

use crate::cluster::PodNetwork;
use crate::error::{Context, Error, Result, write};
use crate::node::Node;
use crate::underlay::Underlay;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Where Debian puts the reference plugins.
pub(crate) const REFERENCE: &str = "/usr/lib/cni";
/// Those of them that give addresses: a test that names Berth must not get them by mistake.
const IPAM: [&str; 3] = ["host-local", "dhcp", "static"];

/// Installs the plugins and, if there is to be one, the network.
pub(crate) fn install(node: &Node, underlay: &Underlay, number: u8, network: &PodNetwork) -> Result<()> {
    let missing = || Error::Missing(format!("{REFERENCE} is missing (apt-get install containernetworking-plugins)"));
    for entry in fs::read_dir(REFERENCE).map_err(|_| missing())?.flatten() {
        if !IPAM.iter().any(|name| entry.file_name() == *name) {
            let link = node.cni_bin_dir().join(entry.file_name());
            symlink(entry.path(), &link).context(|| format!("cannot make {}", link.display()))?;
        }
    }
    let PodNetwork::Bridge(host_local) = network else { return Ok(()) };
    // A copy: where it was built may be out of the node's sight.
    let copied = fs::copy(host_local, node.cni_bin_dir().join("host-local"));
    copied.context(|| format!("cannot copy {} to {}", host_local.display(), node.name()))?;
    let config = bridge(underlay, number, Path::new("/var/lib/cni/networks"));
    write(&node.cni_conf_dir().join("10-berth.conflist"), format!("{config:#}"))
}

/// All pods in one network, whatever their node, and a range for each node: that is as far as host-local goes.
fn bridge(underlay: &Underlay, number: u8, data: &Path) -> Value {
    let prefix = format!("10.{}.{number}", underlay.number());
    let range = json!({
        "subnet": underlay.subnet(),
        "rangeStart": format!("{prefix}.1"),
        "rangeEnd": format!("{prefix}.254"),
        "gateway": underlay.gateway(),
    });
    json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [{
            "type": "bridge",
            "bridge": "cni0",
            "ipam": {
                "type": "host-local",
                "ranges": [[range]],
                "routes": [{ "dst": "0.0.0.0/0" }],
                "dataDir": data,
            },
        }],
    })
}
