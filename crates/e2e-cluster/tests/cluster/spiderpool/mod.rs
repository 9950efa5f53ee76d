//! A cluster in Spiderpool's words: its pools, subnets, endpoints, columns and annotations. The test plays the controllers
//! that make pods, and their kubelet. Numbers in names of tests are those of Spiderpool's own catalogue.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod annotations;
mod applications;
mod complete;
mod endpoints;
mod export;
mod machines;
mod socket;
mod switches;
mod takeover;

use berth_e2e::{binaries, succeed};
use berth_e2e_cluster::World;
use serde_json::{Value, json};
use std::process::Command;

/// Installs Spiderpool's kinds.
fn install(world: &World) {
    world.apply(&succeed(Command::new(binaries::berth()).args(["crds", "spiderpool"])));
    world.plane.kubectl_ok(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"]).unwrap();
}

fn apply(world: &World, kind: &str, name: &str, spec: &Value) {
    let metadata = json!({"name": name});
    let object =
        json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": kind, "metadata": metadata, "spec": spec});
    world.apply(&object.to_string());
}
