//! The controller itself: which replica writes, what pools say, what cannot be deleted.

use berth_core::addr::Family;
use berth_core::block::{Block, BlockKey, Plane, Slot};
use berth_core::time::Time;
use berth_dialects::native::block::{block_name, to_spec};
use berth_e2e::until;
use berth_e2e_cluster::World;
use rustix::process::Signal;
use serde_json::json;
use std::thread::sleep;
use std::time::Duration;

#[test]
fn r00007_a_follower_takes_over_and_a_leader_that_was_paused_ends() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.node_is("n1", "True");
    world.pool("p", &json!({"ranges": ["10.9.0.0/29"]}));
    let mut first = world.controller("first", &[]);
    let leader = || {
        let lease = ["get", "lease", "berth-controller", "-n", "berth-system", "-o", "jsonpath={.spec.holderIdentity}"];
        world.plane.kubectl_ok(&lease).unwrap_or_default()
    };
    until("the first to lead", || (leader() == "first").then_some(()));
    let mut second = world.controller("second", &[]);
    until("the second to be ready", || second.log().contains("ready").then_some(()));
    first.signal(Signal::STOP);
    until("the second to take over", || (leader() == "second").then_some(()));
    first.signal(Signal::CONT);
    assert_eq!(first.wait(), Some(1), "it led and does not any more");
    // A leader that is asked to stop does not make anybody wait.
    let third = world.controller("third", &[]);
    until("the third to be ready", || third.log().contains("ready").then_some(()));
    second.signal(Signal::TERM);
    assert_eq!(second.wait(), Some(0));
    until("the third to take over", || (leader() == "third").then_some(()));
}

#[test]
fn pools_and_subnets_say_how_full_they_are() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.node_is("n1", "True");
    world.apply("{apiVersion: berth.io/v1alpha1, kind: IPSubnet, metadata: {name: s}, spec: {cidr: 10.9.0.0/24}}");
    world.pool("p", &json!({"subnet": "s", "ranges": ["10.9.0.10-10.9.0.12"]}));
    let _controller = world.controller("r1", &[]);
    let says = |object: &str, path: &str, value: &str| {
        until(&format!("{object} {path} to be {value}"), || (world.field(object, path) == value).then_some(()));
    };
    says("ippool/p", ".status.usage.capacity", "3");
    says("ippool/p", ".status.phase", "Ready");
    let agent = world.agent("n1");
    let pods = world.pods("n1", &["a", "b", "c"].map(str::to_owned), &json!({}));
    for pod in &pods {
        let _ = agent.address(pod, &pod.name);
    }
    says("ippool/p", ".status.usage.inUse", "3");
    says("ippool/p", ".status.phase", "Full");
    says("ipsubnet/s", ".status.usage.inUse", "3");
    let events = until("the event", || {
        Some(world.plane.kubectl_ok(&["get", "events", "-A"]).unwrap()).filter(|all| all.contains("PoolExhausted"))
    });
    assert!(events.contains("ippool/p"), "{events}");
    agent.del(&pods[0], "a").silent();
    says("ippool/p", ".status.usage.free", "1");
    says("ippool/p", ".status.phase", "Ready");
    says("ipsubnet/s", ".status.usage.inUse", "2");
}

#[test]
fn d00004_what_is_in_use_is_deleted_when_it_no_longer_is() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.node_is("n1", "True");
    world.apply("{apiVersion: berth.io/v1alpha1, kind: IPSubnet, metadata: {name: s}, spec: {cidr: 10.9.0.0/24}}");
    world.pool("p", &json!({"subnet": "s", "ranges": ["10.9.0.10-10.9.0.20"]}));
    let _controller = world.controller("r1", &[]);
    for object in ["ippool/p", "ipsubnet/s"] {
        until("the finalizer", || {
            world.field(object, ".metadata.finalizers").contains("berth.io/in-use").then_some(())
        });
    }
    let agent = world.agent("n1");
    let pod = world.pod("n1", "a", &json!({}));
    let _ = agent.address(&pod, "c1");
    for object in ["ippool/p", "ipsubnet/s"] {
        world.plane.kubectl_ok(&["delete", object, "--wait=false"]).unwrap();
    }
    until("the event that names the holder", || {
        let events = world.plane.kubectl_ok(&["get", "events", "-A"]).unwrap();
        (events.contains("StillInUse") && events.contains("pod default/a")).then_some(())
    });
    // It gives out nothing new meanwhile, and takes back what it gave.
    let late = world.pod("n1", "late", &json!({}));
    until("the agent to know", || (agent.add(&late, "c2").code != 0).then_some(()));
    sleep(Duration::from_secs(3));
    assert!(!world.field("ippool/p", ".metadata.uid").is_empty());
    agent.del(&pod, "c1").silent();
    until("both to go", || {
        let left = world.plane.kubectl_ok(&["get", "ippools,ipsubnets", "-o", "name"]).unwrap();
        left.trim().is_empty().then_some(())
    });
}

#[test]
fn a_reservation_stays_for_as_long_as_a_stranger_is_seen_in_it() {
    let Some(world) = World::start() else { return };
    world.pool("p", &json!({"ranges": ["10.9.0.0/26"]}));
    let plane = Plane { network: "default".into(), family: Family::V4, unit_len: 32 };
    let (key, slot) = BlockKey::of(&plane, plane.unit_of("10.9.0.33".parse().unwrap()));
    let mut block = Block::default();
    block.set(slot, Some(&Slot::quarantined(Time(1), None)));
    let block = json!({"apiVersion": "berth.io/v1alpha1", "kind": "IPBlock", "metadata": {"name": block_name(&key)},
        "spec": to_spec(&key, &block)});
    world.apply(&block.to_string());
    for name in ["seen", "unseen"] {
        let address = if name == "seen" { "10.9.0.33" } else { "10.9.0.34" };
        world.apply(&format!(
            "{{apiVersion: berth.io/v1alpha1, kind: IPReservation, metadata: {{name: {name}}}, spec: {{addresses: [{address}]}}}}"
        ));
    }
    let _controller = world.controller("r1", &[]);
    for name in ["ipreservation/seen", "ipreservation/unseen"] {
        until("the finalizer", || world.field(name, ".metadata.finalizers").contains("berth.io/in-use").then_some(()));
        world.plane.kubectl_ok(&["delete", name, "--wait=false"]).unwrap();
    }
    let gone = |name: &str| world.field(name, ".metadata.uid").is_empty();
    until("the one that nobody is seen in to go", || gone("ipreservation/unseen").then_some(()));
    until("the event that names the address", || {
        let events = world.plane.kubectl_ok(&["get", "events", "-A"]).unwrap();
        (events.contains("StillInUse") && events.contains("10.9.0.33 by quarantine")).then_some(())
    });
    assert!(!gone("ipreservation/seen"));
    world.plane.kubectl_ok(&["delete", "ipblock", &block_name(&key)]).unwrap();
    until("the other to go", || gone("ipreservation/seen").then_some(()));
}

#[test]
fn records_of_what_pods_have_are_made_anew_from_blocks_or_go() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1", "n2"]);
    world.node_is("n1", "True");
    world.node_is("n2", "True");
    world.pool("p", &json!({"ranges": ["10.9.0.0/24"], "gateway": "10.9.0.254", "sticky": {}}));
    let (one, two) = (world.agent("n1"), world.agent("n2"));
    let before = world.pod("n1", "db-0", &json!({}));
    let address = one.address(&before, "c1");
    let living = world.pod("n1", "db-1", &json!({}));
    let _ = one.address(&living, "c2");
    let kept = || world.field("ipendpoint/db-0", ".spec.interfaces[*]['name','addresses']");
    let used = || world.field("ipendpoint/db-1", ".spec");
    let before_that = (kept(), used());
    one.del(&before, "c1").silent();
    world.delete_pod(&before);
    world.plane.kubectl_ok(&["delete", "ipendpoint", "db-0", "db-1"]).unwrap();
    world.apply(
        "{apiVersion: berth.io/v1alpha1, kind: IPEndpoint, metadata: {name: nobody, namespace: default}, spec: {uid: u1, \
         node: n1, interfaces: [{name: eth0, network: net, addresses: [{address: 10.9.0.77/24, pool: p}]}]}}",
    );
    let _controller = world.controller("r1", &["--audit", "1s"]);
    until("the records to be back", || ((kept(), used()) == before_that).then_some(()));
    until("the record of nobody to be gone", || {
        world.field("ipendpoint/nobody", ".metadata.name").is_empty().then_some(())
    });
    // What is kept is found again by it, on another node.
    let after = world.pod("n2", "db-0", &json!({}));
    assert_eq!(two.address(&after, "c3"), address);
    world.check();
}

#[test]
fn a_claim_says_whether_it_is_bound_and_why_not() {
    let Some(world) = World::start() else { return };
    let claim = |name: &str, spec: &str| {
        world.apply(&format!(
            "{{apiVersion: berth.io/v1alpha1, kind: IPClaim, metadata: {{name: {name}, namespace: default}}, spec: {spec}}}"
        ));
    };
    world.pool("p", &json!({"ranges": ["10.9.0.1-10.9.0.2"]}));
    let _controller = world.controller("r1", &[]);
    claim("vip", "{pools: [p]}");
    let bound = |name: &str, field: &str| {
        world.field(&format!("ipclaim/{name}"), &format!(".status.conditions[?(@.type==\"Bound\")].{field}"))
    };
    until("the claim to be bound", || (bound("vip", "status") == "True").then_some(()));
    claim("many", "{pools: [p], count: 5}");
    until("the claim to say why not", || (bound("many", "status") == "False").then_some(()));
    assert_eq!(world.field("ipclaim/many", ".status.phase"), "Pending");
    let (since, message) = (bound("many", "lastTransitionTime"), bound("many", "message"));
    assert!(!since.is_empty() && message.contains('p'), "{message}");
    until("the events", || {
        let events = world.plane.kubectl_ok(&["get", "events", "-A"]).unwrap();
        (events.contains("ipclaim/vip") && events.contains("NotBound")).then_some(())
    });
    world.pool("p", &json!({"ranges": ["10.9.0.1-10.9.0.20"]}));
    until("the claim to be bound after all", || (bound("many", "status") == "True").then_some(()));
    assert_eq!(world.field("ipclaim/many", ".status.phase"), "Bound");
}
