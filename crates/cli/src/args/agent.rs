//! The agent of a cluster's node: `berth agent`. Only its arguments are here; the agent is a crate of its own.

use super::{DaemonArgs, Listen};
use clap::Args;
use std::path::PathBuf;

/// Arguments of `berth agent`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        berth agent                                             in a pod, with NODE_NAME set\n  \
        berth agent --node-name n1 --kubeconfig /etc/berth/kubeconfig")]
pub struct AgentArgs {
    /// Name of this node in the cluster
    #[arg(long, value_name = "NAME", env = "NODE_NAME", hide_env_values = true)]
    pub node_name: String,
    /// Kubeconfig; the service account of the pod if absent
    #[arg(long, value_name = "FILE", env = "BERTH_KUBECONFIG", hide_env_values = true)]
    pub kubeconfig: Option<PathBuf>,
    /// URL of the API server, in place of the kubeconfig's or the pod's: an agent runs before kube-proxy does
    #[arg(long, value_name = "URL", env = "BERTH_API_SERVER", hide_env_values = true)]
    pub api_server: Option<String>,
    /// What every daemon is told.
    #[command(flatten)]
    pub daemon: DaemonArgs,
    /// Address of /healthz, /readyz and /metrics, or `none`
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "BERTH_LISTEN",
        hide_env_values = true,
        default_value = "127.0.0.1:9098"
    )]
    pub listen: Listen,
    /// Unix socket on which Spiderpool's plugins and tools are answered, e.g. /var/run/spidernet/spiderpool.sock
    #[arg(long, value_name = "PATH", env = "BERTH_SPIDERPOOL_SOCKET", hide_env_values = true)]
    pub spiderpool_socket: Option<PathBuf>,
    /// File with what Spiderpool's ConfigMap spiderpool-conf has under conf.yml, whose switches are to hold
    #[arg(long, value_name = "FILE", env = "BERTH_SPIDERPOOL_CONFIG", hide_env_values = true)]
    pub spiderpool_config: Option<PathBuf>,
    /// For how many seconds a pod must be gone before its address is freed although nobody said DEL
    #[arg(long, value_name = "SECONDS", env = "BERTH_MISSING_FOR", hide_env_values = true, default_value_t = 60)]
    pub missing_for: u64,
    /// For how many seconds a block must have been empty before its IPBlock is deleted
    #[arg(long, value_name = "SECONDS", env = "BERTH_EMPTY_FOR", hide_env_values = true, default_value_t = 600)]
    pub empty_for: u64,
    /// For how many seconds a node has a lease before it gives it back unused; one of each pool stays
    #[arg(long, value_name = "SECONDS", env = "BERTH_IDLE_LEASE_FOR", hide_env_values = true, default_value_t = 60)]
    pub idle_lease_for: u64,
    /// How many seconds pass at least between two writes of a leased block, which nobody waits for
    #[arg(long, value_name = "SECONDS", env = "BERTH_WRITE_BLOCK_EVERY", hide_env_values = true, default_value_t = 10)]
    pub write_block_every: u64,
    /// For how many seconds an address waits that was promised to a pod before its container asked
    #[arg(long, value_name = "SECONDS", env = "BERTH_PROMISE_FOR", hide_env_values = true, default_value_t = 120)]
    pub promise_for: u64,
}
