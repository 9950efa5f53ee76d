//! G: addresses come back, and only those that should.

use super::pools;
use berth_core::block::{BlockKey, Plane, Slot};
use berth_core::holder::Holder;
use berth_core::time::Time;
use berth_e2e_cluster::Case;
use serde_json::json;
use std::net::IpAddr;

#[test]
fn g00001_what_a_namespace_had_comes_back_when_it_is_deleted() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPPool", "p", &json!({"ranges": ["10.N.0.0/24"], "sticky": {}}));
    let _node = case.node("n1", &json!({}));
    let asks = pools(&[case.name("p")]);
    for (kind, replicas) in [("Deployment", 3), ("StatefulSet", 3), ("DaemonSet", 0)] {
        case.run(kind, &kind.to_lowercase(), replicas, &asks);
    }
    for (app, count) in [("deployment", 3), ("statefulset", 3), ("daemonset", 1)] {
        case.until_running(app, count);
    }
    assert_eq!(case.used(), 7);
    case.try_delete("v1", "Namespace", None, &case.namespace).unwrap();
    case.until_used(0);
    case.until("the namespace to go", || case.get("v1", "Namespace", None, &case.namespace).is_none());
    case.check();
}

#[test]
fn g00002_a_pod_of_the_same_name_in_another_namespace_keeps_its_address() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPPool", "p", &json!({"ranges": ["10.N.0.0/24"]}));
    let (one, two) = (case.name("one"), case.name("two"));
    [&one, &two].iter().for_each(|name| case.make_namespace(name, &json!({})));
    let node = case.node("n1", &json!({}));
    let asks = json!({"annotations": pools(&[case.name("p")])});
    let pods = [&one, &two].map(|namespace| case.pod_on(&node, namespace, "web-0", &asks));
    let kept = pods.each_ref().map(|pod| case.running(pod))[1][0];
    // Nobody says DEL: the kubelet and the agent are gone, and the controller alone is left.
    case.stage.kubelets.power_off(node.node());
    node.kill();
    case.force_delete(&pods[0]);
    case.until_used(1);
    let holders = case.holders();
    assert_eq!(holders.get(&kept).map(|(_, holder)| &holder.uid), Some(&pods[1].uid), "{holders:?}");
}

#[test]
fn g00005_records_of_pods_that_never_were_are_cleaned_and_counts_are_right_again() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPPool", "p", &json!({"ranges": ["10.N.0.0/24"]}));
    let node = case.node("n1", &json!({}));
    let asks = json!({"annotations": pools(&[case.name("p")])});
    let pod = case.pod_on(&node, &case.namespace, "real", &asks);
    let real = case.running(&pod)[0];
    let in_use = || case.get_berth("IPPool", "p").unwrap_or_default()["status"]["usage"]["inUse"].clone();
    case.until("one to be counted", || in_use() == "1");
    // One of a pod that never was, and one of a pod that is, under the UID of another.
    for (last, name, uid) in [(201, "ghost", "uid-of-nobody"), (202, "real", "uid-of-another")] {
        let address: IpAddr = case.here(&format!("10.N.0.{last}")).parse().unwrap();
        let holder = Holder {
            network: "net".into(),
            id: format!("container-of-{last}"),
            ifname: "eth0".into(),
            namespace: case.namespace.clone(),
            pod: name.into(),
            uid: uid.into(),
            node: node.node().into(),
            ..Holder::default()
        };
        let plane = Plane { network: "default".into(), family: berth_core::addr::Family::of(address), unit_len: 32 };
        let (key, slot) = BlockKey::of(&plane, plane.unit_of(address));
        case.write_slot(&key, slot, &Slot::active(holder, Time(1)));
    }
    // Both are seen, by whoever counts, and freed, by whoever is first: the agent or the controller.
    case.until_used(1);
    case.until("one to be counted again", || in_use() == "1");
    assert_eq!(case.running(&pod)[0], real);
    case.sane(&[&case.namespace]);
}

#[test]
fn g00010_a_stateful_set_that_needs_no_addresses_any_more_gives_them_up() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPPool", "p", &json!({"ranges": ["10.N.0.0/24"], "sticky": {}}));
    let _node = case.node("n1", &json!({}));
    let mut set = case.run("StatefulSet", "db", 3, &pools(&[case.name("p")]));
    case.until_running("db", 3);
    assert_eq!(case.used(), 3);
    set["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
    let metadata = json!({"name": "db", "namespace": case.namespace});
    let object = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": set["spec"]});
    case.apply(&object);
    case.until_used(0);
    case.check();
}
