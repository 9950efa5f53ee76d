//! E: every kind of pod gets its addresses.

use super::pools;
use berth_e2e_cluster::Case;
use serde_json::json;

#[test]
fn e00001_to_e00006_pods_of_every_kind_get_ipv4_ipv6_or_both() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPPool", "four", &json!({"ranges": ["10.N.0.0/24"]}));
    case.berth("IPPool", "six", &json!({"ranges": ["fd00:N::/64"]}));
    let node = case.node("n1", &json!({}));
    let stacks = [("v4", vec!["four"], 1), ("v6", vec!["six"], 1), ("dual", vec!["four", "six"], 2)];
    for (stack, names, _) in &stacks {
        let asks = pools(&names.iter().map(|name| case.name(name)).collect::<Vec<_>>());
        let _pod = case.pod_on(
            &node,
            &case.namespace,
            &format!("pod-{stack}"),
            &json!({"annotations": asks, "labels": {"app": format!("pod-{stack}")}}),
        );
        for kind in ["Deployment", "StatefulSet", "DaemonSet", "Job", "ReplicaSet"] {
            let replicas = if kind == "DaemonSet" { 0 } else { 2 };
            case.run(kind, &format!("{}-{stack}", kind.to_lowercase()), replicas, &asks);
        }
    }
    for (stack, _, families) in &stacks {
        for (kind, count) in
            [("pod", 1), ("deployment", 2), ("statefulset", 2), ("daemonset", 1), ("job", 2), ("replicaset", 2)]
        {
            for seen in case.until_running(&format!("{kind}-{stack}"), count) {
                assert_eq!(seen.addresses.len(), *families, "{seen:?}");
                assert_eq!(seen.addresses.iter().any(std::net::IpAddr::is_ipv4), *stack != "v6", "{seen:?}");
            }
        }
    }
    case.sane(&[&case.namespace]);
}

#[test]
fn e00007_a_pod_with_as_much_text_as_there_can_be_gets_its_address() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPPool", "p", &json!({"ranges": ["10.N.0.0/24"], "endpointObjects": "Always"}));
    let node = case.node("n1", &json!({}));
    let mut annotations = pools(&[case.name("p")]);
    // Together they may have 256 KiB.
    for i in 0..25 {
        annotations[format!("example.io/{i}-{}", "k".repeat(55))] = json!("text ".repeat(2_000));
    }
    let labels: serde_json::Map<_, _> =
        (0..100).map(|i| (format!("example.io/{i}-{}", "l".repeat(55)), json!("v".repeat(63)))).collect();
    // The longest name that an object can have.
    let name = format!("{}.{}", "long".repeat(15), "name".repeat(48));
    let pod = case.pod_on(&node, &case.namespace, &name, &json!({"annotations": annotations, "labels": labels}));
    assert_eq!((name.len(), case.running(&pod).len()), (253, 1));
    case.sane(&[&case.namespace]);
}

#[test]
fn e00008_and_s00002_a_pod_waits_while_its_pool_is_used_up_and_excluded_addresses_are_not_there() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPPool", "p", &json!({"ranges": ["10.N.0.0-10.N.0.4"], "exclude": ["10.N.0.2-10.N.0.3"]}));
    let node = case.node("n1", &json!({}));
    let asks = json!({"annotations": pools(&[case.name("p")])});
    let pods: Vec<_> = (0..3).map(|i| case.pod_on(&node, &case.namespace, &format!("web-{i}"), &asks)).collect();
    let mut given: Vec<_> = pods.iter().map(|pod| case.running(pod)[0].to_string()).collect();
    given.sort();
    assert_eq!(given, ["10.N.0.0", "10.N.0.1", "10.N.0.4"].map(|text| case.here(text)));
    let late = case.pod_on(&node, &case.namespace, "late", &asks);
    case.refused(&late, "cN-p");
    case.sane(&[&case.namespace]);
    case.end_pod(&pods[1]);
    case.running(&late);
    case.sane(&[&case.namespace]);
}

#[test]
fn e00009_and_e00010_where_both_families_are_there_a_pod_may_ask_for_one() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPPool", "four", &json!({"ranges": ["10.N.0.0/24"]}));
    case.berth("IPPool", "six", &json!({"ranges": ["fd00:N::/64"]}));
    case.berth("IPSubnet", "four", &json!({"cidr": "10.N.8.0/24"}));
    case.berth("IPSubnet", "six", &json!({"cidr": "fd00:N:8::/64"}));
    let both = format!("{},{}", case.name("four"), case.name("six"));
    let dual = case.name("dual");
    case.make_namespace(&dual, &json!({"annotations": {"berth.io/pools": both}}));
    let node = case.node("n1", &json!({}));
    assert_eq!(case.running(&case.pod_on(&node, &dual, "both", &json!({}))).len(), 2);
    // By pools, as E00009 has it.
    let one = json!({"annotations": {"berth.io/networks": json!([{"pools": [case.name("six")]}]).to_string()}});
    let addresses = case.running(&case.pod_on(&node, &dual, "one", &one));
    assert!(addresses.len() == 1 && addresses[0].is_ipv6(), "{addresses:?}");
    // By subnets, as E00010 has it.
    for (name, families) in [("four", 1), ("six", 1), ("four,six", 2)] {
        let app = name.replace(',', "-");
        let subnets: Vec<_> = name.split(',').map(|name| case.name(name)).collect();
        case.run("Deployment", &app, 1, &json!({"berth.io/subnets": subnets.join(",")}));
        let seen = case.until_running(&app, 1).remove(0);
        assert_eq!(seen.addresses.len(), families, "{seen:?}");
        assert_eq!(seen.addresses.iter().any(std::net::IpAddr::is_ipv4), name.contains("four"), "{seen:?}");
    }
    case.sane(&[&case.namespace, &dual]);
}
