//! What comes along with an address: routes and resolver settings. Berth hands them on and never looks inside.

use serde::{Deserialize, Deserializer, Serialize};
use std::net::IpAddr;

/// A route, with the keys of CNI 1.1.0; older versions know only `dst` and `gw`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Destination, as a CIDR.
    pub dst: String,
    /// Next hop; absent means the gateway of the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gw: Option<IpAddr>,
    /// Maximum transmission unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,
    /// Advertised maximum segment size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advmss: Option<i64>,
    /// Metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Routing table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<i64>,
    /// Scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<i64>,
}

/// What a container's resolver should be told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dns {
    /// Name servers, most preferred first.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub nameservers: Vec<String>,
    /// Local domain.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// Search domains, in order.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub search: Vec<String>,
    /// Resolver options.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

/// Go writes a nil slice as null.
fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

impl Dns {
    /// Whether there is nothing to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
