//! What `berth serve`, `berth agent` and `berth controller` have in common.

use clap::{Args, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a daemon is met, where it keeps its state, and what it logs.
#[derive(Debug, Args)]
pub struct DaemonArgs {
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
    /// What it logs.
    #[command(flatten)]
    pub log: LogArgs,
}

/// What a daemon logs, and how.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// How log lines look
    #[arg(long, value_enum, value_name = "FORMAT", env = "BERTH_LOG_FORMAT", hide_env_values = true, default_value_t)]
    pub log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace, or a filter such as `info,berth_door=debug`
    #[arg(long, value_name = "LEVEL", env = "BERTH_LOG_LEVEL", hide_env_values = true, default_value = "info")]
    pub log_level: String,
}

/// Where HTTP is served, if anywhere.
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

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    #[default]
    Text,
    /// One JSON object per line
    Json,
}
