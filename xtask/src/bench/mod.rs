//! Benchmarks side by side with a peer, in one run on one machine.

mod call;
mod contestant;
mod counters;
mod host_local;
mod leases;
mod report;
mod stats;

use crate::sh;
use anyhow::{Result, bail};

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
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::HostLocal(args) => host_local::run(args),
        What::Engine => engine(),
    }
}

fn engine() -> Result<()> {
    if !sh::root().join("crates/bench/Cargo.toml").exists() {
        bail!("crates/bench is not there yet");
    }
    sh::run(&mut sh::cargo(&["run", "--release", "--package", "berth-bench", "--", "engine"]))
}
