//! D: pools that people make.

use super::pools;
use berth_e2e_cluster::Case;
use serde_json::{Value, json};

/// A field of a pool's status, as text.
fn status(case: &Case<'_>, kind: &str, name: &str, path: &str) -> String {
    let object = case.get_berth(kind, name).unwrap_or_default();
    let value = object.pointer(&format!("/status/{path}")).cloned().unwrap_or_default();
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The verdict about a pool or a subnet: its reason.
fn verdict(case: &Case<'_>, kind: &str, name: &str) -> String {
    let object = case.get_berth(kind, name).unwrap_or_default();
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let accepted = conditions.iter().find(|condition| condition["type"] == "Accepted");
    accepted.map(|condition| condition["reason"].as_str().unwrap_or_default().to_owned()).unwrap_or_default()
}

#[test]
fn d00001_an_address_of_one_pool_cannot_be_added_to_another() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPPool", "a", &json!({"ranges": ["10.N.0.10-10.N.0.19"]}));
    case.berth("IPPool", "b", &json!({"ranges": ["10.N.0.20-10.N.0.29"]}));
    let words = "overlaps IPPool \"cN-a\"";
    case.berth_refused("IPPool", "b", &json!({"ranges": ["10.N.0.19-10.N.0.29"]}), words);
    case.berth_refused("IPPool", "c", &json!({"ranges": ["10.N.0.15"]}), words);
    // In another network it is another address.
    case.berth("IPPool", "d", &json!({"ranges": ["10.N.0.10-10.N.0.19"], "network": "other"}));
    case.until("the verdicts", || ["a", "b", "d"].iter().all(|name| verdict(&case, "IPPool", name) == "Accepted"));
}

#[test]
fn d00002_another_gateway_and_other_routes_are_for_new_pods() {
    let Some(case) = Case::begin() else { return };
    let spec =
        |gateway: &str, dst: &str| json!({"ranges": ["10.N.0.0/24"], "gateway": gateway, "routes": [{"dst": dst}]});
    case.berth("IPPool", "p", &spec("10.N.0.1", "192.168.0.0/16"));
    let agent = case.node_without_kubelet("n1", &json!({}));
    let asks = json!({"annotations": pools(&[case.name("p")])});
    let old = case.pod_on(&agent, &case.namespace, "old", &asks);
    let before = agent.add(&old, "old").json();
    assert_eq!(before["ips"][0]["gateway"], case.here("10.N.0.1"), "{before}");
    assert_eq!(before["routes"][0]["dst"], "192.168.0.0/16", "{before}");
    // What the pod has cannot become the gateway: it would be taken out of the pool.
    let has_it = before["ips"][0]["address"] == case.here("10.N.0.2/24");
    let other = if has_it { "10.N.0.3" } else { "10.N.0.2" };
    case.berth("IPPool", "p", &spec(other, "172.16.0.0/12"));
    let mut number = 0;
    let mut new = Value::Null;
    case.until("the agent to know", || {
        number += 1;
        let pod = case.pod_on(&agent, &case.namespace, &format!("new-{number}"), &asks);
        new = agent.add(&pod, &pod.name).json();
        new["ips"][0]["gateway"] == case.here(other)
    });
    assert_eq!(new["routes"][0]["dst"], "172.16.0.0/12", "{new}");
    // The pod that was there is not touched: it has its address, and CHECK of what it was told says so.
    assert_eq!(agent.add(&old, "old").json()["ips"][0]["address"], before["ips"][0]["address"]);
    let mut config = agent.config(&json!({}));
    config["prevResult"] = before;
    let checked = agent.call("CHECK", &old, "old", "eth0").run(&config);
    assert_eq!(checked.code, 0, "{checked:?}");
}

#[test]
fn d00003_a_gateway_or_a_route_that_leads_nowhere_is_refused() {
    let Some(case) = Case::begin() else { return };
    let wrong = |extra: Value, words: &str| {
        let mut spec = json!({"ranges": ["10.N.0.0/24"]});
        for (key, value) in extra.as_object().unwrap() {
            spec[key] = value.clone();
        }
        case.berth_refused("IPPool", "p", &spec, words);
    };
    wrong(json!({"gateway": "10.N.1.1"}), "10.N.1.1 is not inside 10.N.0.0/24");
    wrong(json!({"gateway": "fd00::1"}), "gateway");
    wrong(json!({"gateway": "nonsense"}), "gateway");
    wrong(json!({"routes": [{"dst": "192.168.0.0/16", "gw": "10.N.1.1"}]}), "10.N.1.1 is not inside");
    wrong(json!({"routes": [{"dst": "192.168.0.0/16", "gw": "fd00::1"}]}), "gw");
    wrong(json!({"routes": [{"dst": "192.168.0.0/16"}, {"dst": "192.168.0.0/16"}]}), "destination is there twice");
    wrong(json!({"gateway": "none", "routes": [{"dst": "0.0.0.0/0"}]}), "has no gateway to go through");
    let right = json!({"ranges": ["10.N.0.0/24"], "gateway": "10.N.0.9", "routes": [{"dst": "0.0.0.0/0"}]});
    case.berth("IPPool", "p", &right);
    let away = json!({"ranges": ["10.N.0.0/24"], "gateway": "10.N.7.9"});
    case.berth_refused("IPPool", "p", &away, "10.N.7.9 is not inside");
}

#[test]
fn d00005_a_pool_that_is_disabled_gives_nothing_out_and_takes_back() {
    let Some(case) = Case::begin() else { return };
    let spec = |disabled: bool| json!({"ranges": ["10.N.0.0/24"], "disabled": disabled});
    case.berth("IPPool", "p", &spec(false));
    let node = case.node("n1", &json!({}));
    let asks = json!({"annotations": pools(&[case.name("p")])});
    let first = case.pod_on(&node, &case.namespace, "first", &asks);
    case.running(&first);
    case.berth("IPPool", "p", &spec(true));
    let mut number = 0;
    let mut late = first.clone();
    case.until("the agent to know", || {
        number += 1;
        late = case.pod_on(&node, &case.namespace, &format!("late-{number}"), &asks);
        case.until("an answer", || {
            case.stage.kubelets.refusal(&late.uid).is_some() || !case.running_now(&late).is_empty()
        });
        case.stage.kubelets.refusal(&late.uid).is_some()
    });
    case.refused(&late, "disabled");
    for seen in case.pods_of(&case.namespace, None).iter().filter(|seen| seen.pod.uid != late.uid) {
        case.end_pod(&seen.pod);
    }
    case.until_used(0);
    case.berth("IPPool", "p", &spec(false));
    case.running(&late);
    case.sane(&[&case.namespace]);
}

#[test]
fn d00006_a_hundred_pools_are_made_and_deleted_at_once() {
    let Some(case) = Case::begin() else { return };
    let all = || (0..100).map(|i| (format!("p{i}"), json!({"ranges": [format!("10.N.{i}.0/24")]})));
    all().for_each(|(name, spec)| case.berth("IPPool", &name, &spec));
    case.until("all to be accepted", || {
        all().all(|(name, _)| status(&case, "IPPool", &name, "usage/capacity") == "253")
    });
    all().for_each(|(name, _)| case.delete_berth("IPPool", &name).unwrap());
    case.until("all to be gone", || all().all(|(name, _)| case.get_berth("IPPool", &name).is_none()));
}

#[test]
fn d00007_and_d00008_pools_of_a_subnet_are_made_changed_and_deleted_and_inherit() {
    let Some(case) = Case::begin() else { return };
    let subnet = json!({"cidr": "10.N.0.0/24", "gateway": "10.N.0.254", "routes": [{"dst": "0.0.0.0/0"}]});
    case.berth("IPSubnet", "s", &subnet);
    let ranges = |ranges: &str| json!({"subnet": case.name("s"), "ranges": [ranges]});
    case.berth("IPPool", "p", &ranges("10.N.0.10-10.N.0.11"));
    // One that came without naming the subnet is of it all the same.
    case.berth("IPPool", "q", &json!({"ranges": ["10.N.0.21-10.N.0.22"]}));
    case.berth(
        "IPPool",
        "own",
        &json!({"subnet": case.name("s"), "ranges": ["10.N.0.30-10.N.0.31"],
        "gateway": "10.N.0.253", "routes": [{"dst": "10.0.0.0/8"}]}),
    );
    case.berth_refused("IPPool", "far", &ranges("10.N.9.1-10.N.9.2"), "is not inside IPSubnet");
    let agent = case.node_without_kubelet("n1", &json!({}));
    let answer = |pool: &str, pod: &str| {
        let pod = case.pod_on(&agent, &case.namespace, pod, &json!({"annotations": pools(&[case.name(pool)])}));
        agent.add(&pod, &pod.name).json()
    };
    for pool in ["p", "q"] {
        let said = answer(pool, pool);
        assert_eq!(said["ips"][0]["gateway"], case.here("10.N.0.254"), "{said}");
        assert_eq!(said["routes"][0]["dst"], "0.0.0.0/0", "{said}");
        assert!(said["ips"][0]["address"].as_str().unwrap().ends_with("/24"), "{said}");
    }
    let said = answer("own", "own");
    assert_eq!(said["ips"][0]["gateway"], case.here("10.N.0.253"), "{said}");
    assert_eq!((&said["routes"][0]["dst"], &said["routes"][1]), (&json!("10.0.0.0/8"), &Value::Null), "{said}");
    // Larger, and smaller again as far as nobody is cut off.
    case.berth("IPPool", "p", &ranges("10.N.0.10-10.N.0.13"));
    case.until("four addresses", || status(&case, "IPPool", "p", "usage/capacity") == "4");
    let mine = case.holders().into_iter().find(|(_, (_, holder))| holder.pod == "p").unwrap().0.to_string();
    let other = case.here("10.N.0.12-10.N.0.13");
    assert!(!other.contains(&mine));
    case.until("the webhook to know", || case.try_berth("IPPool", "p", &ranges("10.N.0.12-10.N.0.13")).is_err());
    case.berth_refused("IPPool", "p", &ranges("10.N.0.12-10.N.0.13"), "is in use");
    assert!(case.delete_berth("IPPool", "p").unwrap_err().contains("is in use"));
    case.berth("IPPool", "p", &ranges(&format!("{mine}-{mine}")));
    case.until("one address", || status(&case, "IPPool", "p", "usage/capacity") == "1");
    case.until("the subnet to count", || status(&case, "IPSubnet", "s", "usage/inUse") == "3");
    assert!(case.delete_berth("IPSubnet", "s").unwrap_err().contains("is in use"));
    for pod in case.pods_of(&case.namespace, None) {
        agent.del(&pod.pod, &pod.pod.name).silent();
    }
    for name in ["p", "q", "own"] {
        case.until("the pool to go", || {
            let _ = case.delete_berth("IPPool", name);
            case.get_berth("IPPool", name).is_none()
        });
    }
    case.until("the subnet to go", || {
        let _ = case.delete_berth("IPSubnet", "s");
        case.get_berth("IPSubnet", "s").is_none()
    });
}

#[test]
fn d00009_and_d00010_a_pool_for_an_attachment_serves_it_and_no_other() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPPool", "vlan", &json!({"ranges": ["10.N.1.0/24"], "allow": {"attachments": ["vlan-*"]}}));
    case.berth("IPPool", "net", &json!({"ranges": ["10.N.2.0/24"], "allow": {"attachments": ["net"]}}));
    let agent = case.node_without_kubelet("n1", &json!({}));
    let entry = |interface: Option<&str>, pool: &str| match interface {
        Some(name) => json!({"interface": name, "pools": [case.name(pool)]}),
        None => json!({"pools": [case.name(pool)]}),
    };
    // Interfaces by name, and by their place.
    for (pod, names) in [("named", [Some("eth0"), Some("net1")]), ("placed", [None, None])] {
        let networks = |first: &str, second: &str| {
            let list = json!([entry(names[0], first), entry(names[1], second)]).to_string();
            json!({"annotations": {"berth.io/networks": list}})
        };
        let vlan = |verb: &str, pod: &berth_e2e_cluster::Pod| {
            let mut config = agent.config(&json!({}));
            config["name"] = json!("vlan-10");
            agent.call(verb, pod, &pod.name, "net1").run(&config)
        };
        let right = case.pod_on(&agent, &case.namespace, pod, &networks("net", "vlan"));
        let (first, second) = (agent.add(&right, &right.name), vlan("ADD", &right));
        assert!(first.addresses()[0].starts_with(&case.here("10.N.2.")), "{}", first.stdout);
        assert!(second.addresses()[0].starts_with(&case.here("10.N.1.")), "{}", second.stdout);
        let wrong = case.pod_on(&agent, &case.namespace, &format!("{pod}-wrong"), &networks("vlan", "net"));
        for refused in [agent.add(&wrong, &wrong.name), vlan("ADD", &wrong)] {
            assert!(refused.code != 0 && refused.stdout.contains("attachment"), "{}", refused.stdout);
        }
        agent.del(&right, &right.name).silent();
        vlan("DEL", &right).silent();
    }
    assert_eq!(case.used(), 0);
}

#[test]
fn d00011_d00012_and_d00013_a_pool_for_named_nodes_and_for_those_of_them_that_have_a_label() {
    let Some(case) = Case::begin() else { return };
    let nodes = [("n1", "a"), ("n2", "a"), ("n3", "b")];
    let agents = nodes.map(|(name, rack)| case.node(name, &json!({"rack": rack})));
    let named = json!([agents[0].node(), agents[2].node()]);
    let rack = json!({"matchLabels": {"rack": "a"}});
    case.berth("IPPool", "named", &json!({"ranges": ["10.N.1.0/24"], "allow": {"nodes": named}}));
    case.berth("IPPool", "both", &json!({"ranges": ["10.N.2.0/24"], "allow": {"nodes": named, "nodeSelector": rack}}));
    let pod = |pool: &str, at: usize| {
        let asks = json!({"annotations": pools(&[case.name(pool)])});
        case.pod_on(&agents[at], &case.namespace, &format!("{pool}-{at}"), &asks)
    };
    case.running(&pod("named", 0));
    case.refused(&pod("named", 1), "cN-named");
    case.running(&pod("named", 2));
    // Both must hold, where the name alone decides in Spiderpool: a condition more never lets in more.
    case.running(&pod("both", 0));
    case.refused(&pod("both", 1), "cN-both");
    case.refused(&pod("both", 2), "cN-both");
    case.sane(&[&case.namespace]);
}

#[test]
fn d00014_d00015_and_d00016_a_pool_for_named_namespaces_and_for_those_of_them_that_have_a_label() {
    let Some(case) = Case::begin() else { return };
    let namespaces = [("one", "a"), ("two", "a"), ("three", "b")].map(|(name, team)| {
        let name = case.name(name);
        case.make_namespace(&name, &json!({"labels": {"team": team}}));
        name
    });
    let named = json!([namespaces[0], namespaces[2]]);
    let team = json!({"matchLabels": {"team": "a"}});
    let both = json!({"namespaces": named, "namespaceSelector": team});
    case.berth("IPPool", "named", &json!({"ranges": ["10.N.1.0/24"], "allow": {"namespaces": named}}));
    case.berth("IPPool", "both", &json!({"ranges": ["10.N.2.0/24"], "allow": both}));
    let node = case.node("n1", &json!({}));
    let pod = |pool: &str, at: usize| {
        case.pod_on(&node, &namespaces[at], pool, &json!({"annotations": pools(&[case.name(pool)])}))
    };
    case.running(&pod("named", 0));
    case.refused(&pod("named", 1), "cN-named");
    case.running(&pod("named", 2));
    case.running(&pod("both", 0));
    case.refused(&pod("both", 1), "cN-both");
    case.refused(&pod("both", 2), "cN-both");
    case.sane(&namespaces.each_ref().map(String::as_str));
}

#[test]
fn d00017_a_pool_of_2_to_the_80_addresses_counts_them_and_gives_them_out() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPPool", "huge", &json!({"ranges": ["fd00:N::/48"]}));
    let node = case.node("n1", &json!({}));
    let asks = json!({"annotations": pools(&[case.name("huge")])});
    let two: Vec<_> =
        (0..2).map(|i| case.running(&case.pod_on(&node, &case.namespace, &format!("web-{i}"), &asks))).collect();
    assert!(two[0] != two[1] && two[0][0].is_ipv6(), "{two:?}");
    // Exactly, where others stop at 2 to the 63: without the network's own address and the gateway.
    let capacity = || status(&case, "IPPool", "huge", "usage/capacity");
    case.until_or(|| format!("the capacity, not {}", capacity()), || capacity() == ((1u128 << 80) - 2).to_string());
    case.until("the use", || status(&case, "IPPool", "huge", "usage/inUse") == "2");
}
