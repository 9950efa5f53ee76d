//! Benchmarks: side by side with a peer, the engine alone, many agents in a cluster, real pods.

mod call;
mod contestant;
mod counters;
mod detect;
mod host_local;
mod leases;
mod report;
mod spiderpool;
mod stats;

use crate::packages::{self, NODE_PACKAGES};
use crate::{dist, image, sh};
use anyhow::{Result, bail};
use berth_cluster::tools::{self, Tool};
use berth_conformance::daemon::Daemon;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// The plugin, daemonless and through the daemon, beside the real host-local
    HostLocal(host_local::Args),
    /// The engine alone: nanoseconds, instructions, memory, socket throughput
    Engine,
    /// What it costs an ADD to ask on the wire who uses the address, and whether the gateway is there; root
    Detect(detect::Args),
    /// Many agents in a cluster: a real API server, their sockets, what a pod costs it
    Cluster(ClusterArgs),
    /// Agents that speak the socket API of spiderpool-agent, whosever they are, with the same pods
    Spiderpool(spiderpool::Args),
    /// Real pods on three real nodes, beside host-local: until all are ready, and until all addresses are free; root
    Pods(PodsArgs),
}

#[derive(clap::Args)]
struct ClusterArgs {
    /// How many nodes, each with its agent
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=50))]
    agents: u16,
    /// Fewer pods and a shorter outage: to see that it works
    #[arg(long)]
    quick: bool,
}

#[derive(clap::Args)]
struct PodsArgs {
    /// How many pods a Deployment has; several numbers are measured one after another
    #[arg(long, value_delimiter = ',', default_value = "100,300")]
    pods: Vec<u16>,
    /// How often each contestant has its turn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::HostLocal(args) => host_local::run(args),
        What::Engine => engine(),
        What::Detect(args) => detect::run(args),
        What::Cluster(args) => cluster(args),
        What::Spiderpool(args) => spiderpool::run(args),
        What::Pods(args) => pods(args),
    }
}

/// The engine in memory, then over a journal, then behind the daemon's socket.
fn engine() -> Result<()> {
    // Instructions are counted by function, and a stripped binary has none.
    let mut build = sh::cargo(&["build", "--release", "--package", "berth-bench"]);
    sh::run(build.env("CARGO_PROFILE_RELEASE_STRIP", "none").arg("--target-dir").arg(sh::target_dir().join("bench")))?;
    let bench = sh::target_dir().join("bench/release/berth-bench");
    sh::run(&mut sh::command(&bench, &["engine"]))?;
    sh::run(&mut sh::command(&bench, &["store"]))?;
    let dir = tempfile::tempdir()?;
    let pool = "{apiVersion: berth.io/v1alpha1, kind: IPPool, metadata: {name: bench}, spec: {ranges: [10.0.0.0/8]}}";
    let daemon = Daemon::start(&dist::daemon()?, dir.path(), pool)?;
    for connections in ["1", "8", "32"] {
        let mut run = sh::command(&bench, &["socket", "--pool", "bench", "--connections", connections]);
        sh::run(run.arg("--path").arg(daemon.socket()))?;
    }
    Ok(())
}

/// Agents in one process, the API server beside it.
fn cluster(args: &ClusterArgs) -> Result<()> {
    tools::ensure([Tool::Etcd, Tool::Apiserver, Tool::Kubectl])?;
    sh::run(&mut sh::cargo(&["build", "--release", "--package", "berth-bench-cluster"]))?;
    let mut bench = sh::command(sh::target_dir().join("release/berth-bench-cluster"), &[]);
    bench.arg("--agents").arg(args.agents.to_string());
    if args.quick {
        bench.arg("--quick");
    }
    sh::run(&mut bench)
}

/// Kubelets and containers: Berth as it is installed, and host-local in its place.
fn pods(args: &PodsArgs) -> Result<()> {
    if let Some(why) = packages::ensure(&NODE_PACKAGES)? {
        bail!("{why}");
    }
    tools::ensure(tools::ALL)?;
    let (image, berth, stand_in) = (image::build()?, dist::static_daemon()?, dist::stand_in()?);
    sh::run(&mut sh::cargo(&["build", "--release", "--package", "berth-bench-pods"]))?;
    let mut bench = sh::command(sh::target_dir().join("release/berth-bench-pods"), &[]);
    let pods: Vec<String> = args.pods.iter().map(u16::to_string).collect();
    bench.arg("--pods").arg(pods.join(",")).arg("--rounds").arg(args.rounds.to_string());
    bench.arg("--image").arg(image).arg("--berth").arg(berth).arg("--stand-in").arg(stand_in);
    sh::run(&mut bench)
}
