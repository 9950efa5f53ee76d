//! Berth itself, installed as a user installs it: the manifests of `deploy/kubernetes`, the image, and a CNI
//! configuration on every node.
//!
//! The manifests are used as they are, but for what every cluster has to say for itself: the image, which is imported
//! here and never pulled, and the address of the API server, because there is no kube-proxy. What is replaced must be
//! there to be replaced, so that a manifest that changes is noticed.

use crate::cluster::Cluster;
use crate::error::{Context, Error, Result, write};
use crate::process;
use serde_json::{Value, json};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What Berth's image is called where it is imported.
pub const IMAGE: &str = "berth.test/berth:dev";
/// Where it is installed.
pub const NAMESPACE: &str = "berth-system";
/// Names the archive with the image.
const IMAGE_VARIABLE: &str = "BERTH_IMAGE";
/// What the manifest of the agents says until somebody fills it in.
const UNSET_SERVER: &str = r#"# - {name: BERTH_API_SERVER, value: "https://ADDRESS:6443"}"#;

/// Where the manifests are.
#[must_use]
pub fn manifests() -> PathBuf {
    root().join("deploy/kubernetes")
}

/// The archive with Berth's image: `$BERTH_IMAGE`, else built now by `cargo xtask image`, which takes no time if nothing
/// has changed.
///
/// # Errors
/// With what the build said, if it fails.
pub fn image() -> Result<PathBuf> {
    if let Some(archive) = env::var_os(IMAGE_VARIABLE).filter(|archive| !archive.is_empty()) {
        return Ok(archive.into());
    }
    let mut cargo = Command::new(env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from));
    process::run(cargo.args(["xtask", "image"]).current_dir(root()))?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("dist/berth-image.tar"))
}

/// Installs Berth on a cluster that was started without a pod network, and waits until its nodes are ready.
///
/// # Errors
/// If something is refused or does not come up, with what the agents say.
pub fn install(cluster: &mut Cluster, image: &Path) -> Result<()> {
    let plane = cluster.control_plane();
    let definitions = manifests().join("crds");
    plane.kubectl_ok(&["apply", "--server-side", "--filename", &definitions.to_string_lossy()])?;
    plane.kubectl_ok(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"])?;
    for name in ["namespace.yaml", "agent-rbac.yaml", "agent-policy.yaml"] {
        plane.apply(&read(name)?)?;
    }
    cluster.load_image(image)?;
    plane.apply(&filled_in("agent-daemonset.yaml", &plane.url())?)?;
    wait_for_agents(cluster)?;
    configure_nodes(cluster)
}

/// Installs the controller with its webhook, beside what [`install`] did. Its pods need addresses like any others: they
/// come up once there is a pool.
///
/// # Errors
/// If something is refused.
pub fn install_controller(cluster: &Cluster) -> Result<()> {
    let plane = cluster.control_plane();
    plane.apply(&read("controller-rbac.yaml")?)?;
    plane.apply(&filled_in("controller-deployment.yaml", &plane.url())?)?;
    plane.apply(&read("webhook.yaml")?)?;
    Ok(())
}

/// Names Berth in the CNI configuration of every node, and waits until they are ready. The last step: a node with a
/// configuration gets pods.
///
/// # Errors
/// If a node does not become ready.
pub fn configure_nodes(cluster: &mut Cluster) -> Result<()> {
    for node in cluster.nodes() {
        write(&node.cni_conf_dir().join("10-berth.conflist"), format!("{:#}", network()))?;
    }
    cluster.wait_ready()
}

/// Waits until the agent of every node is ready.
///
/// # Errors
/// If one does not become so, with what the agents say.
pub fn wait_for_agents(cluster: &Cluster) -> Result<()> {
    let plane = cluster.control_plane();
    let rollout = ["rollout", "status", "daemonset/berth-agent", "--namespace", NAMESPACE, "--timeout", "180s"];
    plane.kubectl_ok(&rollout).map(drop).map_err(|error| {
        let said = |args: &[&str]| plane.kubectl(args).map(|output| output.stdout).unwrap_or_default();
        let pods = said(&["get", "pods", "--namespace", NAMESPACE, "-o", "wide"]);
        let events = said(&["get", "events", "--namespace", NAMESPACE, "-o", "custom-columns=:.message"]);
        let logs = said(&["logs", "--namespace", NAMESPACE, "daemonset/berth-agent", "--tail", "20"]);
        let text = [pods, events, logs].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).join("\n");
        Error::Invalid(format!("{error}\n{text}"))
    })
}

/// A network as any other with the bridge plugin, with Berth for the addresses. `cni0` is part of the underlay on every
/// node, so all pods are in one network at layer 2.
fn network() -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [{ "type": "bridge", "bridge": "cni0", "ipam": { "type": "berth-cni" } }],
    })
}

/// A manifest with what this cluster has to say.
fn filled_in(name: &str, server: &str) -> Result<String> {
    fill_in(name, &read(name)?, server)
}

fn fill_in(name: &str, manifest: &str, server: &str) -> Result<String> {
    let server = format!("- {{name: BERTH_API_SERVER, value: \"{server}\"}}");
    let replaced = [
        ("image: docker.io/berth:latest", format!("image: {IMAGE}")),
        ("imagePullPolicy: IfNotPresent", "imagePullPolicy: Never".to_owned()),
        (UNSET_SERVER, server),
    ];
    replaced.iter().try_fold(manifest.to_owned(), |text, (from, to)| match text.contains(from) {
        true => Ok(text.replace(from, to)),
        false => Err(Error::Invalid(format!("{name} has no {from:?} to put {to:?} in place of"))),
    })
}

fn read(name: &str) -> Result<String> {
    let path = manifests().join(name);
    fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))
}

/// The root of the workspace: this crate is never installed anywhere else.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_gets_the_image_and_the_server() {
        let text = filled_in("agent-daemonset.yaml", "https://10.0.0.1:7").unwrap();
        assert_eq!(text.matches(&format!("image: {IMAGE}")).count(), 2, "{text}");
        let server = "        - {name: BERTH_API_SERVER, value: \"https://10.0.0.1:7\"}\n";
        assert!(text.contains(server) && !text.contains("docker.io"), "{text}");
    }

    #[test]
    fn a_manifest_without_what_is_to_be_replaced_is_refused() {
        let error = fill_in("a.yaml", "image: docker.io/berth:latest", "x").unwrap_err().to_string();
        assert!(error.contains("imagePullPolicy"), "{error}");
    }
}
