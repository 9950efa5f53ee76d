//! Where pods run and which addresses they have there.

use crate::{last_byte, pool, row};
use berth_cluster::Station;
use berth_e2e_nodes::{Lab, Workload};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// One node is in one subnet, two are in another, and the replicas of one Deployment get addresses of the subnet that their
/// node is in. A router between the two sees to it that they can talk.
pub(crate) fn across_subnets(lab: &mut Lab) {
    lab.kubectl("label node node-1 rack=one");
    let rack = |third: u8| {
        json!({"subnet": format!("172.20.{third}.0/24"), "gateway": format!("172.20.{third}.1"),
        "ips": [format!("172.20.{third}.10-172.20.{third}.40")]})
    };
    let (mut one, mut two) = (rack(1), rack(2));
    one["nodeAffinity"] = json!({"matchLabels": {"rack": "one"}});
    two["nodeName"] = json!(["node-2", "node-3"]);
    pool(lab, "rack-one", &one);
    pool(lab, "rack-two", &two);
    let router = Station::new(lab.cluster.underlay(), "router", &["172.20.1.1/24", "172.20.2.1/24"]).unwrap();
    router.forward().unwrap();
    let asks = json!({"ipam.spidernet.io/ippool": r#"{"ipv4": ["rack-one", "rack-two"]}"#});
    let web = Workload::deployment_with(lab, "web", 6, &asks);
    let pods = web.pods(lab);
    let mut racks = BTreeSet::new();
    for pod in &pods {
        let own = lab.addresses(pod).unwrap();
        let third = if pod.node == "node-1" { 1 } else { 2 };
        assert_eq!(own.len(), 1, "{pod:?}: {own:?}");
        assert!((10..=40).contains(&last_byte(own[0], &format!("172.20.{third}."))), "{pod:?}: {own:?}");
        racks.insert(third);
    }
    assert_eq!(racks.len(), 2, "{pods:?}");
    let first = pods.iter().find(|pod| pod.node == "node-1").unwrap();
    for other in pods.iter().filter(|pod| pod.node != "node-1") {
        lab.ping(first, lab.addresses(other).unwrap()[0]);
    }
    web.delete(lab);
}

/// Where the pods of the StatefulSet are, and what they have.
fn places(lab: &Lab, set: &Workload) -> BTreeMap<String, (String, Vec<IpAddr>)> {
    let place = |pod: berth_e2e_nodes::Pod| {
        let own = lab.addresses(&pod).unwrap();
        (pod.name, (pod.node, own))
    };
    set.pods(lab).into_iter().map(place).collect()
}

/// What a pod of a StatefulSet has goes with it, whatever node it comes back on, and when all come back at once.
pub(crate) fn from_node_to_node(lab: &mut Lab) {
    pool(lab, "db", &json!({"subnet": "172.20.3.0/24", "ips": ["172.20.3.10-172.20.3.30"]}));
    let asks = json!({"ipam.spidernet.io/ippool": r#"{"ipv4": ["db"]}"#});
    let db = Workload::stateful_set_with(lab, "db", 3, &asks);
    let first = places(lab, &db);
    let mut visited = BTreeSet::from([first["db-0"].0.clone()]);
    // Round all nodes: it comes back where it has not been yet.
    for _ in 0..2 {
        visited.iter().for_each(|node| drop(lab.kubectl(&format!("cordon {node}"))));
        lab.kubectl("delete pod db-0");
        db.wait(lab);
        visited.iter().for_each(|node| drop(lab.kubectl(&format!("uncordon {node}"))));
        let (node, own) = &places(lab, &db)["db-0"];
        assert!(visited.insert(node.clone()), "db-0 is on {node} again");
        assert_eq!(*own, first["db-0"].1, "on {node}");
        row(lab, "get se db-0", &format!("db-0 eth0 db {}/24 {node}", own[0]));
    }
    lab.kubectl("delete pods --selector app=db");
    db.wait(lab);
    for (name, (node, own)) in places(lab, &db) {
        assert_eq!(own, first[&name].1, "{name} on {node}");
    }
    db.delete(lab);
}
