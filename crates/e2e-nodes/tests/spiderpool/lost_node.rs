//! A node is lost, with its pods.

use crate::pool;
use berth_e2e_nodes::{Lab, Pod, Workload};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;

const LOST: &str = "node-3";

/// As many addresses as replicas: who runs elsewhere again can only have what the lost node's pods had, and gets nothing
/// while those may still run. Who lives has its address at every moment, in its namespace and in the records.
pub(crate) fn and_its_addresses_come_back(lab: &mut Lab) {
    pool(lab, "scarce", &json!({"subnet": "172.20.7.0/24", "ips": ["172.20.7.10-172.20.7.15"]}));
    let asks = json!({"ipam.spidernet.io/ippool": r#"{"ipv4": ["scarce"]}"#});
    let all = Workload::deployment_with(lab, "all", 6, &asks);
    // All of it on that node, and what each has is its own.
    pool(lab, "own", &json!({"subnet": "172.20.8.0/24", "ips": ["172.20.8.10-172.20.8.12"]}));
    lab.kubectl("cordon node-1 node-2");
    let own = Workload::stateful_set_with(lab, "own", 3, &json!({"ipam.spidernet.io/ippool": r#"{"ipv4": ["own"]}"#}));
    lab.kubectl("uncordon node-1 node-2");
    let before = lab.holders(&own.pods(lab));
    let (lost, living): (Vec<Pod>, Vec<Pod>) = all.pods(lab).into_iter().partition(|pod| pod.node == LOST);
    assert!(!lost.is_empty() && !living.is_empty(), "{lost:?} {living:?}");
    let (theirs, kept) = (lab.holders(&lost), lab.holders(&living));

    // Nobody hears of the node any more, but its containers run on: nobody else gets what they have.
    node(lab).stop_kubelet();
    node(lab).stop_containerd();
    lab.kubectl(&format!("cordon {LOST}"));
    all.scale(lab, 7);
    lab.until("one more to find nothing left", || {
        let events = lab.get("events --field-selector reason=FailedCreatePodSandBox");
        let full = |event: &Value| {
            let about = event["involvedObject"]["name"].as_str().unwrap_or_default();
            about.starts_with("all-") && event["message"].as_str().unwrap_or_default().contains("scarce")
        };
        if events.iter().any(full) { Ok(()) } else { Err(format!("{} events", events.len())) }
    });
    assert_eq!(lab.holders(&lost), theirs, "they run");
    nobody_lost_anything(lab, &living, &kept);

    // Now they do not, and somebody says so.
    node(lab).power_off();
    lab.kubectl(&format!("delete node {LOST}"));
    // Kubernetes would do so by itself, a minute later.
    lab.kubectl(&format!("delete pods --field-selector spec.nodeName={LOST} --force --grace-period 0"));
    let elsewhere = lab.until("what they had to come back", || {
        nobody_lost_anything(lab, &living, &kept);
        let pods: Vec<Pod> = all.pods(lab).into_iter().filter(|pod| pod.node != LOST && pod.ready).collect();
        if pods.len() == 6 { Ok(pods) } else { Err(format!("{} of 6 run", pods.len())) }
    });
    let mut everything = kept;
    everything.extend(theirs);
    assert_eq!(
        lab.holders(&elsewhere).into_keys().collect::<Vec<_>>(),
        everything.into_keys().collect::<Vec<_>>(),
        "all addresses of the pool are in use again"
    );
    own.wait(lab);
    assert_eq!(lab.holders(&own.pods(lab)), before, "each has what it had, elsewhere");
    own.delete(lab);
    all.scale(lab, 6);
    all.wait(lab);
    all.delete(lab);
}

fn node(lab: &mut Lab) -> &mut berth_cluster::Node {
    lab.cluster.nodes_mut().iter_mut().find(|node| node.name() == LOST).unwrap()
}

#[track_caller]
fn nobody_lost_anything(lab: &Lab, living: &[Pod], kept: &BTreeMap<IpAddr, String>) {
    assert_eq!(lab.holders(living), *kept, "in their own namespaces");
    let records = lab.kubectl("get sp scarce -o jsonpath={.status.allocatedIPs}");
    let records: Value = serde_json::from_str(&records).unwrap();
    for (address, pod) in kept {
        assert_eq!(records[address.to_string()]["pod"], format!("default/{pod}"), "{address} in {records}");
    }
}
