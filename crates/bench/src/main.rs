//! Measurements of Berth: the engine alone, and the daemon's socket. `cargo xtask bench engine` runs them.

mod engine;
mod holders;
mod instructions;
mod memory;
mod socket;
mod store;

use clap::{Parser, Subcommand};
use std::path::PathBuf;

#[derive(Parser)]
#[command(about, version)]
struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Nanoseconds and instructions per allocation and release, and memory for a million held addresses.
    Engine {
        /// Allocations and releases per measurement.
        #[arg(long, default_value_t = 20_000)]
        operations: u32,
        /// Measurements per row; the median counts.
        #[arg(long, default_value_t = 9)]
        rounds: u32,
    },
    /// What durability costs: the engine over a journal that is forced to disk, or not.
    Store {
        /// Where the journal is written: the file system to measure.
        #[arg(long, default_value = "/var/tmp")]
        dir: PathBuf,
        /// Allocations and releases per row.
        #[arg(long, default_value_t = 40_000)]
        operations: u32,
    },
    /// Leases per second through the socket of a running daemon.
    Socket {
        /// The daemon's socket.
        #[arg(long, default_value = "/run/berth/berth.sock")]
        path: PathBuf,
        /// The pool to take addresses from; the default pools if absent.
        #[arg(long)]
        pool: Option<String>,
        /// Connections in parallel.
        #[arg(long, default_value_t = 8)]
        connections: usize,
        /// For how long.
        #[arg(long, default_value_t = 5)]
        seconds: u64,
    },
    /// Fills a pool and runs a number of operations; what `engine` counts instructions of.
    #[command(hide = true)]
    Run {
        /// Which row of the engine's table.
        #[arg(long)]
        row: usize,
        /// Allocations and releases.
        #[arg(long)]
        operations: u32,
    },
    /// Holds a million addresses and prints the memory they take; what `engine` runs in a process of its own.
    #[command(hide = true)]
    Hold {
        /// Whether the holders are pods rather than plain containers.
        #[arg(long)]
        pods: bool,
    },
}

fn main() -> anyhow::Result<()> {
    match Args::parse().what {
        What::Engine { operations, rounds } => engine::report(operations, rounds),
        What::Store { dir, operations } => store::report(&dir, operations),
        What::Socket { path, pool, connections, seconds } => {
            socket::report(&path, pool.as_deref(), connections, seconds)
        }
        What::Run { row, operations } => engine::run(row, operations),
        What::Hold { pods } => memory::hold(pods),
    }
}
