//! Measurements of Berth in a cluster. `cargo xtask bench cluster` runs them.
//!
//! The API server and etcd are real, nodes and pods are real objects, and every agent is the real one with its socket,
//! its journal and the rights it has when installed; only kubelets and containers are missing. Agents share a process,
//! which is cheaper than one each and changes nothing about what they ask of the API server. What that costs is read
//! from the API server's own counters. Everything runs on the same cores, so trust counts more than times.
//!
//! | module | what it is |
//! |---|---|
//! | [`world`] | the control plane, nodes, pods and agents |
//! | [`drive`] | requests at the agents' sockets, every answer checked |
//! | [`runs`] | the tables |
//! | [`outage`] | load while the API server stands still |

mod drive;
mod outage;
mod runs;
mod world;

use anyhow::{Result, ensure};
use clap::Parser;
use std::time::Duration;

#[derive(Parser)]
#[command(about, version)]
struct Args {
    /// How many nodes, each with its agent.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=50))]
    agents: u16,
    /// Fewer pods and a shorter outage: to see that it works.
    #[arg(long)]
    quick: bool,
    /// How long the API server stands still, in seconds.
    #[arg(long)]
    outage: Option<u64>,
    /// Only these parts.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// What the agents log, on standard error.
    #[arg(long)]
    log_level: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Shared and affine pools, 1, 8 and 32 requests at once.
    Matrix,
    /// As many addresses as pods, filled in quarters.
    Full,
    /// A small pool and a large one.
    Size,
    /// Pods that come one after another, as kubelets bring them.
    Paced,
    /// The API server stands still.
    Outage,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(level) = &args.log_level {
        berth_server::init_logging(berth_server::LogFormat::Text, level);
    }
    let wanted = |part: Part| args.only.is_empty() || args.only.contains(&part);
    let (per_agent, full): (usize, &[usize]) = if args.quick { (50, &[500]) } else { (200, &[1000, 5000]) };
    let agents = usize::from(args.agents);
    let largest = if wanted(Part::Full) { full.iter().copied().max().unwrap_or(0) } else { 0 };
    let world = world::World::start(agents, per_agent.max(largest.div_ceil(agents)))?;
    let mut summary = runs::Summary::default();
    if wanted(Part::Matrix) {
        runs::matrix(&world, per_agent, &mut summary)?;
    }
    if wanted(Part::Full) {
        full.iter().try_for_each(|&addresses| runs::full(&world, addresses, &mut summary))?;
    }
    if wanted(Part::Size) {
        runs::size(&world, 500.min(agents * per_agent), &mut summary)?;
    }
    if wanted(Part::Paced) {
        runs::paced(&world, Duration::from_secs(if args.quick { 5 } else { 20 }), &mut summary)?;
    }
    if wanted(Part::Outage) {
        let seconds = args.outage.unwrap_or(if args.quick { 10 } else { 60 });
        outage::report(&world, Duration::from_secs(seconds))?;
    }
    world.stop()?;
    println!("\n{summary}");
    ensure!(summary.failed == 0, "{} requests failed", summary.failed);
    Ok(())
}
