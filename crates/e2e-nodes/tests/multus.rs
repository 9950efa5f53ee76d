//! Two interfaces in two pools on real nodes: the real Multus calls the plugin for each, and what pods have is read from
//! their own namespaces.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use berth_cluster::BUSYBOX;
use berth_e2e_nodes::{Lab, Pod, multus};
use serde_json::{Value, json};

const REPLICAS: u8 = 4;

/// Puts Multus in front of Berth's network on every node.
fn install_multus(lab: &Lab) {
    let own = lab.cluster.nodes()[0].cni_conf_dir().join("10-berth.conflist");
    let network: Value = serde_json::from_str(&std::fs::read_to_string(own).unwrap()).unwrap();
    multus::install(lab, &network);
}

fn deployment() -> Value {
    let labels = json!({"app": "two"});
    let annotations = json!({
        "k8s.v1.cni.cncf.io/networks": "default/storage",
        "berth.io/networks": r#"[{"pools": ["first"]}, {"pools": ["second"], "defaultRoute": true}]"#,
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "two", "namespace": "default"},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": {"terminationGracePeriodSeconds": 1, "dnsPolicy": "Default",
                         "containers": [{"name": "main", "image": BUSYBOX}]},
            },
        },
    })
}

/// The pool of the second interfaces: a network of its own on every node, with so many addresses.
fn second(lab: &Lab, addresses: u8) {
    let spec = json!({"ranges": [format!("172.30.0.10-172.30.0.{}", 9 + addresses)], "prefixLength": 24, "gateway": "172.30.0.1"});
    lab.apply(
        &json!({"apiVersion": "berth.io/v1alpha1", "kind": "IPPool", "metadata": {"name": "second"}, "spec": spec}),
    );
}

/// What a command says in the namespace of a pod.
fn said(lab: &Lab, pod: &Pod, words: &[&str]) -> String {
    let output = lab.cluster.node(&pod.node).unwrap().in_pod("default", &pod.name, words).unwrap();
    assert!(output.status.success(), "{words:?} in {pod:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Every pod has an address of each pool, on the interface it is for, and the default route where it was asked for.
fn inspect(lab: &Lab, pods: &[Pod]) {
    let first = format!("inet 10.{}.3.", lab.cluster.underlay().number());
    for pod in pods {
        for (interface, address) in [("eth0", &*first), ("net1", "inet 172.30.0.")] {
            let text = said(lab, pod, &["ip", "-4", "-o", "addr", "show", "dev", interface]);
            assert_eq!(text.matches(address).count(), 1, "{interface} of {pod:?}: {text}");
        }
        let routes = said(lab, pod, &["ip", "-4", "route", "show", "default"]);
        assert!(routes.contains("via 172.30.0.1 dev net1") && !routes.contains("eth0"), "{pod:?}: {routes}");
    }
}

#[test]
fn pods_with_two_interfaces_through_multus() {
    let Some(lab) = Lab::start(2) else { return };
    install_multus(&lab);
    let route = json!({"routes": [{"dst": "0.0.0.0/0"}]});
    lab.pool("first", 3, 1, 250, &route);
    second(&lab, REPLICAS);
    let config = json!({"cniVersion": "1.0.0", "name": "storage-net",
                        "plugins": [{"type": "bridge", "bridge": "cni1", "ipam": {"type": "berth-cni"}}]});
    multus::define(&lab, "storage", &config);
    lab.apply(&deployment());
    lab.kubectl("rollout status deployment/two --timeout 180s");
    inspect(&lab, &lab.pods(Some("two")));
    assert_eq!(lab.used(), 2 * u64::from(REPLICAS));

    // One more than the second pool has: its sandbox is made again and again, and takes nothing from the first.
    lab.kubectl(&format!("scale deployment/two --replicas {}", REPLICAS + 1));
    let failures = lab.until("the kubelet to try at least three times", || {
        let events = lab.kubectl("get events --field-selector reason=FailedCreatePodSandBox -o json");
        let events: Value = serde_json::from_str(&events).unwrap();
        let full = |event: &&Value| event["message"].as_str().is_some_and(|text| text.contains("interface net1"));
        let events = events["items"].as_array().unwrap().iter().filter(full);
        let count: u64 = events.map(|event| event["count"].as_u64().unwrap_or(1)).sum();
        if count >= 3 { Ok(count) } else { Err(format!("{count} failures")) }
    });
    assert_eq!(lab.used(), 2 * u64::from(REPLICAS), "after {failures} failures");
    second(&lab, REPLICAS + 1);
    lab.kubectl("rollout status deployment/two --timeout 180s");
    let pods = lab.pods(Some("two"));
    assert_eq!(pods.len(), usize::from(REPLICAS) + 1);
    inspect(&lab, &pods);
    assert_eq!(lab.used(), 2 * (u64::from(REPLICAS) + 1));

    lab.kubectl("delete deployment/two --wait --timeout 180s");
    lab.until("every address to be free", || match lab.used() {
        0 => Ok(()),
        used => Err(format!("{used} are in use")),
    });
}
