//! Several interfaces of a pod, each with a pool of its own: all get an address, or none does.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use berth_e2e::Ran;
use berth_e2e_cluster::{Agent, Pod, World};
use serde_json::{Value, json};

const NETWORKS: &str = r#"[{"pools": ["first"]}, {"pools": ["second"], "defaultRoute": true}]"#;

/// A server that knows network attachment definitions, two pools, and an agent.
fn start(second: &str) -> Option<(World, Agent)> {
    let world = World::start()?;
    world.plane.define_attachments().unwrap();
    world.nodes(&["n1"]);
    let route = json!([{"dst": "0.0.0.0/0"}]);
    world.pool("first", &json!({"ranges": ["10.9.0.0/24"], "gateway": "10.9.0.1", "routes": route}));
    world.pool("second", &json!({"ranges": [second], "gateway": "10.8.0.1", "prefixLength": 24}));
    let agent = world.agent("n1");
    define(&world, "vlan", &vlan(&agent));
    Some((world, agent))
}

fn define(world: &World, name: &str, config: &Value) {
    let definition = json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"config": config.to_string()}});
    world.apply(&definition.to_string());
}

/// The configuration of `net1`, which is handed to the plugin as it is in the definition.
fn vlan(agent: &Agent) -> Value {
    json!({"cniVersion": "1.1.0", "name": "vlan-10", "type": "macvlan",
           "ipam": {"type": "berth-cni", "socket": agent.socket()}})
}

fn net1(agent: &Agent, verb: &str, pod: &Pod, container: &str) -> Ran {
    agent.call(verb, pod, container, "net1").run(&vlan(agent))
}

fn two(world: &World, name: &str) -> Pod {
    world.pod("n1", name, &json!({"k8s.v1.cni.cncf.io/networks": "vlan", "berth.io/networks": NETWORKS}))
}

#[test]
fn two_interfaces_get_their_addresses_in_one_add() {
    let Some((world, agent)) = start("10.8.0.0/24") else { return };
    let pod = two(&world, "web");
    let first = agent.add(&pod, "c1");
    assert_eq!((first.code, world.used()), (0, 2), "{}", first.stdout);
    let second = net1(&agent, "ADD", &pod, "c1");
    assert_eq!((second.code, world.used()), (0, 2), "net1 finds its own: {}", second.stdout);
    assert!(first.addresses()[0].starts_with("10.9.0.") && second.addresses()[0].starts_with("10.8.0."));
    // The default route is where it was asked for, and nowhere else.
    assert_eq!(first.json()["routes"].as_array().map_or(0, Vec::len), 0, "{}", first.stdout);
    assert_eq!(second.json()["routes"][0]["dst"], "0.0.0.0/0", "{}", second.stdout);
    // The same ADDs again, the same answers.
    assert_eq!(agent.add(&pod, "c1").stdout, first.stdout);
    assert_eq!(net1(&agent, "ADD", &pod, "c1").stdout, second.stdout);
    agent.del(&pod, "c1").silent();
    assert_eq!(world.used(), 1, "net1 was told of its address and keeps it until its own DEL");
    net1(&agent, "DEL", &pod, "c1").silent();
    assert_eq!(world.used(), 0);
    world.check();
}

#[test]
fn whatever_the_runtime_gave_up_after_nothing_is_left() {
    let Some((world, agent)) = start("10.8.0.0/24") else { return };
    let pod = two(&world, "web");
    let mut n = 0;
    for asked in [1, 2] {
        for order in [&["eth0"][..], &["net1"], &["eth0", "net1"], &["net1", "eth0"], &["net1", "eth0", "net1"]] {
            // Who asked is told DEL; Multus also says it for those that never did.
            if asked == 2 && order.len() == 1 {
                continue;
            }
            n += 1;
            let container = format!("c{n}");
            assert_eq!(agent.add(&pod, &container).code, 0);
            if asked == 2 {
                assert_eq!(net1(&agent, "ADD", &pod, &container).code, 0);
            }
            if n % 2 == 0 {
                agent.kill();
                agent.start();
            }
            for name in order {
                match *name {
                    "eth0" => agent.del(&pod, &container).silent(),
                    _ => net1(&agent, "DEL", &pod, &container).silent(),
                }
            }
            let left = u64::from(*order == ["net1"]);
            assert_eq!(world.used(), left, "{order:?} after {asked} ADDs");
            agent.del(&pod, &container).silent();
            assert_eq!(world.used(), 0);
        }
    }
}

/// NIC 2 finds its pool empty, the ADD fails, and every retry took another address for NIC 1.
#[test]
fn b27_spiderpool_4295_a_hundred_retries_of_half_a_failure_leak_nothing() {
    let Some((world, agent)) = start("10.8.0.9") else { return };
    let lucky = two(&world, "lucky");
    assert_eq!(agent.add(&lucky, "lucky").code, 0);
    assert_eq!(net1(&agent, "ADD", &lucky, "lucky").code, 0);
    let pod = two(&world, "web");
    for n in 0..100 {
        // No DEL in between, as where it was skipped because the pod is alive.
        let refused = agent.add(&pod, &format!("c{n}"));
        let said = refused.json()["msg"].as_str().unwrap().to_owned();
        assert!(said.contains("interface net1") && said.contains("no address left in pool \"second\""), "{said}");
    }
    assert_eq!(world.used(), 2, "those of the other pod");
    world.pool("second", &json!({"ranges": ["10.8.0.9-10.8.0.10"], "gateway": "10.8.0.1", "prefixLength": 24}));
    berth_e2e::until("the pool to grow", || (agent.add(&pod, "last").code == 0).then_some(()));
    let second = net1(&agent, "ADD", &pod, "last");
    assert_eq!((second.code, world.used()), (0, 4));
    assert_eq!(second.addresses(), ["10.8.0.10/24"]);
    world.check();
}

#[test]
fn one_endpoint_has_all_interfaces_and_a_pod_that_comes_back_gets_them_all_back() {
    let Some((world, agent)) = start("10.8.0.0/24") else { return };
    for (name, range) in [("first", "10.9.0.0/24"), ("second", "10.8.0.0/24")] {
        world.pool(name, &json!({"ranges": [range], "sticky": {}}));
    }
    let endpoint = || -> Value {
        let text = world.plane.kubectl_ok(&["get", "ipendpoint", "db-0", "-o", "json"]).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["spec"]["interfaces"].clone()
    };
    let pod = two(&world, "db-0");
    // The agent hears of the pools in its own time.
    berth_e2e::until("the pools to be sticky", || {
        let _ = agent.add(&pod, "c0");
        agent.del(&pod, "c0").silent();
        world.plane.kubectl_ok(&["get", "ipendpoint", "db-0"]).is_ok().then_some(())
    });
    let before = (agent.add(&pod, "c1").addresses(), net1(&agent, "ADD", &pod, "c1").addresses());
    let recorded = endpoint();
    assert_eq!(recorded[0]["name"], "eth0", "{recorded}");
    assert_eq!((&recorded[1]["name"], &recorded[1]["network"]), (&json!("net1"), &json!("vlan-10")), "{recorded}");
    assert_eq!(recorded[1]["addresses"][0]["address"], before.1[0].as_str());
    agent.del(&pod, "c1").silent();
    net1(&agent, "DEL", &pod, "c1").silent();
    world.delete_pod(&pod);
    let again = two(&world, "db-0");
    assert_eq!(agent.add(&again, "c2").addresses(), before.0);
    assert_eq!(net1(&agent, "ADD", &again, "c2").addresses(), before.1);
}

#[test]
fn what_is_not_known_is_left_to_its_own_add_and_said() {
    let Some((world, agent)) = start("10.8.0.0/24") else { return };
    define(&world, "other", &json!({"name": "o", "type": "bridge", "ipam": {"type": "host-local"}}));
    let annotations = json!({"k8s.v1.cni.cncf.io/networks": r#"[{"name": "nowhere"}, {"name": "other"}, {"name": "vlan"}]"#,
                             "berth.io/pools": "first", "berth.io/networks": r#"[{"interface": "net3", "pools": ["second"]}]"#});
    let pod = world.pod("n1", "web", &annotations);
    assert_eq!((agent.add(&pod, "c1").code, world.used()), (0, 2), "eth0 and net3");
    let mut command = std::process::Command::new(berth_e2e::binaries::berth());
    let said =
        berth_e2e::run(command.args(["explain", "pod", "default/web", "--kubeconfig"]).arg(world.plane.kubeconfig()));
    let said = String::from_utf8(said.stdout).unwrap();
    for words in [
        "net1: left to its own ADD; definition default/nowhere: there is no such definition",
        "net2: left to its own ADD; definition default/other: its addresses are not berth-cni's to give",
        "net3: pod annotation berth.io/networks[0] asks for pool second",
    ] {
        assert!(said.contains(words), "{words:?} is not in {said}");
    }
    // An interface that was left to its own ADD is served by it.
    let late = agent.call("ADD", &pod, "c1", "net1").run(&vlan(&agent));
    assert_eq!((late.code, world.used()), (0, 3), "{}", late.stdout);
    for ifname in ["net1", "eth0"] {
        let config = if ifname == "net1" { vlan(&agent) } else { agent.config(&json!({})) };
        agent.call("DEL", &pod, "c1", ifname).run(&config).silent();
    }
    assert_eq!(world.used(), 0);
}
