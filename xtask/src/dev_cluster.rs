//! A cluster to develop against: real nodes, on this machine, until Ctrl-C.

use crate::image;
use crate::packages::{self, NODE_PACKAGES};
use anyhow::{Context, Result, bail};
use berth_cluster::{BUSYBOX, Cluster, ClusterOptions, ControlPlane, Options, PodNetwork, Underlay, berth, tools};
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
    let image = if args.nodes > 0 { Some(image::build()?) } else { None };
    tools::ensure(tools::ALL)?;
    // From here on Ctrl-C is ours: it must not end this process before the cluster is torn down.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot handle signals")?;
    let began = Instant::now();
    let Some(image) = image else {
        eprintln!("starting a control plane");
        let plane = ControlPlane::start(&Options { controllers: true, scheduler: true, ..Options::default() })?;
        eprintln!("ready after {:.1} s", began.elapsed().as_secs_f64());
        introduce(&plane);
        return wait(&mut signals);
    };
    eprintln!("starting a control plane and {} nodes", args.nodes);
    let options = ClusterOptions { nodes: args.nodes, network: PodNetwork::None, ..ClusterOptions::default() };
    let mut cluster = Cluster::start_with(&options)?;
    eprintln!("installing Berth after {:.1} s", began.elapsed().as_secs_f64());
    berth::install(&mut cluster, &image)?;
    berth::install_controller(&cluster)?;
    eprintln!("ready after {:.1} s", began.elapsed().as_secs_f64());
    introduce(cluster.control_plane());
    suggest(cluster.underlay());
    for node in cluster.nodes() {
        eprintln!("  nsenter --target {} --all   # a shell on {}", node.pid(), node.name());
    }
    wait(&mut signals)
}

fn introduce(plane: &ControlPlane) {
    let (kubeconfig, kubectl) = (plane.kubeconfig(), plane.kubectl_path());
    println!("\nexport KUBECONFIG={}", kubeconfig.display());
    println!("alias kubectl={}\n", kubectl.display());
    eprintln!("logs: {}", plane.dir().display());
}

/// Without a pool nobody gets an address, so pools come first. They are cut from the network that the nodes are in.
fn suggest(underlay: &Underlay) {
    let (number, gateway) = (underlay.number(), underlay.gateway());
    let (range, range6) = (format!("10.{number}.1.0/24"), underlay.subnet_v6().replace("::/64", "::1:0/112"));
    eprintln!("try next:");
    eprintln!("  kubectl apply -f - <<'  END'");
    eprintln!("  apiVersion: berth.io/v1alpha1");
    eprintln!("  kind: IPPool");
    eprintln!("  metadata: {{name: blue}}");
    eprintln!("  spec: {{ranges: [{range}], prefixLength: 16, gateway: {gateway}, routes: [{{dst: 0.0.0.0/0}}]}}");
    eprintln!("  ---");
    eprintln!("  apiVersion: berth.io/v1alpha1");
    eprintln!("  kind: IPPool");
    eprintln!("  metadata: {{name: blue6}}");
    eprintln!("  spec: {{ranges: ['{range6}'], prefixLength: 64, gateway: none}}");
    eprintln!("  END");
    eprintln!("  kubectl create deployment web --image {BUSYBOX} --replicas 6");
    eprintln!("  kubectl get pods -o wide");
    eprintln!("  kubectl get pools,ipblocks");
    eprintln!("  kubectl logs -n {} daemonset/berth-agent", berth::NAMESPACE);
    eprintln!("  kubectl logs -n {} deployment/berth-controller   # once there is a pool for it", berth::NAMESPACE);
}

fn wait(signals: &mut Signals) -> Result<()> {
    eprintln!("\nCtrl-C ends the cluster");
    signals.forever().next();
    eprintln!("\nending the cluster");
    Ok(())
}
