//! The daemon: `berth serve`. Only its arguments are here; the daemon is a crate of its own.

use clap::{Args, ValueEnum};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Arguments of `berth serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        berth serve                                            as a system service\n  \
        berth serve --socket /tmp/b.sock --state-dir /tmp/b    just to try it")]
pub struct ServeArgs {
    /// Unix socket for the CNI plugin; its directory is for root alone
    #[arg(
        long,
        value_name = "PATH",
        env = "BERTH_SOCKET",
        hide_env_values = true,
        default_value = "/run/berth/berth.sock"
    )]
    pub socket: PathBuf,
    /// Where the state is kept
    #[arg(long, value_name = "DIR", env = "BERTH_STATE_DIR", hide_env_values = true, default_value = "/var/lib/berth")]
    pub state_dir: PathBuf,
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
    /// How log lines look
    #[arg(long, value_enum, value_name = "FORMAT", env = "BERTH_LOG_FORMAT", hide_env_values = true, default_value_t)]
    pub log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace, or a filter such as `berth_server=debug`
    #[arg(long, value_name = "LEVEL", env = "BERTH_LOG_LEVEL", hide_env_values = true, default_value = "info")]
    pub log_level: String,
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

/// Where the HTTP API listens, if anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen(pub Option<SocketAddr>);

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(None)),
            _ => text.parse().map(|addr| Self(Some(addr))).map_err(|_| "write ADDRESS:PORT or none".to_owned()),
        }
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

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    #[default]
    Text,
    /// One JSON object per line
    Json,
}
