//! SpiderSubnet: a CIDR with its gateway and routes, and the addresses in it that pools are cut from.

use super::plot::{Listed, Plot, RouteSpec, Written};
use crate::field::{FieldError, decode};
use crate::object::Object;
use crate::text::{Address, Text};
use berth_core::addr::Cidr;
use berth_core::model::{DEFAULT_NETWORK, Gateway, Subnet};
use berth_core::net::Dns;
use serde::Deserialize;
use utoipa::ToSchema;

/// What a SpiderSubnet is asked to be.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpiderSubnetSpec {
    /// 4 or 6; that of the subnet if absent.
    ip_version: Option<i64>,
    /// The CIDR. It cannot be changed.
    #[schema(value_type = String)]
    subnet: Text<Cidr>,
    /// The addresses that pools are cut from: single ones, or `FIRST-LAST`.
    #[schema(value_type = Option<Vec<String>>)]
    ips: Option<Vec<Text<Listed>>>,
    /// Addresses among them that no pool gets.
    #[serde(rename = "excludeIPs")]
    #[schema(value_type = Option<Vec<String>>)]
    exclude_ips: Option<Vec<Text<Listed>>>,
    /// The router, which pools of the same CIDR inherit.
    #[schema(value_type = Option<String>)]
    gateway: Option<Text<Address>>,
    /// Routes, which pools of the same CIDR inherit.
    routes: Option<Vec<RouteSpec>>,
}

pub(crate) fn lower(object: &Object) -> Result<Subnet, FieldError> {
    let spec: SpiderSubnetSpec = decode(&object.spec, "spec")?;
    let SpiderSubnetSpec { ip_version, subnet, ips, exclude_ips, gateway, routes } = spec;
    let Plot { cidr, ips, exclude, gateway, routes } =
        Written { ip_version, subnet, ips, exclude_ips, gateway, routes }.read()?;
    Ok(Subnet {
        name: object.metadata.name.clone(),
        object: super::SUBNET,
        network: DEFAULT_NETWORK.into(),
        cidr,
        available: Some(ips.difference(&exclude)),
        gateway: gateway.map_or(Gateway::None, Gateway::At),
        routes: routes.unwrap_or_default(),
        dns: Dns::default(),
        refused: false,
    })
}
