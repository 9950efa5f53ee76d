//! Spiderpool's `conf.yml`, read by agents and the controller: what each switch does.

use super::{apply, endpoint, install};
use berth_e2e::http::Http;
use berth_e2e::needs::{IP, Need, UTIL_LINUX, met};
use berth_e2e::{Netns, Segment, binaries, run, until};
use berth_e2e_cluster::{Agent, Controller, Pod, World};
use serde_json::{Value, json};
use std::process::Command;

const SUBNET: &str = "ipam.spidernet.io/subnet";

/// A server with Spiderpool's kinds and one node, and everybody with these switches.
fn start(conf: &str, listen: &[&str]) -> Option<(World, Agent, Controller)> {
    let world = World::start()?;
    install(&world);
    world.nodes(&["n1"]);
    world.node_is("n1", "True");
    let file = world.file("conf.yml", conf);
    let arguments = [&["--spiderpool-config", &file], listen].concat();
    let controller = world.controller("r1", &arguments);
    let agent = world.agent_with("n1", &arguments);
    Some((world, agent, controller))
}

/// ADD of a pod, until it succeeds: what was applied a moment ago may not be known yet.
fn address(agent: &Agent, pod: &Pod, container: &str) -> Vec<String> {
    until("an ADD that succeeds", || {
        let ran = agent.add(pod, container);
        (ran.code == 0).then(|| ran.addresses())
    })
}

/// A pod of the StatefulSet `db`.
fn member(world: &World, name: &str) -> Pod {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s", "controller": true}]);
    world.make_pod("n1", name, &json!({"ownerReferences": owner}))
}

/// A Deployment whose pods ask as said, and one of its pods.
fn deployment(world: &World, name: &str, replicas: u32, annotations: &Value) -> Pod {
    let labels = json!({"app": name});
    let template = json!({"metadata": {"labels": labels, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "none"}]}});
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}});
    world.apply(&object.to_string());
    world.pod_of("n1", name, 0, annotations)
}

#[test]
fn i00024_families_sets_and_pools_of_applications_are_switched_off() {
    let conf = "enableIPv6: false\nenableStatefulSet: false\nenableAutoPoolForApplication: false\n";
    let Some((world, agent, _controller)) = start(conf, &[]) else { return };
    let pool = |subnet: &str, ips: &str| json!({"subnet": subnet, "ips": [ips], "default": true});
    apply(&world, "SpiderIPPool", "four", &pool("10.34.0.0/24", "10.34.0.10-10.34.0.19"));
    apply(&world, "SpiderIPPool", "six", &pool("fd34::/64", "fd34::10-fd34::19"));
    apply(&world, "SpiderSubnet", "s", &json!({"subnet": "10.35.0.0/24", "ips": ["10.35.0.10-10.35.0.19"]}));

    // Of the family that is off nothing is given, by default or by name.
    let plain = world.pod("n1", "plain", &json!({}));
    assert_eq!(address(&agent, &plain, "c1"), ["10.34.0.10/24"]);
    let both = r#"{"ipv4":["four"],"ipv6":["six"]}"#;
    let named = world.pod("n1", "named", &json!({"ipam.spidernet.io/ippool": both}));
    assert_eq!(address(&agent, &named, "c2"), ["10.34.0.11/24"]);
    let only = world.pod("n1", "only", &json!({"ipam.spidernet.io/ippool": r#"{"ipv6":["six"]}"#}));
    let refused = agent.add(&only, "c3");
    assert!(refused.code != 0 && refused.stdout.contains("IPv6 is disabled"), "{}", refused.stdout);
    // So says whoever is asked beforehand, if told of the file.
    let explain = || {
        let mut command = Command::new(binaries::berth());
        command.args(["explain", "pod", "only", "--kubeconfig"]).arg(world.plane.kubeconfig());
        command
    };
    let file = world.dir().join("conf.yml");
    let told = run(explain().arg("--spiderpool-config").arg(&file));
    assert!(String::from_utf8_lossy(&told.stderr).contains("IPv6 is disabled"), "{told:?}");
    let untold = run(&mut explain());
    assert!(String::from_utf8_lossy(&untold.stdout).contains("fd34::"), "{untold:?}");
    let condition = |pool: &str| world.field(&format!("spiderippool/{pool}"), ".status.conditions[0].reason");
    until("the pool to say so", || (condition("six") == "FamilyDisabled").then_some(()));
    assert_eq!(condition("four"), "Accepted");

    // The address of a StatefulSet's pod comes back as any other, and the next pod has it.
    let first = member(&world, "db-0");
    assert_eq!(address(&agent, &first, "c4"), ["10.34.0.12/24"]);
    agent.del(&first, "c4").silent();
    world.delete_pod(&first);
    assert_eq!(address(&agent, &world.pod("n1", "next", &json!({})), "c5"), ["10.34.0.12/24"]);

    // I00024: applications have no pools. The pod does not start, is told why, and none is made.
    let pod = deployment(&world, "app", 1, &json!({SUBNET: r#"{"ipv4":["s"]}"#}));
    let refused = agent.add(&pod, "c6");
    assert!(
        refused.code != 0 && refused.stdout.contains("enableAutoPoolForApplication is false"),
        "{}",
        refused.stdout
    );
    let events = || world.plane.kubectl_ok(&["get", "events", "-o", "jsonpath={.items[*].message}"]).unwrap();
    until("an event of the application", || events().contains("enableAutoPoolForApplication is false").then_some(()));
    let pools = world.plane.kubectl_ok(&["get", "spiderippools", "-o", "jsonpath={.items[*].metadata.name}"]).unwrap();
    assert_eq!(pools, "four six");
}

#[test]
fn the_spare_of_applications_detection_by_template_and_endpoints_that_were_left_behind() {
    let Some(world) = World::start() else { return };
    install(&world);
    world.nodes(&["n1"]);
    // What Spiderpool left behind: of a pod that is gone, of a set's pod that comes back, of a machine, and one that lives.
    world.apply(
        &json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "default"},
            "spec": {"replicas": 1, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
                "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "none"}]}}}})
        .to_string(),
    );
    let lives = world.pod("n1", "lives", &json!({}));
    for (name, uid, kind, owner) in [
        ("gone", "u-gone", "ReplicaSet", "web"),
        ("db-0", "u-db", "StatefulSet", "db"),
        ("db-1", "u-db1", "StatefulSet", "db"),
        ("machine", "u-vm", "VirtualMachineInstance", "machine"),
        ("lives", &lives.uid, "Pod", "lives"),
    ] {
        endpoint(&world, (name, uid), (kind, owner), false);
    }
    apply(&world, "SpiderSubnet", "s", &json!({"subnet": "10.36.0.0/24", "ips": ["10.36.0.10-10.36.0.49"]}));
    world.apply("{apiVersion: berth.io/v1alpha1, kind: IPSubnet, metadata: {name: own}, spec: {cidr: 10.37.0.0/24}}");
    let file = world.file("conf.yml", "clusterSubnetDefaultFlexibleIPNumber: 2\nenableCleanOutdatedEndpoint: true\n");
    let _controller = world.controller("r1", &["--spiderpool-config", &file]);

    // Three replicas and two to spare; who says how many has so many; and what is asked on the wire goes to the pools.
    let detect = r#"{"conflicts": "Rfc5227", "gateway": "Ignore"}"#;
    let asks = json!({SUBNET: r#"{"ipv4":["s"]}"#, "berth.io/detect": detect});
    let _ = deployment(&world, "three", 3, &asks);
    let list = |kind: &str| -> Vec<Value> {
        let text = world.plane.kubectl_ok(&["get", kind, "-o", "json"]).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["items"].as_array().unwrap().clone()
    };
    let made = until("its pool", || list("spiderippools").pop());
    assert_eq!(made["spec"]["ips"], json!(["10.36.0.10-10.36.0.14"]));
    let annotations = &made["metadata"]["annotations"];
    assert_eq!(annotations["ipam.spidernet.io/ippool-ip-number"], "+2");
    assert_eq!(annotations["berth.io/detect"], r#"{"conflicts":"Rfc5227","gateway":"Ignore"}"#);
    let _ = deployment(&world, "native", 1, &json!({"berth.io/subnets": "own", "berth.io/detect": detect}));
    let made = until("its pool", || list("ippools").pop());
    assert_eq!(made["spec"]["detect"], json!({"conflicts": "Rfc5227", "gateway": "Ignore"}));
    let other = json!({SUBNET: r#"{"ipv4":["s"]}"#, "berth.io/detect": "{}"});
    let _ = deployment(&world, "three", 3, &other);
    until("the pool to follow", || {
        let now = list("spiderippools").pop()?["metadata"]["annotations"]["berth.io/detect"].clone();
        (now == r#"{"conflicts":"Fast","gateway":"Warn"}"#).then_some(())
    });

    let left = || world.plane.kubectl_ok(&["get", "se", "-o", "jsonpath={.items[*].metadata.name}"]).unwrap();
    until("what nothing stands behind to go", || (!left().contains("gone") && !left().contains("db-1")).then_some(()));
    assert_eq!(left(), "db-0 lives machine");
}

#[test]
fn c00007_c00009_c00018_c00019_strangers_and_gateways_by_the_switches() {
    if !met(&[Need::Root, IP, UTIL_LINUX]) {
        return;
    }
    let conf = "enableIPConflictDetection: true\nenableGatewayDetection: true\n";
    let Some((world, agent, _controller)) = start(conf, &[]) else { return };
    let spec =
        json!({"subnet": "10.38.0.0/24", "ips": ["10.38.0.10-10.38.0.19"], "gateway": "10.38.0.1", "default": true});
    apply(&world, "SpiderIPPool", "p", &spec);
    let segment = Segment::new();
    let add = |pod: &Pod, container: &str, netns: &Netns| {
        agent.call("ADD", pod, container, "eth0").between(&segment.host, netns).run(&agent.config(&json!({})))
    };

    // C00007, C00018: what a stranger has is let go and set apart, and the pod has the next, in the same ADD.
    let (router, stranger) = (segment.stranger(&["10.38.0.1/24"]), segment.stranger(&["10.38.0.10/24"]));
    let (web, netns) = (world.pod("n1", "web", &json!({})), segment.container());
    let served = until("the pool to be known", || Some(add(&web, "c1", &netns)).filter(|ran| ran.code == 0));
    assert_eq!(served.addresses(), ["10.38.0.11/24"]);
    drop(stranger);
    agent.del(&web, "c1").silent();

    // C00019: what is kept for a StatefulSet's pod stays its own while a stranger has it.
    let first = member(&world, "db-0");
    let own = add(&first, "c2", &netns).addresses();
    agent.del(&first, "c2").silent();
    world.delete_pod(&first);
    let stranger = segment.stranger(&[&own[0]]);
    let again = member(&world, "db-0");
    add(&again, "c3", &netns).failed(103);
    agent.del(&again, "c3").silent();
    drop(stranger);
    assert_eq!(add(&again, "c4", &netns).addresses(), own);

    // C00009: without its gateway a pod does not start.
    drop(router);
    let said = add(&web, "c5", &netns).failed(113);
    assert!(said.contains("gateway 10.38.0.1 of pool \"p\" does not answer"), "{said}");
    agent.del(&web, "c5").silent();
}

/// What a process serves under `/metrics`, where its log says.
fn metrics(log: impl Fn() -> String) -> String {
    let address = until("the address of its metrics", || {
        let log = log();
        let line = log.lines().find(|line| line.contains("serving") && line.contains("/metrics"))?;
        let port: String = line.split("127.0.0.1:").nth(1)?.chars().take_while(char::is_ascii_digit).collect();
        format!("127.0.0.1:{port}").parse().ok()
    });
    Http { address }.get("/metrics").body
}

#[test]
fn k00001_metrics_are_served_under_their_documented_names() {
    let Some((world, agent, controller)) = start("enableIPv4: true\n", &["--listen", "127.0.0.1:0"]) else { return };
    let spec = json!({"subnet": "10.39.0.0/24", "ips": ["10.39.0.10-10.39.0.19"], "default": true});
    apply(&world, "SpiderIPPool", "p", &spec);
    let pod = world.pod("n1", "web", &json!({}));
    let _ = address(&agent, &pod, "c1");
    agent.del(&pod, "c1").silent();
    let of_agent = metrics(|| std::fs::read_to_string(agent.log()).unwrap_or_default());
    for verb in ["allocation", "release"] {
        let all = [
            "counts_total",
            "failure_counts_total",
            "err_internal_counts_total",
            "err_retries_exhausted_counts_total",
            "average_duration_seconds",
            "max_duration_seconds",
            "min_duration_seconds",
            "latest_duration_seconds",
            "duration_seconds_bucket",
        ];
        for name in all.map(|name| format!("spiderpool_ipam_{verb}_{name}")) {
            assert!(of_agent.contains(&name), "{name} is not in\n{of_agent}");
        }
    }
    for name in ["allocation_err_no_available_pool_counts", "allocation_err_ip_used_out_counts"] {
        assert!(of_agent.contains(&format!("spiderpool_ipam_{name}_total")), "{name} is not in\n{of_agent}");
    }
    until("the pool to be counted", || {
        let of_controller = metrics(|| controller.log());
        let names = [
            "ip_gc_counts_total",
            "total_ippool_counts",
            "total_subnet_counts",
            "debug_ippool_total_ip_counts",
            "debug_ippool_available_ip_counts",
        ];
        names.iter().all(|name| of_controller.contains(&format!("spiderpool_{name}"))).then_some(())
    });
}
