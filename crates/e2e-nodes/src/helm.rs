//! Helm, and the chart.

use crate::Lab;
use berth_cluster::berth;
use berth_cluster::tools::Tool;
use std::path::Path;
use std::process::Command;

/// Runs Helm in Berth's namespace, which must succeed.
///
/// # Panics
/// With what it said.
#[track_caller]
pub fn helm(lab: &Lab, args: &[&str]) -> String {
    let output = Command::new(Tool::Helm.path().unwrap())
        .args(args)
        .args(["--namespace", berth::NAMESPACE, "--kubeconfig"])
        .arg(lab.cluster.control_plane().kubeconfig())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "helm {args:?}: {said}");
    said
}

/// Where the chart is.
#[must_use]
pub fn chart() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm/berth").to_string_lossy().into_owned()
}

/// What every cluster has to say: the image, which is imported here and never pulled, and the address of the API server,
/// because there is no kube-proxy.
#[must_use]
pub fn values(lab: &Lab) -> [String; 4] {
    let (repository, tag) = berth::IMAGE.rsplit_once(':').unwrap_or((berth::IMAGE, "latest"));
    let image = format!("image.repository={repository},image.tag={tag},image.pullPolicy=Never");
    ["--set".to_owned(), image, "--set".to_owned(), format!("apiServer={}", lab.cluster.control_plane().url())]
}

/// Waits until agents and controllers are what was asked for last.
///
/// # Panics
/// If they do not become so.
#[track_caller]
pub fn rolled_out(lab: &Lab) {
    for workload in ["daemonset/berth-agent", "deployment/berth-controller"] {
        lab.kubectl(&format!("rollout status {workload} -n {} --timeout 180s", berth::NAMESPACE));
    }
}
