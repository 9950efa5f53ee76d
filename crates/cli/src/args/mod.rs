//! Every command, argument and help text. What is written here is also the man pages and the Markdown reference.

mod addresses;
mod agent;
mod controller;
mod daemon;
mod leases;
mod objects;
mod serve;
mod tools;

pub use addresses::{
    AllocateArgs, ExplainArgs, ExplainPodArgs, ExplainWhat, Family, HistoryArgs, QuarantineArgs, ReleaseArgs,
    RequestArgs, ShowArgs, State, WhoArgs,
};
pub use agent::AgentArgs;
pub use controller::{ClassTime, ControllerArgs, ReclaimArgs, UninstallArgs};
pub use daemon::{DaemonArgs, Listen, LogArgs, LogFormat};
pub use leases::{LeasesAction, LeasesArgs, ReturnArgs};
pub use objects::{ApplyArgs, DeleteArgs, GetArgs};
pub use serve::{Durability, ServeArgs};
pub use tools::{
    CheckArgs, CompletionsArgs, CrdsArgs, ExportArgs, ExportTarget, GenerateArgs, Generated, HostLocalArgs,
    ImportSource, InstallCniArgs, ManArgs, SpiderpoolArgs, StatusArgs,
};

use clap::{Args, Parser, Subcommand, ValueEnum};

/// One IP address manager for containers, machines and services
#[derive(Debug, Parser)]
#[command(name = "berth", version, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
}

/// Options that every command takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// The daemon to talk to
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "BERTH_SERVER",
        hide_env_values = true,
        default_value = "http://127.0.0.1:8090"
    )]
    pub server: String,
    /// Colours: auto (on a terminal, unless NO_COLOR is set), always, never
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t, hide_possible_values = true)]
    pub color: Color,
    /// Print data and errors only: no hints, no notes, no progress
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// What the binary does: be the daemon, work on a cluster or with another system, or talk to the daemon.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon of this machine
    ///
    /// It serves the CNI plugin on a unix socket and this command line on a local HTTP address. With no configuration at
    /// all it offers a small example pool and says what to try next.
    Serve(ServeArgs),
    /// Run the agent of a cluster's node
    ///
    /// It serves the CNI plugin on a unix socket, as `berth serve` does, with the state in the cluster's API server.
    Agent(AgentArgs),
    /// Run the controller of a cluster
    ///
    /// Addresses whose users are gone come back, claims are bound, what is in use is not deleted, and pools say how full
    /// they are. Several may run; one of them works.
    Controller(ControllerArgs),
    /// Let addresses come back whose users are gone
    ///
    /// What the controller of a cluster does by itself after a while: judged twice, then by what the API server says. What
    /// never comes back by itself is shown and stays.
    Reclaim(ReclaimArgs),
    /// Take Berth's finalizers off the pools and subnets of a cluster
    ///
    /// The last step of leaving: when the controller is gone, nobody else does it, and what has a finalizer cannot be
    /// deleted. The registrations of the webhook go too. Pools, addresses and everything else stay as they are.
    Uninstall(UninstallArgs),
    /// Take over the live addresses of another system
    #[command(subcommand)]
    Import(ImportSource),
    /// Hand a cluster over to another system
    #[command(subcommand)]
    Export(ExportTarget),
    /// Print a generated document
    #[command(hide = true)]
    Generate(GenerateArgs),
    /// Talk to the daemon.
    #[command(flatten)]
    Client(ClientCommand),
}

/// Everything but the daemon itself.
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Create or change pools, subnets, reservations and claims
    ///
    /// All objects of all files are applied together, or none is. Applying the same file twice changes nothing.
    Apply(ApplyArgs),
    /// List objects, or show one
    Get(GetArgs),
    /// Delete objects
    ///
    /// What is in use is not deleted.
    Delete(DeleteArgs),
    /// Take addresses
    ///
    /// They belong to a holder until they are released. The same holder gets the same addresses again; without --holder
    /// a new one is made up, so that every call takes another address.
    Allocate(AllocateArgs),
    /// Give addresses back
    ///
    /// Releasing twice is no error. If one address of several cannot be released, the others are.
    Release(ReleaseArgs),
    /// Show who has which address
    Show(ShowArgs),
    /// Show who had an address, and when
    History(HistoryArgs),
    /// Keep an address from being given out for a while
    ///
    /// For an address that a machine uses without having asked. One that a holder of ours has is refused. `berth release`
    /// ends the quarantine early.
    Quarantine(QuarantineArgs),
    /// Say which address a request would get, and why
    ///
    /// Takes the options of `berth allocate`, and no address. Prints every pool that was considered, the rule that
    /// dropped it, and the address that would be picked. Exits with the code that `allocate` would.
    Explain(ExplainArgs),
    /// Show which runs of pools are lent to which node, or take one back
    ///
    /// Pools with a `blockSize` lend: a node allocates from its own runs. One in which nothing is in use can be returned;
    /// the node takes another when it needs it.
    Leases(LeasesArgs),
    /// Show how full pools, subnets and networks are
    #[command(visible_alias = "top")]
    Status(StatusArgs),
    /// Prove that the state is consistent
    ///
    /// Prints what is not, and then exits with 1.
    Check(CheckArgs),
    /// Print the custom resource definitions for a cluster
    ///
    /// As YAML, for `kubectl apply -f -`. Manifests that this command line applies to the daemon can be applied to a
    /// cluster that has them.
    Crds(CrdsArgs),
    /// Copy the CNI plugin to where the container runtime looks for it
    ///
    /// Replaces an older one in one step: a container that starts meanwhile gets the old plugin or the new one.
    InstallCni(InstallCniArgs),
    /// Print the completion script of a shell
    Completions(CompletionsArgs),
    /// Print the manual page
    Man(ManArgs),
    /// Print the version
    Version,
}

/// How to print what was asked for.
#[derive(Clone, Copy, Debug, Args)]
pub struct OutputArgs {
    /// How to print the answer
    #[arg(short = 'o', long = "output", value_name = "FORMAT", value_enum, default_value_t)]
    pub format: Format,
}

/// How to print what was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns for people
    #[default]
    Table,
    /// More columns
    Wide,
    /// What the daemon answered, as JSON
    Json,
    /// The same as YAML
    Yaml,
    /// One name or address per line
    Name,
}
