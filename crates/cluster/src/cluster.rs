//! A control plane and nodes that run pods.

use crate::control_plane::{ControlPlane, Options};
use crate::error::{Error, Result};
use crate::node::Node;
use crate::node_files::SANDBOX_IMAGE;
use crate::process::until;
use crate::tools;
use crate::underlay::Underlay;
use crate::{cgroups, image, pod_network};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::thread;

/// An image with busybox, which every node has. It sleeps if told nothing else.
pub const BUSYBOX: &str = "berth.test/busybox:1";

/// Who gives pods their interfaces and addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodNetwork {
    /// Nobody yet: nodes are not ready until the caller has filled [`Node::cni_conf_dir`]. The reference plugins are
    /// in [`Node::cni_bin_dir`], those that give addresses left out.
    None,
    /// The bridge plugin, in the underlay, with a program that does as host-local does: the path is that of it. Each
    /// node gives addresses of a range of its own.
    Bridge(PathBuf),
}

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// How many nodes, at most 100.
    pub nodes: u8,
    /// Who gives pods their addresses.
    pub network: PodNetwork,
    /// More flags for the API server.
    pub apiserver_flags: Vec<String>,
    /// More flags for the controller manager.
    pub controller_manager_flags: Vec<String>,
}

impl Default for ClusterOptions {
    /// Three nodes, and host-local.
    fn default() -> Self {
        Self {
            nodes: 3,
            network: PodNetwork::Bridge(Path::new(pod_network::REFERENCE).join("host-local")),
            apiserver_flags: Vec::new(),
            controller_manager_flags: Vec::new(),
        }
    }
}

/// A running cluster; all of it ends when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    // In the order in which they are dropped: nodes hang on the bridge, and write into the control plane's directory.
    nodes: Vec<Node>,
    plane: ControlPlane,
    underlay: Underlay,
}

impl Cluster {
    /// A control plane and this many nodes, all ready, with host-local.
    ///
    /// # Errors
    /// [`Error::Missing`] if the machine lacks something.
    pub fn start(nodes: u8) -> Result<Self> {
        Self::start_with(&ClusterOptions { nodes, ..ClusterOptions::default() })
    }

    /// A cluster; its nodes are ready if it has a pod network.
    ///
    /// # Errors
    /// [`Error::Missing`] if the machine lacks something.
    pub fn start_with(options: &ClusterOptions) -> Result<Self> {
        if options.nodes > 100 {
            return Err(Error::Invalid(format!("{} nodes are more than one machine can bear", options.nodes)));
        }
        requirements(options.nodes)?;
        tools::ensure(tools::ALL)?;
        let underlay = Underlay::new()?;
        let plane = ControlPlane::start(&Options {
            address: Some(underlay.gateway()),
            controllers: true,
            scheduler: true,
            apiserver_flags: options.apiserver_flags.clone(),
            controller_manager_flags: options.controller_manager_flags.clone(),
            scheduler_flags: Vec::new(),
        })?;
        cgroups::weigh();
        let mut cluster = Self { nodes: Vec::new(), plane, underlay };
        let images = cluster.write_images()?;
        cluster.nodes = cluster.start_nodes(options, &images)?;
        if options.network != PodNetwork::None {
            cluster.wait_ready()?;
        }
        Ok(cluster)
    }

    /// The API server and what belongs to it.
    #[must_use]
    pub fn control_plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// The same, to stop and start the API server.
    pub fn control_plane_mut(&mut self) -> &mut ControlPlane {
        &mut self.plane
    }

    /// The network that nodes and pods are in.
    #[must_use]
    pub fn underlay(&self) -> &Underlay {
        &self.underlay
    }

    /// The nodes, `node-1` first.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The same, to stop and start their daemons.
    pub fn nodes_mut(&mut self) -> &mut [Node] {
        &mut self.nodes
    }

    /// The node of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn node(&self, name: &str) -> Result<&Node> {
        let found = self.nodes.iter().find(|node| node.name() == name);
        found.ok_or_else(|| Error::Invalid(format!("there is no node {name:?}")))
    }

    /// Waits until all nodes are ready.
    ///
    /// # Errors
    /// If one does not become so, with what the API server says.
    pub fn wait_ready(&mut self) -> Result<()> {
        let (plane, nodes) = (&self.plane, &mut self.nodes);
        until("the nodes to be ready", || {
            nodes.iter_mut().try_for_each(Node::check)?;
            let path = "jsonpath={range .items[*]}{.status.conditions[?(@.type=='Ready')].status} {end}";
            let output = plane.kubectl(&["get", "nodes", "-o", path])?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let ready = text.split_whitespace().filter(|&status| status == "True").count();
            Ok(if ready == nodes.len() { Ok(()) } else { Err(format!("ready: {text:?}")) })
        })
    }

    /// Imports an image archive on all nodes.
    ///
    /// # Errors
    /// If a node refuses it.
    pub fn load_image(&self, archive: &Path) -> Result<()> {
        self.nodes.iter().try_for_each(|node| node.load_image(archive))
    }

    /// The node that a pod runs on.
    ///
    /// # Errors
    /// If it is not scheduled.
    pub fn node_of_pod(&self, namespace: &str, name: &str) -> Result<&Node> {
        let args = ["get", "pod", name, "--namespace", namespace, "-o", "jsonpath={.spec.nodeName}"];
        self.node(&self.plane.kubectl_ok(&args)?)
    }

    /// The addresses in a pod's own network namespace; see [`Node::pod_addresses`].
    ///
    /// # Errors
    /// If the pod does not run.
    pub fn pod_addresses(&self, namespace: &str, name: &str) -> Result<Vec<IpAddr>> {
        self.node_of_pod(namespace, name)?.pod_addresses(namespace, name)
    }

    fn write_images(&self) -> Result<Vec<PathBuf>> {
        let write = |name: &str, file: &str| {
            let archive = self.plane.dir().join(file);
            image::busybox(name)?.write(&archive)?;
            Ok(archive)
        };
        Ok(vec![write(SANDBOX_IMAGE, "pause.tar")?, write(BUSYBOX, "busybox.tar")?])
    }

    /// All at once: most of the time is spent waiting for each.
    fn start_nodes(&self, options: &ClusterOptions, images: &[PathBuf]) -> Result<Vec<Node>> {
        let start = |number| -> Result<Node> {
            let mut node = Node::new(&self.plane, &self.underlay, number)?;
            pod_network::install(&node, &self.underlay, number, &options.network)?;
            node.start_containerd()?;
            images.iter().try_for_each(|image| node.load_image(image))?;
            node.start_kubelet()?;
            Ok(node)
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (1..=options.nodes).map(|number| scope.spawn(move || start(number))).collect();
            let gone = |_| Err(Error::Invalid("the thread that starts a node panicked".to_owned()));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(gone)).collect()
        })
    }
}

/// What must be on the machine besides what is built.
fn requirements(nodes: u8) -> Result<()> {
    let needed: &[(&str, &str)] = match nodes {
        0 => &[("ip", "iproute2"), ("setpriv", "util-linux")],
        _ => &[
            ("ip", "iproute2"),
            ("setpriv", "util-linux"),
            ("containerd", "containerd"),
            ("runc", "runc"),
            ("busybox", "busybox-static"),
        ],
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = |program: &str| std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    let missing: Vec<_> =
        needed.iter().filter(|(program, _)| !installed(program)).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages = missing.join(" ");
    Err(Error::Missing(format!("nodes need more programs on this machine: apt-get install {packages}")))
}
