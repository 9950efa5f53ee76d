//! The one door to Berth's tasks, for people and for CI: `cargo xtask help`.

mod bench;
mod dev_cluster;
mod dist;
mod elf;
mod generate;
mod image;
mod lint;
mod packages;
mod repo;
mod sh;
mod steps;
mod test;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Berth's tasks: what CI runs and what a person runs are the same")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run the tests: everything, or the parts named
    Test(test::Args),
    /// Measure, side by side with a peer
    Bench(bench::Args),
    /// Write the generated files, or check that they are up to date
    Generate(generate::Args),
    /// Check formatting, lints, dependencies and the rules of the house
    Lint,
    /// Build what is shipped into target/dist
    Dist,
    /// Build the container image into target/dist
    Image,
    /// Start a cluster to develop against, and end it on Ctrl-C
    DevCluster(dev_cluster::Args),
}

fn main() -> ExitCode {
    // Not returned from main: that would print a backtrace for what is mostly a test that failed.
    run(Args::parse().task).unwrap_or_else(|err| {
        eprintln!("error: {err:#}");
        ExitCode::FAILURE
    })
}

fn run(task: Task) -> Result<ExitCode> {
    match task {
        Task::Test(args) => test::run(&args),
        Task::Bench(args) => bench::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Generate(args) => generate::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Lint => Ok(steps::run(&lint::steps())),
        Task::Dist => dist::run().map(|()| ExitCode::SUCCESS),
        Task::Image => image::run().map(|()| ExitCode::SUCCESS),
        Task::DevCluster(args) => dev_cluster::run(&args).map(|()| ExitCode::SUCCESS),
    }
}
