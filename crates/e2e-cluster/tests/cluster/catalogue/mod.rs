//! Spiderpool's catalogue of end-to-end cases, in Berth's own words, by number: docs/catalogue.md has the list.
//!
//! All cases share one stage: the API server, the controllers and the scheduler of Kubernetes, Berth's controller and its
//! webhook, and kubelets without containers. Each has a namespace, nodes, pools and addresses of its own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod affinity;
mod assign;
mod machines;
mod pools;
mod reclaim;
mod reliability;
mod reserved;
mod storms;
mod subnets;
mod third_party;

use serde_json::{Value, json};

/// The annotation with which pods ask for a pool.
fn pools(names: &[String]) -> Value {
    json!({"berth.io/pools": names.join(",")})
}
