//! The HTTP API of the daemon, byte by byte where it matters.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod addresses;
mod leases;
mod objects;
mod overview;
mod refusals;

use serde_json::{Value, json};

/// An IPPool with this specification.
fn pool(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "berth.io/v1alpha1", "kind": "IPPool", "metadata": {"name": name}, "spec": spec})
}

/// Manifests of several objects.
fn documents(objects: &[Value]) -> String {
    objects.iter().map(|object| format!("---\n{object}\n")).collect()
}
