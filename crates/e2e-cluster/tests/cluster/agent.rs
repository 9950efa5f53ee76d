//! One agent and several, against a real API server.

use berth_e2e::until;
use berth_e2e_cluster::{Pod, World};
use serde_json::json;
use std::collections::BTreeSet;
use std::net::IpAddr;

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{prefix}-{i}")).collect()
}

#[test]
fn a_pod_gets_an_address_keeps_it_and_gives_it_back() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.pool("p", &json!({"ranges": ["10.9.0.0/24"]}));
    let agent = world.agent("n1");
    let pod = world.pod("n1", "web-0", &json!({}));
    let address = agent.address(&pod, "c1");
    assert_eq!(agent.address(&pod, "c1"), address, "the same ADD, the same answer");
    assert_eq!(world.used(), 1, "the API server has it before the answer");
    agent.del(&pod, "c1").silent();
    agent.del(&pod, "c1").silent();
    assert_eq!(world.used(), 0);
}

#[test]
fn nodes_share_a_pool_to_its_last_address() {
    let Some(world) = World::start() else { return };
    let nodes = ["n1", "n2", "n3"];
    world.nodes(&nodes);
    // 126 addresses without network, broadcast and gateway: 125.
    world.pool("p", &json!({"ranges": ["10.9.0.0/25"]}));
    let agents: Vec<_> = nodes.iter().map(|node| world.agent(node)).collect();
    let pods: Vec<Vec<Pod>> =
        nodes.iter().map(|node| world.pods(node, &names(&format!("{node}-web"), 41), &json!({}))).collect();
    let given: Vec<IpAddr> = std::thread::scope(|scope| {
        let threads: Vec<_> = agents
            .iter()
            .zip(&pods)
            .flat_map(|(agent, pods)| {
                // Four at a time on each node, as a kubelet would.
                pods.chunks(11).map(move |pods| {
                    scope.spawn(move || pods.iter().map(|pod| agent.address(pod, &pod.uid)).collect::<Vec<_>>())
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let distinct: BTreeSet<&IpAddr> = given.iter().collect();
    assert_eq!((given.len(), distinct.len()), (123, 123));
    assert_eq!(world.used(), 123);
}

#[test]
fn an_affine_pool_answers_from_the_journal_and_survives_a_kill() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.pool("p", &json!({"ranges": ["10.9.0.0/16"], "blockSize": 26}));
    let agent = world.agent("n1");
    let pods = world.pods("n1", &names("web", 10), &json!({}));
    let first: Vec<IpAddr> = pods.iter().map(|pod| agent.address(pod, &pod.uid)).collect();
    agent.kill();
    agent.start();
    let again: Vec<IpAddr> = pods.iter().map(|pod| agent.address(pod, &pod.uid)).collect();
    assert_eq!(first, again, "what the journal has is what counts");
    until("the API server to hear of it", || (world.used() == 10).then_some(()));
    world.plane.pause().unwrap();
    for pod in &pods[..5] {
        agent.del(pod, &pod.uid).silent();
        let _ = agent.address(pod, &format!("{}-new", pod.uid));
    }
    world.plane.resume().unwrap();
    until("the API server to hear of it", || (world.used() == 10).then_some(()));
}

#[test]
fn what_a_dead_pod_held_is_freed_though_nobody_said_del() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.pool("p", &json!({"ranges": ["10.9.0.0/24"]}));
    let agent = world.agent("n1");
    let (gone, stays) = (world.pod("n1", "gone", &json!({})), world.pod("n1", "stays", &json!({})));
    let _ = (agent.address(&gone, "c1"), agent.address(&stays, "c2"));
    // Without its kubelet the container of a pod that is gone may run for ever.
    world.node_is("n1", "Unknown");
    world.delete_pod(&gone);
    let log = || std::fs::read_to_string(agent.log()).unwrap_or_default();
    until("the agent to look", || log().contains("nothing is heard of the kubelet").then_some(()));
    assert_eq!(world.used(), 2);
    world.node_is("n1", "True");
    until("the address to be freed", || (world.used() == 1).then_some(()));
}

#[test]
fn a_shared_add_fails_fast_while_the_server_is_away_and_a_del_waits_on_disk() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.pool("p", &json!({"ranges": ["10.9.0.0/24"]}));
    let agent = world.agent("n1");
    let pods = world.pods("n1", &names("web", 3), &json!({}));
    let _ = (agent.address(&pods[0], "c0"), agent.address(&pods[1], "c1"));
    world.plane.pause().unwrap();
    let said = agent.add(&pods[2], "c2").failed(11);
    assert!(said.contains("API server"), "{said}");
    agent.del(&pods[0], "c0").silent();
    world.plane.resume().unwrap();
    until("ADD to work again", || (agent.add(&pods[2], "c2").code == 0).then_some(()));
    // Whether the first attempt reached the server or not, and whoever was first: two are held, not three.
    until("the queued DEL to be worked off", || (world.used() == 2).then_some(()));
}

#[test]
fn explain_says_which_rule_and_which_pool() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.pool("p", &json!({"ranges": ["10.9.0.0/24"]}));
    world.pool("q", &json!({"ranges": ["10.10.0.0/24"], "allow": {"namespaces": ["shop"]}}));
    let agent = world.agent("n1");
    let pod = world.pod("n1", "web", &json!({"berth.io/pools": "q,p"}));
    let address = agent.address(&pod, "c1");
    let explain = |pod: &str| {
        let mut command = std::process::Command::new(berth_e2e::binaries::berth());
        berth_e2e::run(command.args(["explain", "pod", pod, "--kubeconfig"]).arg(world.plane.kubeconfig()))
    };
    let said = String::from_utf8(explain("default/web").stdout).unwrap();
    for word in ["berth.io/pools", "not among shop", "n1", &address.to_string()] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let missing = explain("default/nobody");
    assert!(!missing.status.success());
    assert!(String::from_utf8_lossy(&missing.stderr).contains("no pod default/nobody"));
}

#[test]
fn a_node_without_a_lease_gets_the_addresses_that_others_do_not_need() {
    let Some(world) = World::start() else { return };
    let nodes = ["n1", "n2", "n3"];
    world.nodes(&nodes);
    // Two leases for three nodes; 29 addresses in all.
    world.pool("p", &json!({"ranges": ["10.9.0.0/27"], "blockSize": 28}));
    let agents: Vec<_> = nodes.iter().map(|node| world.agent(node)).collect();
    let shares = [9, 10, 10];
    let mut given = BTreeSet::new();
    for ((node, agent), share) in nodes.iter().zip(&agents).zip(shares) {
        for pod in world.pods(node, &names(&format!("{node}-web"), share), &json!({})) {
            // As a kubelet does, it asks again until it is served.
            until("an address", || (agent.add(&pod, &pod.uid).code == 0).then_some(()));
            assert!(given.insert(agent.address(&pod, &pod.uid)), "no address twice");
        }
    }
    assert_eq!(given.len(), 29);
    until("the API server to hear of all", || (world.used() == 29).then_some(()));
}
