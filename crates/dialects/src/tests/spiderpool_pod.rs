//! Spiderpool's annotations of pods and namespaces, beside Berth's own.

use super::pod::{World, nic};
use crate::native::pod::{Applications, DefaultRoute, Owner, Rule, Terms, networks_before};
use crate::spiderpool::settings::{Conf, Settings};
use berth_core::addr::Family;
use berth_core::apps::Size;
use berth_core::error::Error;
use berth_core::ipam::{Given, Outcome, Reason};

/// What an interface asks for: a family and its pools, each.
fn asked(world: &World) -> Vec<(Vec<Family>, Vec<String>)> {
    let plan = world.plan().expect("a plan");
    plan.interfaces[0].request.groups.iter().map(|group| (group.families.clone(), group.pools.clone())).collect()
}

fn v4(pools: &[&str]) -> (Vec<Family>, Vec<String>) {
    (vec![Family::V4], pools.iter().map(|&pool| pool.to_owned()).collect())
}

fn v6(pools: &[&str]) -> (Vec<Family>, Vec<String>) {
    (vec![Family::V6], pools.iter().map(|&pool| pool.to_owned()).collect())
}

fn refused(annotations: &[(&str, &str)], interface: &str) -> String {
    World::new().pod(annotations).at(nic(interface)).plan().expect_err("refused").to_string()
}

#[test]
fn one_annotation_names_the_pools_of_every_interface_in_order() {
    let anno = ("ipam.spidernet.io/ippool", r#"{"ipv4": ["b", "a*"], "ipv6": ["six"], "interface": "ignored"}"#);
    for interface in ["eth0", "net1"] {
        let world = World::new().pod(&[anno]).at(nic(interface));
        assert_eq!(asked(&world), [v4(&["b", "a*"]), v6(&["six"])], "{interface}");
    }
    let one = World::new().pod(&[("ipam.spidernet.io/ippool", "{\n  \"ipv4\": [\"custom-ipv4-ippool\"]\n}")]);
    assert_eq!(asked(&one), [v4(&["custom-ipv4-ippool"])], "a single family is asked for alone");
}

#[test]
fn interfaces_are_listed_by_name_or_by_place() {
    let named = r#"[{"interface":"net1","ipv4":["n"]},{"interface":"eth0","ipv4":["e"],"cleanGateway":true}]"#;
    let named =
        World::new().pod(&[("ipam.spidernet.io/ippools", named), ("ipam.spidernet.io/ippool", r#"{"ipv4":["x"]}"#)]);
    assert_eq!(asked(&named), [v4(&["e"])]);
    assert_eq!(named.plan().expect("a plan").interfaces[0].routes.default, DefaultRoute::Elsewhere);
    let at_net1 = named.at(nic("net1"));
    assert_eq!(asked(&at_net1), [v4(&["n"])]);
    assert_eq!(at_net1.plan().expect("a plan").interfaces[0].routes.default, DefaultRoute::AsPools);
    let unnamed = r#"[{"ipv4":["first"]},{"ipv4":["second"]},{"ipv4":["third"]}]"#;
    let unnamed = World::new().pod(&[("ipam.spidernet.io/ippools", unnamed)]);
    assert_eq!(asked(&unnamed), [v4(&["first"])]);
    assert_eq!(asked(&unnamed.clone().at(nic("net2"))), [v4(&["third"])]);
    let renamed = unnamed.pod(&[("k8s.v1.cni.cncf.io/networks", "kube-system/a@fast,b")]);
    assert_eq!(asked(&renamed.clone().at(nic("fast"))), [v4(&["second"])], "by its place in the list of networks");
    assert_eq!(asked(&renamed.at(nic("net2"))), [v4(&["third"])]);
}

#[test]
fn the_first_rule_that_is_there_wins_and_berths_own_go_before() {
    let anno = |name: &'static str, value: &'static str| [(name, value)];
    let namespace = World::new().namespace(&[
        ("ipam.spidernet.io/default-ipv4-ippool", r#"["ns4","n*"]"#),
        ("ipam.spidernet.io/default-ipv6-ippool", r#"["ns6"]"#),
    ]);
    assert_eq!(asked(&namespace), [v4(&["ns4", "n*"]), v6(&["ns6"])]);
    assert_eq!(namespace.plan().expect("a plan").interfaces[0].decided_by, Rule::SpiderpoolNamespace);
    let pod = namespace.clone().pod(&anno("ipam.spidernet.io/ippool", r#"{"ipv4":["one"]}"#));
    assert_eq!(asked(&pod), [v4(&["one"])], "no falling through for the other family");
    let listed = pod.pod(&anno("ipam.spidernet.io/ippools", r#"[{"ipv4":["two"]}]"#));
    assert_eq!(asked(&listed), [v4(&["two"])]);
    let plan = listed.plan().expect("a plan");
    let words = &plan.interfaces[0].rule;
    assert!(words.contains("pod annotation ipam.spidernet.io/ippools asks for IPv4 of two; overruled: "), "{words}");
    let own = listed.pod(&anno("berth.io/pools", "mine"));
    assert_eq!(asked(&own), [(vec![], vec!["mine".to_owned()])]);
    let one_family = World::new().namespace(&[("ipam.spidernet.io/default-ipv4-ippool", r#"["ns4"]"#)]);
    assert_eq!(asked(&one_family), [v4(&["ns4"])], "the other family gets nothing");
}

#[test]
fn mistakes_are_told_with_the_place() {
    for (key, value, interface, told) in [
        ("ippool", "", "eth0", "Pod \"shop/web-0\", annotation ipam.spidernet.io/ippool: is empty"),
        ("ippool", "{", "eth0", "annotation ipam.spidernet.io/ippool: "),
        ("ippool", "[]", "eth0", "ippool: is not an object; write e.g."),
        ("ippool", "{}", "eth0", "ippool: is empty; name at least one pool"),
        ("ippool", r#"{"ipv44444":["a"]}"#, "eth0", "unknown field; did you mean \"ipv4\"?"),
        ("ippool", r#"{"ipv4":["A_b"]}"#, "eth0", "ippool.ipv4[0]: \"A_b\" is not the name of a pool"),
        ("ippool", r#"{"ipv4":["[ab"]}"#, "eth0", "ippool.ipv4[0]: \"[ab\" has a bracket that is not closed"),
        ("ippools", "[]", "eth0", "ippools: lists 0 interfaces; list 1 to 16"),
        ("ippools", r#"{"ipv4":["a"]}"#, "eth0", "ippools: is not a list"),
        ("ippools", r#"[{"interface":"eth0","ipv4":["a"]}]"#, "net1", "ippools: interface net1 must be specified"),
        (
            "ippools",
            r#"[{"interface":"eth0","ipv4":["a"]},{"interface":"eth0","ipv4":["b"]}]"#,
            "eth0",
            "ippools[1].interface: duplicate interface eth0",
        ),
        ("ippools", r#"[{"interface":"eth0","ipv4":["a"]},{"ipv4":["b"]}]"#, "eth0", "ippools[1].interface: some"),
        ("ippools", r#"[{"ipv4":["a"]}]"#, "net1", "ippools: lists 1 interfaces, and net1 is not"),
        ("ippools", r#"[{"ipv4":["a"],"cleangateway":"no"}]"#, "eth0", "ippools[0].cleangateway: "),
        ("routes", r#"[{"dst":"10.0.0.0/8","gw":"fd00::1"}]"#, "eth0", "routes[0].gw: fd00::1 is not of the family"),
        ("routes", r#"[{"dst":"10.0.0.0/8"}]"#, "eth0", "routes[0].gw: is required"),
        ("subnet", r#"{"ipv4":["s"]}"#, "eth0", "annotation ipam.spidernet.io/subnet: only pods of a controller"),
        (
            "subnets",
            r#"[{"ipv4":["s"]},{"ipv4":["s"]}]"#,
            "eth0",
            "subnets[1]: subnet \"s\" is asked for by eth0 already",
        ),
    ] {
        let key = format!("ipam.spidernet.io/{key}");
        let error = refused(&[(&key, value)], interface);
        assert!(error.contains(told), "{error}\n{told}");
    }
}

fn outcome(address: &str, prefix_len: u8) -> Outcome {
    let unit = format!("{address}/32").parse().expect("a unit");
    let given = Given {
        pool: "p".into(),
        network: "default".into(),
        unit,
        prefix_len,
        gateway: Some([10, 0, 0, 1].into()),
        reason: Reason::KeptForHolder,
        detect: None,
    };
    Outcome { given: vec![given], ..Outcome::default() }
}

#[test]
fn a_route_is_for_the_interface_that_reaches_its_gateway() {
    let routes = r#"[{"dst":"172.16.0.0/16","gw":"10.0.0.9"},{"dst":"172.17.0.0/16","gw":"10.1.0.9"}]"#;
    let plan = World::new().pod(&[("ipam.spidernet.io/routes", routes)]).plan().expect("a plan");
    let mut first = outcome("10.0.0.5", 24);
    plan.interfaces[0].routes.apply(&mut first, &[]);
    assert_eq!(destinations(&first), ["172.16.0.0/16"]);
    assert_eq!(plan.interfaces[0].decided_by, Rule::Default, "routes say nothing about where addresses come from");
}

fn destinations(outcome: &Outcome) -> Vec<&str> {
    outcome.routes.iter().map(|route| route.dst.as_str()).collect()
}

#[test]
fn of_several_interfaces_that_reach_a_gateway_the_first_has_the_route() {
    let routes = r#"[{"dst":"172.16.0.0/16","gw":"10.0.0.9"},{"dst":"172.17.0.0/16","gw":"10.1.0.9"}]"#;
    let mut world = World::new().pod(&[("ipam.spidernet.io/routes", routes)]);
    let routed = |world: &World, ifname: &str, all: &[(&str, Outcome)]| {
        let plan = world.clone().at(nic(ifname)).plan().expect("a plan");
        let mut own = all.iter().find(|(name, _)| *name == ifname).expect("its addresses").1.clone();
        let before = networks_before(&world.pod, ifname, all.iter().map(|(name, outcome)| (*name, outcome)));
        plan.interfaces[0].routes.apply(&mut own, &before);
        destinations(&own).join(" ")
    };
    let all = [("net2", outcome("10.0.0.7", 24)), ("net1", outcome("10.1.0.6", 16)), ("eth0", outcome("10.0.0.5", 24))];
    assert_eq!(routed(&world, "eth0", &all), "172.16.0.0/16");
    assert_eq!(routed(&world, "net1", &all), "172.17.0.0/16");
    assert_eq!(routed(&world, "net2", &all), "");
    assert_eq!(routed(&world, "net2", &all[..2]), "172.16.0.0/16", "who has no address does not count");
    let pair = [("alpha", outcome("10.0.0.7", 24)), ("beta", outcome("10.0.0.8", 24))];
    assert_eq!(routed(&world, "alpha", &pair), "172.16.0.0/16", "by name, where nothing says which is first");
    world = world.pod(&[("k8s.v1.cni.cncf.io/networks", "x@beta,y@alpha")]);
    assert_eq!(
        (routed(&world, "alpha", &pair), routed(&world, "beta", &pair)),
        (String::new(), "172.16.0.0/16".into())
    );
}

fn conf(text: &str) -> Conf {
    Settings::read([], Some(text)).expect("settings").conf
}

#[test]
fn of_a_family_that_is_switched_off_nothing_is_asked_for() {
    let objects = "{apiVersion: spiderpool.spidernet.io/v2beta1, kind: SpiderIPPool, metadata: {name: six}, spec: {subnet: 'fd00::/64', ips: ['fd00::9']}}\n---\n\
                   {apiVersion: spiderpool.spidernet.io/v2beta1, kind: SpiderIPPool, metadata: {name: four}, spec: {subnet: 10.0.0.0/24, ips: [10.0.0.9]}}";
    let config = crate::lower_all(&crate::parse_manifests(objects).expect("pools")).expect("a configuration");
    let mut world = World::new();
    world.applications = Applications::of(&config, &conf("enableIPv6: false"));
    let pod = |value: &str| world.clone().pod(&[("ipam.spidernet.io/ippool", value)]);
    assert_eq!(asked(&pod(r#"{"ipv4":["a"],"ipv6":["b"]}"#)), [v4(&["a"])]);
    let error = pod(r#"{"ipv6":["b"]}"#).plan().expect_err("nothing is left").to_string();
    assert!(error.contains("annotation ipam.spidernet.io/ippool: IPv6 is disabled: enableIPv6 is false"), "{error}");
    let keys = ["ipam.spidernet.io/default-ipv4-ippool", "ipam.spidernet.io/default-ipv6-ippool"];
    let both = world.clone().namespace(&[(keys[0], r#"["a"]"#), (keys[1], r#"["b"]"#)]);
    assert_eq!(asked(&both), [v4(&["a"])]);
    let error = world.clone().namespace(&[(keys[1], r#"["b"]"#)]).plan().expect_err("nothing is left").to_string();
    assert!(error.contains("default-ipv6-ippool: IPv6 is disabled"), "{error}");
    // A configuration names pools of both families in one list.
    let mut attached = nic("eth0");
    attached.pools = vec!["four".into(), "six".into()];
    assert_eq!(asked(&world.clone().at(attached.clone())), [(vec![], vec!["four".to_owned()])]);
    attached.pools = vec!["six".into()];
    let error = world.at(attached).plan().expect_err("not the default pools").to_string();
    assert!(error.contains("IPv6 is disabled"), "{error}");
}

#[test]
fn pools_of_applications_are_switched_off_in_spiderpools_words_alone() {
    let asks = [("ipam.spidernet.io/subnet", r#"{"ipv4":["s"],"ipv6":["s6"]}"#)];
    let terms = |annotations: &[(&str, &str)], text: &str| {
        let all = annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Terms::read(&all, &conf(text)).map_err(|error| error.to_string())
    };
    for key in ["enableSpiderSubnet", "enableAutoPoolForApplication"] {
        let text = format!("{key}: false");
        let error = terms(&asks, &text).expect_err("switched off");
        assert!(error.contains("ipam.spidernet.io/subnet") && error.contains(&text.replace(": ", " is ")), "{error}");
        assert!(terms(&[("berth.io/subnets", "s")], &text).is_ok());
        let mut world = World::new().pod(&asks);
        world.applications = Applications::of(&Default::default(), &conf(&text));
        let error = world.plan().expect_err("switched off").to_string();
        assert!(
            error.contains("Pod \"shop/web-0\", annotation ipam.spidernet.io/subnet: applications have no pools"),
            "{error}"
        );
    }
    let one = terms(&asks, "enableIPv6: false").expect("terms").interfaces;
    assert_eq!(one, [("eth0".to_owned(), vec!["s".to_owned()])]);
    let none = terms(&[("ipam.spidernet.io/subnet", r#"{"ipv6":["s6"]}"#)], "enableIPv6: false").expect_err("nothing");
    assert!(none.contains("IPv6 is disabled"), "{none}");
}

#[test]
fn who_does_not_say_has_the_configured_spare() {
    let text = "clusterSubnetDefaultFlexibleIPNumber: 2";
    let size = |annotations: &[(&str, &str)], text: &str| {
        let all = annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Terms::read(&all, &conf(text)).expect("terms").size
    };
    let asks = ("ipam.spidernet.io/subnet", r#"{"ipv4":["s"]}"#);
    assert_eq!(size(&[asks], text), Some(Size::Spare(2)));
    assert_eq!(size(&[asks, ("ipam.spidernet.io/ippool-ip-number", "5")], text), Some(Size::Fixed(5)));
    assert_eq!(size(&[asks], "enableIPv4: true"), None, "as Berth does by itself");
    assert_eq!(size(&[("berth.io/subnets", "s")], text), None, "in Berth's own words nothing changes");
}

#[test]
fn the_default_route_goes_where_the_pod_says() {
    let world = World::new().pod(&[("ipam.spidernet.io/default-route-nic", "net1")]);
    let default = |world: &World| world.plan().expect("a plan").interfaces[0].routes.default;
    assert_eq!(default(&world), DefaultRoute::Elsewhere);
    assert_eq!(default(&world.at(nic("net1"))), DefaultRoute::Here);
}

#[test]
fn a_template_asks_for_pools_of_its_own() {
    let terms = |annotations: &[(&str, &str)]| {
        Terms::read(&annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(), &Conf::default())
    };
    let own = terms(&[
        ("ipam.spidernet.io/subnet", r#"{"ipv4": ["subnet-demo-v4", "other"], "ipv6": ["subnet-demo-v6"]}"#),
        ("ipam.spidernet.io/ippool-ip-number", "5"),
        ("ipam.spidernet.io/ippool-reclaim", "false"),
    ])
    .expect("terms");
    assert_eq!(own.interfaces, [("eth0".to_owned(), vec!["subnet-demo-v4".to_owned(), "subnet-demo-v6".to_owned()])]);
    assert_eq!((own.size, own.keep), (Some(Size::Fixed(5)), true));
    let several = terms(&[
        ("ipam.spidernet.io/subnets", r#"[{"interface":"eth0","ipv4":["a"]},{"interface":"net2","ipv4":["b"]}]"#),
        ("ipam.spidernet.io/subnet", r#"{"ipv4":["c"]}"#),
        ("ipam.spidernet.io/ippool-ip-number", "+1"),
    ])
    .expect("terms");
    assert_eq!(
        several.interfaces,
        [("eth0".to_owned(), vec!["a".to_owned()]), ("net2".to_owned(), vec!["b".to_owned()])]
    );
    assert_eq!((several.size, several.keep), (Some(Size::Spare(1)), false));
    for (key, value) in [("ippool-ip-number", "++1"), ("ippool-ip-number", "-1"), ("ippool-reclaim", "perhaps")] {
        let key = format!("ipam.spidernet.io/{key}");
        assert!(terms(&[("ipam.spidernet.io/subnet", r#"{"ipv4":["c"]}"#), (&key, value)]).is_err(), "{key}: {value}");
    }
}

#[test]
fn a_pod_of_an_application_waits_for_its_pool() {
    let mut world = World::new().pod(&[("ipam.spidernet.io/subnet", r#"{"ipv4":["s"]}"#)]);
    world.pod.owners.push(Owner {
        api_version: "apps/v1".into(),
        kind: "StatefulSet".into(),
        name: "web".into(),
        uid: "u".into(),
        controller: true,
    });
    let error = world.plan().expect_err("no such subnet").to_string();
    assert!(error.contains("ipam.spidernet.io/subnet: subnet \"s\" does not exist"), "{error}");
    let manifest = "{apiVersion: spiderpool.spidernet.io/v2beta1, kind: SpiderSubnet, metadata: {name: s}, spec: {subnet: 10.0.0.0/24, ips: [10.0.0.9]}}";
    let config = crate::lower_all(&crate::parse_manifests(manifest).expect("a subnet")).expect("a configuration");
    world.applications = Applications::of(&config, &Conf::default());
    assert!(matches!(world.plan(), Err(Error::PoolPending { .. })));
}
