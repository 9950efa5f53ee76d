//! Holders that come back, also on another node.

use berth_e2e::until;
use berth_e2e_cluster::World;
use serde_json::{Value, json};

#[test]
fn a_pod_of_the_same_name_gets_its_address_back_on_another_node() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1", "n2"]);
    world.pool("p", &json!({"ranges": ["10.9.0.0/22"], "sticky": {}}));
    let (one, two) = (world.agent("n1"), world.agent("n2"));
    let before = world.pod("n1", "db-0", &json!({}));
    let address = one.address(&before, "c1");
    one.del(&before, "c1").silent();
    world.delete_pod(&before);
    let after = world.pod("n2", "db-0", &json!({}));
    assert_eq!(two.address(&after, "c2"), address);
    // And once more without a DEL: the node died, and the pod was replaced by force.
    world.delete_pod(&after);
    let again = world.pod("n1", "db-0", &json!({}));
    assert_eq!(one.address(&again, "c3"), address);
    // What the dead node says later takes nothing from the new holder.
    two.del(&after, "c2").silent();
    assert_eq!(one.address(&again, "c3"), address);
    assert_eq!(world.used(), 1);
}

/// What a node leases is in its hands alone: a pod that comes back elsewhere while the old one's DEL is missing gets another
/// address, and nobody gets the old one twice.
#[test]
fn a_pod_that_comes_back_elsewhere_takes_nothing_out_of_another_nodes_lease() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1", "n2"]);
    world.pool("p", &json!({"ranges": ["10.9.0.0/24"], "blockSize": 26, "sticky": {}}));
    let (one, two) = (world.agent("n1"), world.agent("n2"));
    let before = world.pod("n1", "db-0", &json!({}));
    let address = one.address(&before, "c1");
    berth_e2e::until("the server to know of it", || (world.used() == 1).then_some(()));
    world.delete_pod(&before);
    let after = world.pod("n2", "db-0", &json!({}));
    assert_ne!(two.address(&after, "c2"), address);
    let other = world.pod("n1", "web", &json!({}));
    assert_ne!(one.address(&other, "c3"), address, "it is kept for db-0");
    one.del(&before, "c1").silent();
}

#[test]
fn a_claim_is_bound_at_its_first_use_and_followed_by_whoever_uses_it() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1", "n2"]);
    world.pool("p", &json!({"ranges": ["10.9.0.0/22"]}));
    world.apply(
        "{apiVersion: berth.io/v1alpha1, kind: IPClaim, metadata: {name: vip, namespace: default}, spec: {pools: [p]}}",
    );
    let (one, two) = (world.agent("n1"), world.agent("n2"));
    let first = world.pod("n1", "a", &json!({"berth.io/claim": "vip"}));
    let address = one.address(&first, "c1");
    let path = ["get", "ipclaim", "vip", "-o", "jsonpath={.status.addresses[0]}"];
    assert_eq!(world.plane.kubectl_ok(&path).unwrap(), address.to_string());
    let second = world.pod("n2", "b", &json!({"berth.io/claim": "vip"}));
    let refused = two.add(&second, "c2");
    assert_ne!(refused.code, 0, "it is in use: {refused:?}");
    one.del(&first, "c1").silent();
    until("the address to move", || (two.add(&second, "c2").code == 0).then_some(()));
    assert_eq!(two.address(&second, "c2"), address);
    let missing = world.pod("n1", "c", &json!({"berth.io/claim": "nowhere"}));
    let said = one.add(&missing, "c3").json();
    assert!(said["msg"].as_str().unwrap().contains("nowhere"), "{said}");
}

#[test]
fn a_pool_that_asks_for_them_has_endpoint_objects_for_all_its_pods() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.pool("p", &json!({"ranges": ["10.9.0.0/24"], "endpointObjects": "Always"}));
    let agent = world.agent("n1");
    let pod = world.pod("n1", "web-7f9", &json!({}));
    let address = agent.address(&pod, "c1");
    let listed = || -> Value {
        serde_json::from_str(&world.plane.kubectl_ok(&["get", "ipendpoints", "-A", "-o", "json"]).unwrap()).unwrap()
    };
    let endpoint = listed()["items"][0].clone();
    assert_eq!(endpoint["metadata"]["name"], "web-7f9");
    assert_eq!(endpoint["spec"]["uid"], pod.uid.as_str());
    assert_eq!(endpoint["spec"]["interfaces"][0]["addresses"][0]["address"], format!("{address}/24"));
    agent.del(&pod, "c1").silent();
    world.delete_pod(&pod);
    until("the endpoint to go with the pod", || listed()["items"].as_array().unwrap().is_empty().then_some(()));
}
