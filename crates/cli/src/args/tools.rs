//! Commands around the daemon: status, check, import, export, crds, install-cni, completions, man, generate.

use super::OutputArgs;
use clap::{Args, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::path::PathBuf;

/// Arguments of `berth status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Refresh every so many seconds until Ctrl-C
    #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2",
        value_parser = clap::value_parser!(u64).range(1..))]
    pub watch: Option<u64>,
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `berth check`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        berth check                                    the daemon of this machine\n  \
        berth check --cluster                          a cluster: its blocks, and its pods beside them\n  \
        berth check --kubeconfig admin.conf            the cluster of this kubeconfig")]
pub struct CheckArgs {
    /// Check a cluster instead of a daemon: that of KUBECONFIG, of ~/.kube/config, or that of the pod it runs in
    #[arg(long)]
    pub cluster: bool,
    /// Check the cluster of this kubeconfig
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What to import from.
#[derive(Debug, Subcommand)]
pub enum ImportSource {
    /// Take over the leases of CNI's host-local plugin
    ///
    /// Shows what would be done; --apply does it. Containers keep running and keep their addresses. Importing twice is no
    /// error. host-local's files are read and left alone.
    HostLocal(HostLocalArgs),
    /// Take over what Spiderpool has given out in a cluster
    ///
    /// Shows what would be done; --apply does it. Pods keep running and keep their addresses. Importing twice is no error.
    /// Spiderpool's objects are read and left alone. Stop Spiderpool's agents and controller first, and start Berth's
    /// controller afterwards: it writes the status of pools anew.
    Spiderpool(SpiderpoolArgs),
}

/// Arguments of `berth import spiderpool`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        berth import spiderpool                  what would become of all addresses?\n  \
        berth import spiderpool --apply          take them over")]
pub struct SpiderpoolArgs {
    /// Kubeconfig; if absent that of KUBECONFIG, ~/.kube/config, or the service account of the pod
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Do it
    #[arg(long)]
    pub apply: bool,
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Whom to hand over to.
#[derive(Debug, Subcommand)]
pub enum ExportTarget {
    /// Say a cluster's pools, reservations and addresses in use as Spiderpool's objects
    ///
    /// Prints them as YAML; --apply makes them, statuses and all, so that Spiderpool goes on where Berth stops. IPPools that
    /// can be said in Spiderpool's words are, the others are named with the reason, and the exit code is then 1. Stop
    /// Berth's agents and controller first. Berth's own objects stay.
    Spiderpool(ExportArgs),
}

/// Arguments of `berth export spiderpool`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        berth export spiderpool > spiderpool.yaml     what would Spiderpool have?\n  \
        berth export spiderpool --apply -o name       hand over")]
pub struct ExportArgs {
    /// Kubeconfig; if absent that of KUBECONFIG, ~/.kube/config, or the service account of the pod
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Make the objects
    #[arg(long)]
    pub apply: bool,
    /// How to print the objects: one YAML document each, unless asked otherwise.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `berth import host-local`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        berth import host-local                               what would become of all networks?\n  \
        berth import host-local --network podman --apply      take over one network")]
pub struct HostLocalArgs {
    /// host-local's data directory, or the directory of one network in it
    #[arg(default_value = "/var/lib/cni/networks")]
    pub dir: PathBuf,
    /// Only this CNI network
    #[arg(long, value_name = "NAME")]
    pub network: Option<String>,
    /// Pool that the addresses go to; any pool that has them if absent; may be given again
    #[arg(short = 'p', long = "pool", value_name = "POOL")]
    pub pools: Vec<String>,
    /// Do it
    #[arg(long)]
    pub apply: bool,
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `berth crds`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  berth crds | kubectl apply -f -\n  berth crds spiderpool | kubectl apply -f -")]
pub struct CrdsArgs {
    /// Only the definition of this kind; `spiderpool` for all of Spiderpool's
    pub kind: Option<String>,
}

/// Arguments of `berth install-cni`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        berth install-cni --to /opt/cni/bin\n  \
        berth install-cni --also-as spiderpool        for networks with ipam.type spiderpool")]
pub struct InstallCniArgs {
    /// The directory of the runtime's CNI plugins
    #[arg(long, value_name = "DIR", default_value = "/opt/cni/bin")]
    pub to: PathBuf,
    /// The plugin; `berth-cni` beside this binary if absent
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Install it under this name too: `spiderpool`, `host-local`; may be given again
    #[arg(long, value_name = "NAME", value_parser = ["spiderpool", "host-local"])]
    pub also_as: Vec<String>,
}

/// Arguments of `berth completions`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  berth completions bash > /etc/bash_completion.d/berth")]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// Arguments of `berth man`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        berth man | man -l -                         read it\n  \
        berth man --out /usr/local/share/man/man1    install the pages of all commands")]
pub struct ManArgs {
    /// Write the pages of all commands into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Arguments of `berth generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// The document
    pub what: Generated,
}

/// A document that is generated from the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Generated {
    /// Reference of the command line, as Markdown
    Cli,
    /// The HTTP API, as OpenAPI
    Openapi,
    /// The metrics, as Markdown
    Metrics,
    /// The schemas of the objects, as JSON
    Schemas,
    /// The registration of the admission webhook, as YAML
    Webhook,
}
