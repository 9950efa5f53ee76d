//! The controller of a cluster: `berth controller`, and what it does by itself, by hand: `berth reclaim`.

use super::{Listen, LogArgs, OutputArgs};
use clap::Args;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Arguments of `berth controller`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        berth controller                                                in a pod\n  \
        berth controller --kubeconfig ~/.kube/config --reclaim pod-gone=1m --reclaim node-silent=15m")]
pub struct ControllerArgs {
    /// Kubeconfig; the service account of the pod if absent
    #[arg(long, value_name = "FILE", env = "BERTH_KUBECONFIG", hide_env_values = true)]
    pub kubeconfig: Option<PathBuf>,
    /// URL of the API server, in place of the kubeconfig's or the pod's
    #[arg(long, value_name = "URL", env = "BERTH_API_SERVER", hide_env_values = true)]
    pub api_server: Option<String>,
    /// Namespace it is installed in, where its lease is
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE", hide_env_values = true, default_value = "berth-system")]
    pub namespace: String,
    /// Name of this replica; made up if absent
    #[arg(long, value_name = "NAME", env = "POD_NAME", hide_env_values = true)]
    pub replica: Option<String>,
    /// Address of /healthz, /readyz and /metrics, or `none`
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "BERTH_LISTEN",
        hide_env_values = true,
        default_value = "127.0.0.1:9099"
    )]
    pub listen: Listen,
    /// Address of the admission webhook, or `none`
    #[arg(long, value_name = "ADDRESS", env = "BERTH_WEBHOOK", hide_env_values = true, default_value = "none")]
    pub webhook: Listen,
    /// Name or address by which API servers call the webhook, beside that of its Service
    #[arg(long, value_name = "NAME")]
    pub webhook_name: Vec<String>,
    /// After how long addresses of a class come back that nobody gives back, e.g. `pod-gone=5m`, `node-silent=never`
    #[arg(long, value_name = "CLASS=TIME", env = "BERTH_RECLAIM", hide_env_values = true, value_delimiter = ',')]
    pub reclaim: Vec<ClassTime>,
    /// How often everything is looked at, whatever has happened; every ten minutes if absent
    #[arg(long, value_name = "TIME", env = "BERTH_AUDIT", hide_env_values = true, value_parser = time)]
    pub audit: Option<Duration>,
    /// File with what Spiderpool's ConfigMap spiderpool-conf has under conf.yml, whose switches are to hold
    #[arg(long, value_name = "FILE", env = "BERTH_SPIDERPOOL_CONFIG", hide_env_values = true)]
    pub spiderpool_config: Option<PathBuf>,
    /// What it logs.
    #[command(flatten)]
    pub log: LogArgs,
}

/// A class of addresses that come back, and after how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassTime {
    /// The class, e.g. `pod-gone`.
    pub class: String,
    /// After how long; `None` is never.
    pub time: Option<Duration>,
}

impl FromStr for ClassTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((class, time_of)) = text.split_once('=') else {
            return Err("write CLASS=TIME, e.g. pod-gone=5m".to_owned());
        };
        let time = if time_of == "never" { None } else { Some(time(time_of)?) };
        Ok(Self { class: class.to_owned(), time })
    }
}

/// Reads `90s`, `5m`, `1h30m`.
fn time(text: &str) -> Result<Duration, String> {
    let span: jiff::SignedDuration = text.parse().map_err(|_| format!("{text:?} is no time; write e.g. 90s or 5m"))?;
    span.try_into().map_err(|_| format!("{text:?} lies in the past"))
}

/// Arguments of `berth reclaim`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        berth reclaim --dry-run        what would come back, and why?\n  \
        berth reclaim                  let it come back now")]
pub struct ReclaimArgs {
    /// Kubeconfig; if absent that of KUBECONFIG, ~/.kube/config, or the service account of the pod
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Show what would come back, and why, and free nothing
    #[arg(long)]
    pub dry_run: bool,
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `berth uninstall`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        berth uninstall --kubeconfig ~/.kube/config      after the controller was deleted")]
pub struct UninstallArgs {
    /// Kubeconfig; the service account of the pod if absent
    #[arg(long, value_name = "FILE", env = "BERTH_KUBECONFIG", hide_env_values = true)]
    pub kubeconfig: Option<PathBuf>,
    /// URL of the API server, in place of the kubeconfig's or the pod's
    #[arg(long, value_name = "URL", env = "BERTH_API_SERVER", hide_env_values = true)]
    pub api_server: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_has_a_time_or_never() {
        let read = |text: &str| text.parse::<ClassTime>();
        assert_eq!(read("pod-gone=90s").unwrap().time, Some(Duration::from_secs(90)));
        assert_eq!(read("pod-gone=1h30m").unwrap().time, Some(Duration::from_secs(5400)));
        assert_eq!(read("node-silent=never").unwrap().time, None);
        for wrong in ["pod-gone", "pod-gone=", "pod-gone=soon", "pod-gone=-5m"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
