//! Addresses whose users are gone come back, and no address of a living pod does.

use berth_e2e::{binaries, until};
use berth_e2e_cluster::World;
use serde_json::{Value, json};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// Times that a test can wait for.
const SOON: &[&str] =
    &["--reclaim", "pod-gone=1s,pod-replaced=1s,pod-ended=1s,pod-stuck=1s,node-gone=1s,not-coming-back=1s"];

/// Long enough for anything that is due to have happened.
fn a_while() {
    sleep(Duration::from_secs(5));
}

#[test]
fn what_pods_of_a_node_that_is_gone_held_comes_back_and_nothing_else() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1", "n2"]);
    world.node_is("n1", "True");
    world.node_is("n2", "True");
    world.pool("p", &json!({"ranges": ["10.9.0.0/24"]}));
    world.pool("lent", &json!({"ranges": ["10.8.0.0/24"], "blockSize": 26}));
    let (one, two) = (world.agent("n1"), world.agent("n2"));
    let shared = json!({"berth.io/pools": "p"});
    let affine = json!({"berth.io/pools": "lent"});
    let dead = [world.pod("n1", "a", &shared), world.pod("n1", "b", &affine)];
    let living = [world.pod("n2", "c", &shared), world.pod("n2", "d", &affine)];
    for (i, pod) in dead.iter().enumerate() {
        let _ = one.address(pod, &format!("dead{i}"));
    }
    let kept: Vec<_> = living.iter().enumerate().map(|(i, pod)| two.address(pod, &format!("alive{i}"))).collect();
    until("what is lent to be told", || (world.used() == 4).then_some(()));
    let _controller = world.controller("r1", SOON);
    one.kill();
    world.plane.kubectl_ok(&["delete", "node", "n1"]).unwrap();
    a_while();
    assert_eq!(world.used(), 4, "its pods are still there");
    dead.iter().for_each(|pod| world.delete_pod(pod));
    until("what they held to come back", || (world.used() == 2).then_some(()));
    // The lease of the node is anybody's again: the other node gets all but what it holds.
    until("the lease to end", || {
        let leases: u64 = world.blocks().iter().filter(|(name, _)| name.contains("leases")).map(|(_, used)| used).sum();
        (leases == 1).then_some(())
    });
    for (i, pod) in living.iter().enumerate() {
        assert_eq!(two.address(pod, &format!("alive{i}")), kept[i]);
    }
    a_while();
    assert_eq!(world.used(), 2);
    world.check();
    let events = world.plane.kubectl_ok(&["get", "events", "-A"]).unwrap();
    assert!(events.contains("AddressesReclaimed") && events.contains("its node is gone"), "{events}");
}

#[test]
fn a_node_that_does_not_answer_keeps_everything_until_somebody_vouches_for_it() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.node_is("n1", "True");
    world.pool("p", &json!({"ranges": ["10.9.0.0/24"]}));
    let agent = world.agent("n1");
    let (gone, there) = (world.pod("n1", "a", &json!({})), world.pod("n1", "b", &json!({})));
    let _ = agent.address(&gone, "c1");
    let kept = agent.address(&there, "c2");
    let _controller = world.controller("r1", SOON);
    agent.kill();
    world.node_is("n1", "Unknown");
    world.delete_pod(&gone);
    a_while();
    assert_eq!(world.used(), 2, "its container may still run");
    let dry = Command::new(binaries::berth())
        .args(["reclaim", "--dry-run", "-o", "json", "--kubeconfig"])
        .arg(world.plane.kubeconfig())
        .output()
        .unwrap();
    let dry: Value = serde_json::from_slice(&dry.stdout).unwrap();
    assert_eq!(dry["addresses"].as_array().unwrap().len(), 1, "{dry}");
    assert_eq!(dry["addresses"][0]["class"], "node-silent");
    assert_eq!(world.used(), 2, "only asked");
    berth_e2e::succeed(Command::new(binaries::berth()).args(["reclaim", "--kubeconfig"]).arg(world.plane.kubeconfig()));
    assert_eq!(world.used(), 2, "what never comes back by itself does not by hand either");
    let taint = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute";
    world.plane.kubectl_ok(&["taint", "node", "n1", taint]).unwrap();
    until("the address to come back", || (world.used() == 1).then_some(()));
    agent.start();
    assert_eq!(agent.address(&there, "c2"), kept, "a pod that is there has what it had");
}

#[test]
fn g00003_g00004_g00006_g00007_without_an_agent_what_ended_or_is_gone_comes_back() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.node_is("n1", "True");
    world.pool("p", &json!({"ranges": ["10.9.0.0/24"]}));
    let agent = world.agent("n1");
    let names: Vec<String> = ["gone", "ended", "failed", "replaced", "alive"].map(str::to_owned).into();
    let pods = world.pods("n1", &names, &json!({}));
    for pod in &pods {
        let _ = agent.address(pod, &format!("c-{}", pod.name));
    }
    // The plugin is not called any more: no DEL, no GC, no sweep.
    agent.kill();
    let _controller = world.controller("r1", SOON);
    a_while();
    assert_eq!(world.used(), 5);
    world.delete_pod(&pods[0]);
    for (name, phase) in [("ended", "Succeeded"), ("failed", "Failed")] {
        let patch = json!({"status": {"phase": phase}}).to_string();
        world.plane.kubectl_ok(&["patch", "pod", name, "--subresource=status", "--type=merge", "-p", &patch]).unwrap();
    }
    world.delete_pod(&pods[3]);
    let again = world.pod("n1", "replaced", &json!({}));
    assert_ne!(again.uid, pods[3].uid);
    until("what nobody uses to come back", || (world.used() == 1).then_some(()));
    a_while();
    assert_eq!(world.used(), 1);
    let holder = world.plane.kubectl_ok(&["get", "ipblocks", "-o", "name"]).unwrap();
    assert_eq!(holder.lines().count(), 1, "{holder}");
}

#[test]
fn a_pod_that_is_being_deleted_keeps_its_address_while_a_container_of_it_runs() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.node_is("n1", "True");
    world.pool("p", &json!({"ranges": ["10.9.0.0/24"]}));
    let agent = world.agent("n1");
    let pod = world.pod("n1", "stuck", &json!({}));
    let _ = agent.address(&pod, "c1");
    agent.kill();
    let status = |state: Value| {
        let container =
            json!({"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state});
        let patch = json!({"status": {"phase": "Running", "containerStatuses": [container]}}).to_string();
        world
            .plane
            .kubectl_ok(&["patch", "pod", "stuck", "--subresource=status", "--type=merge", "-p", &patch])
            .unwrap();
    };
    status(json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}));
    let _controller = world.controller("r1", SOON);
    world.plane.kubectl_ok(&["delete", "pod", "stuck", "--grace-period=1", "--wait=false"]).unwrap();
    a_while();
    assert_eq!(world.used(), 1, "a container of it runs");
    status(json!({"terminated": {"exitCode": 0}}));
    until("the address to come back", || (world.used() == 0).then_some(()));
}

#[test]
fn a_stateful_set_that_shrinks_gives_up_the_addresses_of_pods_that_do_not_come_back() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.node_is("n1", "True");
    world.pool("p", &json!({"ranges": ["10.9.0.0/24"], "sticky": {}}));
    let set = |replicas: u32| {
        let template =
            json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "none"}]}});
        let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "default"},
            "spec": {"replicas": replicas, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template}});
        world.apply(&set.to_string());
        world.field("statefulset/db", ".metadata.uid")
    };
    let uid = set(3);
    let owned = |name: &str| {
        let owner =
            json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": uid, "controller": true}]);
        world.make_pod("n1", name, &json!({"ownerReferences": owner}))
    };
    let agent = world.agent("n1");
    let pods: Vec<_> = ["db-0", "db-1", "db-2"].iter().map(|name| owned(name)).collect();
    let addresses: Vec<_> = pods.iter().map(|pod| agent.address(pod, &pod.name)).collect();
    let bare = world.pod("n1", "bare-7", &json!({}));
    let _ = agent.address(&bare, "bare");
    let _controller = world.controller("r1", SOON);
    for pod in pods.iter().chain([&bare]) {
        agent.del(pod, if pod.name == "bare-7" { "bare" } else { &pod.name }).silent();
        world.delete_pod(pod);
    }
    a_while();
    assert_eq!(world.used(), 4, "all of them come back, as far as anybody knows");
    set(1);
    until("two addresses to come back", || (world.used() == 2).then_some(()));
    a_while();
    assert_eq!(world.used(), 2, "db-0 comes back, and nobody knows about a pod that a person made");
    let first = owned("db-0");
    assert_eq!(agent.address(&first, "again"), addresses[0]);
    agent.del(&first, "again").silent();
    world.delete_pod(&first);
    world.plane.kubectl_ok(&["delete", "statefulset", "db"]).unwrap();
    until("the last one to come back", || (world.used() == 1).then_some(()));
}

#[test]
fn a_claim_is_bound_when_it_is_made_and_freed_when_it_is_gone() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.node_is("n1", "True");
    world.pool("p", &json!({"ranges": ["10.9.0.0/24"]}));
    let _controller = world.controller("r1", SOON);
    let claim =
        "{apiVersion: berth.io/v1alpha1, kind: IPClaim, metadata: {name: vip, namespace: default}, spec: {pools: [p]}}";
    world.apply(claim);
    let address = until("the claim to be bound", || {
        Some(world.field("ipclaim/vip", ".status.addresses[0]")).filter(|address| !address.is_empty())
    });
    let agent = world.agent("n1");
    let pod = world.pod("n1", "a", &json!({"berth.io/claim": "vip"}));
    assert_eq!(agent.address(&pod, "c1").to_string(), address);
    world.plane.kubectl_ok(&["delete", "ipclaim", "vip"]).unwrap();
    a_while();
    assert_eq!(world.used(), 1, "it is in use");
    agent.del(&pod, "c1").silent();
    until("the address to come back", || (world.used() == 0).then_some(()));
    world.apply(claim);
    until("the claim to be bound", || (world.used() == 1).then_some(()));
    world.plane.kubectl_ok(&["delete", "ipclaim", "vip"]).unwrap();
    until("the address to come back", || (world.used() == 0).then_some(()));
}
