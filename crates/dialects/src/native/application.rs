//! Pools of applications as objects: what is decided about them, in the words of the API.

use super::API_VERSIONS;
use super::pool::raise_detection;
use crate::object::{Metadata, Object};
use berth_core::addr::Range;
use berth_core::apps::Application;
use berth_core::detect::Detection;
use berth_core::model::Pool;
use serde_json::{Map, Value, json};

/// The IPPool of an application that is to be made.
#[must_use]
pub fn raise_pool(pool: &Pool) -> Object {
    let mut spec = Map::new();
    spec.insert("network".to_owned(), json!(*pool.network));
    spec.insert("ranges".to_owned(), ranges(&pool.ranges));
    if let Some(subnet) = &pool.subnet {
        spec.insert("subnet".to_owned(), json!(subnet));
    }
    if pool.sticky.is_some() {
        spec.insert("sticky".to_owned(), json!({}));
    }
    if let Some(detect) = pool.detect {
        spec.insert("detect".to_owned(), raise_detection(detect));
    }
    if let Some(own) = &pool.application {
        spec.insert("application".to_owned(), application(own));
    }
    Object {
        api_version: API_VERSIONS.first().copied().unwrap_or_default().to_owned(),
        kind: "IPPool".to_owned(),
        metadata: Metadata { name: pool.name.clone(), ..Metadata::default() },
        spec: Value::Object(spec),
        status: None,
    }
}

/// A merge patch that gives a pool other ranges and writes down whose it is. The rest of it may be a person's.
#[must_use]
pub fn pool_patch(new_ranges: &[Range], own: &Application, detect: Option<Detection>) -> Value {
    let mut spec = json!({ "ranges": ranges(new_ranges), "application": application(own) });
    if let Some(detect) = detect {
        spec["detect"] = raise_detection(detect);
    }
    json!({ "spec": spec })
}

fn ranges(ranges: &[Range]) -> Value {
    ranges.iter().map(ToString::to_string).collect()
}

fn application(own: &Application) -> Value {
    let Application { api_version, kind, namespace, name, uid, interface, controllers, keep } = own;
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "uid": uid,
        "interface": interface,
        "controllers": controllers,
        "keep": keep,
    })
}
