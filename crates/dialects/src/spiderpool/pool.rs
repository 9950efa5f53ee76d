//! SpiderIPPool: addresses of one subnet, and who may use them.

use super::owner;
use super::plot::{Listed, Plot, RouteSpec, Written};
use crate::field::{FieldError, decode};
use crate::native::LabelSelector;
use crate::native::pod::DETECT;
use crate::native::pool::detection;
use crate::object::Object;
use crate::text::{Address, Text};
use berth_core::addr::Cidr;
use berth_core::labels::Selector;
use berth_core::model::{Audience, Edges, Gateway, Pick, Pool, StickyPolicy, Whom};
use serde::Deserialize;
use utoipa::ToSchema;

/// Where Spiderpool's own guides install it: a definition without a namespace is one of there.
const HOMES: [&str; 2] = ["kube-system", "spiderpool"];

/// What a SpiderIPPool is asked to be. Fields that are not here are left alone: older releases had more.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpPoolSpec {
    /// 4 or 6; that of the subnet if absent.
    ip_version: Option<i64>,
    /// The CIDR its addresses are in. It cannot be changed.
    #[schema(value_type = String)]
    subnet: Text<Cidr>,
    /// Its addresses: single ones, or `FIRST-LAST`.
    #[schema(value_type = Option<Vec<String>>)]
    ips: Option<Vec<Text<Listed>>>,
    /// Addresses among them that it does not have.
    #[serde(rename = "excludeIPs")]
    #[schema(value_type = Option<Vec<String>>)]
    exclude_ips: Option<Vec<Text<Listed>>>,
    /// The router; that of the SpiderSubnet with the same CIDR if absent.
    #[schema(value_type = Option<String>)]
    gateway: Option<Text<Address>>,
    /// Routes; those of the SpiderSubnet with the same CIDR if absent, none if empty.
    routes: Option<Vec<RouteSpec>>,
    /// Pods by label.
    pod_affinity: Option<LabelSelector>,
    /// Namespaces by label; of no effect beside `namespaceName`.
    namespace_affinity: Option<LabelSelector>,
    /// Namespaces by name.
    namespace_name: Option<Vec<String>>,
    /// Nodes by label; of no effect beside `nodeName`.
    node_affinity: Option<LabelSelector>,
    /// Nodes by name.
    node_name: Option<Vec<String>>,
    /// Network attachment definitions, as `NAMESPACE/NAME` or `NAME`.
    multus_name: Option<Vec<String>>,
    /// Whether pods use it that say nothing.
    default: Option<bool>,
    /// Gives out nothing new; what is in use stays.
    disable: Option<bool>,
}

pub(crate) fn lower(object: &Object) -> Result<Pool, FieldError> {
    let spec: IpPoolSpec = decode(&object.spec, "spec")?;
    let IpPoolSpec { ip_version, subnet, ips, exclude_ips, gateway, routes, .. } = spec;
    let Plot { cidr, ips, exclude, gateway, routes } =
        Written { ip_version, subnet, ips, exclude_ips, gateway, routes }.read()?;
    let application = owner::read(&object.metadata, spec.pod_affinity.as_ref())?;
    let selector = |field: &str, written: Option<LabelSelector>| {
        written.map(|selector| selector.lower(&format!("spec.{field}"))).transpose().map(Option::unwrap_or_default)
    };
    let pod_selector = match spec.pod_affinity {
        // Whose pods they are is told by their controllers: pods do not have these labels.
        Some(_) if application.is_some() => Selector::default(),
        Some(written) => {
            let selector = written.lower("spec.podAffinity")?;
            if selector.is_empty() {
                let reason = "selects nothing in particular; name labels, or leave it out";
                return Err(FieldError::new("spec.podAffinity", reason));
            }
            selector
        }
        None => Selector::default(),
    };
    let (namespaces, nodes) = (spec.namespace_name.unwrap_or_default(), spec.node_name.unwrap_or_default());
    let audience = Audience {
        // Names go before labels.
        namespace_selector: selector("namespaceAffinity", spec.namespace_affinity.filter(|_| namespaces.is_empty()))?,
        node_selector: selector("nodeAffinity", spec.node_affinity.filter(|_| nodes.is_empty()))?,
        namespaces,
        nodes,
        pod_selector,
        reachable: false,
        attachments: spec.multus_name.into_iter().flatten().flat_map(attachments).collect(),
    };
    let default = spec.default.unwrap_or_default();
    let path = format!("metadata.annotations.{DETECT}");
    Ok(Pool {
        object: super::POOL,
        family: cidr.family(),
        unit_len: cidr.family().bits(),
        prefix_len: Some(cidr.prefix_len()),
        gateway: gateway.map_or(Gateway::OfSubnet, Gateway::At),
        // What is listed is meant, also the first and the last address of the subnet.
        edges: Edges { network: true, broadcast: true, gateway: false },
        inherits_routes: routes.is_none(),
        routes: routes.unwrap_or_default(),
        default_route: true,
        pick: Pick::Sequential,
        default,
        named_only: !default,
        disabled: spec.disable.unwrap_or_default(),
        audience,
        sticky: Some(StickyPolicy { keep: None, whom: Whom::SetsAndMachines }),
        application,
        detect: object.metadata.annotations.get(DETECT).map(|text| detection(text, &path)).transpose()?,
        // Addresses that it leaves out are not its own: another pool may have them.
        ..Pool::new(&object.metadata.name, ips.difference(&exclude).ranges().to_vec())
    })
}

/// What an attachment is known by: a definition in its namespace, or the name of the CNI network.
fn attachments(written: String) -> Vec<String> {
    if written.contains('/') {
        return vec![written];
    }
    HOMES.iter().map(|home| format!("{home}/{written}")).chain([written.clone()]).collect()
}
