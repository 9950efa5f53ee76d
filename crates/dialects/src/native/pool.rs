//! IPPool: ranges, who may use them and how addresses are picked.

use super::LabelSelector;
use super::net::{DnsSpec, RouteSpec, WrittenGateway, gateway};
use crate::duration::GoDuration;
use crate::field::{FieldError, decode};
use crate::object::{Object, check_name};
use crate::text::{Text, Written};
use berth_core::addr::Range;
use berth_core::apps::Application;
use berth_core::detect::{Conflicts, Detection, GatewayCheck};
use berth_core::model::{Audience, Edges, LOCAL_TYPE, Lending, Pick, Pool, Quota, StickyPolicy};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What an IPPool is asked to be. The least is `{ranges: ["10.77.0.0/16"]}`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolSpec {
    /// The network in which its addresses are unique; `default` if absent.
    network: Option<String>,
    /// Its addresses, all of one family: CIDRs, `FIRST-LAST`, single addresses.
    #[schema(value_type = Vec<String>, example = json!(["10.77.0.0/16"]))]
    ranges: Vec<Text<Written>>,
    /// Addresses inside the ranges that it does not have.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    exclude: Vec<Text<Range>>,
    /// The IPSubnet it is cut from, which gives it gateway, routes and DNS.
    subnet: Option<String>,
    /// The prefix length that goes with its addresses; else the subnet's, else the range's.
    prefix_length: Option<u8>,
    /// The router: an address, or `none`; the first host address if absent.
    #[schema(value_type = Option<String>)]
    gateway: Option<Text<WrittenGateway>>,
    /// Routes for its addresses; empty inherits the subnet's.
    #[serde(default)]
    routes: Vec<RouteSpec>,
    /// Resolver settings for its addresses; empty inherits the subnet's.
    #[serde(default)]
    dns: DnsSpec,
    /// Gives out prefixes of this length instead of single addresses.
    unit_prefix_length: Option<u8>,
    /// In which order free addresses are picked.
    #[serde(default)]
    pick: PickOrder,
    /// How long a released address rests before it is given out again, e.g. `30s`.
    #[schema(value_type = Option<String>, example = "5m")]
    cool_down: Option<Text<GoDuration>>,
    /// Whether a resting address is given out when nothing else is free.
    #[serde(default)]
    reuse_cooling: bool,
    /// Whether requests that name no pool use it. Where no pool is a default, every pool is.
    #[serde(default)]
    default: bool,
    /// Gives out nothing new; what is in use stays.
    #[serde(default)]
    disabled: bool,
    /// Which allocator serves it; `local` is Berth itself.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Gives out the network address too.
    #[serde(default)]
    use_network_address: bool,
    /// Gives out the broadcast address too.
    #[serde(default)]
    use_broadcast_address: bool,
    /// Gives out the gateway address too.
    #[serde(default)]
    use_gateway_address: bool,
    /// Who may use it, even by name; everyone if absent.
    #[serde(default)]
    allow: AllowSpec,
    /// How many of its addresses a namespace may have.
    #[serde(default)]
    quota: QuotaSpec,
    /// Set if addresses stay with the pod that had them.
    sticky: Option<StickySpec>,
    /// Lends nodes runs of this prefix length, from which each allocates alone.
    block_size: Option<u8>,
    /// How many leases a node may have; beyond, it takes single addresses as from a shared pool.
    max_leases_per_node: Option<u32>,
    /// For which pods a cluster makes IPEndpoint objects, at the cost of a write for each.
    #[serde(default)]
    endpoint_objects: EndpointObjects,
    /// Whether a node that gets no more leases goes without, instead of borrowing single addresses of others.
    #[serde(default)]
    strict_leases: bool,
    /// The application whose pods it is for, and no others, even by name. Such pools are made, grown, shrunk and deleted
    /// along with the application.
    application: Option<ApplicationSpec>,
    /// Set if the wire is asked before an address is used: whether a stranger has it, and whether the gateway answers.
    detect: Option<DetectSpec>,
}

/// The application that a pool is for.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApplicationSpec {
    /// Group and version of its kind.
    #[schema(example = "apps/v1")]
    api_version: String,
    /// Its kind.
    #[schema(example = "Deployment")]
    kind: String,
    /// Its namespace.
    namespace: String,
    /// Its name.
    name: String,
    /// Its UID. One with another UID under the same name is the same application, made anew.
    #[serde(default)]
    uid: String,
    /// The interface that the pool is for.
    #[serde(default = "first_interface")]
    interface: String,
    /// UIDs of controllers in between, whose pods are its pods: ReplicaSets, Jobs.
    #[serde(default)]
    controllers: Vec<String>,
    /// Whether the pool stays when the application is gone.
    #[serde(default)]
    keep: bool,
}

fn first_interface() -> String {
    super::pod::FIRST_INTERFACE.to_owned()
}

impl ApplicationSpec {
    fn lower(self, path: &str) -> Result<Application, FieldError> {
        let Self { api_version, kind, namespace, name, uid, interface, controllers, keep } = self;
        super::pod::check_interface(&interface, path)?;
        for (field, text) in [("kind", &kind), ("namespace", &namespace), ("name", &name)] {
            if text.is_empty() {
                return Err(FieldError::new(format!("{path}.{field}"), "is empty; fill it in"));
            }
        }
        Ok(Application { api_version, kind, namespace, name, uid, interface, controllers, keep })
    }
}

/// What is found out on the wire before an address is used.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DetectSpec {
    /// Whether a stranger uses the address; `Fast` if absent. Such an address is set apart, and another one given.
    #[serde(default)]
    conflicts: ConflictDetection,
    /// Whether the gateway answers; `Warn` if absent.
    #[serde(default)]
    gateway: GatewayDetection,
}

/// How thoroughly strangers are looked for.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
pub enum ConflictDetection {
    /// Not at all.
    Ignore,
    /// One probe, and a tenth of a second for the answer.
    #[default]
    Fast,
    /// Three probes with the pauses of RFC 5227: four to seven seconds.
    Rfc5227,
}

/// What becomes of a container whose gateway does not answer.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
pub enum GatewayDetection {
    /// The gateway is not asked.
    Ignore,
    /// It starts, and that is reported.
    #[default]
    Warn,
    /// It does not start.
    Require,
}

/// Reads what stands in an annotation in place of `spec.detect`.
pub(crate) fn detection(text: &str, path: &str) -> Result<Detection, FieldError> {
    let value = serde_json::from_str(text).map_err(|error| FieldError::new(path, format!("is not JSON: {error}")))?;
    decode::<DetectSpec>(&value, path).map(Into::into)
}

/// The same in the words of the API.
pub(crate) fn raise_detection(own: Detection) -> Value {
    let conflicts = match own.conflicts {
        Conflicts::Ignore => "Ignore",
        Conflicts::Fast => "Fast",
        Conflicts::Rfc5227 => "Rfc5227",
    };
    let gateway = match own.gateway {
        GatewayCheck::Ignore => "Ignore",
        GatewayCheck::Warn => "Warn",
        GatewayCheck::Require => "Require",
    };
    json!({ "conflicts": conflicts, "gateway": gateway })
}

impl From<DetectSpec> for Detection {
    fn from(spec: DetectSpec) -> Self {
        Self {
            conflicts: match spec.conflicts {
                ConflictDetection::Ignore => Conflicts::Ignore,
                ConflictDetection::Fast => Conflicts::Fast,
                ConflictDetection::Rfc5227 => Conflicts::Rfc5227,
            },
            gateway: match spec.gateway {
                GatewayDetection::Ignore => GatewayCheck::Ignore,
                GatewayDetection::Warn => GatewayCheck::Warn,
                GatewayDetection::Require => GatewayCheck::Require,
            },
        }
    }
}

/// In which order free addresses are picked.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
pub enum PickOrder {
    /// Never used first, then the one that was given back longest ago.
    #[default]
    LeastRecentlyReleased,
    /// The lowest free one.
    Sequential,
    /// Any free one.
    Random,
}

/// For which pods IPEndpoint objects are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
pub enum EndpointObjects {
    /// For those that come back for their address: it is how the address is found again.
    #[default]
    Sticky,
    /// For all.
    Always,
}

/// Who may use a pool. All that is set must hold.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AllowSpec {
    /// Namespaces by name, wildcards allowed.
    #[serde(default)]
    namespaces: Vec<String>,
    /// Namespaces by label.
    #[serde(default)]
    namespace_selector: LabelSelector,
    /// Pods by label.
    #[serde(default)]
    pod_selector: LabelSelector,
    /// Nodes by name, wildcards allowed.
    #[serde(default)]
    nodes: Vec<String>,
    /// Nodes by label.
    #[serde(default)]
    node_selector: LabelSelector,
    /// Only nodes that have an address in the pool's subnet.
    #[serde(default)]
    reachable_nodes: bool,
    /// Attachments by name, wildcards allowed: `NAMESPACE/NAME` of a network attachment definition, or the name of a CNI
    /// network.
    #[serde(default)]
    attachments: Vec<String>,
}

/// How many addresses of a pool a namespace may have.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QuotaSpec {
    /// For every namespace that has no number of its own.
    per_namespace: Option<u32>,
    /// For these namespaces.
    #[serde(default)]
    namespaces: BTreeMap<String, u32>,
}

/// Addresses stay with the pod that had them.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StickySpec {
    /// For how long after the pod is gone, e.g. `24h`; for ever if absent.
    #[schema(value_type = Option<String>)]
    keep: Option<Text<GoDuration>>,
}

pub(crate) fn lower(object: &Object) -> Result<Pool, FieldError> {
    let spec: PoolSpec = decode(&object.spec, "spec")?;
    for namespace in spec.quota.namespaces.keys() {
        check_name("spec.quota.namespaces", namespace, 63, false)?;
    }
    let ranges: Vec<Range> = spec.ranges.iter().map(|Text(written)| written.range).collect();
    // Of no other range could it be thought that it is a CIDR.
    let looks_whole = |Text(written): &&Text<Written>| written.spelled_out && written.range.as_cidr().is_some();
    let spelled_out = spec.ranges.iter().filter(looks_whole);
    let spelled_out = spelled_out.map(|Text(written)| written.range).collect();
    let plain = Pool::new(&object.metadata.name, ranges);
    Ok(Pool {
        spelled_out,
        network: super::network(spec.network)?,
        unit_len: spec.unit_prefix_length.unwrap_or(plain.unit_len),
        kind: spec.kind.unwrap_or_else(|| LOCAL_TYPE.to_owned()),
        exclude: spec.exclude.into_iter().map(|Text(range)| range).collect(),
        subnet: spec.subnet,
        prefix_len: spec.prefix_length,
        gateway: gateway(spec.gateway),
        edges: Edges {
            network: spec.use_network_address,
            broadcast: spec.use_broadcast_address,
            gateway: spec.use_gateway_address,
        },
        routes: spec.routes.into_iter().map(Into::into).collect(),
        dns: spec.dns.into(),
        pick: spec.pick.into(),
        cool_down: spec.cool_down.unwrap_or_default().0.0,
        reuse_cooling: spec.reuse_cooling,
        default: spec.default,
        disabled: spec.disabled,
        audience: spec.allow.lower("spec.allow")?,
        quota: Quota { per_namespace: spec.quota.per_namespace, namespaces: spec.quota.namespaces },
        sticky: spec
            .sticky
            .map(|sticky| StickyPolicy { keep: sticky.keep.map(|Text(keep)| keep.0), ..StickyPolicy::default() }),
        endpoint_objects: spec.endpoint_objects == EndpointObjects::Always,
        lending: spec.block_size.map(|block_len| Lending {
            block_len,
            strict: spec.strict_leases,
            most: spec.max_leases_per_node,
        }),
        application: spec.application.map(|own| own.lower("spec.application")).transpose()?,
        detect: spec.detect.map(Into::into),
        ..plain
    })
}

impl AllowSpec {
    fn lower(self, path: &str) -> Result<Audience, FieldError> {
        Ok(Audience {
            namespaces: self.namespaces,
            namespace_selector: self.namespace_selector.lower(&format!("{path}.namespaceSelector"))?,
            pod_selector: self.pod_selector.lower(&format!("{path}.podSelector"))?,
            nodes: self.nodes,
            node_selector: self.node_selector.lower(&format!("{path}.nodeSelector"))?,
            reachable: self.reachable_nodes,
            attachments: self.attachments,
        })
    }
}

impl From<PickOrder> for Pick {
    fn from(order: PickOrder) -> Self {
        match order {
            PickOrder::LeastRecentlyReleased => Self::LeastRecentlyReleased,
            PickOrder::Sequential => Self::Sequential,
            PickOrder::Random => Self::Random,
        }
    }
}
