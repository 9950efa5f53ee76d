//! What a case is made of.

use crate::version::Bounds;
use clap::ValueEnum;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// Whose behaviour is expected of the plugin under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Implementation {
    /// The reference.
    HostLocal,
    /// Ours.
    Berth,
}

/// One case: calls in order, against a data directory of its own.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Case {
    /// What the case shows; unique in the suite.
    pub name: String,
    /// Run only for this implementation.
    #[serde(default)]
    pub only: Option<Implementation>,
    /// The CNI versions it runs for.
    #[serde(default)]
    pub versions: Bounds,
    /// The network configuration: a patch over the file's.
    #[serde(default)]
    pub config: Value,
    /// The name the plugin is executed under, where its own name decides what it does.
    #[serde(default)]
    pub program: Option<String>,
    /// A daemon to start first.
    #[serde(default)]
    pub setup: Option<Setup>,
    /// The calls.
    pub steps: Vec<Step>,
}

/// A daemon for cases whose plugin asks one.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Setup {
    /// Manifests given to `berth apply -f -`.
    pub apply: String,
}

/// Which binary a step runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The one under test.
    #[default]
    Plugin,
    /// The reference, to show that either takes over from the other.
    Reference,
}

/// One call of the plugin, and what it must lead to.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// `CNI_COMMAND`.
    pub command: String,
    /// `CNI_CONTAINERID`.
    #[serde(default = "dummy")]
    pub container: String,
    /// `CNI_IFNAME`.
    #[serde(default = "eth0")]
    pub ifname: String,
    /// `CNI_ARGS`.
    #[serde(default)]
    pub args: String,
    /// Variables set over the usual ones; null unsets.
    #[serde(default)]
    pub env: BTreeMap<String, Option<String>>,
    /// A patch over the case's configuration.
    #[serde(default)]
    pub config: Value,
    /// Sent in place of the configuration, byte for byte.
    #[serde(default)]
    pub stdin: Option<String>,
    /// Put the last result of an ADD into the configuration as `prevResult`.
    #[serde(default)]
    pub prev_result: bool,
    /// Files written into the data directory before the call; null removes.
    #[serde(default)]
    pub write: BTreeMap<String, Option<String>>,
    /// Make this many calls at once, each for a container of its own. All must succeed, with different addresses.
    #[serde(default)]
    pub parallel: Option<usize>,
    /// Which binary runs.
    #[serde(default)]
    pub by: By,
    /// What every implementation must do.
    #[serde(default)]
    pub expect: Expect,
    /// What the reference does instead, and why ours does not.
    #[serde(default)]
    pub host_local: Option<Differs>,
    /// What ours does instead, and why.
    #[serde(default)]
    pub berth: Option<Differs>,
}

impl Step {
    /// The expectation that holds for an implementation.
    #[must_use]
    pub fn expected_of(&self, implementation: Implementation) -> &Expect {
        let own = match (self.by, implementation) {
            (By::Reference, _) | (By::Plugin, Implementation::HostLocal) => &self.host_local,
            (By::Plugin, Implementation::Berth) => &self.berth,
        };
        own.as_ref().map_or(&self.expect, |differs| &differs.expect)
    }
}

/// A difference on purpose.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Differs {
    /// The reason.
    pub why: String,
    /// The expectation of this implementation alone.
    pub expect: Expect,
}

/// What a call must answer and leave behind. Nothing said about success means success; what is not named is not looked
/// at.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expect {
    /// The call fails with a CNI error.
    pub error: Option<ExpectError>,
    /// The call dies without one.
    #[serde(default)]
    pub crash: bool,
    /// The addresses, in order, with their prefix lengths.
    pub ips: Option<Vec<String>>,
    /// The gateways, in order.
    pub gateways: Option<Vec<String>>,
    /// The routes, in any order, as `dst` or `dst via gw`.
    pub routes: Option<Vec<String>>,
    /// The resolver settings.
    pub dns: Option<Value>,
    /// Versions that VERSION must list.
    pub supports: Option<Vec<String>>,
    /// Exactly the addresses held in the network afterwards, each with the words of its file: ID and interface.
    pub leases: Option<BTreeMap<String, String>>,
    /// Files of the data directory, byte for byte; null means absent.
    #[serde(default)]
    pub files: BTreeMap<String, Option<String>>,
    /// Permissions of files in the data directory, in octal.
    #[serde(default)]
    pub modes: BTreeMap<String, String>,
    /// What stderr must not say.
    pub stderr_lacks: Option<String>,
}

/// A CNI error; what is not named is not looked at.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExpectError {
    /// The code.
    pub code: Option<u64>,
    /// The whole message.
    pub msg: Option<String>,
    /// How the message starts.
    pub prefix: Option<String>,
    /// What the message holds.
    pub contains: Option<String>,
}

impl fmt::Display for ExpectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an error")?;
        if let Some(code) = self.code {
            write!(f, " {code}")?;
        }
        for (how, text) in [("", &self.msg), (" beginning with", &self.prefix), (" with", &self.contains)] {
            if let Some(text) = text {
                write!(f, "{how} {text:?}")?;
            }
        }
        Ok(())
    }
}

fn dummy() -> String {
    "dummy".into()
}

fn eth0() -> String {
    "eth0".into()
}
