use super::{native, object};
use crate::native::{
    claim_status, lower_claim, lower_pool, lower_reservation, lower_subnet, pool_status, subnet_status,
};
use crate::{Object, lower_all};
use berth_core::addr::Family;
use berth_core::apps::Application;
use berth_core::detect::{Conflicts, Detection, GatewayCheck};
use berth_core::error::Error;
use berth_core::ipam::{Entropy, Ipam};
use berth_core::labels::{Operator, Selector};
use berth_core::model::{Audience, Edges, Gateway, Lending, Pick, Pool, Quota, StickyPolicy};
use berth_core::net::{Dns, Route};
use berth_core::time::Time;
use serde_json::json;
use std::time::Duration;

#[test]
fn the_least_pool_is_all_defaults() {
    let pool = lower_pool(&object(&native("IPPool", "blue", "{ranges: [10.77.0.0/16]}"))).expect("lowers");
    assert_eq!(pool, Pool::new("blue", vec!["10.77.0.0/16".parse().expect("a range")]));
}

#[test]
fn addresses_that_are_spelled_out_are_just_those_also_if_they_fill_a_cidr() {
    for (ranges, addresses, gateway) in [("10.0.0.16/28", 13, true), ("10.0.0.16-10.0.0.31", 16, false)] {
        let pool = lower_pool(&object(&native("IPPool", "p", &format!("{{ranges: [{ranges}]}}")))).expect("lowers");
        assert_eq!(pool.members(None).count().to_string(), addresses.to_string(), "{ranges}");
        assert_eq!(pool.gateway_of(pool.ranges[0].first(), None).is_some(), gateway, "{ranges}");
        let subnet = native("IPSubnet", "wide", "{cidr: 10.0.0.0/24}");
        let subnet = lower_subnet(&object(&subnet)).expect("lowers");
        let mut config = berth_core::ipam::Config::default();
        config.subnets.insert("wide".into(), subnet);
        assert_eq!(
            config.subnet_around(&pool).is_some(),
            !gateway,
            "{ranges}: only what says nothing of its surroundings is part of what is around it"
        );
    }
}

#[test]
fn every_field_of_a_pool_is_lowered() {
    let spec = r#"
  network: red
  ranges: [10.0.0.0/24, 10.0.2.5-10.0.2.9, 10.0.3.1]
  exclude: [10.0.0.7]
  subnet: wide
  prefixLength: 16
  gateway: 10.0.0.254
  routes: [{dst: 0.0.0.0/0}, {dst: 10.9.0.0/16, gw: 10.0.0.9, mtu: 1400, advmss: 1, priority: 2, table: 3, scope: 4}]
  dns: {nameservers: [10.0.0.53], domain: a.example, search: [b.example], options: [ndots:2]}
  unitPrefixLength: 30
  pick: Random
  coolDown: 1m30s
  reuseCooling: true
  default: true
  disabled: true
  type: calico
  useNetworkAddress: true
  useBroadcastAddress: true
  useGatewayAddress: true
  allow:
    namespaces: [team-*]
    namespaceSelector: {matchExpressions: [{key: a, operator: NotIn, values: [x, y]}]}
    podSelector: {matchLabels: {app: web}, matchExpressions: [{key: b, operator: Exists}]}
    nodes: [node-1]
    nodeSelector: {matchExpressions: [{key: c, operator: DoesNotExist}]}
    reachableNodes: true
    attachments: [kube-system/vlan-*]
  quota: {perNamespace: 5, namespaces: {web: 9}}
  sticky: {keep: 24h}
  blockSize: 26
  strictLeases: true
  application:
    {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web, uid: u, controllers: [r], keep: true}
  detect: {conflicts: Rfc5227, gateway: Require}
"#;
    let pool = lower_pool(&object(&native("IPPool", "blue", spec))).expect("lowers");
    let selector = |expressions: Vec<(&str, Operator)>| Selector {
        expressions: expressions.into_iter().map(|(key, operator)| (key.to_owned(), operator)).collect(),
    };
    let ip = |text: &str| text.parse().expect("an address");
    let expected = Pool {
        object: "IPPool",
        inherits_routes: true,
        default_route: false,
        named_only: false,
        name: "blue".into(),
        network: "red".into(),
        family: Family::V4,
        unit_len: 30,
        kind: "calico".into(),
        spelled_out: Vec::new(),
        ranges: ["10.0.0.0/24", "10.0.2.5-10.0.2.9", "10.0.3.1"].map(|r| r.parse().expect("a range")).to_vec(),
        exclude: vec!["10.0.0.7".parse().expect("a range")],
        subnet: Some("wide".into()),
        prefix_len: Some(16),
        gateway: Gateway::At(ip("10.0.0.254")),
        edges: Edges { network: true, broadcast: true, gateway: true },
        routes: vec![
            Route { dst: "0.0.0.0/0".into(), ..Route::default() },
            Route {
                dst: "10.9.0.0/16".into(),
                gw: Some(ip("10.0.0.9")),
                mtu: Some(1400),
                advmss: Some(1),
                priority: Some(2),
                table: Some(3),
                scope: Some(4),
            },
        ],
        dns: Dns {
            nameservers: vec!["10.0.0.53".into()],
            domain: "a.example".into(),
            search: vec!["b.example".into()],
            options: vec!["ndots:2".into()],
        },
        pick: Pick::Random,
        cool_down: Duration::from_secs(90),
        reuse_cooling: true,
        default: true,
        disabled: true,
        refused: None,
        audience: Audience {
            namespaces: vec!["team-*".into()],
            namespace_selector: selector(vec![("a", Operator::NotIn(vec!["x".into(), "y".into()]))]),
            pod_selector: selector(vec![("app", Operator::In(vec!["web".into()])), ("b", Operator::Exists)]),
            nodes: vec!["node-1".into()],
            node_selector: selector(vec![("c", Operator::DoesNotExist)]),
            reachable: true,
            attachments: vec!["kube-system/vlan-*".into()],
        },
        quota: Quota { per_namespace: Some(5), namespaces: [("web".to_owned(), 9)].into() },
        sticky: Some(StickyPolicy { keep: Some(Duration::from_secs(86_400)), ..StickyPolicy::default() }),
        lending: Some(Lending { block_len: 26, strict: true, most: None }),
        endpoint_objects: false,
        application: Some(Application {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            namespace: "shop".into(),
            name: "web".into(),
            uid: "u".into(),
            interface: "eth0".into(),
            controllers: vec!["r".into()],
            keep: true,
        }),
        detect: Some(Detection { conflicts: Conflicts::Rfc5227, gateway: GatewayCheck::Require }),
    };
    assert_eq!(pool, expected);
}

#[test]
fn gateways() {
    for (spec, gateway) in [
        ("{cidr: 10.0.0.0/24}", Gateway::Auto),
        ("{cidr: 10.0.0.0/24, gateway: none}", Gateway::None),
        ("{cidr: 10.0.0.0/24, gateway: 10.0.0.9}", Gateway::At([10, 0, 0, 9].into())),
    ] {
        let subnet = lower_subnet(&object(&native("IPSubnet", "s", spec))).expect("lowers");
        assert_eq!(subnet.gateway, gateway, "{spec}");
    }
}

#[test]
fn reservations_and_claims() {
    let reservation = native("IPReservation", "r", "{addresses: [10.0.0.0/28, 'fd00::1']}");
    let reservation = lower_reservation(&object(&reservation)).expect("lowers");
    assert_eq!(reservation.ranges.len(), 2);
    assert_eq!(&*reservation.network, "default");

    let spec = "{network: red, pools: [a, 'b*'], families: [IPv4, IPv6], count: 2, keep: 1h}";
    let claim = native("IPClaim", "vip", spec).replace("name: vip", "name: vip\n  namespace: web");
    let claim = lower_claim(&object(&claim)).expect("lowers");
    assert_eq!(claim.identity, "claim/web/vip");
    assert_eq!(claim.keep, Some(Duration::from_secs(3600)));
    assert_eq!(claim.group.pools, ["a", "b*"]);
    assert_eq!(claim.group.network.as_deref(), Some("red"));
    assert_eq!(claim.group.families, [Family::V4, Family::V6]);
    assert_eq!(claim.group.count, 2);
    let claim = lower_claim(&object(&native("IPClaim", "vip", "{addresses: [10.0.0.3, 'fd00::3']}"))).expect("lowers");
    assert_eq!((claim.identity.as_str(), claim.keep, claim.group.count), ("claim/default/vip", None, 1));
    assert_eq!(claim.group.addresses.len(), 2);
}

#[test]
fn detection_is_off_until_it_is_asked_for_and_then_quick() {
    let detect = |spec: &str| lower_pool(&object(&native("IPPool", "blue", spec))).expect("lowers").detect;
    assert_eq!(detect("{ranges: [10.77.0.0/16]}"), None);
    let fast = Detection { conflicts: Conflicts::Fast, gateway: GatewayCheck::Warn };
    assert_eq!(detect("{ranges: [10.77.0.0/16], detect: {}}"), Some(fast));
    assert_eq!(
        detect("{ranges: [10.77.0.0/16], detect: {conflicts: Rfc5227, gateway: Require}}"),
        Some(Detection { conflicts: Conflicts::Rfc5227, gateway: GatewayCheck::Require })
    );
    assert_eq!(
        detect("{ranges: [10.77.0.0/16], detect: {conflicts: Ignore, gateway: Ignore}}"),
        Some(Detection { conflicts: Conflicts::Ignore, gateway: GatewayCheck::Ignore })
    );
}

/// An object that did not come from a manifest is checked all the same, and the error names it.
#[test]
fn lowering_says_which_object_and_field() {
    let mut pool = object(&native("IPPool", "blue", "{ranges: [10.77.0.0/16]}"));
    pool.spec = json!({"ranges": ["10.77.0.0/16", "10.78.0.0/33"]});
    let error = lower_pool(&pool).expect_err("a bad range");
    assert_eq!(
        error.to_string(),
        r#"IPPool "blue", spec.ranges[1]: "10.78.0.0/33": prefix length must be a number from 0 to 32"#
    );
    assert_eq!(lower_all([&pool]).expect_err("a bad range"), error);
    pool.kind = "IPPond".into();
    assert_eq!(
        lower_all([&pool]).expect_err("a bad kind").to_string(),
        r#"IPPond "blue", kind: unknown kind "IPPond"; did you mean "IPPool"?"#
    );
}

#[test]
fn pools_of_two_kinds_share_one_space_of_names() {
    let bcs = "{net: 10.1.2.0, mask: 24, gateway: 10.1.2.1, hosts: [h], availableIPs: [10.1.2.9]}";
    let bcs = native("BCSNetPool", "blue", bcs).replace("berth.io/v1alpha1", "netservice.bkbcs.tencent.com/v1");
    let objects = [object(&native("IPPool", "blue", "{ranges: [10.77.0.0/16]}")), object(&bcs)];
    let Err(Error::Invalid { field, reason }) = lower_all(&objects) else { panic!("two pools of one name") };
    assert_eq!(field, r#"BCSNetPool "blue", metadata.name"#);
    assert_eq!(reason, r#"IPPool "blue" has that name already; choose another"#);
}

#[test]
fn state_is_raised_into_status() {
    let objects: Vec<Object> = vec![
        object(&native("IPPool", "blue", "{ranges: [10.77.0.0/29], subnet: wide}")),
        object(&native("IPSubnet", "wide", "{cidr: 10.77.0.0/16}")),
    ];
    let mut ipam = Ipam::new();
    let config = lower_all(&objects).expect("lowers");
    ipam.admits(&config).expect("fits together");
    ipam.configure(config);
    let claim = lower_claim(&object(&native("IPClaim", "vip", "{pools: [blue]}"))).expect("lowers");
    assert_eq!(claim_status(&[]), json!({"phase": "Pending", "addresses": []}));
    let now = Time::from_secs(1);
    ipam.allocate(&claim.request(), now, &mut Entropy(1)).expect("room");
    let addresses = ipam.of_identity(&claim.identity);
    assert_eq!(claim_status(&addresses), json!({"phase": "Bound", "addresses": ["10.77.0.2"]}));

    let usage = ipam.pool_usage("blue", now).expect("a pool");
    let pool = ipam.pool("blue").expect("a pool");
    let status = json!({
        "phase": "Ready", "family": "IPv4", "usage": { "capacity": "6", "inUse": "1", "held": "0", "cooling": "0",
        "quarantined": "0", "reserved": "0", "free": "5" },
    });
    assert_eq!(pool_status(pool, &usage), status);
    assert_eq!(pool_status(&Pool { disabled: true, ..(**pool).clone() }, &usage)["phase"], "Disabled");
    let full = berth_core::ipam::Usage { free: 0u32.into(), ..usage };
    assert_eq!(pool_status(pool, &full)["phase"], "Full");
    assert_eq!(subnet_status(&ipam.subnet_usage("wide", now).expect("a subnet"))["usage"]["capacity"], "65533");
}

#[test]
fn schemas_describe_the_fields() {
    use utoipa::PartialSchema;
    let schema = serde_json::to_value(crate::native::PoolSpec::schema()).expect("JSON");
    assert_eq!(schema["required"], json!(["ranges"]));
    assert_eq!(schema["properties"]["ranges"]["items"]["type"], "string");
    assert_eq!(schema["properties"]["coolDown"]["type"], json!(["string", "null"]));
    assert!(schema["properties"]["type"]["description"].as_str().is_some_and(|text| text.contains("`local`")));
}
