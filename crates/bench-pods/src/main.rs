//! Real pods on real nodes: how long until all of a Deployment's are ready, and until all their addresses are free
//! again. `cargo xtask bench pods` runs it.
//!
//! Three contestants take turns in one cluster: the CNI project's host-local, which knows nothing of a cluster and is the
//! floor, and Berth with a shared and with an affine pool. Everything else is the same for all: kubelets, containerd, the
//! bridge plugin, the Deployment. While host-local has its turn, no agent runs. The IPAM plugin that the configuration
//! names is a stand-in that times the real one.
//!
//! | module | what it is |
//! |---|---|
//! | [`contestant`] | who gives addresses, and how that is changed |
//! | [`round`] | one Deployment, from its creation until nothing is left of it |
//! | [`calls`] | what the stand-ins wrote down, and that no address was given twice |
//! | [`report`] | medians and ratios |

mod calls;
mod contestant;
mod report;
mod round;

use anyhow::{Context, Result, bail, ensure};
use berth_cluster::{Cluster, ClusterOptions, PodNetwork, berth};
use clap::Parser;
use contestant::Contestant;
use report::Report;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use timed_ipam::PREFIX;

/// After everything is cleaned up, for whatever was set going by it.
const REST: Duration = Duration::from_secs(5);
/// Where Debian puts host-local.
const HOST_LOCAL: &str = "/usr/lib/cni/host-local";

#[derive(Parser)]
#[command(about, version)]
struct Args {
    /// How many pods a Deployment has; several numbers are measured one after another.
    #[arg(long, value_delimiter = ',', default_value = "100,300")]
    pods: Vec<u16>,
    /// How often each contestant has its turn.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
    /// Only these contestants.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Contestant::ALL)]
    only: Vec<Contestant>,
    /// The archive with Berth's image.
    #[arg(long)]
    image: PathBuf,
    /// The `berth` that checks the state.
    #[arg(long)]
    berth: PathBuf,
    /// The static stand-in.
    #[arg(long)]
    stand_in: PathBuf,
    /// Keep what the stand-ins wrote down, here.
    #[arg(long)]
    calls: Option<PathBuf>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let began = Instant::now();
    eprintln!("starting three nodes with Berth; load {}", report::load());
    let cluster = start(&args)?;
    eprintln!("ready after {:.1} s", began.elapsed().as_secs_f64());
    // Nobody pays for what is done once: images unpacked, files read for the first time, the first leases.
    for contestant in &args.only {
        round::run(&cluster, *contestant, 6, &args.berth)?;
    }
    let turns = args.pods.len() * usize::from(args.rounds) * args.only.len();
    let mut report = Report::default();
    for &pods in &args.pods {
        for number in 0..usize::from(args.rounds) {
            // Who begins changes, or somebody would always follow the same one.
            let order = args.only.iter().cycle().skip(number).take(args.only.len());
            for &contestant in order {
                let left = turns - report.len();
                eprintln!("[{:.0} s, {left} to go] {pods} pods with {contestant}", began.elapsed().as_secs_f64());
                round::wait_until_clean(&cluster)?;
                thread::sleep(REST);
                let round = round::run(&cluster, contestant, pods, &args.berth)?;
                if let Some(dir) = &args.calls {
                    round.keep_calls(dir, number)?;
                }
                eprintln!("    {}", round.in_words());
                report.add(pods, number, round);
            }
        }
    }
    report.print();
    let wrong = report.wrong();
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn start(args: &Args) -> Result<Cluster> {
    let options = ClusterOptions { nodes: 3, network: PodNetwork::None, ..ClusterOptions::default() };
    let mut cluster = Cluster::start_with(&options)?;
    if !Path::new(HOST_LOCAL).exists() {
        bail!("{HOST_LOCAL} is missing (apt-get install containernetworking-plugins)");
    }
    berth::install(&mut cluster, &args.image)?;
    for node in cluster.nodes() {
        let install = |from: &Path, name: &str| {
            let to = node.cni_bin_dir().join(name);
            fs::copy(from, &to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
        };
        install(Path::new(HOST_LOCAL), "host-local")?;
        for contestant in Contestant::ALL {
            install(&args.stand_in, &format!("{PREFIX}{}", contestant.plugin()))?;
        }
    }
    contestant::make_pools(&cluster)?;
    Ok(cluster)
}
