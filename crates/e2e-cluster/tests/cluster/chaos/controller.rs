//! The controller with three things that go wrong: what it knows is old, it was away when something happened, and it dies
//! at any of its writes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::{SOON, behind, deaths, items, no_news, proxy, scale, work_off};
use berth_e2e::until;
use berth_e2e_cluster::{Pod, World};
use serde_json::json;
use std::thread::sleep;
use std::time::Duration;

#[test]
fn a_controller_whose_picture_of_pods_is_old_frees_nothing_of_the_living() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.node_is("n1", "True");
    world.pool("p", &json!({"ranges": ["10.9.0.0/24"]}));
    let proxy = proxy(&world);
    // The list goes through, and what comes after it does not.
    no_news(&proxy, &["pods"]);
    let controller = behind(&world, &proxy, "r1", &SOON);
    until("the controller to lead", || controller.log().contains("leading").then_some(()));
    let agent = world.agent("n1");
    let pods = world.pods("n1", &["a", "b", "c"].map(str::to_owned), &json!({}));
    for pod in &pods {
        let _ = agent.address(pod, &pod.name);
    }
    // To the controller they are addresses of pods that do not exist. It asks the server before it believes that.
    let asked = || proxy.seen().iter().filter(|seen| seen.verb == "get" && seen.resource == "pods").count();
    until("the controller to ask about each of them", || (asked() >= 3).then_some(()));
    sleep(Duration::from_secs(5));
    assert_eq!(world.used(), 3);
    assert!(asked() <= 6, "what the server knows better it is not asked over and over: {}", asked());
    assert!(!controller.log().contains("came back"), "{}", controller.log());
}

/// Nobody hears of a pod, a node, a claim, a set, an application, a pool or a record that goes while no controller runs.
#[test]
fn what_happened_while_no_controller_ran_is_made_up_for() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1", "n2"]);
    world.node_is("n1", "True");
    world.node_is("n2", "True");
    world.pool("p", &json!({"ranges": ["10.9.0.0/26"]}));
    world.pool("sticky", &json!({"ranges": ["10.9.1.0/26"], "sticky": {}}));
    world.pool("lent", &json!({"ranges": ["10.9.2.0/26"], "blockSize": 28}));
    world.pool("unused", &json!({"ranges": ["10.9.3.0/26"]}));
    let controller = world.controller("r1", &SOON);
    let (agent, other) = (world.agent("n1"), world.agent("n2"));
    let ask = |pool: &str| json!({"berth.io/pools": pool});
    let pods = world.pods("n1", &["gone", "stays"].map(str::to_owned), &ask("p"));
    for pod in &pods {
        let _ = agent.address(pod, &pod.name);
    }
    let lessee = world.pod("n2", "lessee", &ask("lent"));
    let _ = other.address(&lessee, "lessee");
    let claim =
        "{apiVersion: berth.io/v1alpha1, kind: IPClaim, metadata: {name: vip, namespace: default}, spec: {pools: [p]}}";
    world.apply(claim);
    scale(&world, "StatefulSet", "db", 2, &json!({}));
    let uid = world.field("statefulset/db", ".metadata.uid");
    let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": uid, "controller": true}]);
    for name in ["db-0", "db-1"] {
        let pod = world.make_pod("n1", name, &json!({"annotations": ask("sticky"), "ownerReferences": owner}));
        let _ = agent.address(&pod, name);
        agent.del(&pod, name).silent();
        world.delete_pod(&pod);
    }
    world.apply("{apiVersion: berth.io/v1alpha1, kind: IPSubnet, metadata: {name: s}, spec: {cidr: 10.8.0.0/24}}");
    for name in ["grows", "goes"] {
        scale(&world, "Deployment", name, 2, &json!({"berth.io/subnets": "s", "berth.io/pool-size": "+0"}));
    }
    let sizes = || {
        let pools = items(&world, "ippools");
        let own = pools.iter().filter(|item| item["spec"]["subnet"] == "s");
        let size = |item: &serde_json::Value| {
            let (name, usage) = (&item["spec"]["application"]["name"], &item["status"]["usage"]["capacity"]);
            format!("{}={}", name.as_str().unwrap_or_default(), usage.as_str().unwrap_or_default())
        };
        let mut sizes: Vec<String> = own.map(size).collect();
        sizes.sort();
        sizes
    };
    until("everything to be as it should be", || {
        let guarded = world.field("ippool/unused", ".metadata.finalizers").contains("in-use");
        (world.used() == 6 && sizes() == ["goes=2", "grows=2"] && guarded).then_some(())
    });
    drop(controller);
    agent.kill();
    other.kill();
    world.delete_pod(&pods[0]);
    world.delete_pod(&lessee);
    world.plane.kubectl_ok(&["delete", "node", "n2"]).unwrap();
    world.plane.kubectl_ok(&["delete", "ipclaim", "vip"]).unwrap();
    world.plane.kubectl_ok(&["delete", "ipendpoint", "db-0"]).unwrap();
    world.plane.kubectl_ok(&["delete", "ippool", "unused", "--wait=false"]).unwrap();
    world.plane.kubectl_ok(&["delete", "deployment", "goes"]).unwrap();
    scale(&world, "Deployment", "grows", 5, &json!({"berth.io/subnets": "s", "berth.io/pool-size": "+0"}));
    scale(&world, "StatefulSet", "db", 1, &json!({}));
    let spoiled = json!({"status": {"usage": {"capacity": "7"}, "phase": "Full"}}).to_string();
    let patch = ["patch", "ippool", "p", "--subresource=status", "--type=merge", "-p", &spoiled];
    world.plane.kubectl_ok(&patch).unwrap();
    let _controller = world.controller("r1", &SOON);
    until("all of it to be made up for", || {
        let gone = |object: &str| world.field(object, ".metadata.uid").is_empty();
        let leases: u64 = world.blocks().iter().filter(|(name, _)| name.contains("leases")).map(|(_, used)| used).sum();
        let told = world.field("ippool/p", ".status.phase") == "Ready";
        // What is left: the pod that stays, and what is kept for the first of the set.
        let used = (world.used(), leases) == (2, 0);
        let records = !gone("ipendpoint/db-0") && gone("ipendpoint/db-1");
        (used && records && told && gone("ippool/unused") && sizes() == ["grows=5"]).then_some(())
    });
    world.check();
}

/// Everything that a controller writes: a finalizer on and off, an address and a lease of a dead node, a claim, an
/// application's pool made and another's deleted, a record of nobody removed, statuses.
struct Scene {
    third: u32,
    dead: Pod,
}

impl Scene {
    fn set(world: &World, third: u32) -> Self {
        let berth = |kind: &str, metadata: serde_json::Value, spec: serde_json::Value| {
            let object = json!({"apiVersion": "berth.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec});
            world.apply(&object.to_string());
        };
        world.pool(&format!("p{third}"), &json!({"ranges": [format!("10.9.{third}.0/26")]}));
        world.pool(&format!("l{third}"), &json!({"ranges": [format!("10.7.{third}.0/26")], "blockSize": 28}));
        berth("IPSubnet", json!({"name": format!("s{third}")}), json!({"cidr": format!("10.8.{third}.0/24")}));
        let claim = json!({"name": format!("c{third}"), "namespace": "default"});
        berth("IPClaim", claim, json!({"pools": [format!("p{third}")]}));
        let asks = json!({"berth.io/subnets": format!("s{third}"), "berth.io/pool-size": "3"});
        scale(world, "Deployment", &format!("w{third}"), 1, &asks);
        // One that the controller that died was about to let go, a record of nobody, the application of the last time.
        let (going, stray) = (format!("x{third}"), format!("stray{third}"));
        let guarded = json!({"name": going, "finalizers": ["berth.io/in-use"]});
        berth("IPPool", guarded, json!({"ranges": [format!("10.6.{third}.0/26")]}));
        world.plane.kubectl_ok(&["delete", "ippool", &going, "--wait=false"]).unwrap();
        let addresses = json!([{"address": format!("10.9.{third}.60/26"), "pool": "p"}]);
        let interfaces = json!([{"name": "eth0", "network": "net", "addresses": addresses}]);
        let spec = json!({"uid": "u1", "node": "n1", "interfaces": interfaces});
        berth("IPEndpoint", json!({"name": stray, "namespace": "default"}), spec);
        if let Some(last) = third.checked_sub(1) {
            world.plane.kubectl_ok(&["delete", "deployment", &format!("w{last}")]).unwrap();
        }
        // A node that dies, with an address and a lease.
        let node = format!("d{third}");
        world.nodes(&[&node]);
        let agent = world.agent(&node);
        let dead = world.pod(&node, &format!("dead{third}"), &json!({"berth.io/pools": format!("p{third}")}));
        let lessee = world.pod(&node, &format!("lessee{third}"), &json!({"berth.io/pools": format!("l{third}")}));
        for pod in [&dead, &lessee] {
            let _ = agent.address(pod, &pod.name);
        }
        agent.kill();
        world.delete_pod(&dead);
        world.delete_pod(&lessee);
        world.plane.kubectl_ok(&["delete", "node", &node]).unwrap();
        Self { third, dead }
    }

    /// What is still to be done, if anything.
    fn undone(&self, world: &World) -> Option<String> {
        let third = self.third;
        let (block, blocks) = (format!("default.10-9-{third}-0-26"), world.blocks());
        let used = blocks.iter().find(|(name, _)| *name == block).map_or(0, |(_, used)| *used);
        if used != 1 {
            return Some(format!("{block} has {used} in use, not the claim's alone ({} is gone)", self.dead.name));
        }
        let lent = |name: &str| name.contains("leases") && name.contains(&format!("10-7-{third}-"));
        if blocks.iter().any(|(name, used)| lent(name) && *used > 0) {
            return Some("the lease of a node that is gone has not ended".to_owned());
        }
        for object in [format!("ippool/x{third}"), format!("ipendpoint/stray{third}")] {
            if !world.field(&object, ".metadata.uid").is_empty() {
                return Some(format!("{object} is still there"));
            }
        }
        if world.field(&format!("ipclaim/c{third}"), ".status.phase") != "Bound" {
            return Some("the claim is not bound".to_owned());
        }
        let (subnet, pools) = (format!("s{third}"), items(world, "ippools"));
        let own: Vec<_> = pools.iter().filter(|item| item["spec"]["subnet"] == subnet.as_str()).collect();
        let last = third.checked_sub(1).map(|last| format!("s{last}")).unwrap_or_default();
        if pools.iter().any(|item| item["spec"]["subnet"] == last.as_str()) {
            return Some(format!("there is a pool of {last}, though its application is gone"));
        }
        if own.len() != 1 || own[0]["status"]["usage"]["capacity"] != "3" {
            return Some(format!("the application has {own:?}"));
        }
        let guarded = world.field(&format!("ippool/p{third}"), ".metadata.finalizers").contains("in-use");
        let counted = world.field(&format!("ippool/p{third}"), ".status.usage.held") == "1";
        (!guarded || !counted).then(|| format!("guarded {guarded}, counted {counted}"))
    }
}

#[test]
fn a_controller_that_dies_at_any_of_its_writes_is_followed_by_one_that_goes_on() {
    let Some(world) = World::start() else { return };
    let proxy = proxy(&world);
    let mut rounds = 0..;
    let mut run = |at| {
        let scene = Scene::set(&world, rounds.next().unwrap());
        work_off((&world, &proxy), &SOON, at, || scene.undone(&world)).0
    };
    let writes = run(None);
    assert!(writes >= 12, "{writes}");
    let all = deaths(writes, 1);
    for at in &all {
        run(Some(*at));
    }
    world.check();
    eprintln!("{writes} writes, died at {} times", all.len());
}
