//! The part of CNI that an IPAM plugin speaks: addresses, routes, DNS, errors.
//!
//! These are version-neutral; `result` writes them in the shape of each CNI version.

pub use berth_core::net::{Dns, Route};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// One address of a result, with the prefix length of its subnet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ip {
    /// The address.
    pub address: IpAddr,
    /// The prefix length of the subnet it lives in.
    pub prefix_len: u8,
    /// The router of that subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
}

/// What ADD answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddResult {
    /// The addresses, in the order asked for.
    #[serde(default)]
    pub ips: Vec<Ip>,
    /// Routes to add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// Resolver settings.
    #[serde(default, skip_serializing_if = "Dns::is_empty")]
    pub dns: Dns,
}

/// A CNI error object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{msg}")]
pub struct Error {
    /// The code; see [`code`].
    pub code: u32,
    /// What happened, to which object.
    pub msg: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub details: String,
}

impl Error {
    /// An error without details.
    #[must_use]
    pub fn new(code: u32, msg: impl Into<String>) -> Self {
        Self { code, msg: msg.into(), details: String::new() }
    }

    /// The same error with a hint.
    #[must_use]
    pub fn hint(mut self, details: impl Into<String>) -> Self {
        self.details = details.into();
        self
    }
}

/// The error codes of the CNI specification and of its library.
pub mod code {
    /// The configuration's version is not supported.
    pub const INCOMPATIBLE_VERSION: u32 = 1;
    /// A field of the configuration is not supported.
    pub const UNSUPPORTED_FIELD: u32 = 2;
    /// The container is not known; the runtime need not clean up.
    pub const UNKNOWN_CONTAINER: u32 = 3;
    /// An environment variable is missing or wrong.
    pub const INVALID_ENVIRONMENT: u32 = 4;
    /// Input or output failed.
    pub const IO_FAILURE: u32 = 5;
    /// The configuration is not JSON.
    pub const DECODING_FAILURE: u32 = 6;
    /// The configuration is JSON but wrong.
    pub const INVALID_CONFIG: u32 = 7;
    /// The network namespace is the plugin's own.
    pub const INVALID_NETNS: u32 = 8;
    /// Nothing is wrong with the request; try it again later.
    pub const TRY_AGAIN: u32 = 11;
    /// The plugin cannot serve ADD now.
    pub const UNAVAILABLE: u32 = 50;
    /// Something unforeseen.
    pub const INTERNAL: u32 = 999;
}
