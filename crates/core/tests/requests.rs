//! What can be asked for, and what binds.

mod common;

use berth_core::addr::Family;
use berth_core::error::Error;
use berth_core::holder::{Holder, Sticky};
use berth_core::ipam::{Entropy, Group, Reason, Request};
use berth_core::labels::{Operator, Selector};
use berth_core::model::{Gateway, Pick, Pool, StickyPolicy, Subnet};
use berth_core::net::Route;
use common::*;
use std::time::Duration;

fn three() -> [Pool; 3] {
    [pool("blue-a", &["10.0.0.1"]), pool("blue-b", &["10.0.1.1"]), pool("red", &["10.0.2.1"])]
}

#[test]
fn pools_are_tried_in_the_order_named() {
    for (named, expected) in [
        (&["red", "blue-a"][..], &["10.0.2.1", "10.0.0.1"][..]),
        (&["blue-b", "blue-?"], &["10.0.1.1", "10.0.0.1"]),
        (&["*", "red"], &["10.0.0.1", "10.0.1.1", "10.0.2.1"]),
        (&["[!b]*"], &["10.0.2.1"]),
        (&["blue-[ab]"], &["10.0.0.1", "10.0.1.1"]),
    ] {
        let mut ipam = ipam(three());
        let group = from(named);
        let got: Vec<_> = (0..expected.len())
            .map(|n| given(&add(&mut ipam, container(&n.to_string()), group.clone()).unwrap()))
            .collect();
        assert_eq!(got.concat(), expected, "{named:?}");
        let error = add(&mut ipam, container("more"), group).unwrap_err();
        assert!(matches!(error, Error::PoolExhausted { .. }), "{error}");
    }
    for unknown in ["green", "green-*"] {
        let error = add(&mut ipam(three()), container("a"), from(&["red", unknown])).unwrap_err();
        assert_eq!(error, Error::UnknownPool(unknown.into()));
    }
}

#[test]
fn default_pools_serve_requests_that_name_none() {
    let mut all = three();
    assert_eq!(one(&mut ipam(all.clone()), "a"), "10.0.0.1", "where none is marked, every pool is a default");
    all[2].default = true;
    let mut marked = ipam(all.clone());
    assert_eq!(one(&mut marked, "a"), "10.0.2.1");
    assert!(add(&mut marked, container("b"), Group::default()).is_err());
    assert_eq!(given(&add(&mut marked, container("c"), exactly(&["10.0.0.1"])).unwrap()), ["10.0.0.1"]);
}

#[test]
fn networks_are_kept_apart() {
    let blue = Pool { network: "blue".into(), ..pool("blue", &["10.0.0.0/29"]) };
    let mut ipam = ipam([pool("plain", &["10.0.0.0/29"]), blue]);
    let in_blue = || Group { network: Some("blue".into()), ..Group::default() };
    assert_eq!(one(&mut ipam, "a"), "10.0.0.2");
    assert_eq!(given(&add(&mut ipam, container("b"), in_blue()).unwrap()), ["10.0.0.2"], "unique in one network only");
    let asked = Group { addresses: vec![ip("10.0.0.2")], ..in_blue() };
    assert!(matches!(add(&mut ipam, container("c"), asked), Err(Error::AddressTaken { .. })));
    assert_eq!(given(&add(&mut ipam, container("d"), from(&["blue"])).unwrap()), ["10.0.0.3"]);
    for n in 0..4 {
        one(&mut ipam, &n.to_string());
    }
    assert!(add(&mut ipam, container("e"), Group::default()).is_err(), "a full network takes from no other");
    let nowhere = Group { network: Some("green".into()), ..Group::default() };
    let error = add(&mut ipam, container("f"), nowhere).unwrap_err();
    assert_eq!(error.to_string(), "no pool qualifies: no pool is in network \"green\"");
    assert_sound(&ipam);
}

#[test]
fn dual_stack_is_all_or_nothing() {
    let mut ipam = ipam([pool("four", &["10.0.0.0/24"]), pool("six", &["fd00::7"])]);
    let both = add(&mut ipam, container("a"), from(&["six", "four"])).unwrap();
    assert_eq!(given(&both), ["10.0.0.2", "fd00::7"]);
    let before = dump(&ipam);
    assert!(add(&mut ipam, container("b"), from(&["four", "six"])).is_err());
    assert_eq!(dump(&ipam), before);
    let four = Group { families: vec![Family::V4], ..Group::default() };
    assert_eq!(given(&add(&mut ipam, container("b"), four).unwrap()), ["10.0.0.3"]);
}

#[test]
fn several_addresses_and_several_interfaces() {
    let mut ipam = ipam([pool("p", &["10.0.0.0/24"]), pool("q", &["10.0.1.0/24"])]);
    let wanted = request(
        container("a"),
        vec![Group { count: 2, ..from(&["q"]) }, exactly(&["10.0.0.9", "10.0.0.5"]), from(&["p"])],
    );
    let outcome = ipam.allocate(&wanted, NOW, &mut Entropy(1)).unwrap();
    assert_eq!(given(&outcome), ["10.0.1.2", "10.0.1.3", "10.0.0.9", "10.0.0.5", "10.0.0.2"]);
    // Asked again, in whatever words: the same, in the same order.
    let again = add(&mut ipam, container("a"), from(&["p"])).unwrap();
    assert_eq!(given(&again), given(&outcome));
    assert!(again.given.iter().all(|given| given.reason == Reason::AlreadyHeld));
    let second = Holder { ifname: "eth1".into(), ..container("a") };
    assert_eq!(given(&add(&mut ipam, second.clone(), from(&["p"])).unwrap()), ["10.0.0.3"]);
    assert_eq!(ipam.release(second.attachment(), NOW), [ip("10.0.0.3")]);
    assert_eq!(del(&mut ipam, "a").len(), 5);
    assert_sound(&ipam);
}

#[test]
fn requests_for_nothing_or_too_much_are_refused() {
    let mut ipam = ipam([pool("p", &["::/0"])]);
    for groups in
        [vec![], vec![Group { count: 0, ..Group::default() }], vec![Group { count: u32::MAX, ..Group::default() }]]
    {
        let error = ipam.allocate(&request(container("a"), groups), NOW, &mut Entropy(1)).unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
    }
    assert!(ipam.changes().is_empty());
}

#[test]
fn who_may_use_a_pool_binds_whatever_is_named() {
    let selects =
        |key: &str, value: &str| Selector { expressions: vec![(key.to_owned(), Operator::In(vec![value.to_owned()]))] };
    let mut closed = pool("closed", &["10.0.0.0/24"]);
    closed.audience.namespaces = vec!["prod-*".into()];
    closed.audience.nodes = vec!["rack1-?".into()];
    closed.audience.namespace_selector = selects("tier", "gold");
    closed.audience.pod_selector = selects("app", "web");
    closed.audience.node_selector = selects("zone", "a");
    closed.audience.attachments = vec!["kube-system/vlan-*".into(), "podman".into()];
    closed.audience.reachable = true;
    let mut ipam = ipam([closed]);
    let right = || {
        let mut wanted = request(pod("c", "prod-1", "web", "u"), vec![]);
        wanted.subject.node = "rack1-7".into();
        wanted.subject.attachment = "kube-system/vlan-10".into();
        wanted.subject.node_cidrs = vec![cidr("192.168.0.0/24"), cidr("10.0.0.0/24")];
        for (labels, key, value) in [
            (&mut wanted.subject.namespace_labels, "tier", "gold"),
            (&mut wanted.subject.pod_labels, "app", "web"),
            (&mut wanted.subject.node_labels, "zone", "a"),
        ] {
            labels.insert(key.into(), value.into());
        }
        wanted
    };
    let groups = [from(&["closed"]), from(&["*"]), Group::default(), exactly(&["10.0.0.9"])];
    type Spoil = fn(&mut Request);
    let spoils: [(Spoil, &str); 9] = [
        (|r| r.subject.namespace = "dev".into(), "namespace \"dev\" is not among prod-*"),
        (|r| r.subject.node = "rack2-1".into(), "node \"rack2-1\" is not among rack1-?"),
        (|r| r.subject.namespace_labels.clear(), "its namespaceSelector (tier=gold) does not match"),
        (|r| r.subject.pod_labels.clear(), "its podSelector (app=web) does not match"),
        (|r| r.subject.node_labels.clear(), "its nodeSelector (zone=a) does not match"),
        (
            |r| r.subject.attachment = "shop/vlan-10".into(),
            "attachment \"shop/vlan-10\" is not among kube-system/vlan-*, podman",
        ),
        (|r| r.subject.attachment.clear(), "attachment \"\" is not among kube-system/vlan-*, podman"),
        (
            |r| r.subject.node_cidrs.truncate(1),
            "node \"rack1-7\" has no address in 10.0.0.0/24, only in 192.168.0.0/24",
        ),
        (
            |r| r.subject.node_cidrs.clear(),
            "it is for nodes with an address in 10.0.0.0/24, and no address of node \"rack1-7\" is known",
        ),
    ];
    for group in groups {
        for (spoil, reason) in spoils {
            let mut wanted = Request { groups: vec![group.clone()], ..right() };
            spoil(&mut wanted);
            let (trace, outcome) = ipam.explain(&wanted, NOW, &mut Entropy(1));
            let expected = Error::NoQualifiedPool { reasons: format!("closed: {reason}") };
            assert_eq!(outcome, Err(expected.clone()));
            assert_eq!(ipam.allocate(&wanted, NOW, &mut Entropy(1)), Err(expected));
            assert_eq!(trace.considered[0].dropped.as_deref(), Some(reason));
        }
        let wanted = Request { groups: vec![group], ..right() };
        ipam.allocate(&wanted, NOW, &mut Entropy(1)).unwrap();
        ipam.rollback();
    }
}

#[test]
fn sticky_holders_come_back_to_their_address() {
    let keep = Some(Duration::from_secs(60));
    let mut ipam = ipam([
        Pool { sticky: Some(StickyPolicy { keep, ..StickyPolicy::default() }), ..pool("four", &["10.0.0.0/24"]) },
        Pool { sticky: Some(StickyPolicy { keep, ..StickyPolicy::default() }), ..pool("six", &["fd00::/64"]) },
    ]);
    let first = add(&mut ipam, pod("c1", "ns", "db-0", "u1"), Group::default()).unwrap();
    add(&mut ipam, pod("x1", "ns", "db-1", "x"), Group::default()).unwrap();
    del(&mut ipam, "c1");
    assert_eq!(ipam.pool_usage("four", NOW).unwrap().held.to_string(), "1");
    assert_eq!(ipam.of_identity("pod/ns/db-0/eth0").len(), 2);
    let later = NOW.after(Duration::from_secs(59));
    assert!(ipam.sweep(later).is_empty());
    let back = add_at(&mut ipam, pod("c2", "ns", "db-0", "u2"), Group::default(), later).unwrap();
    assert_eq!(given(&back), given(&first));
    assert!(back.given.iter().all(|given| given.reason == Reason::KeptForHolder));
    // The same pod in a new sandbox takes its address along; the old sandbox's DEL then frees nothing.
    let moved = add_at(&mut ipam, pod("c3", "ns", "db-0", "u2"), Group::default(), later).unwrap();
    assert_eq!(given(&moved), given(&first));
    assert!(ipam.release(container("c2").attachment(), later).is_empty());
    ipam.release(container("c3").attachment(), later);
    ipam.commit();
    // Its time runs from the last release.
    assert!(ipam.sweep(later.after(Duration::from_secs(59))).is_empty());
    assert_eq!(ipam.sweep(later.after(Duration::from_secs(61))).len(), 2);
    assert_eq!(ipam.of_identity("pod/ns/db-0/eth0").len(), 0);
    assert_sound(&ipam);
}

#[test]
fn a_claim_is_held_before_it_is_used() {
    let mut ipam = ipam([pool("p", &["10.0.0.0/29"])]);
    let plane = ipam.pool("p").unwrap().plane();
    let sticky = Some(Sticky { identity: "claim/ns/db".into(), keep: None });
    let claim = Holder { sticky: sticky.clone(), ..Holder::default() };
    ipam.hold(&plane, ip("10.0.0.5"), claim.clone(), NOW).unwrap();
    ipam.hold(&plane, ip("10.0.0.5"), claim.clone(), NOW).unwrap();
    assert!(matches!(ipam.hold(&plane, ip("10.0.9.5"), claim.clone(), NOW), Err(Error::AddressOutside { .. })));
    assert!(matches!(ipam.hold(&plane, ip("10.0.0.1"), claim, NOW), Err(Error::AddressReserved { .. })));
    assert!(matches!(ipam.hold(&plane, ip("10.0.0.4"), container("x"), NOW), Err(Error::Invalid { .. })));
    ipam.commit();
    assert!(matches!(add(&mut ipam, container("a"), exactly(&["10.0.0.5"])), Err(Error::AddressTaken { .. })));
    let got = add(&mut ipam, Holder { sticky, ..container("b") }, Group::default()).unwrap();
    assert_eq!(given(&got), ["10.0.0.5"]);
    assert_eq!(ipam.forget_identity("claim/ns/db", NOW), [ip("10.0.0.5")]);
    assert_eq!(del(&mut ipam, "b"), [ip("10.0.0.5")], "in use until its holder lets go");
    assert_sound(&ipam);
}

#[test]
fn quarantine_ends_at_its_deadline() {
    let mut ipam = ipam([pool("p", &["10.0.0.6/31"])]);
    let plane = ipam.pool("p").unwrap().plane();
    let until = NOW.after(Duration::from_secs(10));
    ipam.quarantine(&plane, ip("10.0.0.6"), Some(until), NOW).unwrap();
    assert!(matches!(ipam.quarantine(&plane, ip("10.0.9.6"), None, NOW), Err(Error::AddressOutside { .. })));
    assert_eq!(one(&mut ipam, "a"), "10.0.0.7");
    assert!(matches!(ipam.quarantine(&plane, ip("10.0.0.7"), None, NOW), Err(Error::AddressTaken { .. })));
    assert!(add(&mut ipam, container("b"), Group::default()).is_err());
    let error = add(&mut ipam, container("b"), exactly(&["10.0.0.6"])).unwrap_err();
    assert!(error.to_string().contains("quarantine"), "{error}");
    assert_eq!(ipam.sweep(until), [ip("10.0.0.6")]);
    assert_eq!(given(&add_at(&mut ipam, container("b"), Group::default(), until).unwrap()), ["10.0.0.6"]);
    assert_sound(&ipam);
}

#[test]
fn cool_down_in_every_order() {
    for pick in [Pick::LeastRecentlyReleased, Pick::Sequential, Pick::Random] {
        for reuse_cooling in [false, true] {
            let cool_down = Duration::from_secs(30);
            let mut ipam = ipam([Pool { pick, cool_down, reuse_cooling, ..pool("p", &["10.0.0.7"]) }]);
            one(&mut ipam, "a");
            del(&mut ipam, "a");
            assert_eq!(ipam.pool_usage("p", NOW).unwrap().cooling.to_string(), "1");
            let anyone = request(Holder::default(), vec![Group::default()]);
            assert_eq!(ipam.could_serve(&anyone, NOW, &mut Entropy(1)).is_ok(), reuse_cooling);
            let early = add_at(&mut ipam, container("b"), Group::default(), NOW.after(Duration::from_secs(29)));
            assert_eq!(early.is_ok(), reuse_cooling, "{pick:?}");
            if let Ok(early) = early {
                assert_eq!(early.given[0].reason, Reason::StillCooling);
                continue;
            }
            let late = add_at(&mut ipam, container("b"), Group::default(), NOW.after(Duration::from_secs(31))).unwrap();
            assert_ne!(late.given[0].reason, Reason::StillCooling);
        }
    }
}

#[test]
fn a_quota_counts_what_a_namespace_uses_and_keeps() {
    let mut limited = Pool { sticky: Some(StickyPolicy::default()), ..pool("p", &["10.0.0.0/24"]) };
    limited.quota.per_namespace = Some(2);
    limited.quota.namespaces.insert("big".into(), 3);
    let mut ipam = ipam([limited]);
    for n in 0..3 {
        let small = add(&mut ipam, pod(&format!("s{n}"), "small", &format!("p{n}"), ""), Group::default());
        assert_eq!(small.is_ok(), n < 2);
        add(&mut ipam, pod(&format!("b{n}"), "big", &format!("p{n}"), ""), Group::default()).unwrap();
    }
    del(&mut ipam, "s0");
    let other = || pod("s3", "small", "p3", "");
    let error = add(&mut ipam, other(), Group::default()).unwrap_err();
    assert_eq!(error, Error::QuotaReached { pool: "p".into(), namespace: "small".into(), limit: 2 });
    assert!(matches!(add(&mut ipam, other(), exactly(&["10.0.0.99"])), Err(Error::QuotaReached { .. })));
    add(&mut ipam, pod("s4", "small", "p0", ""), Group::default()).expect("what is kept counts already");
    assert_sound(&ipam);
}

#[test]
fn pool_types_networks_and_windows() {
    let far = Pool { kind: "calico".into(), ..pool("far", &["10.0.0.0/24"]) };
    let mut ipam =
        ipam([far, pool("near", &["10.0.1.0/24"]), Pool { disabled: true, ..pool("off", &["10.0.2.0/24"]) }]);
    let error = add(&mut ipam, container("a"), from(&["far"])).unwrap_err();
    assert_eq!(error, Error::UnknownPoolType { pool: "far".into(), kind: "calico".into() });
    let error = add(&mut ipam, container("a"), from(&["off"])).unwrap_err();
    assert_eq!(error.to_string(), "no pool qualifies: off: it is disabled");
    let window = Group { within: vec![range("10.0.1.9"), range("10.0.1.4-10.0.1.5")], ..from(&["near"]) };
    let got: Vec<_> =
        (0..3).map(|n| given(&add(&mut ipam, container(&n.to_string()), window.clone()).unwrap()).remove(0)).collect();
    assert_eq!(got, ["10.0.1.9", "10.0.1.4", "10.0.1.5"]);
    assert!(matches!(add(&mut ipam, container("b"), window), Err(Error::PoolExhausted { .. })));
}

#[test]
fn subnets_give_their_pools_gateway_routes_and_dns() {
    let route = Route { dst: "0.0.0.0/0".into(), ..Route::default() };
    let subnet = Subnet {
        name: "lan".into(),
        network: "default".into(),
        cidr: cidr("192.168.0.0/24"),
        available: None,
        object: berth_core::model::SUBNET_OBJECT,
        gateway: Gateway::At(ip("192.168.0.254")),
        routes: vec![route.clone()],
        dns: berth_core::net::Dns { nameservers: vec!["192.168.0.53".into()], ..Default::default() },
        refused: false,
    };
    let mut config = config([Pool { subnet: Some("lan".into()), ..pool("p", &["192.168.0.252-192.168.0.255"]) }]);
    config.subnets.insert("lan".into(), subnet);
    config.validate().unwrap();
    let mut ipam = berth_core::ipam::Ipam::new();
    ipam.configure(config);
    let outcome = add(&mut ipam, container("a"), Group::default()).unwrap();
    assert_eq!(given(&outcome), ["192.168.0.252"]);
    assert_eq!((outcome.given[0].prefix_len, outcome.given[0].gateway), (24, Some(ip("192.168.0.254"))));
    assert_eq!((outcome.routes, outcome.dns.nameservers), (vec![route], vec!["192.168.0.53".to_owned()]));
    assert_eq!(one(&mut ipam, "b"), "192.168.0.253");
    assert!(add(&mut ipam, container("c"), Group::default()).is_err(), "gateway and broadcast are not given out");
    let usage = ipam.subnet_usage("lan", NOW).unwrap();
    assert_eq!((usage.capacity.to_string(), usage.in_use.to_string()), ("253".to_owned(), "2".to_owned()));
}
