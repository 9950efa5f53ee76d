//! What a pool may say: who uses it, how much, how soon again, in which units.

use berth_e2e::http::text;
use berth_e2e::{Call, Home, Ran, until};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn pool(name: &str, spec: &Value) -> String {
    let kind = json!({"apiVersion": "berth.io/v1alpha1", "kind": "IPPool", "metadata": {"name": name}, "spec": spec});
    format!("---\n{kind}\n")
}

fn add(home: &Home, namespace: &str, container: &str, ipam: &Value) -> Ran {
    Call::new("ADD", container).pod(namespace, container).run(&home.config("1.0.0", ipam))
}

#[test]
fn selectors_bind_even_when_the_pool_or_the_address_is_named() {
    let home = Home::new();
    let own = json!({"ranges": ["10.1.0.0/24"], "allow": {"namespaces": ["blue-*"]}});
    let elsewhere = json!({"ranges": ["10.2.0.0/24"], "allow": {"nodes": ["node-2"]}});
    let daemon = home.start_with_manifests(&(pool("blue", &own) + &pool("far", &elsewhere)));
    assert_eq!(add(&home, "blue-1", "a", &json!({})).addresses().len(), 1);
    let refused = [
        add(&home, "red", "b", &json!({})),
        add(&home, "red", "b", &json!({"pools": ["blue"]})),
        add(&home, "blue-1", "b", &json!({"pools": ["far"]})),
        Call::new("ADD", "b").run(&home.config("1.0.0", &json!({"pools": ["blue"]}))),
    ];
    for ran in refused {
        let said = ran.failed(101);
        assert!(said.contains("berth explain"), "{said}");
    }
    let mut config = home.config("1.0.0", &json!({}));
    config["runtimeConfig"] = json!({"ips": ["10.1.0.99"]});
    let said = Call::new("ADD", "b").pod("red", "b").run(&config);
    assert_ne!(said.code, 0, "{said:?}");
    assert_eq!(daemon.holders("Active"), ["a"]);
}

#[test]
fn a_namespace_gets_no_more_than_its_quota() {
    let home = Home::new();
    let spec = json!({"ranges": ["10.1.0.0/24"], "quota": {"perNamespace": 2, "namespaces": {"big": 3}}});
    let _daemon = home.start_with_manifests(&pool("shared", &spec));
    for (namespace, limit) in [("small", 2), ("big", 3)] {
        for n in 0..limit {
            let _ = add(&home, namespace, &format!("{namespace}-{n}"), &json!({})).ok();
        }
        let said = add(&home, namespace, &format!("{namespace}-x"), &json!({})).failed(106);
        assert!(said.contains(namespace) && said.contains(&limit.to_string()), "{said}");
        let _ = add(&home, namespace, &format!("{namespace}-0"), &json!({})).ok();
    }
    home.del("small-0");
    let _ = add(&home, "small", "small-y", &json!({})).ok();
}

#[test]
fn a_released_address_rests() {
    let home = Home::new();
    let resting = |name: &str, range: &str, cool_down: &str, reuse: bool| {
        pool(name, &json!({"ranges": [range], "prefixLength": 24, "coolDown": cool_down, "reuseCooling": reuse}))
    };
    let daemon = home.start_with_manifests(
        &[
            resting("patient", "10.1.0.10", "1h", false),
            resting("hasty", "10.2.0.10", "1h", true),
            resting("brief", "10.3.0.10", "300ms", false),
        ]
        .concat(),
    );
    let config = |pool: &str| json!({ "pools": [pool] });
    for pool in ["patient", "hasty", "brief"] {
        let _ = add(&home, "n", pool, &config(pool)).ok();
        home.del(pool);
    }
    let said = add(&home, "n", "b", &config("patient")).failed(102);
    assert!(said.contains("cooling"), "{said}");
    let shown = daemon.http.get("/v1alpha1/addresses/10.1.0.10").ok();
    assert_eq!(shown["items"][0]["state"], "Cooling");
    let _ = add(&home, "n", "b", &config("hasty")).ok();
    until("the address to have rested", || (add(&home, "n", "c", &config("brief")).code == 0).then_some(()));
}

#[test]
fn a_pool_may_give_out_prefixes() {
    let home = Home::new();
    let prefixes = json!({"ranges": ["2001:db8:77::/48"], "unitPrefixLength": 64, "pick": "Sequential"});
    let daemon = home.start_with_manifests(&pool("delegated", &prefixes));
    let mut given = Vec::new();
    for n in 0..3 {
        let addresses = home.add(&format!("c{n}"));
        assert_eq!(addresses.len(), 1);
        assert!(addresses[0].starts_with("2001:db8:77:") && addresses[0].ends_with("/64"), "{addresses:?}");
        given.extend(addresses);
    }
    let units = daemon.http.get("/v1alpha1/addresses").ok();
    let units: BTreeSet<&str> = units["items"].as_array().unwrap().iter().map(|item| text(&item["unit"])).collect();
    assert_eq!(units, given.iter().map(String::as_str).collect(), "three different prefixes, each of one container");
    let usage = daemon.http.get("/v1alpha1/usage").ok();
    assert_eq!(usage["pools"][0]["usage"]["capacity"], "65536");
    assert_eq!(usage["pools"][0]["usage"]["inUse"], "3");
    daemon.check();
}

#[test]
fn the_same_address_may_be_held_once_in_each_network() {
    let home = Home::new();
    let spec = |network: &str| json!({"ranges": ["10.1.0.10"], "prefixLength": 24, "network": network});
    let daemon = home.start_with_manifests(&(pool("red", &spec("red")) + &pool("blue", &spec("blue"))));
    for network in ["red", "blue"] {
        assert_eq!(add(&home, "n", network, &json!({"network": network})).addresses(), ["10.1.0.10/24"]);
        add(&home, "n", "late", &json!({"network": network})).failed(102);
    }
    assert_eq!(daemon.held("Active").len(), 2);
    daemon.check();
}

#[test]
fn a_sticky_pool_keeps_addresses_for_pods_by_name() {
    let home = Home::new();
    let spec = json!({"ranges": ["10.1.0.10-10.1.0.12"], "prefixLength": 24, "sticky": {"keep": "300ms"}});
    let daemon = home.start_with_manifests(&pool("sticky", &spec));
    let web = |container: &str| Call::new("ADD", container).pod("shop", "web-0").run(&home.config("1.0.0", &json!({})));
    let first = web("c1").addresses();
    home.del("c1");
    assert_eq!(web("c2").addresses(), first);
    home.del("c2");
    assert_eq!(daemon.held("Held").len(), 1);
    until("the hold to run out", || daemon.held("Held").is_empty().then_some(()));
}
