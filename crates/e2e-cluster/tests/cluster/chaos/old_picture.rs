//! A controller whose picture of the cluster is old: its watches stand still, and things have happened since. Whatever it
//! takes for gone, it asks the server before it frees or removes anything of the living.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::{until_asked, without_news};
use berth_e2e::until;
use berth_e2e_cluster::{Pod, World};
use serde_json::json;

/// Addresses of pods that are gone are not what this is about: controller.rs looks at those.
const SOON: [&str; 4] = ["--audit", "1s", "--reclaim", "pod-gone=never,node-gone=0s,not-coming-back=0s"];

fn leases(world: &World) -> u64 {
    world.blocks().iter().filter(|(name, _)| name.contains("leases")).map(|(_, used)| used).sum()
}

/// A pod of a namespace that comes back under its name, if the set that it is of says so.
fn make_pod(world: &World, namespace: &str, name: &str, owner: Option<&str>) -> Pod {
    let owners = owner.map(
        |uid| json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": uid, "controller": true}]),
    );
    world.apply(&json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": {"berth.io/pools": "sticky"}, "ownerReferences": owners},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "none"}]}}).to_string());
    let uid = world.plane.kubectl_ok(&["get", "pod", name, "-n", namespace, "-o", "jsonpath={.metadata.uid}"]).unwrap();
    Pod { namespace: namespace.to_owned(), name: name.to_owned(), uid, node: "n1".to_owned() }
}

#[test]
fn whom_a_controller_has_not_heard_of_yet_it_asks_about_before_anything_of_theirs_comes_back() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.node_is("n1", "True");
    world.pool("p", &json!({"ranges": ["10.9.0.0/26"]}));
    world.pool("sticky", &json!({"ranges": ["10.9.1.0/26"], "sticky": {}}));
    world.pool("short", &json!({"ranges": ["10.9.2.0/26"], "sticky": {"keep": "1s"}}));
    world.pool("lent", &json!({"ranges": ["10.9.3.0/26"], "blockSize": 28}));
    let one = world.agent("n1");
    let (proxy, controller) =
        without_news(&world, &["pods", "nodes", "namespaces", "statefulsets", "deployments", "ipclaims"], &SOON);

    // A node that leases a run and uses nothing of it.
    world.nodes(&["n2"]);
    world.node_is("n2", "True");
    let two = world.agent("n2");
    let lessee = world.pod("n2", "lessee", &json!({"berth.io/pools": "lent"}));
    let _ = two.address(&lessee, "c");
    two.del(&lessee, "c").silent();
    // A pod that lives; a claim that nobody uses; pods that are away, of a set and of a namespace that are there.
    let alive = world.pod("n1", "alive", &json!({"berth.io/pools": "p"}));
    let _ = one.address(&alive, "alive");
    world.apply(
        "{apiVersion: berth.io/v1alpha1, kind: IPClaim, metadata: {name: vip, namespace: default}, spec: {pools: [p]}}",
    );
    let user = world.pod("n1", "user", &json!({"berth.io/claim": "vip"}));
    let template =
        json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "none"}]}});
    let spec =
        json!({"replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template});
    world.apply(&json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "default"}, "spec": spec}).to_string());
    world.apply("{apiVersion: v1, kind: Namespace, metadata: {name: late}}");
    world.apply("{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: late}}");
    let set = world.field("statefulset/db", ".metadata.uid");
    let away = [user, make_pod(&world, "default", "db-1", Some(&set)), make_pod(&world, "late", "one", None)];
    for pod in &away {
        let _ = one.address(pod, &pod.uid);
        // It is gone when its address begins to be kept, so that all depends on whoever would make it again.
        world.delete_pod(pod);
        one.del(pod, &pod.uid).silent();
    }
    // An application, and its pool.
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "db"}}, "template": template});
    world.apply(&json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w", "namespace": "default"}, "spec": spec}).to_string());
    let application = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "w", "uid": "u", "interface": "eth0"});
    world.pool("own", &json!({"ranges": ["10.9.4.1-10.9.4.3"], "application": application}));

    for (resource, name) in
        [("nodes", "n2"), ("ipclaims", "vip"), ("statefulsets", "db"), ("namespaces", "late"), ("deployments", "w")]
    {
        until_asked(&proxy, "get", resource, name);
    }
    // What comes back after that was looked at in a later round.
    let short = world.pod("n1", "short", &json!({"berth.io/pools": "short"}));
    let _ = one.address(&short, "short");
    one.del(&short, "short").silent();
    until("what was kept for a second to come back", || controller.log().contains("time-over").then_some(()));
    assert_eq!((world.used(), leases(&world)), (4, 1), "{}", controller.log());
    assert_eq!(controller.log().matches("an address came back").count(), 1, "{}", controller.log());
    assert_eq!(world.field("ippool/own", ".spec.ranges"), "[\"10.9.4.1-10.9.4.3\"]");
    world.check();
}

#[test]
fn blocks_that_a_controller_has_not_heard_of_keep_pools_and_records() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.node_is("n1", "True");
    world.pool("p", &json!({"ranges": ["10.9.0.0/26"]}));
    world.pool("sticky", &json!({"ranges": ["10.9.1.0/26"], "sticky": {}}));
    let agent = world.agent("n1");
    let (proxy, controller) = without_news(&world, &["ipblocks", "pods"], &SOON);
    until("the finalizer", || world.field("ippool/p", ".metadata.finalizers").contains("in-use").then_some(()));
    // To the controller this is the record of a pod that is gone, with an address that nobody has.
    let kept = world.pod("n1", "k", &json!({"berth.io/pools": "sticky"}));
    let _ = agent.address(&kept, "k");
    until_asked(&proxy, "get", "ipblocks", "default.10-9-1-0-26");
    // And this a pool that nobody uses.
    let pod = world.pod("n1", "a", &json!({"berth.io/pools": "p"}));
    let _ = agent.address(&pod, "a");
    world.plane.kubectl_ok(&["delete", "ippool", "p", "--wait=false"]).unwrap();
    until("the event that names the holder", || {
        let events = world.plane.kubectl_ok(&["get", "events", "-A"]).unwrap();
        (events.contains("StillInUse") && events.contains("pod default/a")).then_some(())
    });
    assert!(!world.field("ippool/p", ".metadata.uid").is_empty(), "{}", controller.log());
    assert!(!world.field("ipendpoint/k", ".metadata.uid").is_empty(), "{}", controller.log());
    agent.del(&pod, "a").silent();
    proxy.no_rule();
    proxy.release();
    until("the pool to go", || world.field("ippool/p", ".metadata.uid").is_empty().then_some(()));
    assert!(!world.field("ipendpoint/k", ".metadata.uid").is_empty());
}
