//! The controller itself: which replica writes, what pools say, what cannot be deleted.

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
