//! The unix socket of spiderpool-agent, asked as its plugin does.

use berth_e2e::http::over_unix;
use berth_e2e::until;
use berth_e2e_cluster::{Agent, Pod, World};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};

/// One request on a connection of its own; status and body.
fn ask(agent: &Agent, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let reply = over_unix(&agent.spiderpool_socket(), method, &format!("/v1{path}"), body);
    (reply.status, serde_json::from_str(&reply.body).unwrap_or_default())
}

fn args(pod: &Pod, container: &str) -> Value {
    json!({"containerID": container, "ifName": "eth0", "netNamespace": "/run/netns/x", "podNamespace": "default",
        "podName": pod.name, "podUID": pod.uid, "cleanGateway": false})
}

#[test]
fn every_path_of_its_socket_is_answered() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.pool(
        "blue",
        &json!({"ranges": ["10.9.0.10-10.9.0.12"], "prefixLength": 24, "gateway": "10.9.0.1",
        "routes": [{"dst": "10.99.0.0/16"}]}),
    );
    world.pool("six", &json!({"ranges": ["fd00::10-fd00::20"], "prefixLength": 64, "gateway": "none"}));
    let agent = world.agent("n1");
    let pods = world.pods("n1", &["a", "b", "c", "d"].map(str::to_owned), &json!({}));

    for probe in ["/ipam/healthy", "/runtime/startup", "/runtime/readiness", "/runtime/liveness"] {
        assert_eq!(ask(&agent, "GET", probe, &Value::Null).0, 200, "{probe}");
    }
    let (status, added) = ask(&agent, "POST", "/ipam/ip", &args(&pods[0], "c1"));
    assert_eq!(status, 200, "{added}");
    let ips = added["ips"].as_array().unwrap();
    assert_eq!(ips.len(), 2, "{added}");
    assert_eq!((&ips[0]["version"], &ips[0]["nic"], &ips[0]["ipPool"]), (&json!(4), &json!("eth0"), &json!("blue")));
    assert_eq!(ips[0]["gateway"], "10.9.0.1");
    assert_eq!(added["routes"][0], json!({"ifName": "eth0", "dst": "10.99.0.0/16", "gw": "10.9.0.1"}));
    // Once more is the same; another pod has others; the clean one has no gateway.
    assert_eq!(ask(&agent, "POST", "/ipam/ip", &args(&pods[0], "c1")).1, added);
    let mut clean = args(&pods[1], "c2");
    clean["cleanGateway"] = json!(true);
    clean["defaultIPv4IPPool"] = json!(["blue"]);
    let (_, other) = ask(&agent, "POST", "/ipam/ip", &clean);
    assert_ne!(other["ips"][0]["address"], added["ips"][0]["address"]);
    assert!(other["ips"][0].get("gateway").is_none() && other["ips"].as_array().unwrap().len() == 1, "{other}");

    let of = |pod: &Pod| format!("/workloadendpoint?podNamespace=default&podName={}", pod.name);
    let (status, endpoint) = ask(&agent, "GET", &of(&pods[0]), &Value::Null);
    assert_eq!(status, 200);
    assert_eq!((&endpoint["podUID"], &endpoint["node"]), (&json!(pods[0].uid), &json!("n1")));
    assert_eq!(endpoint["interfaces"][0]["ipv4"], added["ips"][0]["address"]);
    assert_eq!(endpoint["interfaces"][0]["ipv6Pool"], "six");
    assert_eq!(ask(&agent, "GET", &of(&pods[3]), &Value::Null).0, 404);

    // A whole pod, then a pool that has nothing left, in words.
    let mut whole = args(&pods[2], "c3");
    whole.as_object_mut().unwrap().remove("ifName");
    assert_eq!(ask(&agent, "POST", "/ipam/ips", &whole).0, 200);
    let mut fourth = args(&pods[3], "c4");
    fourth["defaultIPv4IPPool"] = json!(["blue"]);
    let (status, why) = ask(&agent, "POST", "/ipam/ip", &fourth);
    assert_eq!(status, 500);
    assert!(why.as_str().unwrap().contains("blue"), "{why}");

    // What is missing, or no JSON, is named; an unknown pod is refused.
    let (status, why) = ask(&agent, "POST", "/ipam/ip", &json!({"containerID": "c", "ifName": "eth0"}));
    assert_eq!(status, 422, "{why}");
    assert!(why.as_str().unwrap().contains("podNamespace"), "{why}");
    let stranger = json!({"containerID": "c9", "ifName": "eth0", "netNamespace": "", "podNamespace": "default",
        "podName": "nobody", "podUID": "u9"});
    assert_eq!(ask(&agent, "POST", "/ipam/ip", &stranger).0, 500);

    // Release, any number of times: one interface, and all of a container.
    for _ in 0..2 {
        assert_eq!(ask(&agent, "DELETE", "/ipam/ip", &args(&pods[0], "c1")).0, 200);
        assert_eq!(ask(&agent, "DELETE", "/ipam/ips", &whole).0, 200);
    }
    assert_eq!(ask(&agent, "DELETE", "/ipam/ip", &args(&pods[1], "c2")).0, 200);
    assert_eq!(world.used(), 0);

    // What a stranger has is not given out again for a while.
    let mut strange = args(&pods[0], "c5");
    let (_, added) = ask(&agent, "POST", "/ipam/ip", &strange);
    strange["isReleaseConflictIPs"] = json!(true);
    assert_eq!(ask(&agent, "DELETE", "/ipam/ips", &strange).0, 200);
    for round in 0..3 {
        let container = format!("d{round}");
        let (status, other) = ask(&agent, "POST", "/ipam/ip", &args(&pods[1], &container));
        assert_eq!(status, 200, "{other}");
        assert_ne!(other["ips"][0]["address"], added["ips"][0]["address"]);
        assert_eq!(ask(&agent, "DELETE", "/ipam/ip", &args(&pods[1], &container)).0, 200);
    }

    // The coordinator is not Berth's; what its own controller wrote is handed on.
    let config = || ask(&agent, "GET", "/coordinator/config", &json!({"podNamespace": "default", "podName": "a"}));
    assert_eq!(config().0, 500, "there is none");
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "spidercoordinators.spiderpool.spidernet.io"},
        "spec": {"group": "spiderpool.spidernet.io", "scope": "Cluster",
            "names": {"kind": "SpiderCoordinator", "plural": "spidercoordinators"},
            "versions": [{"name": "v2beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    world.apply(&definition.to_string());
    world.plane.kubectl_ok(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"]).unwrap();
    let coordinator = json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderCoordinator",
        "metadata": {"name": "default"}, "spec": {"mode": "underlay", "hostRuleTable": 500},
        "status": {"phase": "Synced", "overlayPodCIDR": ["10.244.0.0/16"], "serviceCIDR": ["10.96.0.0/12"]}});
    until("the coordinator to be taken", || world.plane.apply(&coordinator.to_string()).ok());
    let (status, said) = config();
    assert_eq!(status, 200, "{said}");
    assert_eq!((&said["mode"], &said["serviceCIDR"][0]), (&json!("underlay"), &json!("10.96.0.0/12")));
    world.check();
}

#[test]
fn the_socket_is_root_s_alone_outlives_a_killed_agent_and_goes_with_one_that_stops() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    let agent = world.agent("n1");
    let socket = agent.spiderpool_socket();
    let answers = || over_unix(&socket, "GET", "/v1/ipam/healthy", &Value::Null).status == 200;
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(answers());
    agent.kill();
    assert!(socket.exists());
    agent.start();
    assert!(answers());
    agent.stop();
    assert!(!socket.exists());
    // Where another daemon listens, nothing is taken away from it.
    let other = UnixListener::bind(&socket).unwrap();
    agent.spawn();
    until("the agent to refuse", || {
        fs::read_to_string(agent.log()).unwrap().contains("another daemon listens").then_some(())
    });
    assert!(UnixStream::connect(&socket).is_ok());
    drop(other);
}
