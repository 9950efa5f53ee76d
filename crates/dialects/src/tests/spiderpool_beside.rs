//! Spiderpool's objects beside others: what each gets that its maker left out, and who is accepted of those that were made
//! at the same moment.

use crate::spiderpool::defaults::{Owner, defaults, is_owned_by, subnet_of};
use crate::{Object, Verdicts, judge};
use serde_json::{Map, Value, json};

fn value(kind: &str, name: &str, spec: &Value) -> Value {
    let version = if kind.starts_with("Spider") { "spiderpool.spidernet.io/v2beta1" } else { "berth.io/v1alpha1" };
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "uid": name}, "spec": spec})
}

fn aged(second: u8, kind: &str, name: &str, spec: &Value) -> Object {
    let mut value = value(kind, name, spec);
    value["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:{second:02}Z"));
    Object::of_cluster(&value).expect("an object")
}

fn owner(name: &str, uid: Option<&str>) -> Owner {
    Owner { name: name.to_owned(), uid: uid.map(str::to_owned) }
}

/// What an API server makes of a merge patch.
fn merge(into: &mut Value, patch: &Value) {
    match patch {
        Value::Object(fields) => {
            if !into.is_object() {
                *into = Value::Object(Map::new());
            }
            for (key, value) in fields {
                merge(&mut into[key], value);
            }
        }
        other => *into = other.clone(),
    }
}

#[test]
fn what_is_missing_in_an_object_is_filled_in_once() {
    let spec = json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.30-10.0.0.39", "10.0.0.20", "10.0.0.21-10.0.0.31"],
        "excludeIPs": ["10.0.0.25", "10.0.0.24"], "default": true});
    let mut pool = value("SpiderIPPool", "p", &spec);
    let subnet = owner("s", Some("u-s"));
    let patch = defaults(&pool, Some(&subnet)).expect("a patch");
    assert_eq!(
        patch,
        json!({
            "metadata": {
                "finalizers": ["spiderpool.spidernet.io"],
                "labels": {"ipam.spidernet.io/ippool-cidr": "10-0-0-0-24", "ipam.spidernet.io/owner-spider-subnet": "s"},
                "ownerReferences": [{"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderSubnet", "name": "s",
                    "uid": "u-s", "controller": true}],
            },
            "spec": {"ipVersion": 4, "ips": ["10.0.0.20-10.0.0.39"], "excludeIPs": ["10.0.0.24-10.0.0.25"]},
        })
    );
    merge(&mut pool, &patch);
    assert_eq!(defaults(&pool, Some(&subnet)), None, "once");
    assert!(is_owned_by(&pool, "s") && !is_owned_by(&pool, "t"));
    // Without its subnet it keeps what it has; with another one it gets that instead.
    assert_eq!(defaults(&pool, None), None);
    let moved = defaults(&pool, Some(&owner("t", Some("u-t")))).expect("a patch");
    assert_eq!(moved["metadata"]["ownerReferences"][0]["uid"], "u-t");
    assert_eq!(moved["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1));
    let patch = defaults(&value("SpiderSubnet", "s", &json!({"subnet": "fd00::/64"})), None).expect("a patch");
    assert_eq!(patch["metadata"]["labels"], json!({"ipam.spidernet.io/subnet-cidr": "fd00---64"}));
    assert_eq!(
        (&patch["spec"], &patch["metadata"]["finalizers"]),
        (&json!({"ipVersion": 6}), &json!(["spiderpool.spidernet.io"]))
    );
    let reserved = value("SpiderReservedIP", "r", &json!({"ips": ["10.0.0.9", "10.0.0.1-10.0.0.8"]}));
    let patch = json!({"spec": {"ipVersion": 4, "ips": ["10.0.0.1-10.0.0.9"]}});
    assert_eq!(defaults(&reserved, None), Some(patch), "it has neither finalizer nor label");
}

#[test]
fn what_makes_no_sense_or_is_on_its_way_out_is_left_alone() {
    let finalizer = json!({"metadata": {"finalizers": ["spiderpool.spidernet.io"]}});
    for spec in
        [json!({}), json!({"subnet": "x", "ips": ["y", "z"]}), json!({"subnet": 7, "ips": {"a": "b"}}), json!(null)]
    {
        assert_eq!(defaults(&value("SpiderIPPool", "p", &spec), None), Some(finalizer.clone()), "{spec}");
    }
    let odd = json!({"subnet": "10.0.0.0/24", "ipVersion": 4, "ips": ["10.0.0.9", "fd00::1"], "excludeIPs": ["10.0.0.0/30", "10.0.0.1"]});
    let patch = defaults(&value("SpiderIPPool", "p", &odd), None).expect("a patch");
    assert!(patch.get("spec").is_none(), "{patch}");
    // One entry is what its maker wrote, and a range is not walked.
    let huge = json!({"subnet": "fd00::/16", "ips": ["fd00::1-fd00:ffff:ffff:ffff:ffff:ffff:ffff:fff0", "fd00::"]});
    let patch = defaults(&value("SpiderIPPool", "p", &huge), None).expect("a patch");
    assert_eq!(patch["spec"]["ips"], json!(["fd00::-fd00:ffff:ffff:ffff:ffff:ffff:ffff:fff0"]));
    let mut going = value("SpiderIPPool", "p", &json!({"subnet": "10.0.0.0/24"}));
    going["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
    assert_eq!(defaults(&going, None), None);
    for other in [value("IPPool", "p", &json!({"subnet": "s"})), value("SpiderEndpoint", "p", &json!({}))] {
        assert_eq!(defaults(&other, None), None);
    }
}

#[test]
fn a_pool_gets_its_subnet_as_owner_and_keeps_the_owners_it_has() {
    let mut pool = value("SpiderIPPool", "p", &json!({"subnet": "10.0.0.0/24"}));
    let label = |patch: &Value| patch["metadata"]["labels"]["ipam.spidernet.io/owner-spider-subnet"].clone();
    let unknown = defaults(&pool, Some(&owner("s", None))).expect("a patch");
    assert_eq!((label(&unknown), unknown["metadata"].get("ownerReferences")), (json!("s"), None));
    pool["metadata"]["ownerReferences"] = json!([{"kind": "Deployment", "name": "d", "uid": "u-d", "controller": true},
        {"kind": "SpiderSubnet", "name": "s", "uid": "u-before"}]);
    let patch = defaults(&pool, Some(&owner("s", Some("u-s")))).expect("a patch");
    let owners: Vec<_> = patch["metadata"]["ownerReferences"].as_array().expect("owners").iter().collect();
    assert_eq!((owners.len(), &owners[0]["uid"], &owners[1]["uid"]), (2, &json!("u-d"), &json!("u-s")));
    assert!(owners[1].get("controller").is_none(), "there is one controller at most");
    // No label is longer than 63 characters; one that is would have the object refused.
    let long = "s".repeat(200);
    assert_eq!(label(&defaults(&pool, Some(&owner(&long, None))).expect("a patch")), "s".repeat(63));
}

fn refused<'a>(verdicts: &'a Verdicts<'_>) -> Vec<(&'a str, &'static str)> {
    verdicts.refused().map(|(object, refusal)| (object.metadata.name.as_str(), refusal.reason)).collect()
}

/// Spiderpool's #868, its I00009 and I00010.
#[test]
fn of_a_hundred_of_spiderpools_alike_exactly_one_is_accepted() {
    for kind in ["SpiderIPPool", "SpiderSubnet"] {
        let spec = json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.10-10.0.0.19"]});
        let all: Vec<Object> = (0..100).map(|i| aged(7, kind, &format!("p{:02}", (i * 37) % 100), &spec)).collect();
        let verdicts = judge(&all);
        assert_eq!(refused(&verdicts).len(), 99, "{kind}");
        assert!(verdicts.refused().all(|(_, refusal)| refusal.reason == "Overlaps"));
        assert_eq!(verdicts.objects[0].0.metadata.name, "p00");
        assert!(verdicts.objects[0].1.is_none(), "the one that comes first by UID, for everybody");
    }
}

#[test]
fn of_a_pool_of_spiderpools_and_one_of_berths_the_older_is_accepted() {
    let spider = |age| aged(age, "SpiderIPPool", "theirs", &json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.9"]}));
    let own = |age| aged(age, "IPPool", "ours", &json!({"ranges": ["10.0.0.8/30"]}));
    assert_eq!(refused(&judge(&[spider(1), own(2)])), [("ours", "Overlaps")]);
    assert_eq!(refused(&judge(&[spider(2), own(1)])), [("theirs", "Overlaps")]);
}

#[test]
fn what_one_pool_leaves_out_another_may_have() {
    let spec = |ips: &str, exclude: &[&str]| json!({"subnet": "10.0.0.0/24", "ips": [ips], "excludeIPs": exclude});
    let most = aged(1, "SpiderIPPool", "most", &spec("10.0.0.10-10.0.0.19", &["10.0.0.15"]));
    let rest = |exclude: &[&str]| aged(2, "SpiderIPPool", "rest", &spec("10.0.0.14-10.0.0.15", exclude));
    assert_eq!(refused(&judge(&[most.clone(), rest(&["10.0.0.14"])])), []);
    assert_eq!(refused(&judge(&[most, rest(&[])])), [("rest", "Overlaps")]);
}

/// Pools and subnets do not name each other, so that neither is the other's condition: who came first stays.
#[test]
fn a_subnet_that_does_not_go_together_with_older_pools_is_not_accepted() {
    let pool =
        |age, subnet: &str| aged(age, "SpiderIPPool", "p", &json!({"subnet": subnet, "ips": ["10.0.0.10-10.0.0.19"]}));
    let subnet = |age, ips: &str| aged(age, "SpiderSubnet", "s", &json!({"subnet": "10.0.0.0/24", "ips": [ips]}));
    // Another CIDR around the same addresses.
    let (all, part) = ("10.0.0.1-10.0.0.99", "10.0.0.10-10.0.0.15");
    assert_eq!(refused(&judge(&[pool(1, "10.0.0.0/25"), subnet(2, all)])), [("s", "Overlaps")]);
    assert_eq!(refused(&judge(&[pool(2, "10.0.0.0/25"), subnet(1, all)])), [("p", "Overlaps")]);
    // The same CIDR without all of its addresses.
    assert_eq!(refused(&judge(&[pool(1, "10.0.0.0/24"), subnet(2, part)])), [("s", "Invalid")]);
    assert_eq!(refused(&judge(&[pool(2, "10.0.0.0/24"), subnet(1, part)])), [("p", "Invalid")]);
    assert_eq!(refused(&judge(&[pool(1, "10.0.0.0/24"), subnet(2, all)])), []);
    // A pool that is not accepted itself is in nobody's way.
    let older = aged(0, "SpiderIPPool", "o", &json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.10"]}));
    assert_eq!(refused(&judge(&[older, pool(1, "10.0.0.0/25"), subnet(2, all)])), [("p", "Overlaps")]);
}

#[test]
fn a_pool_belongs_to_the_subnet_that_is_accepted() {
    let subnet = |age, name: &str, gateway: &str| {
        let spec = json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.10-10.0.0.99"], "gateway": gateway});
        aged(age, "SpiderSubnet", name, &spec)
    };
    let spec = json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.20"]});
    let all = [subnet(2, "a", "10.0.0.2"), subnet(1, "b", "10.0.0.1"), aged(3, "SpiderIPPool", "p", &spec)];
    let verdicts = judge(&all);
    assert_eq!(refused(&verdicts), [("a", "Overlaps")]);
    assert_eq!(verdicts.config.pools["p"].subnet.as_deref(), Some("b"));
    let found = subnet_of(&value("SpiderIPPool", "new", &spec), &verdicts.config);
    assert_eq!(found.map(|subnet| subnet.name.as_str()), Some("b"));
}
