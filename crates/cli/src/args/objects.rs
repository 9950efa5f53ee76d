//! Commands on objects: apply, get, delete.

use super::OutputArgs;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `berth apply`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        berth apply -f pools.yaml             apply one file\n  \
        berth apply -f networks/ --dry-run    see what a directory of files would change\n  \
        berth apply -f - < pools.yaml         read standard input\n\n\
        The least pool:\n  \
        apiVersion: berth.io/v1alpha1\n  \
        kind: IPPool\n  \
        metadata: {name: blue}\n  \
        spec: {ranges: [\"10.77.0.0/16\"]}")]
pub struct ApplyArgs {
    /// YAML or JSON file, directory of such files, or `-` for standard input; may be given again
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `berth get`.
#[derive(Debug, Args)]
#[command(after_help = "Kinds: pools, subnets, reservations, claims, endpoints, bcsnetpool, bcsnetip.\n\
        Singular, plural, short and full names all work: pool, pools, ippool, ippools.berth.io.\n\n\
        Examples:\n  \
        berth get pools                 all pools and how full they are\n  \
        berth get pool blue -o yaml     one pool, as it can be applied again\n  \
        berth get endpoints -n web      which pod of a namespace has which address")]
pub struct GetArgs {
    /// Kind of the objects
    pub kind: String,
    /// Name of one object; all if absent
    pub name: Option<String>,
    /// Where to look.
    #[command(flatten)]
    pub scope: ScopeArgs,
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Which namespaces are meant.
#[derive(Debug, Args)]
pub struct ScopeArgs {
    /// Only this namespace; for one claim by name, the namespace `default` if absent
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// All namespaces, which is what a list shows anyway
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
}

/// Arguments of `berth delete`.
#[derive(Debug, Args)]
#[command(
    override_usage = "berth delete [OPTIONS] <KIND> <NAME>...\n       berth delete [OPTIONS] --file <FILE>...",
    after_help = "Examples:\n  \
        berth delete pool blue green      delete two pools\n  \
        berth delete -f pools.yaml        delete what a file describes, last object first"
)]
pub struct DeleteArgs {
    /// Kind of the objects
    #[arg(required_unless_present = "files", conflicts_with = "files")]
    pub kind: Option<String>,
    /// Names of the objects
    #[arg(value_name = "NAME", required_unless_present = "files")]
    pub names: Vec<String>,
    /// Delete what this file describes; as for `berth apply`
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Namespace of the objects; `default` if absent and their kind has namespaces
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
}
