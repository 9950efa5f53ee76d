//! The real Multus, which calls other plugins for each interface of a pod.

use crate::Lab;
use berth_cluster::tools::Tool;
use serde_json::{Value, json};
use std::fs;

/// Puts Multus in front of a network on every node, and lets the server know network attachment definitions.
///
/// # Panics
/// If Multus cannot be built, or the definitions are refused.
pub fn install(lab: &Lab, network: &Value) {
    let multus = Tool::Multus.path().unwrap();
    lab.cluster.control_plane().define_attachments().unwrap();
    let kubeconfig = lab.cluster.control_plane().kubeconfig();
    for node in lab.cluster.nodes() {
        let config = json!({"cniVersion": "1.0.0", "name": "multus-cni-network", "type": "multus",
                            "kubeconfig": kubeconfig, "delegates": [network]});
        fs::copy(&multus, node.cni_bin_dir().join("multus")).unwrap();
        // The first in order of name is the one that containerd uses.
        fs::write(node.cni_conf_dir().join("00-multus.conf"), config.to_string()).unwrap();
    }
}

/// Defines a network in the namespace `default`.
///
/// # Panics
/// If the server refuses it.
#[track_caller]
pub fn define(lab: &Lab, name: &str, config: &Value) {
    lab.apply(&json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"config": config.to_string()}}));
}
