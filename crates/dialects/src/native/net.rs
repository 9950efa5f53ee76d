//! Parts that pools and subnets share: the gateway, routes and resolver settings.

use crate::text::{Address, Text};
use berth_core::addr::Cidr;
use berth_core::model::Gateway;
use berth_core::net::{Dns, Route};
use serde::Deserialize;
use std::str::FromStr;
use utoipa::ToSchema;

/// A gateway as it is written: an address, or `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrittenGateway(pub(crate) Gateway);

impl FromStr for WrittenGateway {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(Gateway::None)),
            address => address
                .parse()
                .map(|address| Self(Gateway::At(address)))
                .map_err(|_| format!("{text:?} is not an IP address; write one, or \"none\"")),
        }
    }
}

/// What is written, or the first host address.
pub(super) fn gateway(written: Option<Text<WrittenGateway>>) -> Gateway {
    written.map_or(Gateway::Auto, |Text(WrittenGateway(gateway))| gateway)
}

/// A route that comes along with an address.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouteSpec {
    /// Destination, as a CIDR.
    #[schema(value_type = String, example = "0.0.0.0/0")]
    dst: Text<Cidr>,
    /// Next hop; absent means the gateway of the address.
    #[schema(value_type = Option<String>)]
    gw: Option<Text<Address>>,
    /// Maximum transmission unit.
    mtu: Option<i64>,
    /// Advertised maximum segment size.
    advmss: Option<i64>,
    /// Metric.
    priority: Option<i64>,
    /// Routing table.
    table: Option<i64>,
    /// Scope.
    scope: Option<i64>,
}

impl From<RouteSpec> for Route {
    fn from(route: RouteSpec) -> Self {
        let RouteSpec { dst, gw, mtu, advmss, priority, table, scope } = route;
        let gw = gw.map(|Text(Address(gw))| gw);
        Self { dst: dst.0.to_string(), gw, mtu, advmss, priority, table, scope }
    }
}

/// What the resolver of a container is told.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DnsSpec {
    /// Name servers, most preferred first.
    #[serde(default)]
    nameservers: Vec<String>,
    /// Local domain.
    #[serde(default)]
    domain: String,
    /// Search domains, in order.
    #[serde(default)]
    search: Vec<String>,
    /// Resolver options.
    #[serde(default)]
    options: Vec<String>,
}

impl From<DnsSpec> for Dns {
    fn from(dns: DnsSpec) -> Self {
        let DnsSpec { nameservers, domain, search, options } = dns;
        Self { nameservers, domain, search, options }
    }
}
