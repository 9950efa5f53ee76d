//! What an object lacks that is being made or changed, to the patch that fills it in. Nothing is ever refused here: what
//! makes no sense passes on to [`review`](crate::review), and what is missed the controller fills in a moment later.

use crate::review::{Cluster, Request};
use berth_dialects::spiderpool::defaults::{Owner, defaults, is_owned_by, subnet_of};
use k8s_openapi::ByteString;
use serde_json::{Map, Value, json};

/// The answer to a request, as an API server reads it.
pub fn complete<C: Cluster>(request: &Request, cluster: &C) -> Value {
    let object = &request.object;
    let subnet = cluster.with(|view| subnet_of(object, view.ipam.config()).map(|subnet| subnet.name.clone()));
    let owner = subnet
        .map(|name| Owner { uid: (!is_owned_by(object, &name)).then(|| cluster.subnet_uid(&name)).flatten(), name });
    let mut response = json!({ "uid": request.uid, "allowed": true });
    if let Some(Value::Object(lacking)) = defaults(object, owner.as_ref()) {
        let operations = operations(object, &lacking, "").to_string();
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(ByteString(operations.into_bytes()));
    }
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response })
}

/// A merge patch that takes nothing away, as operations on the object: what is there is gone into, and what is not is put
/// there as a whole.
fn operations(object: &Value, patch: &Map<String, Value>, path: &str) -> Value {
    let mut all = Vec::new();
    for (key, value) in patch {
        let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
        match (&object[key], value) {
            (there @ Value::Object(_), Value::Object(inner)) => {
                all.extend(operations(there, inner, &path).as_array_mut().into_iter().flat_map(std::mem::take));
            }
            _ => all.push(json!({ "op": "add", "path": path, "value": value })),
        }
    }
    Value::Array(all)
}
