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

/// A server with Spiderpool's kinds and one node.
pub(crate) fn start() -> Option<World> {
    let world = World::start()?;
    install(&world);
    world.nodes(&["n1"]);
    world.node_is("n1", "True");
    Some(world)
}

/// Installs Spiderpool's kinds.
fn install(world: &World) {
    world.apply(&succeed(Command::new(binaries::berth()).args(["crds", "spiderpool"])));
    world.plane.kubectl_ok(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"]).unwrap();
}

pub(crate) fn apply(world: &World, kind: &str, name: &str, spec: &Value) {
    let metadata = json!({"name": name});
    let object =
        json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": kind, "metadata": metadata, "spec": spec});
    world.apply(&object.to_string());
}

/// A SpiderEndpoint that the test made: of Berth's own, as a controller writes them, or as Spiderpool left it behind.
pub(crate) fn endpoint(world: &World, (name, uid): (&str, &str), (kind, owner): (&str, &str), own: bool) {
    let ips = json!([{"interface": "eth0", "ipv4": "10.36.0.99/24", "ipv4Pool": "p", "vlan": 0}]);
    let mut metadata = json!({"name": name, "namespace": "default"});
    match own {
        true => metadata["annotations"] = json!({"berth.io/derived": "true"}),
        false => metadata["finalizers"] = json!(["spiderpool.spidernet.io"]),
    }
    let endpoint = json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderEndpoint", "metadata": metadata,
        "status": {"current": {"uid": uid, "node": "n1", "ips": ips},
            "ownerControllerType": kind, "ownerControllerName": owner}});
    world.apply(&endpoint.to_string());
}
