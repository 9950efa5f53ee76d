//! The native kinds (and Spiderpool's, see [`crate::spiderpool::crd`]) as custom resource definitions, made from the very types that read the manifests, so that the API
//! server and the standalone daemon cannot drift apart.
//!
//! | module | what it adds |
//! |---|---|
//! | `schema` | the *structural* form of a type's OpenAPI schema: no references, no nulls, bounds on everything |
//! | `rules` | what a type cannot say: limits, and rules in CEL |
//! | `status` | the shapes of what is raised into status |
//! | `columns` | what `kubectl get` shows |
//! | `webhook` | how the API server is told to ask about what no schema can say |
//!
//! What no schema can say (overlaps, addresses in use) is left to admission, and to whoever lowers the objects.

mod columns;
mod rules;
pub(crate) mod schema;
pub(crate) mod status;
#[cfg(test)]
mod tests;
mod webhook;

pub use webhook::{WEBHOOK, webhook_yaml, webhooks};

use crate::kinds::{Dialect, KINDS, KindInfo};
use crate::native::{BlockSpec, ClaimSpec, EndpointSpec, PoolSpec, ReservationSpec, SubnetSpec};
use crate::spiderpool;
use serde_json::{Map, Value, json};

/// The most characters that the packed slots of a block may have. No object passes 256 KiB; the rest of a block and its
/// metadata take less than the 16 KiB that are left.
pub const MAX_SLOTS: usize = 240 << 10;

/// Names of a core resource, which `kubectl get endpoints` and `kubectl get ep` must go on to mean.
const TAKEN: [&str; 3] = ["endpoints", "endpoint", "ep"];

/// The kinds of another system that have a definition here, in the order of the table of kinds.
pub fn kinds_of(dialect: Dialect) -> impl Iterator<Item = &'static KindInfo> {
    KINDS.iter().filter(move |info| info.dialect == dialect && definition(info).is_some())
}

/// The native kinds, in the order of the table of kinds.
pub fn kinds() -> impl Iterator<Item = &'static KindInfo> {
    KINDS.iter().filter(|info| info.dialect == Dialect::Native)
}

/// The definition of a kind, to be applied to an API server; `None` if the kind is another system's, which brings its
/// own.
#[must_use]
pub fn definition(info: &KindInfo) -> Option<Value> {
    let (group, version) = info.api_version().split_once('/')?;
    let short_names: Vec<_> = info.short_names.iter().filter(|name| !TAKEN.contains(name)).collect();
    let (mut this, category) = match info.dialect {
        Dialect::Native => (native_version(info)?, "berth"),
        Dialect::Spiderpool => (spiderpool::crd::version(info)?, "spiderpool"),
        Dialect::Bcs => return None,
    };
    this["name"] = json!(version);
    Some(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{}.{group}", info.plural) },
        "spec": {
            "group": group,
            "scope": if info.namespaced { "Namespaced" } else { "Cluster" },
            "names": {
                "kind": info.kind,
                "listKind": format!("{}List", info.kind),
                "plural": info.plural,
                "singular": info.singular,
                "shortNames": short_names,
                "categories": [category],
            },
            "versions": [this],
        },
    }))
}

/// What a definition says of the one version that there is.
fn native_version(info: &KindInfo) -> Option<Value> {
    let mut this = json!({
        "served": true,
        "storage": true,
        "schema": { "openAPIV3Schema": object_schema(info)? },
        "additionalPrinterColumns": columns::of(info.kind),
    });
    if status::of(info.kind).is_some() {
        this["subresources"] = json!({ "status": {} });
    }
    let selectable: Vec<_> = columns::selectable(info.kind).iter().map(|path| json!({ "jsonPath": path })).collect();
    if !selectable.is_empty() {
        this["selectableFields"] = json!(selectable);
    }
    Some(this)
}

/// The schema of a whole object.
fn object_schema(info: &KindInfo) -> Option<Value> {
    let mut spec = match info.kind {
        "IPPool" => schema::structural::<PoolSpec>(),
        "IPSubnet" => schema::structural::<SubnetSpec>(),
        "IPReservation" => schema::structural::<ReservationSpec>(),
        "IPClaim" => schema::structural::<ClaimSpec>(),
        "IPEndpoint" => schema::structural::<EndpointSpec>(),
        "IPBlock" => schema::structural::<BlockSpec>(),
        _ => return None,
    };
    for (path, keywords) in rules::of(info.kind) {
        schema::refine(&mut spec, path, &keywords);
    }
    schema::bound(&mut spec);
    // A spec in which nothing is required may be left out, as in a manifest for the daemon.
    let required = if spec.get("required").is_some() { vec!["spec"] } else { Vec::new() };
    let mut properties = Map::from_iter([
        ("apiVersion".to_owned(), json!({ "type": "string", "description": "Group and version." })),
        ("kind".to_owned(), json!({ "type": "string", "description": "Kind." })),
        ("metadata".to_owned(), json!({ "type": "object" })),
        ("spec".to_owned(), spec),
    ]);
    if let Some(mut status) = status::of(info.kind) {
        schema::bound(&mut status);
        properties.insert("status".to_owned(), status);
    }
    let mut whole = json!({ "type": "object", "description": about(info.kind), "properties": properties });
    if let Some(Value::Object(keywords)) = rules::of_object(info.kind)
        && let Some(whole) = whole.as_object_mut()
    {
        whole.extend(keywords);
    }
    if !required.is_empty() {
        whole["required"] = json!(required);
    }
    Some(whole)
}

/// What `kubectl explain` says about a kind.
fn about(kind: &str) -> &'static str {
    match kind {
        "IPPool" => "Addresses or prefixes to give out, who may use them, and how they are picked.",
        "IPSubnet" => "A CIDR with its gateway, routes and DNS, from which pools are cut.",
        "IPReservation" => "Addresses that nobody gets.",
        "IPClaim" => "Addresses kept under a name for whoever uses the claim.",
        "IPEndpoint" => "What one pod holds. Made by Berth out of blocks; changing it changes no address.",
        "IPBlock" => "64 units of one network, and who has them. Berth's own record: look, and leave it alone.",
        _ => "",
    }
}

/// Definitions as YAML documents, the form that `kubectl apply -f -` takes.
///
/// # Errors
/// What the YAML writer says.
pub fn yaml<'a>(infos: impl IntoIterator<Item = &'a KindInfo>) -> Result<String, serde_saphyr::ser::Error> {
    let mut documents = Vec::new();
    for definition in infos.into_iter().filter_map(definition) {
        documents.push(serde_saphyr::to_string(&definition)?);
    }
    Ok(documents.join("---\n"))
}
