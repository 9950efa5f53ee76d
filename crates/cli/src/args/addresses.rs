//! Commands on addresses: allocate, release, show, history, quarantine, explain.

use super::OutputArgs;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use std::net::IpAddr;
use std::path::PathBuf;

/// Arguments of `berth allocate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        berth allocate                                   one address of a default pool\n  \
        berth allocate --pool blue --holder printer      one address, kept under a name\n  \
        berth allocate --family ipv4 --family ipv6       dual stack: both or nothing\n  \
        berth allocate --holder vm-7 --keep 24h          keep it for a day after the release\n  \
        ip=$(berth allocate -o name)                     just the address, for scripts")]
pub struct AllocateArgs {
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
    /// What is asked for.
    #[command(flatten)]
    pub request: RequestArgs,
}

/// Arguments of `berth explain`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        berth explain -n web --pod-label app=shop     what would a pod with that label get?\n  \
        berth explain --address 10.77.0.9             why do I not get this address?\n  \
        berth explain pod shop/web-0                  in a cluster: what does this pod get, and why?")]
#[command(args_conflicts_with_subcommands = true)]
pub struct ExplainArgs {
    /// Something that exists, instead of a request.
    #[command(subcommand)]
    pub what: Option<ExplainWhat>,
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
    /// What is asked for.
    #[command(flatten)]
    pub request: RequestArgs,
}

/// Something to explain.
#[derive(Debug, Subcommand)]
pub enum ExplainWhat {
    /// A pod of a cluster: which rule decides what it gets, which pools were considered, and what it holds
    Pod(ExplainPodArgs),
}

/// Arguments of `berth explain pod`.
#[derive(Debug, Args)]
pub struct ExplainPodArgs {
    /// The pod; in the namespace `default` if none is written
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pub pod: String,
    /// Interface of the pod
    #[arg(long, value_name = "NAME", default_value = "eth0")]
    pub interface: String,
    /// Kubeconfig; if absent that of KUBECONFIG, ~/.kube/config, or the service account of the pod
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// File with what Spiderpool's ConfigMap spiderpool-conf has under conf.yml, if the agents were given one
    #[arg(long, value_name = "FILE", env = "BERTH_SPIDERPOOL_CONFIG", hide_env_values = true)]
    pub spiderpool_config: Option<PathBuf>,
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// A request for addresses.
#[derive(Debug, Args)]
pub struct RequestArgs {
    /// Only from this pool; may be given again, wildcards allowed, the first that can serve is used
    #[arg(short = 'p', long = "pool", value_name = "POOL")]
    pub pools: Vec<String>,
    /// Only from pools of this network
    #[arg(long)]
    pub network: Option<String>,
    /// Exactly this address; may be given again
    #[arg(long = "address", value_name = "ADDRESS", value_parser = address)]
    pub addresses: Vec<IpAddr>,
    /// Family wanted; may be given again for dual stack
    #[arg(long = "family", value_name = "IPv4|IPv6", value_enum, ignore_case = true, hide_possible_values = true)]
    pub families: Vec<Family>,
    /// How many addresses of each family
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// The addresses of this claim
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub claim: Option<String>,
    /// Keep the addresses for the holder this long after their release, e.g. `1h`, or `forever`
    #[arg(long, value_name = "DURATION")]
    pub keep: Option<String>,
    /// Who asks.
    #[command(flatten)]
    pub who: WhoArgs,
}

/// Who asks for addresses; decides which pools may be used.
#[derive(Debug, Args)]
#[command(next_help_heading = "Who asks")]
pub struct WhoArgs {
    /// Name that the addresses are held under; made up if absent
    #[arg(long, value_name = "NAME")]
    pub holder: Option<String>,
    /// Namespace of the holder
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// Pod of the holder
    #[arg(long)]
    pub pod: Option<String>,
    /// Node of the holder
    #[arg(long)]
    pub node: Option<String>,
    /// Label of the pod; may be given again
    #[arg(long = "pod-label", value_name = "KEY=VALUE", value_parser = label)]
    pub pod_labels: Vec<(String, String)>,
    /// Label of the namespace; may be given again
    #[arg(long = "namespace-label", value_name = "KEY=VALUE", value_parser = label)]
    pub namespace_labels: Vec<(String, String)>,
    /// Label of the node; may be given again
    #[arg(long = "node-label", value_name = "KEY=VALUE", value_parser = label)]
    pub node_labels: Vec<(String, String)>,
}

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Family {
    /// IPv4
    #[value(name = "IPv4", aliases = ["4", "v4"])]
    V4,
    /// IPv6
    #[value(name = "IPv6", aliases = ["6", "v6"])]
    V6,
}

/// Arguments of `berth release`.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("what").required(true).args(["addresses", "holder", "node"]),
    after_help = "Examples:\n  \
        berth release 10.77.0.5            one address\n  \
        berth release --holder printer     everything that a holder has\n  \
        berth release --node node-7        everything on a node that is gone for good"
)]
pub struct ReleaseArgs {
    /// Addresses to give back
    #[arg(value_name = "ADDRESS", value_parser = address)]
    pub addresses: Vec<IpAddr>,
    /// Everything that this holder has: a name or a container ID
    #[arg(long, value_name = "NAME")]
    pub holder: Option<String>,
    /// Everything that is held on this node
    #[arg(long)]
    pub node: Option<String>,
    /// Network of the addresses; `default` if absent
    #[arg(long, conflicts_with_all = ["holder", "node"])]
    pub network: Option<String>,
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `berth show`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        berth show                        everything that is held\n  \
        berth show 10.77.0.5              one address, in full\n  \
        berth show --state quarantined    addresses that were seen in use by strangers")]
pub struct ShowArgs {
    /// Show this address in full
    #[arg(value_parser = address, conflicts_with_all = ["pool", "node", "namespace", "holder", "state"])]
    pub address: Option<IpAddr>,
    /// Only addresses of this pool
    #[arg(short, long)]
    pub pool: Option<String>,
    /// Only addresses held on this node
    #[arg(long)]
    pub node: Option<String>,
    /// Only addresses held in this namespace
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// Only addresses of this holder: a name or a container ID
    #[arg(long, value_name = "NAME")]
    pub holder: Option<String>,
    /// Only addresses in this state
    #[arg(long, value_enum, ignore_case = true)]
    pub state: Option<State>,
    /// Only addresses of this network
    #[arg(long)]
    pub network: Option<String>,
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What an address may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum State {
    /// In use
    Active,
    /// Kept for a holder that is away
    Held,
    /// Seen in use by a stranger
    Quarantined,
    /// Given back a moment ago
    Cooling,
    /// Given back
    Released,
}

/// Arguments of `berth history`.
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// The address
    #[arg(value_parser = address)]
    pub address: IpAddr,
    /// How far to look back: a duration, e.g. `24h`, or a time, e.g. `2026-01-31T12:00:00Z`
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// Only in this network
    #[arg(long)]
    pub network: Option<String>,
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `berth quarantine`.
#[derive(Debug, Args)]
pub struct QuarantineArgs {
    /// The address
    #[arg(value_parser = address)]
    pub address: IpAddr,
    /// How long, e.g. `1h`; until it is released if absent
    #[arg(long = "for", value_name = "DURATION")]
    pub duration: Option<String>,
    /// Network of the address; `default` if absent
    #[arg(long)]
    pub network: Option<String>,
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// An address, with or without the prefix length that tables and interfaces show beside it.
fn address(text: &str) -> Result<IpAddr, String> {
    let bare = text.split_once('/').map_or(text, |(address, _)| address);
    bare.parse().map_err(|_| "not an IP address; write e.g. 10.77.0.5 or fd00::5".to_owned())
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or("write KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}
