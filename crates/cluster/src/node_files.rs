//! The configurations of a node's daemons.

use serde_json::{Value, json};
use std::net::IpAddr;
use std::path::Path;

/// Where containerd's configuration is on the node. All other paths are containerd's own defaults.
pub(crate) const CONTAINERD_PATH: &str = "/etc/berth-node/containerd.toml";
/// Where the kubelet's is.
pub(crate) const KUBELET_PATH: &str = "/etc/berth-node/kubelet.json";
/// Who the kubelet is.
pub(crate) const KUBECONFIG_PATH: &str = "/etc/berth-node/kubeconfig";
/// The image whose process holds a pod's namespaces.
pub(crate) const SANDBOX_IMAGE: &str = "berth.test/pause:1";

/// containerd's: no AppArmor and no negative OOM scores, which machines that are containers themselves do not allow;
/// snapshotters that are never used are not looked for.
pub(crate) const CONTAINERD: &str = r#"version = 2
disabled_plugins = [
    "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
]
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "berth.test/pause:1"
disable_apparmor = true
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/opt/cni/bin"
conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"#;

/// The kubelet's: old cgroups will do, the disk is never full, and only the API server may ask it things.
pub(crate) fn kubelet(authority: &Path, address: IpAddr) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "readOnlyPort": 0,
        "healthzPort": 0,
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": false },
            "x509": { "clientCAFile": authority },
        },
        "authorization": { "mode": "AlwaysAllow" },
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "failCgroupV1": false,
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": false,
        "enforceNodeAllocatable": [],
        "failSwapOn": false,
        "localStorageCapacityIsolation": false,
        "evictionHard": {
            "imagefs.available": "0%", "imagefs.inodesFree": "0%", "memory.available": "0%",
            "nodefs.available": "0%", "nodefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "makeIPTablesUtilChains": false,
        // Pods find nobody by name: there is no DNS here, and the machine's is none of their business.
        "resolvConf": "",
        "maxPods": 250,
        // The tests wait for what the kubelet says.
        "nodeStatusUpdateFrequency": "2s",
        "nodeStatusReportFrequency": "10s",
        "syncFrequency": "10s",
        "registerNode": true,
        "kubeAPIQPS": 100,
        "kubeAPIBurst": 200,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containerd_is_told_the_name_of_the_sandbox_image() {
        assert!(CONTAINERD.contains(&format!("sandbox_image = \"{SANDBOX_IMAGE}\"")));
    }
}
