//! L: who may use a pool.

use super::pools;
use berth_e2e_cluster::Case;
use serde_json::json;

#[test]
fn l00001_and_l00002_a_pool_for_nodes_with_a_label_serves_them_and_no_others() {
    let Some(case) = Case::begin() else { return };
    case.berth(
        "IPPool",
        "p",
        &json!({"ranges": ["10.N.0.0/24"], "allow": {"nodeSelector": {"matchLabels": {"rack": "a"}}}}),
    );
    let (inside, outside) = (case.node("n1", &json!({"rack": "a"})), case.node("n2", &json!({"rack": "b"})));
    let asks = json!({"annotations": pools(&[case.name("p")])});
    let served = case.pod_on(&inside, &case.namespace, "in", &asks);
    let refused = case.pod_on(&outside, &case.namespace, "out", &asks);
    assert!(case.running(&served)[0].to_string().starts_with(&case.here("10.N.0.")));
    case.refused(&refused, "cN-p");
    case.until_used(1);
    case.sane(&[&case.namespace]);
}

#[test]
fn l00003_and_l00004_a_pool_for_namespaces_with_a_label_serves_them_and_no_others() {
    let Some(case) = Case::begin() else { return };
    let team = json!({"matchLabels": {"team": "blue"}});
    case.berth("IPPool", "p", &json!({"ranges": ["10.N.0.0/24"], "allow": {"namespaceSelector": team}}));
    let (blue, red) = (case.name("blue"), case.name("red"));
    case.make_namespace(&blue, &json!({"labels": {"team": "blue"}}));
    case.make_namespace(&red, &json!({"labels": {"team": "red"}}));
    let node = case.node("n1", &json!({}));
    let asks = json!({"annotations": pools(&[case.name("p")])});
    case.running(&case.pod_on(&node, &blue, "web", &asks));
    case.refused(&case.pod_on(&node, &red, "web", &asks), "cN-p");
    case.sane(&[&blue, &red]);
    // A namespace that gets the label is let in; the pod that was refused need not be made again.
    let late = case.pod_on(&node, &red, "late", &asks);
    case.refused(&late, "cN-p");
    case.make_namespace(&red, &json!({"labels": {"team": "blue"}}));
    case.running(&late);
}

#[test]
fn l00005_and_l00006_a_pool_for_pods_with_a_label_serves_them_and_no_others() {
    let Some(case) = Case::begin() else { return };
    let selector = json!({"matchLabels": {"tier": "web"}});
    case.berth("IPPool", "p", &json!({"ranges": ["10.N.0.0/24"], "allow": {"podSelector": selector}}));
    let node = case.node("n1", &json!({}));
    let asks = |tier: &str| json!({"labels": {"tier": tier}, "annotations": pools(&[case.name("p")])});
    case.running(&case.pod_on(&node, &case.namespace, "web", &asks("web")));
    case.refused(&case.pod_on(&node, &case.namespace, "db", &asks("db")), "cN-p");
    case.sane(&[&case.namespace]);
}

#[test]
fn l00007_pods_of_a_daemon_set_get_the_pool_of_the_zone_they_are_in() {
    let Some(case) = Case::begin() else { return };
    let zone = |zone: &str| json!({"nodeSelector": {"matchLabels": {"zone": zone}}});
    case.berth("IPPool", "east", &json!({"ranges": ["10.N.1.0/24"], "allow": zone("east")}));
    case.berth("IPPool", "west", &json!({"ranges": ["10.N.2.0/24"], "allow": zone("west")}));
    let nodes = [("n1", "east"), ("n2", "west"), ("n3", "west")];
    let agents: Vec<_> = nodes.iter().map(|(name, zone)| case.node(name, &json!({"zone": zone}))).collect();
    case.run("DaemonSet", "probe", 0, &pools(&[case.name("east"), case.name("west")]));
    for seen in case.until_running("probe", 3) {
        let at = agents.iter().position(|agent| agent.node() == seen.pod.node).unwrap();
        let expected = if nodes[at].1 == "east" { "10.N.1." } else { "10.N.2." };
        assert!(seen.addresses[0].to_string().starts_with(&case.here(expected)), "{seen:?}");
    }
    case.sane(&[&case.namespace]);
}

#[test]
fn l00008_a_stateful_set_that_is_restarted_keeps_its_addresses_in_a_pool_for_its_pods() {
    let Some(case) = Case::begin() else { return };
    let selector = json!({"matchLabels": {"app": "db"}});
    case.berth("IPPool", "p", &json!({"ranges": ["10.N.0.0/24"], "sticky": {}, "allow": {"podSelector": selector}}));
    let _nodes = [case.node("n1", &json!({})), case.node("n2", &json!({}))];
    case.run("StatefulSet", "db", 3, &pools(&[case.name("p")]));
    let addresses = |pods: Vec<berth_e2e_cluster::case::Seen>| {
        let mut all: Vec<_> = pods.into_iter().map(|seen| (seen.pod.name, seen.addresses, seen.pod.uid)).collect();
        all.sort();
        all
    };
    let before = addresses(case.until_running("db", 3));
    for seen in case.pods_of(&case.namespace, Some("db")) {
        case.end_pod(&seen.pod);
    }
    case.until("other pods of the same names", || {
        let now = case.pods_of(&case.namespace, Some("db"));
        now.len() == 3 && now.iter().all(|seen| before.iter().all(|(_, _, uid)| *uid != seen.pod.uid))
    });
    let after = addresses(case.until_running("db", 3));
    for (old, new) in before.iter().zip(&after) {
        assert_eq!((&old.0, &old.1), (&new.0, &new.1));
    }
    case.sane(&[&case.namespace]);
}

#[test]
fn l00009_a_namespace_has_many_pools_and_a_pool_many_namespaces() {
    let Some(case) = Case::begin() else { return };
    let (one, two) = (case.name("one"), case.name("two"));
    let both = json!({"namespaces": [one, two]});
    case.berth("IPPool", "own-1", &json!({"ranges": ["10.N.1.4-10.N.1.5"], "allow": {"namespaces": [one]}}));
    case.berth("IPPool", "own-2", &json!({"ranges": ["10.N.2.4-10.N.2.5"], "allow": {"namespaces": [one]}}));
    case.berth("IPPool", "both", &json!({"ranges": ["10.N.3.0/24"], "allow": both}));
    let of = |pools: &[&str]| json!({"annotations": {"berth.io/pools": pools.iter().map(|p| case.name(p)).collect::<Vec<_>>().join(",")}});
    case.make_namespace(&one, &of(&["own-*", "both"]));
    case.make_namespace(&two, &of(&["both"]));
    let node = case.node("n1", &json!({}));
    let third = |pod: &berth_e2e_cluster::Pod| match case.running(pod)[0] {
        std::net::IpAddr::V4(address) => address.octets()[2],
        std::net::IpAddr::V6(_) => 0,
    };
    // The first pools are used up before the shared one is touched.
    let used: Vec<u8> = (0..5).map(|i| third(&case.pod_on(&node, &one, &format!("web-{i}"), &json!({})))).collect();
    assert_eq!(used, [1, 1, 2, 2, 3]);
    assert_eq!(third(&case.pod_on(&node, &two, "web-0", &json!({}))), 3);
    let asks = json!({"annotations": pools(&[case.name("own-1")])});
    case.refused(&case.pod_on(&node, &two, "thief", &asks), "cN-own-1");
    case.sane(&[&one, &two]);
}
