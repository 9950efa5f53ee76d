//! Spiderpool's objects: lowered, raised, judged and defined.

use crate::kinds::{self, Dialect};
use crate::spiderpool::endpoint::{Current, EndpointStatus, Interface, raise};
use crate::spiderpool::owner::{self, pool_patch, raise_pool};
use crate::spiderpool::status::{Allocation, MAX_RECORDS_BYTES, pool_status, subnet_status, truncation};
use crate::{Lowered, Object, crd, judge, lower, lower_all, parse_manifests};
use berth_core::apps::{Application, Identity, Size, Workload};
use berth_core::detect::{Conflicts, Detection, GatewayCheck};
use berth_core::ipam::{Config, Entropy, Group, Ipam, Outcome, Request};
use berth_core::model::{Edges, Gateway, Pick, Pool, Subject, Whom};
use berth_core::time::Time;
use serde_json::{Value, json};

fn object(kind: &str, name: &str, spec: &Value) -> Object {
    serde_json::from_value(json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": kind, "metadata": {"name": name}, "spec": spec,
    }))
    .expect("an object")
}

fn pool(spec: &Value) -> Result<Pool, String> {
    match lower(&object("SpiderIPPool", "p", spec)) {
        Ok(Lowered::Pool(pool)) => Ok(pool),
        other => Err(other.expect_err("only pools are lowered here").to_string()),
    }
}

fn texts(ranges: &[berth_core::addr::Range]) -> Vec<String> {
    ranges.iter().map(ToString::to_string).collect()
}

#[test]
fn detection_is_asked_for_by_an_annotation_of_the_pool() {
    let detect = |text: &str| {
        let mut own = object("SpiderIPPool", "p", &json!({"subnet": "10.9.0.0/24", "ips": ["10.9.0.7"]}));
        own.metadata.annotations.insert("berth.io/detect".to_owned(), text.to_owned());
        match lower(&own) {
            Ok(Lowered::Pool(pool)) => Ok(pool.detect),
            other => Err(other.expect_err("only pools are lowered here").to_string()),
        }
    };
    assert_eq!(pool(&json!({"subnet": "10.9.0.0/24", "ips": ["10.9.0.7"]})).expect("a pool").detect, None);
    assert_eq!(detect("{}"), Ok(Some(Detection::default())));
    let strict = Detection { conflicts: Conflicts::Rfc5227, gateway: GatewayCheck::Ignore };
    assert_eq!(detect(r#"{"conflicts": "Rfc5227", "gateway": "Ignore"}"#), Ok(Some(strict)));
    for wrong in ["true", "yes", r#"{"conflict": "Fast"}"#, r#"{"conflicts": "Slow"}"#] {
        let error = detect(wrong).expect_err("not accepted");
        assert!(error.contains("metadata.annotations.berth.io/detect"), "{error}");
    }
}

#[test]
fn every_field_of_a_pool_is_lowered() {
    let spec = json!({
        "ipVersion": 4, "subnet": "172.18.41.0/24",
        "ips": ["172.18.41.50-172.18.41.60", "172.18.41.40-172.18.41.49", "172.18.41.55", "172.18.41.99"],
        "excludeIPs": ["172.18.41.45"], "gateway": "172.18.41.1",
        "routes": [{"dst": "10.0.0.0/8", "gw": "172.18.41.2"}],
        "podAffinity": {"matchLabels": {"app": "web"}},
        "namespaceAffinity": {"matchLabels": {"team": "a"}}, "namespaceName": ["shop"],
        "nodeAffinity": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
        "multusName": ["blue", "default/red"], "default": true, "disable": true, "vlan": 7,
    });
    let own = pool(&spec).expect("a pool");
    let ranges = ["172.18.41.40-172.18.41.44", "172.18.41.46-172.18.41.60", "172.18.41.99"];
    assert_eq!(texts(&own.ranges), ranges, "merged, in order, and without what is excluded");
    assert!(own.exclude.is_empty());
    assert_eq!((own.object, own.prefix_len, own.pick), ("SpiderIPPool", Some(24), Pick::Sequential));
    assert_eq!(own.gateway, Gateway::At([172, 18, 41, 1].into()));
    assert_eq!(own.edges, Edges { network: true, broadcast: true, gateway: false });
    assert_eq!((own.routes[0].dst.as_str(), own.inherits_routes, own.default_route), ("10.0.0.0/8", false, true));
    assert_eq!((own.default, own.named_only, own.disabled), (true, false, true));
    assert_eq!(own.audience.pod_selector.to_string(), "app=web");
    assert_eq!(own.audience.namespaces, ["shop"]);
    assert!(own.audience.namespace_selector.is_empty(), "names go before labels");
    assert_eq!(own.audience.node_selector.to_string(), "zone");
    assert_eq!(own.audience.attachments, ["kube-system/blue", "spiderpool/blue", "blue", "default/red"]);
    assert!(own.sticky.is_some_and(|sticky| sticky.whom == Whom::SetsAndMachines && sticky.keep.is_none()));
    assert!(own.lending.is_none(), "a shared pool");
    assert!(own.application.is_none());
    let least = pool(&json!({"subnet": "fd00::/64", "ips": ["fd00::a"]})).expect("a pool");
    assert_eq!((least.gateway, least.inherits_routes, least.named_only), (Gateway::OfSubnet, true, true));
}

#[test]
fn mistakes_are_told_by_object_field_and_fix() {
    for (spec, told) in [
        (json!({}), "SpiderIPPool \"p\", spec.subnet: is required"),
        (json!({"subnet": "10.0.0.1/24"}), "spec.subnet: "),
        (json!({"subnet": "10.0.0.0/24", "ipVersion": 6}), "spec.ipVersion: is 6, and spec.subnet 10.0.0.0/24 is IPv4"),
        (json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.0/28"]}), "spec.ips[0]: \"10.0.0.0/28\" is a CIDR; write"),
        (json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.9", "x"]}), "spec.ips[1]: "),
        (json!({"subnet": "10.0.0.0/24", "ips": ["10.0.1.9"]}), "spec.ips[0]: 10.0.1.9 is not inside 10.0.0.0/24"),
        (json!({"subnet": "10.0.0.0/24", "excludeIPs": ["fd00::1"]}), "spec.excludeIPs[0]: fd00::1 is not inside"),
        (
            json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.9"], "gateway": "10.0.0.1"}),
            "spec.gateway: 10.0.0.1 is also in spec.ips; put it into spec.excludeIPs",
        ),
        (
            json!({"subnet": "10.0.0.0/24", "routes": [{"dst": "0.0.0.0/0", "gw": "10.0.0.1"}]}),
            "spec.routes[0].dst: 0.0.0.0/0 is the default route; write spec.gateway",
        ),
        (json!({"subnet": "10.0.0.0/24", "routes": [{"dst": "1.0.0.0/8"}]}), "spec.routes[0].gw: is required"),
        (json!({"subnet": "10.0.0.0/24", "podAffinity": {}}), "spec.podAffinity: selects nothing in particular"),
        (
            json!({"subnet": "10.0.0.0/24", "podAffinity": {"matchLabels": {"ipam.spidernet.io/app-name": "a", "x": "y"}}}),
            "spec.podAffinity: a pool of an application",
        ),
    ] {
        let error = pool(&spec).expect_err("refused");
        assert!(error.contains(told), "{error}\n{told}");
    }
    for (spec, told) in [
        (json!({}), "SpiderReservedIP \"r\", spec.ips: must name at least one address"),
        (json!({"ips": ["10.0.0.1", "fd00::1"]}), "spec.ips[1]: fd00::1 is not IPv4"),
        (json!({"ips": ["10.0.0.1"], "ipVersion": 6}), "spec.ipVersion: is 6, and spec.ips[0] 10.0.0.1 is IPv4"),
    ] {
        let error = lower(&object("SpiderReservedIP", "r", &spec)).expect_err("refused").to_string();
        assert!(error.contains(told), "{error}");
    }
}

/// What is wrong with objects, by name, oldest first.
fn refused(objects: &[Object]) -> Vec<(String, &'static str, String)> {
    let verdicts = judge(objects);
    let row = |(object, refusal): (&Object, &crate::Refusal)| {
        (object.metadata.name.clone(), refusal.reason, refusal.message.clone())
    };
    verdicts.refused().map(row).collect()
}

fn aged(age: u32, mut object: Object) -> Object {
    object.metadata.creation_timestamp = Some(format!("2026-01-01T00:00:0{age}Z"));
    object
}

#[test]
fn what_the_core_finds_wrong_is_told_in_the_words_of_the_object() {
    for (spec, told) in [
        (
            json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.9"], "gateway": "10.0.1.1"}),
            "SpiderIPPool \"p\", spec.gateway: ",
        ),
        (
            json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.9"], "routes": [{"dst": "1.0.0.0/8", "gw": "10.9.0.1"}]}),
            "SpiderIPPool \"p\", spec.routes[0].gw: ",
        ),
    ] {
        let all = refused(&[object("SpiderIPPool", "p", &spec)]);
        assert!(all[0].2.contains(told), "{all:?}");
    }
    let first = aged(1, object("SpiderIPPool", "a", &json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.9"]})));
    let second = aged(2, object("SpiderIPPool", "b", &json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.9"]})));
    let askew = aged(3, object("SpiderIPPool", "c", &json!({"subnet": "10.0.0.0/25", "ips": ["10.0.0.20"]})));
    let all = refused(&[askew, second, first]);
    assert_eq!((all[0].0.as_str(), all[0].1), ("b", "Overlaps"));
    assert!(all[0].2.contains("SpiderIPPool \"b\", spec.ips: 10.0.0.9 overlaps SpiderIPPool \"a\""), "{all:?}");
    assert!(all[1].2.contains("SpiderIPPool \"c\", spec.subnet: 10.0.0.0/25 overlaps 10.0.0.0/24"), "{all:?}");
}

#[test]
fn objects_of_two_kinds_with_one_name_do_not_hide_each_other() {
    let native =
        |kind: &str, spec: Value| Object { api_version: "berth.io/v1alpha1".into(), ..object(kind, "x", &spec) };
    let all = refused(&[
        aged(2, object("SpiderIPPool", "x", &json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.1"]}))),
        aged(1, native("IPPool", json!({"ranges": ["10.1.0.0/24"]}))),
        aged(1, object("SpiderSubnet", "x", &json!({"subnet": "10.2.0.0/24"}))),
        aged(2, native("IPSubnet", json!({"cidr": "10.3.0.0/24"}))),
    ]);
    let names: Vec<_> =
        all.iter().map(|(name, reason, message)| (name.as_str(), *reason, message.split(',').next())).collect();
    assert!(names.contains(&("x", "NameTaken", Some("SpiderIPPool \"x\""))), "{all:?}");
    assert!(names.contains(&("x", "NameTaken", Some("IPSubnet \"x\""))), "{all:?}");
    assert_eq!(names.len(), 2);
    // Nobody names a reservation: both count.
    let both = lower_all(&[
        object("SpiderReservedIP", "x", &json!({"ips": ["10.0.0.5"]})),
        native("IPReservation", json!({"addresses": ["10.0.0.6"]})),
    ]);
    assert_eq!(both.expect("both").reservations.len(), 2);
}

fn config(manifest: &str) -> Config {
    let objects = parse_manifests(manifest).expect("objects");
    let verdicts = judge(&objects);
    assert_eq!(
        verdicts.refused().map(|(_, refusal)| refusal.message.clone()).collect::<Vec<_>>(),
        Vec::<String>::new()
    );
    verdicts.config
}

const SUBNET: &str = r"
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderSubnet
metadata: {name: s}
spec:
  subnet: 10.0.0.0/24
  ips: [10.0.0.10-10.0.0.99]
  excludeIPs: [10.0.0.50]
  gateway: 10.0.0.1
  routes: [{dst: 192.168.0.0/16, gw: 10.0.0.2}]
";

fn given(config: Config, pools: &[&str]) -> Outcome {
    let mut ipam = Ipam::new();
    ipam.configure(config);
    let group = Group { pools: pools.iter().map(|&pool| pool.to_owned()).collect(), ..Group::default() };
    let mut request = Request { subject: Subject::default(), groups: vec![group], ..Request::default() };
    request.holder.id = "c".into();
    ipam.allocate(&request, Time::from_secs(1), &mut Entropy(1)).expect("an address")
}

#[test]
fn gateway_and_routes_come_from_the_subnet_of_the_same_cidr_unless_an_empty_list_says_none() {
    let with = |more: &str| {
        format!(
            "{SUBNET}---
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata: {{name: p}}
spec: {{subnet: 10.0.0.0/24, ips: [10.0.0.20-10.0.0.29]{more}}}
"
        )
    };
    let dsts = |outcome: &Outcome| outcome.routes.iter().map(|route| route.dst.clone()).collect::<Vec<_>>();
    let inherits = given(config(&with("")), &["p"]);
    assert_eq!(inherits.given[0].gateway, Some([10, 0, 0, 1].into()));
    assert_eq!((inherits.given[0].prefix_len, inherits.given[0].address().to_string().as_str()), (24, "10.0.0.20"));
    assert_eq!(dsts(&inherits), ["0.0.0.0/0", "192.168.0.0/16"]);
    let blocks = given(config(&with(", routes: []")), &["p"]);
    assert_eq!(dsts(&blocks), ["0.0.0.0/0"]);
    let own = given(config(&with(", gateway: 10.0.0.9, routes: [{dst: 1.0.0.0/8, gw: 10.0.0.3}]")), &["p"]);
    assert_eq!(own.given[0].gateway, Some([10, 0, 0, 9].into()));
    assert_eq!(dsts(&own), ["0.0.0.0/0", "1.0.0.0/8"]);
    // Another CIDR is another subnet, and no gateway is made up.
    let alone = given(
        config(
            &with("")
                .replace("subnet: 10.0.0.0/24, ips: [10.0.0.20-10.0.0.29]", "subnet: 10.7.0.0/24, ips: [10.7.0.20]"),
        ),
        &["p"],
    );
    assert_eq!((alone.given[0].gateway, dsts(&alone)), (None, vec![]));
}

#[test]
fn a_pool_has_only_what_its_subnet_has_for_pools() {
    let outside =
        aged(2, object("SpiderIPPool", "p", &json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.49-10.0.0.51"]})));
    let subnet = parse_manifests(SUBNET).expect("a subnet").remove(0);
    let all = refused(&[subnet.clone(), outside.clone()]);
    assert!(all[0].2.contains("spec.ips: 10.0.0.50 is not among the addresses that SpiderSubnet \"s\" has"), "{all:?}");
    let mut excluding = outside;
    excluding.spec["excludeIPs"] = json!(["10.0.0.50"]);
    assert_eq!(refused(&[subnet, excluding]), []);
}

#[test]
fn pods_that_say_nothing_get_only_default_pools() {
    let two = |default: &str| {
        format!(
            "
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata: {{name: a}}
spec: {{subnet: 10.0.0.0/24, ips: [10.0.0.20]}}
---
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata: {{name: b}}
spec: {{subnet: 10.1.0.0/24, ips: [10.1.0.20]{default}}}
"
        )
    };
    assert_eq!(given(config(&two(", default: true")), &[]).given[0].pool, "b");
    let mut ipam = Ipam::new();
    ipam.configure(config(&two("")));
    let mut request = Request { groups: vec![Group::default()], ..Request::default() };
    request.holder.id = "c".into();
    assert!(ipam.allocate(&request, Time::from_secs(1), &mut Entropy(1)).is_err(), "no pool is a default");
}

fn allocation(address: &str, pod: &str, uid: &str) -> Allocation {
    Allocation { address: address.parse().expect("an address"), pod: pod.into(), uid: uid.into() }
}

#[test]
fn allocations_are_raised_in_the_exact_form() {
    let two = [allocation("10.0.0.5", "ns/name", "u-1"), allocation("10.0.0.12", "ns/b", "u-2")];
    let (status, left_out) = pool_status(5u128.into(), &two);
    assert_eq!(left_out, 0);
    assert_eq!(
        status["allocatedIPs"],
        r#"{"10.0.0.12":{"pod":"ns/b","podUid":"u-2"},"10.0.0.5":{"pod":"ns/name","podUid":"u-1"}}"#
    );
    assert_eq!((&status["totalIPCount"], &status["allocatedIPCount"]), (&json!(5), &json!(2)));
    let (empty, _) = pool_status(berth_core::addr::Count::power_of_two(80), &[]);
    assert_eq!(empty["allocatedIPs"], Value::Null, "nothing is no string");
    assert_eq!(empty["totalIPCount"], json!(9_223_372_036_854_775_807i64));
}

#[test]
fn records_past_the_bound_are_left_out_and_that_is_said() {
    let name = "x".repeat(60);
    let many: Vec<Allocation> = (0..4000u32)
        .map(|i| allocation(&format!("10.0.{}.{}", i / 256, i % 256), &format!("ns/{name}"), &name))
        .collect();
    let (status, left_out) = pool_status(4096u128.into(), &many);
    let text = status["allocatedIPs"].as_str().expect("a string");
    assert!(text.len() <= MAX_RECORDS_BYTES && left_out > 0);
    let records: serde_json::Map<String, Value> = serde_json::from_str(text).expect("JSON");
    assert_eq!(records.len() + left_out, 4000);
    assert_eq!(status["allocatedIPCount"], 4000, "counts are of all");
    let condition = truncation(left_out, "now");
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("True"), &json!("TooLarge")));
    assert_eq!(truncation(0, "now")["status"], "False");
    assert!(status.to_string().len() + 32 * 1024 < 256 << 10);
}

fn web(subnet_version: &str) -> (Workload, Config) {
    let uid = "8e6b3d11-aaaa-bbbb-cccc-028d6f00aa11";
    let identity = Identity {
        group: "apps.kruise.io".into(),
        kind: "CloneSet".into(),
        namespace: "default".into(),
        name: "custom-kruise-cloneset".into(),
    };
    let workload =
        Workload { api_version: "apps.kruise.io/v1alpha1".into(), identity, uid: uid.into(), ..Workload::default() };
    let text = if subnet_version == "4" {
        SUBNET.to_owned()
    } else {
        SUBNET.replace("10.0.0.0/24", "fd00::/64").replace("10.0.0.10-10.0.0.99", "fd00::a-fd00::f").replace(
            "  excludeIPs: [10.0.0.50]\n  gateway: 10.0.0.1\n  routes: [{dst: 192.168.0.0/16, gw: 10.0.0.2}]\n",
            "",
        )
    };
    (workload, config(&text))
}

#[test]
fn the_pool_of_an_application_has_its_name_labels_and_affinity() {
    let (workload, config) = web("4");
    let subnet = &config.subnets["s"];
    let name = owner::name(&workload, "eth0", subnet);
    assert_eq!(name, "auto4-custom-kruise-cloneset-eth0-028d6");
    assert_eq!(owner::name(&workload, "net1", &web("6").1.subnets["s"]), "auto6-custom-kruise-cloneset-net1-028d6");
    let long =
        Workload { identity: Identity { name: "N".repeat(253), ..workload.identity.clone() }, ..workload.clone() };
    assert_eq!(owner::name(&long, "eth0", subnet).len(), 253);
    let application = Application {
        api_version: workload.api_version.clone(),
        kind: "CloneSet".into(),
        namespace: "default".into(),
        name: workload.identity.name.clone(),
        uid: workload.uid,
        interface: "eth0".into(),
        controllers: vec!["rs1".into(), "rs2".into()],
        keep: true,
    };
    let own = Pool {
        application: Some(application.clone()),
        subnet: Some("s".into()),
        detect: Some(Detection { conflicts: Conflicts::Rfc5227, gateway: GatewayCheck::Ignore }),
        ..Pool::new(name, vec!["10.0.0.10-10.0.0.13".parse().expect("a range"), "10.0.0.20".parse().expect("a range")])
    };
    let made = raise_pool(&own, subnet, Some(Size::Spare(1)));
    assert_eq!(made.metadata.annotations["ipam.spidernet.io/ippool-ip-number"], "+1");
    assert_eq!(
        made.spec,
        json!({
            "ipVersion": 4, "subnet": "10.0.0.0/24", "ips": ["10.0.0.10-10.0.0.13", "10.0.0.20"], "default": false, "disable": false,
            "podAffinity": {"matchLabels": {
                "ipam.spidernet.io/app-api-group": "apps.kruise.io", "ipam.spidernet.io/app-api-version": "v1alpha1",
                "ipam.spidernet.io/app-kind": "CloneSet", "ipam.spidernet.io/app-namespace": "default",
                "ipam.spidernet.io/app-name": "custom-kruise-cloneset",
            }},
        })
    );
    assert_eq!(
        serde_json::to_value(&made.metadata.labels).expect("labels"),
        json!({
            "ipam.spidernet.io/owner-spider-subnet": "s", "ipam.spidernet.io/owner-application-gv": "apps.kruise.io_v1alpha1",
            "ipam.spidernet.io/owner-application-kind": "CloneSet", "ipam.spidernet.io/owner-application-namespace": "default",
            "ipam.spidernet.io/owner-application-name": "custom-kruise-cloneset",
            "ipam.spidernet.io/owner-application-uid": "8e6b3d11-aaaa-bbbb-cccc-028d6f00aa11",
            "ipam.spidernet.io/interface": "eth0", "ipam.spidernet.io/ip-version": "IPv4",
            "ipam.spidernet.io/ippool-reclaim": "false", "ipam.spidernet.io/ippool-cidr": "10-0-0-0-24",
        })
    );
    let Ok(Lowered::Pool(back)) = lower(&made) else { panic!("it lowers") };
    assert_eq!(back.application, Some(application.clone()), "what was raised is lowered to the same");
    assert_eq!((&back.ranges, back.detect), (&own.ranges, own.detect));
    let ranges = ["10.0.0.10".parse().expect("a range")];
    let patch = pool_patch(&ranges, &Application { keep: false, ..application }, None, Some(Detection::default()));
    assert_eq!(patch["metadata"]["annotations"]["berth.io/detect"], r#"{"conflicts":"Fast","gateway":"Warn"}"#);
    assert_eq!(patch["spec"], json!({"ips": ["10.0.0.10"]}));
    assert_eq!(patch["metadata"]["labels"]["ipam.spidernet.io/ippool-reclaim"], "true");
}

#[test]
fn a_subnet_says_which_pools_have_what_of_it() {
    let (_, mut config) = web("4");
    let application = Application {
        api_version: "v1".into(),
        kind: "ReplicationController".into(),
        namespace: "n".into(),
        name: "a".into(),
        ..Application::default()
    };
    for (name, range, application) in [("a", "10.0.0.10-10.0.0.19", None), ("b", "10.0.0.20", Some(application))] {
        let pool =
            Pool { subnet: Some("s".into()), application, ..Pool::new(name, vec![range.parse().expect("a range")]) };
        config.pools.insert(name.into(), pool);
    }
    let (status, _) = subnet_status(&config.subnets["s"], &config);
    assert_eq!(
        status["controlledIPPools"],
        r#"{"a":{"ips":["10.0.0.10-10.0.0.19"]},"b":{"application":"v1_ReplicationController_n_a","ips":["10.0.0.20"]}}"#
    );
    assert_eq!((&status["totalIPCount"], &status["allocatedIPCount"]), (&json!(89), &json!(11)));
    assert_eq!(subnet_status(&web("4").1.subnets["s"], &web("4").1).0["controlledIPPools"], Value::Null);
}

#[test]
fn an_endpoint_has_the_fields_of_the_kind() {
    let outcome = given(
        config(&format!(
            "{SUBNET}---
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata: {{name: p}}
spec: {{subnet: 10.0.0.0/24, ips: [10.0.0.20]}}
"
        )),
        &["p"],
    );
    let current = Current { uid: "u".into(), node: "n1".into(), ips: vec![Interface::of("eth0".into(), &outcome)] };
    let status =
        EndpointStatus { current, owner_controller_type: "Deployment".into(), owner_controller_name: "web".into() };
    let made = raise("shop", "web-1", &status, true);
    assert_eq!(
        made["status"],
        json!({
            "current": {"uid": "u", "node": "n1", "ips": [{
                "interface": "eth0", "ipv4": "10.0.0.20/24", "ipv4Pool": "p", "ipv4Gateway": "10.0.0.1", "vlan": 0,
                "routes": [{"dst": "192.168.0.0/16", "gw": "10.0.0.2"}],
            }]},
            "ownerControllerType": "Deployment", "ownerControllerName": "web",
        })
    );
    assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], "u");
    assert!(raise("shop", "db-0", &status, false)["metadata"].get("ownerReferences").is_none());
}

#[test]
fn definitions_have_the_names_columns_and_subresources_of_the_original() {
    let rows: Vec<_> = crd::kinds_of(Dialect::Spiderpool)
        .map(|info| {
            let definition = crd::definition(info).expect("a definition");
            let (names, version) = (&definition["spec"]["names"], &definition["spec"]["versions"][0]);
            let columns = version["additionalPrinterColumns"].as_array().expect("columns").clone();
            let shown = columns.iter().filter(|column| column.get("priority").is_none());
            let shown: Vec<String> = shown.map(|column| column["name"].as_str().expect("a name").to_owned()).collect();
            (
                definition["metadata"]["name"].as_str().expect("a name").to_owned(),
                names["shortNames"][0].as_str().expect("a name").to_owned(),
                definition["spec"]["scope"].as_str().expect("a scope").to_owned(),
                version["subresources"].get("status").is_some(),
                shown.join(" "),
                names["categories"].clone(),
            )
        })
        .collect();
    let row = |name: &str, short: &str, scope: &str, status: bool, columns: &str| {
        (
            format!("{name}.spiderpool.spidernet.io"),
            short.to_owned(),
            scope.to_owned(),
            status,
            columns.to_owned(),
            json!(["spiderpool"]),
        )
    };
    assert_eq!(
        rows,
        [
            row(
                "spiderippools",
                "sp",
                "Cluster",
                true,
                "VERSION SUBNET ALLOCATED-IP-COUNT TOTAL-IP-COUNT DEFAULT DISABLE APP-NAMESPACE"
            ),
            row("spidersubnets", "ss", "Cluster", true, "VERSION SUBNET ALLOCATED-IP-COUNT TOTAL-IP-COUNT"),
            row("spiderreservedips", "sr", "Cluster", false, "VERSION"),
            row("spiderendpoints", "se", "Namespaced", false, "INTERFACE IPV4POOL IPV4 IPV6POOL IPV6 NODE"),
        ]
    );
    let schema = |kind: &str| {
        let info = kinds::find(kind).expect("a kind");
        crd::definition(info).expect("a definition")["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
            .clone()
    };
    let pool = schema("sp");
    let mut fields: Vec<&String> = pool["spec"]["properties"].as_object().expect("fields").keys().collect();
    fields.sort();
    assert_eq!(
        fields,
        [
            "default",
            "disable",
            "excludeIPs",
            "gateway",
            "ipVersion",
            "ips",
            "multusName",
            "namespaceAffinity",
            "namespaceName",
            "nodeAffinity",
            "nodeName",
            "podAffinity",
            "routes",
            "subnet"
        ]
    );
    assert_eq!(pool["spec"]["required"], json!(["subnet"]));
    assert_eq!(pool["spec"]["properties"]["ipVersion"]["enum"], json!([4, 6]));
    assert_eq!(pool["spec"]["properties"]["routes"]["items"]["required"], json!(["dst", "gw"]));
    assert_eq!(pool["status"]["properties"]["allocatedIPs"]["type"], "string");
    let endpoint = schema("se");
    assert!(endpoint.get("spec").is_none());
    assert_eq!(endpoint["status"]["required"], json!(["current", "ownerControllerType", "ownerControllerName"]));
    let current = &endpoint["status"]["properties"]["current"];
    assert_eq!(current["required"], json!(["uid", "node", "ips"]));
    assert_eq!(current["properties"]["ips"]["items"]["required"], json!(["interface"]));
    assert_eq!(current["properties"]["ips"]["items"]["properties"]["vlan"]["maximum"], 4094);
}
