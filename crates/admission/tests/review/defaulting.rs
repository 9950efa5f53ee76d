//! What an object lacks, as the API server is told.

use crate::World;
use crate::spiderpool::spider;
use berth_admission::defaulting::complete;
use berth_admission::review::{Cluster, Request, View};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

impl Cluster for World {
    fn with<R>(&self, look: impl FnOnce(&View<'_>) -> R) -> R {
        self.view(look)
    }

    fn subnet_uid(&self, name: &str) -> Option<String> {
        Some(format!("fresh-{name}"))
    }
}

/// The operations of the patch that is answered.
fn operations(world: &World, object: &Value) -> Vec<Value> {
    let asked = json!({"uid": "7", "operation": "CREATE", "object": object, "oldObject": null});
    let request: Request = serde_json::from_value(asked).unwrap();
    let answer = complete(&request, world)["response"].clone();
    assert_eq!((&answer["uid"], &answer["allowed"]), (&json!("7"), &json!(true)));
    if answer["patch"].is_null() {
        return Vec::new();
    }
    assert_eq!(answer["patchType"], "JSONPatch");
    let patch: ByteString = serde_json::from_value(answer["patch"].clone()).unwrap();
    serde_json::from_slice(&patch.0).unwrap()
}

#[test]
fn what_an_object_lacks_is_added_where_it_belongs() {
    let subnet = spider("SpiderSubnet", "s", &json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.10-10.0.0.99"]}));
    let world = World::new(vec![subnet]);
    let mut pool = spider("SpiderIPPool", "p", &json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.11", "10.0.0.10"]}));
    pool["metadata"]["labels"] = json!({"a": "b"});
    pool["metadata"]["finalizers"] = json!(["mine"]);
    let owner = json!([{"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderSubnet", "name": "s",
        "uid": "fresh-s", "controller": true}]);
    let add = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
    assert_eq!(
        operations(&world, &pool),
        [
            add("/metadata/finalizers", json!(["mine", "spiderpool.spidernet.io"])),
            add("/metadata/labels/ipam.spidernet.io~1ippool-cidr", json!("10-0-0-0-24")),
            add("/metadata/labels/ipam.spidernet.io~1owner-spider-subnet", json!("s")),
            add("/metadata/ownerReferences", owner),
            add("/spec/ipVersion", json!(4)),
            add("/spec/ips", json!(["10.0.0.10-10.0.0.11"])),
        ]
    );
    let bare = json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {}});
    assert_eq!(operations(&world, &bare), [add("/metadata/finalizers", json!(["spiderpool.spidernet.io"]))]);
    pool["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
    assert_eq!(operations(&world, &pool), Vec::<Value>::new());
    assert_eq!(operations(&world, &crate::pool("native", &json!({"ranges": ["10.9.0.0/24"]}))), Vec::<Value>::new());
}
