//! What the daemon wants to know of the wire before addresses are used, and what the plugin found.
//!
//! The plugin is the one that stands at the wire: the interface is in the container's namespace, where a daemon has no
//! business. The daemon decides what follows.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// How thoroughly strangers are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timing {
    /// One probe.
    #[default]
    Fast,
    /// The probes and pauses of RFC 5227.
    Rfc5227,
}

/// An address that is about to be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// The address.
    pub address: IpAddr,
    /// Whether the holder wants this one and no other, so that a stranger on it is an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fixed: bool,
}

/// What to find out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Detect {
    /// How thoroughly.
    pub timing: Timing,
    /// Nobody should answer for these; all are the container's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Candidate>,
    /// Nor for these, which others will get soon: asked in the same go, they need not be waited for later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ahead: Vec<IpAddr>,
    /// Somebody should answer for these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<IpAddr>,
    /// The container's addresses that neighbours are told of if nobody else uses them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub announce: Vec<IpAddr>,
}

/// Somebody who answered for an address that is not his.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stranger {
    /// The address.
    pub address: IpAddr,
    /// The hardware address he answered from.
    pub hardware: String,
    /// As in [`Candidate`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fixed: bool,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Findings {
    /// Who answered that should not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strangers: Vec<Stranger>,
    /// Gateways that did not answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<IpAddr>,
    /// Addresses of others to come for which nobody answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quiet: Vec<IpAddr>,
    /// Why nothing could be found out; empty if it could.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl Findings {
    /// Whether it is what was hoped for, so that the addresses can be used.
    #[must_use]
    pub const fn are_good(&self) -> bool {
        self.strangers.is_empty() && self.silent.is_empty() && self.reason.is_empty()
    }
}
