//! Pools of applications: used by their pods alone, and waited for.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use berth_e2e::until;
use berth_e2e_cluster::{Agent, Pod, World};
use serde_json::{Value, json};

const SUBNET: &str =
    "{apiVersion: berth.io/v1alpha1, kind: IPSubnet, metadata: {name: office}, spec: {cidr: 10.9.0.0/24}}";

/// What a pod of an application asks for.
fn asks() -> Value {
    json!({"berth.io/subnets": "office"})
}

/// A pool of the Deployment `name`.
fn pool_of(name: &str, ranges: &[&str]) -> Value {
    let own = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": name});
    json!({"ranges": ranges, "subnet": "office", "application": own})
}

/// How often the agent has said something.
fn said(agent: &Agent, words: &str) -> usize {
    std::fs::read_to_string(agent.log()).unwrap_or_default().matches(words).count()
}

/// Asks for a pod as a kubelet does, and acts as soon as the request waits; whether the pod was served by the very request
/// that waited, and not by another try.
fn served_after_waiting(agent: &Agent, pod: &Pod, act: impl FnOnce()) -> bool {
    let (waits, served) = ("requests wait for a pool", "answered after waiting for a pool");
    let before = (said(agent, waits), said(agent, served));
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| until("an address", || (agent.add(pod, &pod.uid).code == 0).then_some(())));
        until("the request to wait", || (said(agent, waits) > before.0).then_some(()));
        act();
        asking.join().unwrap();
    });
    said(agent, served) > before.1
}

/// One of several attempts must succeed: on a machine that is busy with other things the server may take longer to hear
/// of a pool than a request waits for it.
fn at_least_once(attempt: impl FnMut(u32) -> bool) {
    assert!((0..5).any(attempt), "no request was served by what it waited for");
}

#[test]
fn a_pod_that_is_quicker_than_its_pool_is_served_when_the_pool_is_there() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.apply(SUBNET);
    world.pool("plain", &json!({"ranges": ["10.8.0.0/24"]}));
    let agent = world.agent("n1");
    at_least_once(|n| {
        let name = format!("web{n}");
        let (pod, other) = (world.pod_of("n1", &name, 0, &asks()), world.pod("n1", &format!("other{n}"), &json!({})));
        let address = format!("10.9.0.{}", 10 + n);
        let served = served_after_waiting(&agent, &pod, || {
            // Who asks for something else does not wait along.
            assert!(agent.address(&other, &other.uid).to_string().starts_with("10.8."));
            world.pool(&format!("app-{name}"), &pool_of(&name, &[&address]));
        });
        assert_eq!(agent.address(&pod, &pod.uid).to_string(), address);
        served
    });
}

#[test]
fn a_pod_for_which_its_pool_has_no_room_waits_for_it_to_grow_or_for_another_pod_to_go() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.apply(SUBNET);
    let agent = world.agent("n1");
    let mut serial = 0;
    let mut pod = || {
        serial += 1;
        world.pod_of("n1", "web", serial, &asks())
    };
    world.pool("app-web", &pool_of("web", &["10.9.0.10"]));
    let mut last = pod();
    until("the pool to be known", || (agent.add(&last, &last.uid).code == 0).then_some(()));
    at_least_once(|n| {
        last = pod();
        let ranges = [format!("10.9.0.10-10.9.0.{}", 11 + n)];
        let grown = pool_of("web", &ranges.each_ref().map(String::as_str));
        served_after_waiting(&agent, &last, || world.pool("app-web", &grown))
    });
    at_least_once(|_| {
        let (next, gone) = (pod(), last.clone());
        let served = served_after_waiting(&agent, &next, || agent.del(&gone, &gone.uid).silent());
        last = next;
        served
    });
}

#[test]
fn a_pool_of_an_application_is_nobody_elses_even_by_name() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.apply(SUBNET);
    world.pool("app-web", &pool_of("web", &["10.9.0.10-10.9.0.19"]));
    let agent = world.agent("n1");
    let own = world.pod_of("n1", "web", 0, &asks());
    assert_eq!(agent.address(&own, "c0").to_string().get(..7), Some("10.9.0."));
    let words = |pod: &Pod, container: &str| agent.add(pod, container).json()["msg"].as_str().unwrap().to_owned();
    let thief = world.pod_of("n1", "other", 0, &json!({"berth.io/pools": "app-web"}));
    let said = words(&thief, "c1");
    assert!(said.contains("for pods of Deployment default/web only"), "{said}");
    // Another of the same name is known by its namespace, and one that asks for nothing gets nothing of it.
    let plain = world.pod("n1", "plain", &json!({}));
    assert_ne!(agent.add(&plain, "c2").code, 0);
    let bare = world.pod("n1", "bare", &asks());
    let said = words(&bare, "c3");
    assert!(said.contains("only pods of a controller have pools of their own"), "{said}");
    // It stays that application's.
    let patch = |patch: &str| world.plane.kubectl_ok(&["patch", "ippool", "app-web", "--type=merge", "-p", patch]);
    let refused = patch(r#"{"spec":{"application":{"name":"other"}}}"#).unwrap_err().to_string();
    assert!(refused.contains("make another pool for another application or interface"), "{refused}");
    let refused = patch(r#"{"spec":{"application":null}}"#).unwrap_err().to_string();
    assert!(refused.contains("application cannot be added or removed"), "{refused}");
    patch(r#"{"spec":{"application":{"uid":"u2","keep":true,"controllers":["r"]}}}"#).unwrap();
    let mut command = std::process::Command::new(berth_e2e::binaries::berth());
    let explain = command.args(["explain", "pod", "default/web-5d4f-x0", "--kubeconfig"]).arg(world.plane.kubeconfig());
    let said = String::from_utf8(berth_e2e::run(explain).stdout).unwrap();
    assert!(said.contains("pool app-web of its application in subnet office"), "{said}");
    assert_eq!(world.used(), 1);
}
