//! Spiderpool's rules about its objects, one by one: what its webhook refuses is refused here, in words that name the
//! object, the field and the fix. What differs on purpose is a row too, and in docs/spiderpool.md.

use crate::{CONTROLLER, World, pool, refused, said};
use berth_core::holder::Kind;
use berth_dialects::{Object, judge};
use serde_json::{Value, json};

pub(crate) fn spider(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": kind, "spec": spec,
        "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
    })
}

/// A subnet with a pool, a pool without a subnet, one without addresses, one of an application, and a reservation.
fn office() -> World {
    let affinity =
        json!({"matchLabels": {"ipam.spidernet.io/app-name": "web", "ipam.spidernet.io/app-kind": "Deployment"}});
    let mut world = World::new(vec![
        spider(
            "SpiderSubnet",
            "s",
            &json!({"ipVersion": 4, "subnet": "10.0.0.0/24", "ips": ["10.0.0.10-10.0.0.99"], "gateway": "10.0.0.1"}),
        ),
        spider(
            "SpiderIPPool",
            "a",
            &json!({"ipVersion": 4, "subnet": "10.0.0.0/24", "ips": ["10.0.0.10-10.0.0.19"], "excludeIPs": ["10.0.0.15"],
                "default": true}),
        ),
        spider("SpiderIPPool", "lone", &json!({"subnet": "10.1.0.0/24", "ips": ["10.1.0.10-10.1.0.19"]})),
        spider("SpiderIPPool", "empty", &json!({"subnet": "10.2.0.0/24"})),
        spider(
            "SpiderIPPool",
            "auto4-web",
            &json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.90"], "podAffinity": affinity}),
        ),
        spider("SpiderReservedIP", "r", &json!({"ipVersion": 4, "ips": ["10.9.0.1"]})),
        pool("native", &json!({"ranges": ["10.8.0.0/24"]})),
    ]);
    world.give("10.0.0.12", Kind::Container, "web-0");
    world
}

type Said = Result<Vec<String>, String>;

/// A rule, what was answered, and the words of the refusal; `None` if it passes.
type Row = (&'static str, Said, Option<&'static str>);

#[track_caller]
fn hold(rows: Vec<Row>, title: &str) {
    for (rule, answer, words) in rows {
        match words {
            None => assert_eq!(answer, Ok(vec![]), "{rule}"),
            Some(words) => {
                let error = answer.expect_err(rule);
                assert!(error.contains(words), "{rule}: {words:?} is not in {error:?}");
                assert!(error.contains(title), "{rule}: {error:?} does not name the object");
            }
        }
    }
}

#[test]
fn a_pool_is_made_by_these_rules() {
    let world = office();
    let create = |more: Value| {
        let mut spec = json!({"subnet": "10.3.0.0/24", "ips": ["10.3.0.10"]});
        spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        world.create(&spider("SpiderIPPool", "new", &spec))
    };
    let of_s = |ips: &str| create(json!({"subnet": "10.0.0.0/24", "ips": [ips]}));
    let route = |dst: &str, gw: &str| create(json!({"routes": [{"dst": dst, "gw": gw}]}));
    let app = |labels: Value| create(json!({"podAffinity": labels}));
    hold(
        vec![
            ("the least there is", create(json!({})), None),
            ("addresses may come later", create(json!({"ips": []})), None),
            ("subnet is required", create(json!({"subnet": null})), Some("spec.subnet: ")),
            ("subnet is a CIDR", create(json!({"subnet": "10.3.0.0"})), Some("spec.subnet: ")),
            ("subnet is canonical", create(json!({"subnet": "10.3.0.9/24"})), Some("write 10.3.0.0/24")),
            ("ipVersion is 4 or 6", create(json!({"ipVersion": 5})), Some("spec.ipVersion: is 5, and spec.subnet")),
            ("ipVersion is the subnet's", create(json!({"ipVersion": 6})), Some("spec.ipVersion: is 6, and")),
            (
                "subnet overlaps that of a pool",
                create(json!({"subnet": "10.1.0.0/25", "ips": ["10.1.0.100"]})),
                Some("spec.subnet: 10.1.0.0/25 overlaps 10.1.0.0/24 of SpiderIPPool \"lone\"; they must be the same"),
            ),
            (
                "subnet overlaps that of a SpiderSubnet",
                create(json!({"subnet": "10.0.0.0/16", "ips": ["10.0.7.1"]})),
                Some("spec.subnet: 10.0.0.0/16 overlaps 10.0.0.0/24 of"),
            ),
            (
                "subnet overlaps, without addresses yet",
                create(json!({"subnet": "10.1.0.0/25", "ips": []})),
                Some("spec.subnet: 10.1.0.0/25 overlaps 10.1.0.0/24"),
            ),
            ("ips are addresses", create(json!({"ips": ["10.3.0.x"]})), Some("spec.ips[0]: ")),
            ("ips are no CIDRs", create(json!({"ips": ["10.3.0.0/28"]})), Some("is a CIDR; write the addresses as")),
            ("ips are in order", create(json!({"ips": ["10.3.0.9-10.3.0.2"]})), Some("spec.ips[0]: ")),
            ("ips are in the subnet", create(json!({"ips": ["10.3.1.9"]})), Some("10.3.1.9 is not inside 10.3.0.0/24")),
            ("ips are of the family", create(json!({"ips": ["fd00::9"]})), Some("spec.ips[0]: fd00::9 is not inside")),
            ("excludeIPs are addresses", create(json!({"excludeIPs": ["x"]})), Some("spec.excludeIPs[0]: ")),
            ("excludeIPs are no CIDRs", create(json!({"excludeIPs": ["10.3.0.0/28"]})), Some("spec.excludeIPs[0]: ")),
            ("excludeIPs are in the subnet", create(json!({"excludeIPs": ["10.4.0.1"]})), Some("is not inside")),
            ("ranges that overlap are joined", create(json!({"ips": ["10.3.0.1-10.3.0.9", "10.3.0.5"]})), None),
            ("ips are another pool's", of_s("10.0.0.19"), Some("spec.ips: 10.0.0.19 overlaps SpiderIPPool \"a\"")),
            ("ips that another pool leaves out", of_s("10.0.0.15"), None),
            ("ips are those of the subnet", of_s("10.0.0.120"), Some("spec.ips: 10.0.0.120 is not among")),
            (
                "ips are an IPPool's",
                create(json!({"subnet": "10.8.0.0/24", "ips": ["10.8.0.9"]})),
                Some("spec.ips: 10.8.0.9 overlaps IPPool \"native\""),
            ),
            (
                "gateway is an address",
                create(json!({"gateway": "x"})),
                Some("spec.gateway: \"x\" is not an IP address"),
            ),
            ("gateway is in the subnet", create(json!({"gateway": "10.4.0.1"})), Some("spec.gateway: 10.4.0.1 is not")),
            ("gateway is of the family", create(json!({"gateway": "fd00::1"})), Some("spec.gateway: fd00::1 is not")),
            (
                "gateway is in the subnet, without addresses yet",
                create(json!({"ips": [], "gateway": "10.4.0.1"})),
                Some("spec.gateway: 10.4.0.1 is not inside 10.3.0.0/24"),
            ),
            ("gateway is in ips", create(json!({"gateway": "10.3.0.10"})), Some("put it into spec.excludeIPs")),
            (
                "gateway is in ips and excluded",
                create(json!({"ips": ["10.3.0.10-10.3.0.12"], "gateway": "10.3.0.10", "excludeIPs": ["10.3.0.10"]})),
                None,
            ),
            ("the default route is the gateway's", route("0.0.0.0/0", "10.3.0.1"), Some("write spec.gateway")),
            (
                "a destination is there twice",
                create(
                    json!({"routes": [{"dst": "10.5.0.0/16", "gw": "10.3.0.1"}, {"dst": "10.5.0.0/16", "gw": "10.3.0.2"}]}),
                ),
                Some("spec.routes[1].dst: 10.5.0.0/16 is there twice"),
            ),
            ("dst is a CIDR", route("10.5.0.1", "10.3.0.1"), Some("spec.routes[0].dst: ")),
            ("dst is of the family", route("fd01::/64", "10.3.0.1"), Some("spec.routes[0].dst: fd01::/64 is not IPv4")),
            ("gw is an address", route("10.5.0.0/16", "x"), Some("spec.routes[0].gw: ")),
            (
                "gw is in the subnet",
                route("10.5.0.0/16", "10.4.0.1"),
                Some("spec.routes[0].gw: 10.4.0.1 is not inside"),
            ),
            (
                "gw is in the subnet, without addresses yet",
                create(json!({"ips": [], "routes": [{"dst": "10.5.0.0/16", "gw": "10.4.0.1"}]})),
                Some("spec.routes[0].gw: 10.4.0.1 is not inside"),
            ),
            ("podAffinity selects something", app(json!({})), Some("spec.podAffinity: selects nothing in particular")),
            ("podAffinity has keys", app(json!({"matchLabels": {"a b": "c"}})), Some("is not the key of a label")),
            ("podAffinity has values", app(json!({"matchLabels": {"a": "-"}})), Some("is not the value of a label")),
            (
                "podAffinity has operators",
                app(json!({"matchExpressions": [{"key": "a", "operator": "Near"}]})),
                Some("spec.podAffinity"),
            ),
            (
                "podAffinity of an application has no more labels",
                app(json!({"matchLabels": {"ipam.spidernet.io/app-name": "web", "x": "y"}})),
                Some("spec.podAffinity: a pool of an application is for the pods of that one"),
            ),
            (
                "podAffinity of an application has no expressions",
                app(json!({"matchLabels": {"ipam.spidernet.io/app-name": "web"},
                    "matchExpressions": [{"key": "a", "operator": "Exists"}]})),
                Some("spec.podAffinity: a pool of an application"),
            ),
            (
                "nodeAffinity has keys, which Spiderpool does not look at",
                create(json!({"nodeAffinity": {"matchLabels": {"a b": "c"}}})),
                Some("is not the key of a label"),
            ),
            (
                "namespaceAffinity has keys, which Spiderpool does not look at",
                create(json!({"namespaceAffinity": {"matchLabels": {"a b": "c"}}})),
                Some("is not the key of a label"),
            ),
        ],
        "SpiderIPPool \"new\"",
    );
    refused(
        world.create(&spider("SpiderIPPool", "native", &json!({"subnet": "10.3.0.0/24"}))),
        "SpiderIPPool \"native\", metadata.name: IPPool \"native\" has that name",
    );
}

#[test]
fn a_pool_is_changed_and_deleted_by_these_rules() {
    let mut world = office();
    let set = |field: &'static str, value: Value| move |object: &mut Value| object["spec"][field] = value;
    let a = |field: &'static str, value: Value| world.update("a", set(field, value));
    hold(
        vec![
            ("subnet is for good", a("subnet", json!("10.3.0.0/24")), Some("spec.subnet: cannot be changed from")),
            ("subnet is required", a("subnet", Value::Null), Some("spec.subnet: ")),
            ("ipVersion is for good", a("ipVersion", json!(6)), Some("spec.ipVersion: cannot be changed from 4")),
            ("ipVersion may be left out", a("ipVersion", Value::Null), None),
            (
                "ips in use stay",
                a("ips", json!(["10.0.0.13-10.0.0.19"])),
                Some("is in use: 10.0.0.12 by pod shop/web-0"),
            ),
            ("ips in use are not excluded", a("excludeIPs", json!(["10.0.0.12"])), Some("is in use: 10.0.0.12 by")),
            ("ips in use do not all go", a("ips", json!([])), Some("is in use: 10.0.0.12 by pod")),
            ("ips that are free go", a("ips", json!(["10.0.0.10-10.0.0.12"])), None),
            ("ips are in the subnet", a("ips", json!(["10.0.1.9"])), Some("10.0.1.9 is not inside 10.0.0.0/24")),
            ("ips are those of the subnet", a("ips", json!(["10.0.0.9-10.0.0.19"])), Some("10.0.0.9 is not among")),
            (
                "ips are another pool's",
                a("ips", json!(["10.0.0.10-10.0.0.90"])),
                Some("overlaps SpiderIPPool \"auto4-web\""),
            ),
            ("gateway is in the subnet", a("gateway", json!("10.4.0.1")), Some("spec.gateway: 10.4.0.1 is not inside")),
            ("gateway is in ips", a("gateway", json!("10.0.0.11")), Some("put it into spec.excludeIPs")),
            (
                "routes lead somewhere",
                a("routes", json!([{"dst": "10.5.0.0/16", "gw": "10.4.0.1"}])),
                Some("spec.routes[0].gw"),
            ),
            ("podAffinity selects something", a("podAffinity", json!({})), Some("spec.podAffinity")),
            ("disable", a("disable", json!(true)), None),
            ("a pool in use is not deleted", world.delete("a"), Some("SpiderIPPool \"a\" is in use: 10.0.0.12 by pod")),
        ],
        "SpiderIPPool \"a\"",
    );
    assert_eq!(world.delete("lone"), Ok(vec![]), "one that is not in use");
    refused(
        world.update("empty", |o| o["spec"]["gateway"] = json!("10.4.0.1")),
        "SpiderIPPool \"empty\", spec.gateway: 10.4.0.1 is not inside 10.2.0.0/24",
    );
    assert_eq!(world.update("empty", |o| o["spec"]["ips"] = json!(["10.2.0.9"])), Ok(vec![]), "they come later");
    let old = world.objects[4].clone();
    let mut new = old.clone();
    new["spec"]["ips"] = json!(["10.0.0.91"]);
    refused(said(world.ask("UPDATE", &old, &new, "me")), "spec.ips: the pool is sized by Berth for its application");
    assert_eq!(said(world.ask("UPDATE", &old, &new, CONTROLLER)), Ok(vec![]));
    // What is on its way out stays as it is, and goes.
    for index in [1, 0, 5] {
        world.objects[index]["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
        world.objects[index]["metadata"]["finalizers"] = json!(["spiderpool.spidernet.io"]);
        let title = Object::of_cluster(&world.objects[index]).unwrap().title();
        let name = world.objects[index]["metadata"]["name"].as_str().unwrap().to_owned();
        let changed = world.update(&name, |o| o["spec"]["excludeIPs"] = json!([]));
        refused(changed, &format!("{title}, spec: it is being deleted and goes as soon as"));
        assert_eq!(world.update(&name, |o| o["metadata"]["finalizers"] = json!([])), Ok(vec![]));
    }
}

#[test]
fn a_subnet_is_made_changed_and_deleted_by_these_rules() {
    let world = office();
    let create = |more: Value| {
        let mut spec = json!({"subnet": "10.3.0.0/24", "ips": ["10.3.0.10-10.3.0.99"]});
        spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        world.create(&spider("SpiderSubnet", "new", &spec))
    };
    hold(
        vec![
            ("the least there is", create(json!({"ips": null})), None),
            ("subnet is a CIDR", create(json!({"subnet": "x"})), Some("spec.subnet: ")),
            ("subnet is canonical", create(json!({"subnet": "10.3.0.9/24"})), Some("write 10.3.0.0/24")),
            ("ipVersion is the subnet's", create(json!({"ipVersion": 6})), Some("spec.ipVersion: is 6, and")),
            (
                "subnet overlaps another",
                create(json!({"subnet": "10.0.0.0/25", "ips": null})),
                Some("spec.subnet: 10.0.0.0/25 overlaps SpiderSubnet \"s\""),
            ),
            (
                "subnet overlaps that of a pool",
                create(json!({"subnet": "10.1.0.0/25", "ips": null})),
                Some("spec.subnet: 10.1.0.0/25 overlaps 10.1.0.0/24 of SpiderIPPool \"lone\""),
            ),
            (
                "its pools have addresses that it has not",
                create(json!({"subnet": "10.1.0.0/24", "ips": ["10.1.0.10-10.1.0.15"]})),
                Some("spec.ips: SpiderIPPool \"lone\" has 10.1.0.16-10.1.0.19, which would not be in it"),
            ),
            ("it takes in pools", create(json!({"subnet": "10.1.0.0/24", "ips": ["10.1.0.1-10.1.0.99"]})), None),
            (
                "ips are in the subnet",
                create(json!({"ips": ["10.4.0.1"]})),
                Some("spec.ips[0]: 10.4.0.1 is not inside"),
            ),
            ("ips are no CIDRs", create(json!({"ips": ["10.3.0.0/28"]})), Some("is a CIDR")),
            ("excludeIPs are in the subnet", create(json!({"excludeIPs": ["10.4.0.1"]})), Some("spec.excludeIPs[0]: ")),
            ("gateway is in the subnet", create(json!({"gateway": "10.4.0.1"})), Some("spec.gateway: 10.4.0.1 is not")),
            ("gateway is in ips", create(json!({"gateway": "10.3.0.10"})), Some("put it into spec.excludeIPs")),
            (
                "the default route is the gateway's",
                create(json!({"routes": [{"dst": "0.0.0.0/0", "gw": "10.3.0.1"}]})),
                Some("write spec.gateway"),
            ),
            (
                "gw is in the subnet",
                create(json!({"routes": [{"dst": "10.5.0.0/16", "gw": "10.4.0.1"}]})),
                Some("spec.routes[0].gw: 10.4.0.1 is not inside"),
            ),
        ],
        "SpiderSubnet \"new\"",
    );
    let s = |field: &str, value: Value| world.update("s", |object| object["spec"][field] = value);
    hold(
        vec![
            ("subnet is for good", s("subnet", json!("10.3.0.0/24")), Some("spec.subnet: cannot be changed from")),
            ("ipVersion is for good", s("ipVersion", json!(6)), Some("spec.ipVersion: cannot be changed from 4")),
            (
                "ips of its pools stay",
                s("ips", json!(["10.0.0.12-10.0.0.99"])),
                Some("spec.ips: SpiderIPPool \"a\" has 10.0.0.10-10.0.0.11, which would not be in it"),
            ),
            (
                "ips of its pools are not excluded",
                s("excludeIPs", json!(["10.0.0.11"])),
                Some("SpiderIPPool \"a\" has 10.0.0.11,"),
            ),
            ("ips that no pool has go", s("ips", json!(["10.0.0.10-10.0.0.90"])), None),
            ("ips that its pools leave out go", s("excludeIPs", json!(["10.0.0.15"])), None),
            ("gateway is in the subnet", s("gateway", json!("10.4.0.1")), Some("spec.gateway: 10.4.0.1 is not inside")),
            (
                "a subnet with pools is not deleted",
                world.delete("s"),
                Some("SpiderSubnet \"s\" is in use: SpiderIPPool \"a\", SpiderIPPool \"auto4-web\""),
            ),
        ],
        "SpiderSubnet \"s\"",
    );
}

#[test]
fn a_reservation_is_made_changed_and_deleted_by_these_rules() {
    let mut world = office();
    let create = |spec: Value| world.create(&spider("SpiderReservedIP", "r", &spec));
    let change = |field: &str, value: Value| world.update("r", |object| object["spec"][field] = value);
    hold(
        vec![
            ("the least there is", create(json!({"ips": ["10.0.0.1"]})), None),
            ("ips are there", create(json!({"ips": []})), Some("spec.ips: must name at least one address")),
            ("ips are addresses", create(json!({"ips": ["x"]})), Some("spec.ips[0]: ")),
            ("ips are no CIDRs", create(json!({"ips": ["10.0.0.0/28"]})), Some("is a CIDR")),
            (
                "ips are of one family",
                create(json!({"ips": ["10.0.0.1", "fd00::1"]})),
                Some("spec.ips[1]: fd00::1 is not"),
            ),
            (
                "ipVersion is that of ips",
                create(json!({"ipVersion": 6, "ips": ["10.0.0.1"]})),
                Some("spec.ipVersion: "),
            ),
            ("what is in use can be reserved", create(json!({"ips": ["10.0.0.12"]})), None),
            ("ipVersion is for good", change("ipVersion", json!(6)), Some("spec.ipVersion: cannot be changed from 4")),
            ("ips may be others", change("ips", json!(["10.9.0.1-10.9.0.9"])), None),
        ],
        "SpiderReservedIP \"r\"",
    );
    assert_eq!(world.delete("r"), Ok(vec![]));
    world.objects[5]["spec"]["ips"] = json!(["10.0.0.12"]);
    let plane = world.ipam.pool("a").unwrap().plane();
    world.ipam.quarantine(&plane, "10.0.0.18".parse().unwrap(), None, crate::NOW).unwrap();
    world.objects[5]["spec"]["ips"] = json!(["10.0.0.18"]);
    refused(world.delete("r"), "SpiderReservedIP \"r\" is in use: 10.0.0.18 by quarantine");
}

/// Spiderpool's #868 and #1203: pools and subnets that were made at the same moment and do not go together could neither be
/// edited nor deleted.
#[test]
fn what_raced_past_the_webhook_can_be_edited_and_deleted() {
    let aged = |second: u8, mut object: Value| {
        object["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:{second:02}Z"));
        object
    };
    let ips = |subnet: &str, ips: &str| json!({"subnet": subnet, "ips": [ips], "ipVersion": 4});
    let world = World::new(vec![
        aged(1, spider("SpiderIPPool", "first", &ips("10.0.0.0/24", "10.0.0.10-10.0.0.19"))),
        aged(2, spider("SpiderIPPool", "second", &ips("10.0.0.0/24", "10.0.0.15-10.0.0.29"))),
        aged(2, spider("SpiderIPPool", "askew", &ips("10.0.0.0/25", "10.0.0.100"))),
        aged(2, spider("SpiderSubnet", "small", &ips("10.0.0.0/24", "10.0.0.10-10.0.0.12"))),
        aged(3, spider("SpiderSubnet", "twin", &ips("10.0.0.0/24", "10.0.0.10-10.0.0.99"))),
        aged(3, pool("native", &json!({"ranges": ["10.0.0.18/31"]}))),
    ]);
    let read: Vec<Object> = world.objects.iter().map(|object| Object::of_cluster(object).unwrap()).collect();
    let refused_names: Vec<String> = judge(&read).refused().map(|(object, _)| object.metadata.name.clone()).collect();
    assert_eq!(refused_names, ["askew", "second", "small", "native"], "by age");
    for name in ["first", "second", "askew", "small", "twin", "native"] {
        assert_eq!(world.update(name, |o| o["metadata"]["labels"] = json!({"a": "b"})), Ok(vec![]), "{name}");
        assert_eq!(world.update(name, |o| o["metadata"]["finalizers"] = json!([])), Ok(vec![]), "{name}");
        if name != "twin" {
            assert_eq!(world.delete(name), Ok(vec![]), "{name}");
        }
    }
    refused(world.delete("twin"), "SpiderSubnet \"twin\" is in use: SpiderIPPool \"first\"");
    let edit = |name: &str, field: &str, value: Value| world.update(name, |object| object["spec"][field] = value);
    assert_eq!(edit("second", "disable", json!(true)), Ok(vec![]));
    assert_eq!(edit("second", "ips", json!(["10.0.0.17-10.0.0.29"])), Ok(vec![]), "better");
    refused(edit("second", "ips", json!(["10.0.0.14-10.0.0.29"])), "overlaps SpiderIPPool \"first\"");
    assert_eq!(edit("askew", "disable", json!(true)), Ok(vec![]));
    assert_eq!(edit("small", "ips", json!(["10.0.0.10-10.0.0.15"])), Ok(vec![]), "better, though not enough");
    assert_eq!(edit("small", "gateway", json!("10.0.0.1")), Ok(vec![]));
    refused(edit("small", "ips", json!(["10.0.0.11-10.0.0.12"])), "has 10.0.0.10, which would not be in it");
}
