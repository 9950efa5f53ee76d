//! The daemon: `berth serve`. Only its arguments are here; the daemon is a crate of its own.

use super::{DaemonArgs, Listen};
use clap::{Args, ValueEnum};
use std::fs;

/// Arguments of `berth serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        berth serve                                            as a system service\n  \
        berth serve --socket /tmp/b.sock --state-dir /tmp/b    just to try it")]
pub struct ServeArgs {
    /// What every daemon is told.
    #[command(flatten)]
    pub daemon: DaemonArgs,
    /// Address of the HTTP API, or `none`
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "BERTH_LISTEN",
        hide_env_values = true,
        default_value = "127.0.0.1:8090"
    )]
    pub listen: Listen,
    /// When a write is forced to disk
    #[arg(long, value_enum, env = "BERTH_DURABILITY", hide_env_values = true, default_value_t)]
    pub durability: Durability,
    /// How many days the history of addresses is kept
    #[arg(long, value_name = "DAYS", env = "BERTH_AUDIT_DAYS", hide_env_values = true, default_value_t = 30)]
    pub audit_days: u64,
    /// Name of this node; the name of the host if absent
    #[arg(long, value_name = "NAME", env = "BERTH_NODE_NAME", hide_env_values = true)]
    pub node_name: Option<String>,
}

impl ServeArgs {
    /// The name of this node: as given, else the name of the host.
    #[must_use]
    pub fn node_name(&self) -> String {
        // Not a default of the argument: the generated reference would name the machine it was generated on.
        let host = || fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned());
        self.node_name.clone().or_else(|| host().ok()).unwrap_or_else(|| "localhost".to_owned())
    }
}

/// When a write is forced to disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Durability {
    /// If it must outlive the boot: containers do not, their addresses need not
    #[default]
    Boot,
    /// Always
    Always,
}
