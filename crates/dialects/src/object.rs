//! The generic object, with Kubernetes' field names: what manifests, the API and the store carry.

use crate::field::{FieldError, decode};
use crate::kinds::{self, KindInfo};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The namespace of a namespaced object that names none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// What Kubernetes adds to the metadata of an object it exports and Berth has no use for.
const IGNORED_METADATA: [&str; 7] = [
    "managedFields",
    "ownerReferences",
    "finalizers",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generateName",
];

/// An object of any kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Object {
    /// Group and version, e.g. `berth.io/v1alpha1`.
    pub api_version: String,
    /// Kind, e.g. `IPPool`.
    pub kind: String,
    /// Name, labels and bookkeeping.
    pub metadata: Metadata,
    /// What is wanted. Its fields depend on the kind.
    #[serde(default)]
    pub spec: Value,
    /// What is. Never read from a manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Value>,
}

/// Name, labels and bookkeeping of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metadata {
    /// Name, unique among the objects of its kind and namespace.
    pub name: String,
    /// Namespace; only namespaced kinds have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Unique identifier, set by the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// When it was made (RFC 3339), set by the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
    /// Counts changes of the spec, set by the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// Changes with every change of the object, set by the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

impl Object {
    /// `IPPool "blue"`, `IPClaim "web/vip"`: how messages call it.
    #[must_use]
    pub fn title(&self) -> String {
        let Metadata { name, namespace, .. } = &self.metadata;
        match namespace {
            Some(namespace) => format!("{} \"{namespace}/{name}\"", self.kind),
            None => format!("{} {name:?}", self.kind),
        }
    }

    /// The row of its kind in the table.
    #[must_use]
    pub fn info(&self) -> Option<&'static KindInfo> {
        kinds::of(&self.api_version, &self.kind)
    }

    /// An object as an API server has it, whatever else is in it; `None` if it is of no kind that is configured. Its
    /// status is left out: it is no part of the configuration.
    #[must_use]
    pub fn of_cluster(value: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let map = |value: &Value| {
            let entries = value.as_object().into_iter().flatten();
            entries.filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect()
        };
        let (api_version, kind) = (text(&value["apiVersion"])?, text(&value["kind"])?);
        kinds::of(&api_version, &kind).filter(|info| !info.derived)?;
        let meta = &value["metadata"];
        let spec = value.get("spec").filter(|spec| !spec.is_null()).cloned();
        Some(Self {
            api_version,
            kind,
            metadata: Metadata {
                name: text(&meta["name"])?,
                namespace: text(&meta["namespace"]),
                labels: map(&meta["labels"]),
                annotations: map(&meta["annotations"]),
                uid: text(&meta["uid"]),
                creation_timestamp: text(&meta["creationTimestamp"]),
                generation: meta["generation"].as_u64(),
                resource_version: text(&meta["resourceVersion"]),
            },
            spec: spec.unwrap_or_else(|| Value::Object(Map::new())),
            status: None,
        })
    }

    /// Reads an object and checks everything that can be told from it alone; fills in the default namespace.
    pub(crate) fn read(mut value: Value) -> Result<Self, FieldError> {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|key, _| !IGNORED_METADATA.contains(&key.as_str()));
        }
        let mut object: Self = decode(&value, "")?;
        let info = kinds::expect(&object.api_version, &object.kind)?;
        if object.spec.is_null() {
            object.spec = Value::Object(Map::new());
        }
        let Metadata { name, namespace, .. } = &mut object.metadata;
        check_name("metadata.name", name, 253, true)?;
        match namespace {
            Some(_) if !info.namespaced => {
                let reason = format!("{} objects have no namespace; leave it out", info.kind);
                return Err(FieldError::new("metadata.namespace", reason));
            }
            Some(namespace) => check_name("metadata.namespace", namespace, 63, false)?,
            None if info.namespaced => *namespace = Some(DEFAULT_NAMESPACE.to_owned()),
            None => {}
        }
        (info.lower)(&object)?;
        Ok(object)
    }
}

/// Names are what Kubernetes allows, so that a manifest that works here works in a cluster.
pub(crate) fn check_name(path: &str, name: &str, max: usize, dots: bool) -> Result<(), FieldError> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let edges = |label: &str| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
    let mut labels = name.split(if dots { "." } else { "\0" });
    if name.len() <= max && labels.all(|label| edges(label) && label.chars().all(inner)) {
        return Ok(());
    }
    let allowed = if dots { "lower-case letters, digits, '-' and '.'" } else { "lower-case letters, digits and '-'" };
    let mut reason = format!(
        "{name:?} is not a valid name; use {allowed}, begin and end with a letter or digit, at most {max} characters"
    );
    let mended = name.to_lowercase().replace(['_', ' '], "-");
    if mended != name && check_name(path, &mended, max, dots).is_ok() {
        reason.push_str(&format!("; e.g. {mended:?}"));
    }
    Err(FieldError::new(path, reason))
}
