//! I: subnets, and the pools of applications that are cut from them.

use berth_core::addr::Range;
use berth_e2e_cluster::Case;
use berth_e2e_cluster::case::BERTH;
use berth_e2e_cluster::sandbox::INTERFACES;
use berth_e2e_cluster::workloads::KINDS;
use serde_json::{Value, json};
use std::net::IpAddr;

/// The pools that are cut from subnets of this case for applications.
pub(crate) fn app_pools(case: &Case<'_>) -> Vec<Value> {
    let own = |pool: &Value| pool["spec"]["application"]["namespace"] == case.namespace.as_str();
    case.list_berth("IPPool").into_iter().filter(own).collect()
}

fn ranges(pool: &Value) -> Vec<Range> {
    let texts = pool["spec"]["ranges"].as_array().unwrap().iter();
    texts.map(|text| text.as_str().unwrap().parse().unwrap()).collect()
}

/// How large pools are, in order of size.
pub(crate) fn sizes_of(pools: &[Value]) -> Vec<u128> {
    let size = |range: Range| range.last_number() - range.first_number() + 1;
    let mut sizes: Vec<u128> = pools.iter().map(|pool| ranges(pool).into_iter().map(size).sum()).collect();
    sizes.sort_unstable();
    sizes
}

/// Whether an address is of a pool.
pub(crate) fn has(pool: &Value, address: IpAddr) -> bool {
    ranges(pool).iter().any(|range| range.contains(address))
}

/// Waits until the pools of applications have these sizes.
#[track_caller]
fn until_sizes(case: &Case<'_>, expected: &[u128]) {
    case.until_or(
        || format!("pools of {expected:?}, not {:?}", sizes_of(&app_pools(case))),
        || sizes_of(&app_pools(case)) == expected,
    );
}

fn asks(case: &Case<'_>, size: Option<&str>) -> Value {
    let mut asks = json!({"berth.io/subnets": case.name("s")});
    if let Some(size) = size {
        asks["berth.io/pool-size"] = json!(size);
    }
    asks
}

#[test]
fn i00001_and_i00002_subnets_are_made_changed_and_deleted_and_pools_take_and_return_addresses() {
    let Some(case) = Case::begin() else { return };
    let spec = |gateway: &str| json!({"cidr": "10.N.0.0/24", "gateway": gateway});
    case.berth_refused("IPSubnet", "s", &json!({"cidr": "10.N.0.9/24"}), "host bits");
    case.berth_refused("IPSubnet", "s", &spec("10.N.1.1"), "gateway must be inside cidr");
    case.berth("IPSubnet", "s", &spec("10.N.0.1"));
    case.berth("IPSubnet", "s", &spec("10.N.0.254"));
    case.berth_refused("IPSubnet", "s", &json!({"cidr": "10.N.0.0/23"}), "cannot be changed");
    case.berth_refused("IPSubnet", "t", &json!({"cidr": "10.N.0.128/25"}), "overlaps IPSubnet \"cN-s\"");
    let pool = |ranges: &str| json!({"subnet": case.name("s"), "ranges": [ranges]});
    case.berth("IPPool", "a", &pool("10.N.0.10-10.N.0.19"));
    case.berth("IPPool", "b", &pool("10.N.0.20-10.N.0.29"));
    // What one gives back the other can have.
    case.until("the webhook to know", || case.try_berth("IPPool", "b", &pool("10.N.0.15-10.N.0.29")).is_err());
    case.berth("IPPool", "a", &pool("10.N.0.10-10.N.0.14"));
    case.until("room", || case.try_berth("IPPool", "b", &pool("10.N.0.15-10.N.0.29")).is_ok());
    assert!(case.delete_berth("IPSubnet", "s").unwrap_err().contains("is in use"));
    for name in ["a", "b"] {
        case.delete_berth("IPPool", name).unwrap();
    }
    case.until("the subnet to go", || {
        let _ = case.delete_berth("IPSubnet", "s");
        case.get_berth("IPSubnet", "s").is_none()
    });
}

/// The number has a test of its own for Deployments: `application_pools.rs`.
#[test]
fn i00003_workloads_of_every_kind_have_a_pool_that_follows_them() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPSubnet", "s", &json!({"cidr": "10.N.0.0/24"}));
    let _nodes = [case.node("n1", &json!({})), case.node("n2", &json!({}))];
    let (asks, replicas) = (asks(&case, None), 3);
    // A Deployment has one more, for the pod that comes before another goes; a CronJob runs nothing yet.
    let expected = [
        ("Deployment", 4, 3),
        ("ReplicaSet", 3, 3),
        ("StatefulSet", 3, 3),
        ("DaemonSet", 2, 2),
        ("Job", 3, 3),
        ("CronJob", 3, 0),
    ];
    let pool_of = |kind: &str| app_pools(&case).into_iter().find(|pool| pool["spec"]["application"]["kind"] == kind);
    let size = |kind: &str| pool_of(kind).map_or(0, |pool| sizes_of(&[pool])[0]);
    for kind in KINDS {
        case.run(kind, &kind.to_lowercase(), replicas, &asks);
    }
    for (kind, addresses, pods) in expected {
        case.until_or(|| format!("{kind}: a pool of {addresses}, not {}", size(kind)), || size(kind) == addresses);
        let pool = pool_of(kind).unwrap();
        for seen in case.until_running(&kind.to_lowercase(), pods) {
            assert!(has(&pool, seen.addresses[0]), "{seen:?} is not in {pool}");
        }
    }
    case.sane(&[&case.namespace]);
    // Restarted: other pods, the same pools.
    for seen in case.pods_of(&case.namespace, None) {
        if !seen.pod.name.starts_with("job") {
            case.end_pod(&seen.pod);
        }
    }
    for kind in ["Deployment", "ReplicaSet", "StatefulSet"] {
        case.scale(kind, &kind.to_lowercase(), 5);
    }
    for (kind, addresses) in [("Deployment", 6), ("ReplicaSet", 5), ("StatefulSet", 5)] {
        case.until_or(|| format!("{kind}: a pool of {addresses}, not {}", size(kind)), || size(kind) == addresses);
        case.until_running(&kind.to_lowercase(), 5);
    }
    case.until_running("daemonset", 2);
    for kind in ["Deployment", "ReplicaSet", "StatefulSet"] {
        case.scale(kind, &kind.to_lowercase(), 1);
    }
    for (kind, addresses) in [("Deployment", 2), ("ReplicaSet", 1), ("StatefulSet", 1)] {
        case.until_or(|| format!("{kind}: a pool of {addresses}, not {}", size(kind)), || size(kind) == addresses);
    }
    case.sane(&[&case.namespace]);
    for kind in KINDS {
        case.remove(kind, &kind.to_lowercase());
    }
    until_sizes(&case, &[]);
    case.until_used(0);
}

#[test]
fn i00004_and_i00011_what_is_reserved_or_in_a_pool_of_people_is_in_no_pool_of_an_application() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPReservation", "r", &json!({"addresses": ["10.N.0.2-10.N.0.4", "10.N.0.6"]}));
    case.berth("IPSubnet", "s", &json!({"cidr": "10.N.0.0/24"}));
    case.berth("IPPool", "manual", &json!({"subnet": case.name("s"), "ranges": ["10.N.0.8-10.N.0.9"]}));
    case.until("the pool to be known", || case.get_berth("IPPool", "manual").unwrap()["status"]["phase"] == "Ready");
    let _node = case.node("n1", &json!({}));
    case.run("Deployment", "web", 3, &asks(&case, Some("4")));
    until_sizes(&case, &[4]);
    let given: Vec<String> =
        app_pools(&case)[0]["spec"]["ranges"].as_array().unwrap().iter().map(Value::to_string).collect();
    for address in ["10.N.0.1", "10.N.0.2", "10.N.0.4", "10.N.0.6", "10.N.0.8", "10.N.0.9"] {
        let address: IpAddr = case.here(address).parse().unwrap();
        assert!(!has(&app_pools(&case)[0], address), "{address} is in {given:?}");
    }
    case.until_running("web", 3);
    // Reserved since: the pool has another instead, and who has the address keeps it.
    let mine = case.pods_of(&case.namespace, Some("web"))[0].addresses[0];
    case.berth("IPReservation", "late", &json!({"addresses": [mine.to_string()]}));
    until_sizes(&case, &[5]);
    case.sane(&[&case.namespace]);
}

#[test]
fn i00005_an_edit_of_a_subnets_gateway_or_routes_is_for_pools_that_have_none_of_their_own() {
    let Some(case) = Case::begin() else { return };
    let spec = |gateway: &str, dst: &str| json!({"cidr": "10.N.0.0/24", "gateway": gateway, "routes": [{"dst": dst}]});
    case.berth("IPSubnet", "s", &spec("10.N.0.1", "192.168.0.0/16"));
    case.berth("IPPool", "heir", &json!({"subnet": case.name("s"), "ranges": ["10.N.0.10-10.N.0.99"]}));
    case.berth(
        "IPPool",
        "own",
        &json!({"subnet": case.name("s"), "ranges": ["10.N.0.100-10.N.0.199"],
        "gateway": "10.N.0.3", "routes": [{"dst": "10.0.0.0/8"}]}),
    );
    let agent = case.node_without_kubelet("n1", &json!({}));
    let mut number = 0;
    let mut answer = |pool: &str| {
        number += 1;
        let annotations = super::pools(&[case.name(pool)]);
        let pod =
            case.pod_on(&agent, &case.namespace, &format!("{pool}-{number}"), &json!({"annotations": annotations}));
        let said = agent.add(&pod, &pod.name).json();
        (said["ips"][0]["gateway"].clone(), said["routes"][0]["dst"].clone())
    };
    let own = (json!(case.here("10.N.0.3")), json!("10.0.0.0/8"));
    assert_eq!(answer("heir"), (json!(case.here("10.N.0.1")), json!("192.168.0.0/16")));
    assert_eq!(answer("own"), own);
    case.berth("IPSubnet", "s", &spec("10.N.0.2", "172.16.0.0/12"));
    let new = (json!(case.here("10.N.0.2")), json!("172.16.0.0/12"));
    case.until("the heir to know", || answer("heir") == new);
    assert_eq!(answer("own"), own);
}

#[test]
fn i00007_thirty_pools_of_people_on_one_subnet_are_changed_all_at_once() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPSubnet", "s", &json!({"cidr": "10.N.0.0/24"}));
    let spec = |i: u32, size: u32| {
        let first = 2 + i * 5;
        json!({"subnet": case.name("s"), "ranges": [format!("10.N.0.{first}-10.N.0.{}", first + size - 1)]})
    };
    let all = |size: &(dyn Fn(u32) -> u32 + Sync)| {
        std::thread::scope(|scope| {
            for part in 0..3 {
                let (case, spec) = (&case, &spec);
                scope.spawn(move || {
                    for i in part * 10..part * 10 + 10 {
                        case.berth("IPPool", &format!("p{i}"), &spec(i, size(i)));
                    }
                });
            }
        });
    };
    let total = |expected: u32| {
        let capacity = |i: u32| {
            let pool = case.get_berth("IPPool", &format!("p{i}")).unwrap_or_default();
            pool["status"]["usage"]["capacity"].as_str().and_then(|text| text.parse::<u32>().ok()).unwrap_or(0)
        };
        case.until(&format!("{expected} addresses in all"), || (0..30).map(capacity).sum::<u32>() == expected);
    };
    all(&|_| 3);
    total(90);
    // Half of them grow, half of them shrink.
    all(&|i| if i < 15 { 5 } else { 1 });
    total(90);
    (0..30).for_each(|i| case.delete_berth("IPPool", &format!("p{i}")).unwrap());
    case.until("all to go", || (0..30).all(|i| case.get_berth("IPPool", &format!("p{i}")).is_none()));
    case.until("the subnet to be empty", || {
        case.get_berth("IPSubnet", "s").unwrap()["status"]["usage"]["inUse"] != json!("1")
    });
}

#[test]
fn i00009_and_i00010_of_a_hundred_subnets_or_pools_alike_one_is_accepted() {
    let Some(case) = Case::begin() else { return };
    // The webhook refuses most of them, and those that were quicker than its picture are judged afterwards.
    for (kind, spec) in [("IPSubnet", json!({"cidr": "10.N.0.0/24"})), ("IPPool", json!({"ranges": ["10.N.1.0/24"]}))] {
        let made = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for part in 0..4 {
                let (case, spec, made) = (&case, &spec, &made);
                scope.spawn(move || {
                    for i in 0..25 {
                        if case.try_berth(kind, &format!("twin-{part}-{i}"), spec).is_ok() {
                            made.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        }
                    }
                });
            }
        });
        let made = made.into_inner() as usize;
        let verdicts = || {
            let own = |object: &Value| object["metadata"]["name"].as_str().unwrap().starts_with(&case.name("twin-"));
            let reason = |object: &Value| {
                let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let accepted = conditions.into_iter().find(|condition| condition["type"] == "Accepted");
                accepted.map(|condition| condition["reason"].to_string()).unwrap_or_default()
            };
            case.list_berth(kind).iter().filter(|object| own(object)).map(reason).collect::<Vec<_>>()
        };
        case.until_or(
            || format!("one of {made} to be accepted: {:?}", verdicts()),
            || {
                let all = verdicts();
                let count = |reason: &str| all.iter().filter(|text| **text == format!("\"{reason}\"")).count();
                all.len() == made && count("Accepted") == 1 && count("Overlaps") == made - 1
            },
        );
        assert!(made >= 1);
    }
}

#[test]
fn i00012_and_i00021_an_application_with_more_interfaces_has_a_pool_for_each() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPSubnet", "s", &json!({"cidr": "10.N.0.0/24"}));
    case.berth("IPSubnet", "t", &json!({"cidr": "10.N.1.0/24"}));
    let _node = case.node("n1", &json!({}));
    let several = |subnets: &[&str]| {
        let entry = |subnet: &&str| json!({"subnets": [case.name(subnet)]});
        let names: Vec<&str> = ["eth0", "net1"].into_iter().take(subnets.len()).collect();
        let list = Value::Array(subnets.iter().map(entry).collect());
        json!({"berth.io/networks": list.to_string(), "berth.io/pool-size": "4", INTERFACES: names.join(",")})
    };
    case.run("Deployment", "two", 2, &several(&["s", "t"]));
    until_sizes(&case, &[4, 4]);
    case.until_running("two", 2);
    assert_eq!(case.used(), 4, "two pods of two interfaces");
    case.remove("Deployment", "two");
    case.until_gone("two");
    until_sizes(&case, &[]);
    // One that had one interface, under the same name with two.
    case.run("Deployment", "web", 2, &several(&["s"]));
    until_sizes(&case, &[4]);
    case.until_running("web", 2);
    let first = app_pools(&case)[0]["metadata"]["name"].clone();
    case.remove("Deployment", "web");
    case.until_gone("web");
    case.run("Deployment", "web", 2, &several(&["s", "t"]));
    until_sizes(&case, &[4, 4]);
    case.until_running("web", 2);
    case.until("four addresses", || case.used() == 4);
    assert!(app_pools(&case).iter().any(|pool| pool["metadata"]["name"] == first), "{first} is the same application's");
    case.check();
}

/// Berth has no default subnet: a pod that names nothing gets a default pool, of the cluster or of its namespace.
#[test]
fn i00013_and_i00014_a_namespace_has_pools_by_default_and_workloads_that_ask_for_a_subnet_their_own() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPSubnet", "s", &json!({"cidr": "10.N.0.0/24"}));
    case.berth("IPPool", "default", &json!({"subnet": case.name("s"), "ranges": ["10.N.0.200-10.N.0.209"]}));
    case.make_namespace(&case.namespace, &json!({"annotations": {"berth.io/pools": case.name("default")}}));
    let _node = case.node("n1", &json!({}));
    case.run("Deployment", "plain", 2, &json!({}));
    case.run("Deployment", "own", 2, &asks(&case, Some("2")));
    let manual = case.get_berth("IPPool", "default").unwrap();
    for seen in case.until_running("plain", 2) {
        assert!(has(&manual, seen.addresses[0]), "{seen:?}");
    }
    until_sizes(&case, &[2]);
    for seen in case.until_running("own", 2) {
        assert!(has(&app_pools(&case)[0], seen.addresses[0]), "{seen:?}");
    }
    case.sane(&[&case.namespace]);
}

#[test]
fn i00017_an_application_with_the_longest_name_there_can_be_has_a_pool() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPSubnet", "s", &json!({"cidr": "10.N.0.0/24"}));
    let _node = case.node("n1", &json!({}));
    let asks = asks(&case, Some("2"));
    // A Deployment may have 253 characters; the name of the app is also a label here, which may have 63.
    let name = "long-name".repeat(28) + "x";
    assert_eq!(name.len(), 253);
    let twin = "long-name".repeat(28) + "y";
    for name in [&name, &twin] {
        let mut object = case.workload("Deployment", "long", 1, &asks);
        object["metadata"]["name"] = json!(name);
        object["spec"]["selector"]["matchLabels"]["app"] = json!(&name[252..]);
        object["spec"]["template"]["metadata"]["labels"]["app"] = json!(&name[252..]);
        case.apply(&object);
    }
    until_sizes(&case, &[2, 2]);
    for app in ["x", "y"] {
        case.until_running(app, 1);
    }
    case.sane(&[&case.namespace]);
}

#[test]
fn i00018_the_ranges_of_an_applications_pool_are_not_for_people_to_change() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPSubnet", "s", &json!({"cidr": "10.N.0.0/24"}));
    case.run("Deployment", "web", 0, &asks(&case, Some("3")));
    until_sizes(&case, &[3]);
    let pool = app_pools(&case).remove(0);
    let (name, mut spec) = (pool["metadata"]["name"].as_str().unwrap(), pool["spec"].clone());
    spec["ranges"] = json!([case.here("10.N.0.100-10.N.0.110")]);
    let object = json!({"apiVersion": BERTH, "kind": "IPPool", "metadata": {"name": name}, "spec": spec});
    let said = case.try_apply(&object).unwrap_err();
    assert!(said.contains("the pool is sized by Berth for its application"), "{said}");
    assert_eq!(app_pools(&case)[0]["spec"], pool["spec"]);
}

#[test]
fn i00022_a_status_that_somebody_spoiled_is_put_right() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPSubnet", "s", &json!({"cidr": "10.N.0.0/24"}));
    let _node = case.node("n1", &json!({}));
    case.run("Deployment", "web", 2, &asks(&case, Some("4")));
    case.until_running("web", 2);
    let in_use = |object: Option<Value>| object.unwrap_or_default()["status"]["usage"]["inUse"].clone();
    case.until("the subnet to count", || in_use(case.get_berth("IPSubnet", "s")) == "2");
    let pool = app_pools(&case)[0]["metadata"]["name"].as_str().unwrap().to_owned();
    for (kind, name) in [("IPSubnet", case.name("s")), ("IPPool", pool.clone())] {
        case.spoil_status(kind, &name, &json!({"usage": {"inUse": "77", "free": "0", "capacity": "78"}}));
    }
    case.until("the subnet to be put right", || in_use(case.get_berth("IPSubnet", "s")) == "2");
    case.until("the pool to be put right", || in_use(case.get(BERTH, "IPPool", None, &pool)) == "2");
    case.remove("Deployment", "web");
    until_sizes(&case, &[]);
    case.until("the subnet to be empty", || in_use(case.get_berth("IPSubnet", "s")) == "0");
}

#[test]
fn i00023_a_pod_without_a_controller_has_no_application_and_is_told() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPSubnet", "s", &json!({"cidr": "10.N.0.0/24"}));
    let node = case.node("n1", &json!({}));
    let bare = case.pod_on(&node, &case.namespace, "bare", &json!({"annotations": asks(&case, None)}));
    case.refused(&bare, "controller");
    assert!(app_pools(&case).is_empty());
    assert_eq!(case.used(), 0);
}
