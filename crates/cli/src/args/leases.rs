//! Commands on leases: list them, take one back.

use super::OutputArgs;
use clap::{Args, Subcommand};

/// Arguments of `berth leases`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
        berth leases --node node-7               what is lent to a node?\n  \
        berth leases return 10.77.4.0/26         take back a run in which nothing is in use"
)]
pub struct LeasesArgs {
    /// What to do instead of listing.
    #[command(subcommand)]
    pub action: Option<LeasesAction>,
    /// Only leases of this pool
    #[arg(short, long)]
    pub pool: Option<String>,
    /// Only what this node has
    #[arg(long)]
    pub node: Option<String>,
    /// Only leases of this network
    #[arg(long)]
    pub network: Option<String>,
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What to do with leases.
#[derive(Debug, Subcommand)]
pub enum LeasesAction {
    /// Take back runs in which nothing is in use
    ///
    /// If one of several cannot be taken back, the others are.
    Return(ReturnArgs),
}

/// Arguments of `berth leases return`.
#[derive(Debug, Args)]
pub struct ReturnArgs {
    /// Runs to take back, as `berth leases` shows them
    #[arg(value_name = "RANGE", required = true)]
    pub ranges: Vec<String>,
    /// Network of the runs; `default` if absent
    #[arg(long)]
    pub network: Option<String>,
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}
