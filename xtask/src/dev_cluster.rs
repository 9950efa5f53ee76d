//! A cluster to develop against: real nodes, on this machine, until Ctrl-C.

use crate::dist;
use crate::packages::{self, NODE_PACKAGES};
use anyhow::{Context, Result, bail};
use berth_cluster::{Cluster, ClusterOptions, ControlPlane, Options, PodNetwork, tools};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::time::Instant;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many nodes; with none there is an API server, controllers and a scheduler, and no pod ever runs
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=20))]
    nodes: u8,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.nodes > 0
        && let Some(why) = packages::ensure(&NODE_PACKAGES)?
    {
        bail!("{why}");
    }
    let plugin = if args.nodes > 0 { Some(dist::plugin()?) } else { None };
    tools::ensure(tools::ALL)?;
    // From here on Ctrl-C is ours: it must not end this process before the cluster is torn down.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot handle signals")?;
    let began = Instant::now();
    let Some(plugin) = plugin else {
        eprintln!("starting a control plane");
        let plane = ControlPlane::start(&Options { controllers: true, scheduler: true, ..Options::default() })?;
        eprintln!("ready after {:.1} s", began.elapsed().as_secs_f64());
        introduce(&plane);
        return wait(&mut signals);
    };
    eprintln!("starting a control plane and {} nodes", args.nodes);
    let options =
        ClusterOptions { nodes: args.nodes, network: PodNetwork::Bridge(plugin), ..ClusterOptions::default() };
    let cluster = Cluster::start_with(&options)?;
    install_berth(&cluster);
    eprintln!("ready after {:.1} s", began.elapsed().as_secs_f64());
    introduce(cluster.control_plane());
    suggest();
    for node in cluster.nodes() {
        eprintln!("  {}: nsenter --target {} --all   # a shell on the node", node.name(), node.pid());
    }
    wait(&mut signals)
}

/// Installs Berth. There are no manifests yet, so what the nodes already have is explained.
fn install_berth(cluster: &Cluster) {
    eprintln!(
        "every node has Berth's plugin under the name host-local: Berth gives the pods their addresses, each node"
    );
    eprintln!("from a range of its own in {}, with no daemon", cluster.underlay().subnet());
}

fn introduce(plane: &ControlPlane) {
    let (kubeconfig, kubectl) = (plane.kubeconfig(), plane.kubectl_path());
    println!("\nexport KUBECONFIG={}", kubeconfig.display());
    println!("alias kubectl={}\n", kubectl.display());
    eprintln!("logs: {}", plane.dir().display());
}

fn suggest() {
    eprintln!("try next:");
    eprintln!("  kubectl get nodes -o wide");
    eprintln!("  kubectl create deployment web --image {} --replicas 6", berth_cluster::BUSYBOX);
    eprintln!("  kubectl get pods -o wide");
}

fn wait(signals: &mut Signals) -> Result<()> {
    eprintln!("\nCtrl-C ends the cluster");
    signals.forever().next();
    eprintln!("\nending the cluster");
    Ok(())
}
