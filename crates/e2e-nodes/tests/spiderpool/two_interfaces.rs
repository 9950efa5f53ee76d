//! Two interfaces of a pod in two subnets of the underlay: Multus makes the second, by macvlan on the node's own interface.

use crate::{last_byte, pool, row};
use berth_cluster::Station;
use berth_e2e_nodes::{Lab, Pod, Workload, multus};
use serde_json::json;

/// The addresses of one interface, and the default routes, as the pod's namespace has them.
fn look(lab: &Lab, pod: &Pod, words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    let output = lab.cluster.node(&pod.node).unwrap().in_pod("default", &pod.name, &words).unwrap();
    assert!(output.status.success(), "{words:?} in {pod:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn in_two_subnets(lab: &mut Lab) {
    let config = json!({"cniVersion": "1.0.0", "name": "storage-net",
        "plugins": [{"type": "macvlan", "master": "eth0", "ipam": {"type": "spiderpool"}}]});
    multus::define(lab, "storage", &config);
    let front = json!({"subnet": "172.20.4.0/24", "ips": ["172.20.4.10-172.20.4.30"], "gateway": "172.20.4.1"});
    pool(lab, "front", &front);
    let storage = json!({"subnet": "172.20.5.0/24", "ips": ["172.20.5.10-172.20.5.30"], "gateway": "172.20.5.1",
        "multusName": ["default/storage"]});
    pool(lab, "storage", &storage);
    let _router = Station::new(lab.cluster.underlay(), "router", &["172.20.4.1/24", "172.20.5.1/24"]).unwrap();
    let asks = json!({
        "k8s.v1.cni.cncf.io/networks": "default/storage",
        "ipam.spidernet.io/ippools": r#"[{"interface": "eth0", "ipv4": ["front"]}, {"interface": "net1", "ipv4": ["storage"]}]"#,
        "ipam.spidernet.io/default-route-nic": "net1",
    });
    let two = Workload::deployment_with(lab, "two", 4, &asks);
    let pods = two.pods(lab);
    assert_eq!(lab.holders(&pods).len(), 8);
    for pod in &pods {
        for (interface, prefix) in [("eth0", "172.20.4."), ("net1", "172.20.5.")] {
            let text = look(lab, pod, &format!("ip -4 -o addr show dev {interface}"));
            assert_eq!(text.matches(&format!("inet {prefix}")).count(), 1, "{interface} of {pod:?}: {text}");
        }
        let routes = look(lab, pod, "ip -4 route show default");
        assert!(routes.contains("via 172.20.5.1 dev net1") && !routes.contains("eth0"), "{pod:?}: {routes}");
    }
    // In both subnets, from node to node.
    let first = &pods[0];
    for other in pods.iter().filter(|other| other.node != first.node) {
        let own = lab.addresses(other).unwrap();
        assert!(last_byte(own[0], "172.20.4.") >= 10 && last_byte(own[1], "172.20.5.") >= 10, "{other:?}: {own:?}");
        own.into_iter().for_each(|address| lab.ping(first, address));
    }
    for name in ["front 4 172.20.4.0/24", "storage 4 172.20.5.0/24"] {
        row(lab, "get sp", &format!("{name} 4 21 false false"));
    }
    two.delete(lab);
    row(lab, "get sp", "storage 4 172.20.5.0/24 0 21 false false");
}
