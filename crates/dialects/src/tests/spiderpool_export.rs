//! Berth's own objects in Spiderpool's words, and back.

use crate::spiderpool::endpoint::DERIVED;
use crate::spiderpool::export::records::{Held, Owner, Use, endpoints, pool_status, reservations};
use crate::spiderpool::export::{Exported, export};
use crate::{Object, lower_all, parse_manifests};
use berth_core::ipam::{Config, Given, Reason};
use serde_json::{Value, json};

fn native(kind: &str, name: &str, spec: &Value) -> Object {
    let value =
        json!({"apiVersion": "berth.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}).to_string();
    parse_manifests(&value).expect("an object").remove(0)
}

fn config(objects: &[Object]) -> Config {
    let mut config = lower_all(objects).expect("they are accepted");
    config.adopt();
    config
}

fn of_pool(spec: &Value) -> Exported {
    export(&config(&[native("IPPool", "blue", spec)]), &[])
}

#[test]
fn a_pool_and_its_users_are_the_same_said_in_spiderpools_words() {
    let objects = [
        native(
            "IPSubnet",
            "office",
            &json!({"cidr": "10.9.0.0/24", "gateway": "10.9.0.1",
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "10.8.0.0/16"}]}),
        ),
        native(
            "IPPool",
            "blue",
            &json!({"ranges": ["10.9.0.0/26"], "exclude": ["10.9.0.9"], "subnet": "office",
            "allow": {"namespaces": ["shop"], "nodeSelector": {"matchLabels": {"zone": "a"}},
                "podSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}}}),
        ),
        native("IPReservation", "printers", &json!({"addresses": ["10.9.0.5", "fd00::5"]})),
    ];
    let before = config(&objects);
    let exported = export(&before, &[]);
    assert_eq!(exported.refused, []);
    let kinds: Vec<(&str, &str)> =
        exported.objects.iter().map(|own| (own.kind.as_str(), own.metadata.name.as_str())).collect();
    let reserved = "SpiderReservedIP";
    assert_eq!(
        kinds,
        [
            ("SpiderSubnet", "office"),
            (reserved, "printers-ipv4"),
            (reserved, "printers-ipv6"),
            ("SpiderIPPool", "blue")
        ]
    );
    let after = config(&exported.objects);
    let (own, other) = (&before.pools["blue"], &after.pools["blue"]);
    let of = |config: &Config, name: &str| config.subnets.get(name).cloned();
    assert_eq!(own.members(of(&before, "office").as_ref()), other.members(of(&after, "office").as_ref()));
    assert_eq!((&own.audience, own.unit_len), (&other.audience, other.unit_len));
    assert!(other.default && !other.named_only, "it was used without being named");
    let route = json!([{"dst": "10.8.0.0/16", "gw": "10.9.0.1"}]);
    let spec = &exported.objects[3].spec;
    assert_eq!(
        (&spec["routes"], &spec["gateway"], &spec["subnet"]),
        (&route, &json!("10.9.0.1"), &json!("10.9.0.0/24"))
    );
}

#[test]
fn what_spiderpool_cannot_say_is_named() {
    for (spec, words) in [
        (json!({"ranges": ["10.9.0.0/24"], "network": "red"}), "one network"),
        (json!({"ranges": ["10.9.0.0/16"], "unitPrefixLength": 24}), "prefixes"),
        (json!({"ranges": ["10.9.0.0/24", "10.10.0.0/24"]}), "several subnets"),
        (json!({"ranges": ["10.9.0.0/24"], "allow": {"namespaces": ["team-*"]}}), "pattern"),
        (
            json!({"ranges": ["10.9.0.0/24"], "allow": {"nodes": ["a"], "nodeSelector": {"matchLabels": {"b": "c"}}}}),
            "at once",
        ),
        (json!({"ranges": ["10.9.0.0/24"], "routes": [{"dst": "10.0.0.0/8", "gw": "10.77.0.1"}]}), "next hop"),
        (json!({"ranges": ["10.9.0.10-10.9.0.12"], "gateway": "none", "routes": [{"dst": "10.0.0.0/8"}]}), "next hop"),
    ] {
        let exported = of_pool(&spec);
        assert!(exported.objects.is_empty(), "{spec}");
        let [refused] = exported.refused.as_slice() else { panic!("{spec}: {:?}", exported.refused) };
        assert!(refused.object.contains("blue") && refused.text.contains(words), "{spec}: {refused:?}");
    }
    // Settings that decide nothing about who has what are told, and do not stand in the way.
    let exported = of_pool(&json!({"ranges": ["10.9.0.0/24"], "coolDown": "5m", "quota": {"perNamespace": 3}}));
    assert_eq!((exported.objects.len(), exported.refused.len()), (1, 0));
    assert!(exported.poorer[0].text.contains("cool-down") && exported.poorer[0].text.contains("quotas"));
}

#[test]
fn what_does_not_go_together_with_what_is_there_is_left_out() {
    let there: Object = serde_json::from_value(json!({"apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderIPPool", "metadata": {"name": "old", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"subnet": "10.9.0.0/16", "ips": ["10.9.200.1-10.9.200.9"]}}))
    .expect("an object");
    let pool = native("IPPool", "blue", &json!({"ranges": ["10.9.0.0/24"]}));
    let exported = export(&config(&[pool]), &[there]);
    assert!(exported.objects.is_empty() && exported.refused[0].text.contains("10.9.0.0/16"), "{:?}", exported.refused);
}

#[test]
fn records_are_whole_and_what_has_no_pod_is_reserved() {
    let given = |n: u8| Given {
        pool: "blue".into(),
        network: "default".into(),
        unit: format!("10.9.0.{n}/32").parse().expect("a unit"),
        prefix_len: 24,
        gateway: None,
        detect: None,
        reason: Reason::AlreadyHeld,
    };
    let pod = |n: u8, uid: &str, stays: bool| {
        let owner = Owner {
            namespace: "shop".into(),
            pod: format!("db-{n}"),
            uid: uid.into(),
            node: "n1".into(),
            interface: "eth0".into(),
            controller: ("StatefulSet".into(), "db".into()),
            stays,
        };
        Held { given: given(n), by: Use::Pod(owner) }
    };
    let held = [pod(4, "u4", true), pod(5, "u5", false), Held { given: given(6), by: Use::Other("a claim".into()) }];
    let status = pool_status(9u128.into(), &held);
    assert_eq!((&status["allocatedIPCount"], &status["totalIPCount"]), (&json!(2), &json!(9)));
    let records: Value = serde_json::from_str(status["allocatedIPs"].as_str().expect("text")).expect("JSON");
    assert_eq!(records["10.9.0.4"], json!({"pod": "shop/db-4", "podUid": "u4"}));
    let all = endpoints(&held, |given| berth_core::ipam::Outcome { given, ..Default::default() });
    assert_eq!(all.len(), 2);
    assert!(all[0]["metadata"].get("ownerReferences").is_none() && all[1]["metadata"].get("ownerReferences").is_some());
    assert!(all[0]["metadata"]["annotations"][DERIVED].is_null(), "it is Spiderpool's from now on");
    assert_eq!(all[0]["metadata"]["finalizers"], json!(["spiderpool.spidernet.io"]));
    let (objects, remarks) = reservations(&held);
    assert_eq!((objects.len(), &objects[0].spec["ips"]), (1, &json!(["10.9.0.6"])));
    assert!(remarks[0].text.contains("a claim"));
}
