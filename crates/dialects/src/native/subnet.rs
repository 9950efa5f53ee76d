//! IPSubnet: a CIDR with its gateway, routes and DNS, from which pools are cut.

use super::net::{DnsSpec, RouteSpec, WrittenGateway, gateway};
use crate::field::{FieldError, decode};
use crate::object::Object;
use crate::text::Text;
use berth_core::addr::Cidr;
use berth_core::model::Subnet;
use serde::Deserialize;
use utoipa::ToSchema;

/// What an IPSubnet is asked to be.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubnetSpec {
    /// The network it is in; `default` if absent.
    network: Option<String>,
    /// Its addresses.
    #[schema(value_type = String, example = "10.77.0.0/16")]
    cidr: Text<Cidr>,
    /// The router: an address, or `none`; the first host address if absent.
    #[schema(value_type = Option<String>)]
    gateway: Option<Text<WrittenGateway>>,
    /// Routes that its pools inherit.
    #[serde(default)]
    routes: Vec<RouteSpec>,
    /// Resolver settings that its pools inherit.
    #[serde(default)]
    dns: DnsSpec,
}

pub(crate) fn lower(object: &Object) -> Result<Subnet, FieldError> {
    let spec: SubnetSpec = decode(&object.spec, "spec")?;
    Ok(Subnet {
        name: object.metadata.name.clone(),
        network: super::network(spec.network)?,
        cidr: spec.cidr.0,
        available: None,
        object: berth_core::model::SUBNET_OBJECT,
        gateway: gateway(spec.gateway),
        routes: spec.routes.into_iter().map(Into::into).collect(),
        dns: spec.dns.into(),
        refused: false,
    })
}
