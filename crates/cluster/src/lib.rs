//! Real Kubernetes on one machine, for tests and for `cargo xtask dev-cluster`.
//!
//! Nothing is simulated: etcd, the API server, the controllers, the scheduler, kubelets, containerd, runc. What a test
//! sees here is what a cluster does, conflicts and watches and restarts included.
//!
//! | module | what it is |
//! |---|---|
//! | [`tools`] | the programs, built once from pinned Go modules into a cache |
//! | [`control_plane`] | etcd and the API server, with or without controllers and scheduler; up in seconds |
//! | [`cluster`] | a control plane and nodes that run pods |
//! | [`counters`] | what the API server and etcd counted |
//! | [`berth`] | Berth, installed on it from its manifests |
//! | [`node`] | a machine of its own, as far as Kubernetes can tell: containerd and a kubelet in namespaces |
//! | [`underlay`] | the network that nodes are in |
//! | [`station`] | somebody else in that network: a router, a stranger |
//! | [`image`] | container images without a builder |
//! | [`process`] | children that end when we do |
//! | [`error`] | what can go wrong, and [`or_skip`], which tells a test to skip or to fail |
//!
//! Everything blocks: a test that wants other things to happen meanwhile has threads, and no runtime is forced upon it.

pub mod berth;
mod certificates;
mod cgroups;
pub mod cluster;
pub mod control_plane;
pub mod counters;
mod daemons;
pub mod error;
pub mod image;
mod kubeconfig;
pub mod node;
mod node_files;
mod pod_network;
pub mod process;
mod sandbox;
mod scratch;
pub mod station;
pub mod tools;
pub mod underlay;

pub use cluster::{BUSYBOX, Cluster, ClusterOptions, PodNetwork};
pub use control_plane::{ControlPlane, Options};
pub use error::{Error, Result};
pub use image::Image;
pub use node::Node;
pub use station::Station;
pub use underlay::Underlay;

use std::env;

/// For tests: what was asked for, or `None` if the machine lacks something, which is said loudly.
///
/// # Panics
/// If something is missing and `CI` is `true`, and for every other error.
#[track_caller]
#[expect(clippy::panic, reason = "a test fails by panicking")]
pub fn or_skip<T>(result: Result<T>) -> Option<T> {
    let error = match result {
        Ok(value) => return Some(value),
        Err(error) => error,
    };
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    if !error.is_missing() || env::var("CI").as_deref() == Ok("true") {
        panic!("{test} cannot run: {error}");
    }
    eprintln!("\n*** SKIPPED {test}: {error} ***\n");
    None
}
