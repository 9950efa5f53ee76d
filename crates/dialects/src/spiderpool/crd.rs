//! The definitions of the kinds, with the names, columns and fields that Spiderpool's own have. Their schemas have no
//! rules: what is in a cluster already must go on to be accepted by the server, and mistakes are told by admission and
//! by the condition `Accepted`, which these definitions have in addition.

use super::endpoint::EndpointStatus;
use super::pool::IpPoolSpec;
use super::reserved::ReservedIpSpec;
use super::subnet::SpiderSubnetSpec;
use super::{ENDPOINT, POOL, RESERVED, SUBNET};
use crate::crd::schema::{refine, structural};
use crate::crd::status::conditions;
use crate::kinds::KindInfo;
use serde_json::{Map, Value, json};

/// Header, path, type, and whether it is shown only with `-o wide`.
type Column = (&'static str, &'static str, &'static str, bool);

const POOL_COLUMNS: &[Column] = &[
    ("VERSION", ".spec.ipVersion", "string", false),
    ("SUBNET", ".spec.subnet", "string", false),
    ("ALLOCATED-IP-COUNT", ".status.allocatedIPCount", "integer", false),
    ("TOTAL-IP-COUNT", ".status.totalIPCount", "integer", false),
    ("DEFAULT", ".spec.default", "boolean", false),
    ("DISABLE", ".spec.disable", "boolean", false),
    ("NodeName", ".spec.nodeName", "string", true),
    ("MultusName", ".spec.multusName", "string", true),
    ("APP-NAMESPACE", r".spec.podAffinity.matchLabels['ipam\.spidernet\.io/app\-namespace']", "string", false),
];

const SUBNET_COLUMNS: &[Column] = &[
    ("VERSION", ".spec.ipVersion", "string", false),
    ("SUBNET", ".spec.subnet", "string", false),
    ("ALLOCATED-IP-COUNT", ".status.allocatedIPCount", "integer", false),
    ("TOTAL-IP-COUNT", ".status.totalIPCount", "integer", false),
];

const RESERVED_COLUMNS: &[Column] = &[("VERSION", ".spec.ipVersion", "string", false)];

const ENDPOINT_COLUMNS: &[Column] = &[
    ("INTERFACE", ".status.current.ips[0].interface", "string", false),
    ("IPV4POOL", ".status.current.ips[0].ipv4Pool", "string", false),
    ("IPV4", ".status.current.ips[0].ipv4", "string", false),
    ("IPV6POOL", ".status.current.ips[0].ipv6Pool", "string", false),
    ("IPV6", ".status.current.ips[0].ipv6", "string", false),
    ("NODE", ".status.current.node", "string", false),
];

/// The part of a definition that is its version; `None` if the kind is another's.
pub(crate) fn version(info: &KindInfo) -> Option<Value> {
    let (columns, schema) = match info.kind {
        POOL => (POOL_COLUMNS, object(Some(pool_spec()), Some(status("allocatedIPs", POOL_RECORDS)))),
        SUBNET => (SUBNET_COLUMNS, object(Some(subnet_spec()), Some(status("controlledIPPools", SUBNET_RECORDS)))),
        RESERVED => (RESERVED_COLUMNS, object(Some(reserved_spec()), None)),
        ENDPOINT => (ENDPOINT_COLUMNS, object(None, Some(endpoint_status()))),
        _ => return None,
    };
    let column = |&(name, path, kind, wide): &Column| {
        let mut column = json!({ "name": name, "jsonPath": path, "type": kind });
        if wide {
            column["priority"] = json!(10);
        }
        column
    };
    let mut version = json!({
        "served": true,
        "storage": true,
        "schema": { "openAPIV3Schema": schema },
        "additionalPrinterColumns": columns.iter().map(column).collect::<Vec<_>>(),
    });
    // A SpiderEndpoint's status is an ordinary field.
    if matches!(info.kind, POOL | SUBNET) {
        version["subresources"] = json!({ "status": {} });
    }
    Some(version)
}

const POOL_RECORDS: &str = "Which addresses are allocated, as JSON: address to pod and UID.";
const SUBNET_RECORDS: &str = "Which pools have addresses of it, as JSON: pool to addresses and application.";

fn object(spec: Option<Value>, status: Option<Value>) -> Value {
    let mut properties = Map::from_iter([
        ("apiVersion".to_owned(), json!({ "type": "string" })),
        ("kind".to_owned(), json!({ "type": "string" })),
        ("metadata".to_owned(), json!({ "type": "object" })),
    ]);
    for (name, schema) in [("spec", spec), ("status", status)] {
        properties.extend(schema.map(|schema| (name.to_owned(), schema)));
    }
    json!({ "type": "object", "properties": properties })
}

fn with_version(mut schema: Value) -> Value {
    refine(&mut schema, "ipVersion", &json!({ "enum": [4, 6], "format": "int64" }));
    schema
}

fn pool_spec() -> Value {
    let mut schema = with_version(structural::<IpPoolSpec>());
    refine(&mut schema, "default", &json!({ "default": false }));
    refine(&mut schema, "disable", &json!({ "default": false }));
    for affinity in ["podAffinity", "namespaceAffinity", "nodeAffinity"] {
        refine(&mut schema, affinity, &json!({ "x-kubernetes-map-type": "atomic" }));
    }
    schema
}

fn subnet_spec() -> Value {
    with_version(structural::<SpiderSubnetSpec>())
}

fn reserved_spec() -> Value {
    with_version(structural::<ReservedIpSpec>())
}

fn status(records: &str, about: &str) -> Value {
    let count = json!({ "type": "integer", "format": "int64", "minimum": 0 });
    json!({
        "type": "object",
        "properties": {
            records: { "type": "string", "description": about },
            "totalIPCount": count,
            "allocatedIPCount": count,
            "conditions": conditions(),
        },
    })
}

fn endpoint_status() -> Value {
    let mut schema = structural::<EndpointStatus>();
    let vlan = json!({ "format": "int64", "default": 0, "minimum": 0, "maximum": 4094 });
    refine(&mut schema, "current.ips[].vlan", &vlan);
    schema
}
