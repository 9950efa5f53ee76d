//! The verbs of CNI, through the daemon.

use berth_e2e::{Call, Home};
use serde_json::{Value, json};

/// Two families, routes and DNS; 10.5.0.1 is the router.
const MANIFESTS: &str = "
apiVersion: berth.io/v1alpha1
kind: IPSubnet
metadata: {name: lan}
spec: {cidr: 10.5.0.0/24, routes: [{dst: 0.0.0.0/0}], dns: {nameservers: [10.5.0.53], search: [shop.example]}}
---
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: four}
spec: {ranges: [10.5.0.10-10.5.0.13], subnet: lan, pick: Sequential}
---
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: six}
spec: {ranges: ['fd00:5::/64'], pick: Sequential}
";

const VERSIONS: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

#[test]
fn every_version_gets_its_own_shape() {
    let home = Home::new();
    let _daemon = home.start_with_manifests(MANIFESTS);
    let dns = json!({"nameservers": ["10.5.0.53"], "search": ["shop.example"]});
    for version in VERSIONS {
        let result = Call::new("ADD", "c1").run(&home.config(version, &json!({}))).ok();
        let expected = match version {
            "0.1.0" | "0.2.0" => json!({
                "ip4": {"ip": "10.5.0.10/24", "gateway": "10.5.0.1", "routes": [{"dst": "0.0.0.0/0"}]},
                "ip6": {"ip": "fd00:5::2/64", "gateway": "fd00:5::1"},
            }),
            "0.3.0" | "0.3.1" | "0.4.0" => json!({
                "ips": [
                    {"version": "4", "address": "10.5.0.10/24", "gateway": "10.5.0.1"},
                    {"version": "6", "address": "fd00:5::2/64", "gateway": "fd00:5::1"},
                ],
                "routes": [{"dst": "0.0.0.0/0"}],
            }),
            _ => json!({
                "ips": [
                    {"address": "10.5.0.10/24", "gateway": "10.5.0.1"},
                    {"address": "fd00:5::2/64", "gateway": "fd00:5::1"},
                ],
                "routes": [{"dst": "0.0.0.0/0"}],
            }),
        };
        let mut expected = expected;
        expected["cniVersion"] = json!(version);
        expected["dns"] = dns.clone();
        assert_eq!(result, expected, "{version}; and ADD again is the same ADD");
    }
}

#[test]
fn add_and_del_any_number_of_times_in_any_order() {
    let home = Home::new();
    let daemon = home.start_with_manifests(MANIFESTS);
    home.del("c1");
    let first = home.add("c1");
    assert_eq!(home.add("c1"), first);
    let second = Call::new("ADD", "c1").ifname("eth1").run(&home.config("1.0.0", &json!({}))).addresses();
    assert_ne!(second, first, "another interface has an address of its own");
    for _ in 0..3 {
        home.del("c1");
    }
    assert_eq!(daemon.holders("Active"), ["c1", "c1"], "both families of eth1 stay");
    Call::new("DEL", "c1").ifname("eth1").run(&home.config("1.0.0", &json!({}))).silent();
    assert!(daemon.held("Active").is_empty());
}

#[test]
fn del_needs_nothing_but_the_network_and_the_container() {
    let home = Home::new();
    let daemon = home.start_with_manifests(MANIFESTS);
    let _ = home.add("c1");
    let changed = home.config("0.3.1", &json!({"pools": ["gone"], "families": ["IPv6"], "surprise": true}));
    Call::new("DEL", "c1").env("CNI_NETNS", "").run(&changed).silent();
    assert!(daemon.held("Active").is_empty());
}

#[test]
fn a_forged_del_of_another_network_frees_nothing() {
    let home = Home::new();
    let daemon = home.start_with_manifests(MANIFESTS);
    let _ = home.add("c1");
    let mut config = home.config("1.0.0", &json!({}));
    config["name"] = json!("net2");
    Call::new("DEL", "c1").run(&config).silent();
    Call::new("DEL", "c").run(&home.config("1.0.0", &json!({}))).silent();
    assert_eq!(daemon.holders("Active"), ["c1", "c1"]);
}

#[test]
fn status_is_50_when_nothing_is_left() {
    let home = Home::new();
    let _daemon = home.start_with_manifests(MANIFESTS);
    let four = home.config("1.1.0", &json!({"pools": ["four"]}));
    let status = |config: &Value| Call::new("STATUS", "").run(config);
    status(&four).silent();
    status(&home.config("1.1.0", &json!({}))).silent();
    for n in 0..4 {
        let _ = Call::new("ADD", &format!("c{n}")).run(&four).ok();
    }
    let said = status(&four).failed(50);
    assert!(said.contains("no address left") && said.contains("berth show"), "{said}");
    status(&home.config("1.1.0", &json!({"pools": ["six"]}))).silent();
    // ADD of both families would fail, so STATUS must not say that it would not.
    let both = home.config("1.1.0", &json!({"families": ["IPv4", "IPv6"]}));
    Call::new("ADD", "c9").run(&both).failed(102);
    status(&both).failed(50);
    status(&home.config("1.1.0", &json!({}))).failed(50);
    status(&home.config("1.1.0", &json!({"families": ["IPv6"]}))).silent();
    let said = status(&home.config("1.1.0", &json!({"pools": ["nine"]}))).failed(50);
    assert!(said.contains("nine"), "{said}");
    Call::new("DEL", "c0").run(&four).silent();
    status(&four).silent();
    status(&home.config("1.1.0", &json!({"pools": ["four"], "network": "blue"}))).failed(50);
}

/// STATUS asks about the very ADD that the configuration makes: its claim, its ranges, on this node.
#[test]
fn status_looks_at_claims_ranges_and_the_node() {
    let home = Home::new();
    let daemon = home.start_with_manifests(&format!(
        "{MANIFESTS}---
apiVersion: berth.io/v1alpha1
kind: IPClaim
metadata: {{name: db, namespace: shop}}
spec: {{pools: [four]}}
---
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {{name: elsewhere}}
spec: {{ranges: [10.9.0.0/24], allow: {{nodes: [node-2]}}}}
"
    ));
    let status = |config: &Value| Call::new("STATUS", "").run(config);
    let claim = |name: &str| home.config("1.1.0", &json!({ "claim": name }));
    status(&claim("shop/db")).silent();
    status(&claim("db")).silent();
    for unknown in ["shop/web", "web", "default/db"] {
        let said = status(&claim(unknown)).failed(50);
        assert!(said.contains("claim") && said.contains("does not exist"), "{said}");
    }
    let _ = Call::new("ADD", "c1").run(&claim("shop/db")).ok();
    let said = status(&claim("shop/db")).failed(50);
    assert!(said.contains("10.5.0.10 is taken by container c1"), "{said}");
    Call::new("DEL", "c1").run(&claim("shop/db")).silent();
    status(&claim("db")).silent();

    let ranged = |start: &str| {
        let mut config = home.config("1.1.0", &json!({"pools": ["four"]}));
        let set = json!([[{"subnet": "10.5.0.0/24", "rangeStart": start, "rangeEnd": "10.5.0.11"}]]);
        config["runtimeConfig"] = json!({ "ipRanges": set });
        config
    };
    status(&ranged("10.5.0.11")).silent();
    let _ = Call::new("ADD", "c2").run(&ranged("10.5.0.11")).ok();
    status(&ranged("10.5.0.11")).failed(50);
    status(&ranged("10.5.0.10")).failed(50);

    let said = status(&home.config("1.1.0", &json!({"pools": ["elsewhere"]}))).failed(50);
    assert!(said.contains("node-1"), "{said}");
    assert_eq!(daemon.holders("Active"), ["c2"], "asking leaves nothing behind");
}

#[test]
fn gc_frees_what_is_not_listed_under_either_key() {
    let home = Home::new();
    let daemon = home.start_with_manifests(MANIFESTS);
    let four = json!({"pools": ["four"]});
    let _ = daemon.http.post("/v1alpha1/addresses", &json!({"holder": {"id": "vm"}, "addresses": ["10.5.0.13"]})).ok();
    for key in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
        for container in ["a", "b"] {
            let _ = Call::new("ADD", container).run(&home.config("1.1.0", &four)).ok();
        }
        let mut other = home.config("1.1.0", &four);
        other["name"] = json!("net2");
        let _ = Call::new("ADD", "z").run(&other).ok();
        let mut config = home.config("1.1.0", &four);
        config[key] = json!([{"containerID": "a", "ifname": "eth0"}, {"containerID": "b", "ifname": "eth1"}]);
        Call::new("GC", "").run(&config).silent();
        assert_eq!(
            daemon.holders("Active"),
            ["a", "z", "vm"],
            "{key}: b has no eth1; z and vm are not of this network"
        );
    }
    let mut config = home.config("1.1.0", &four);
    config["cni.dev/valid-attachments"] = json!([]);
    Call::new("GC", "").run(&config).silent();
    assert_eq!(daemon.holders("Active"), ["z", "vm"], "an empty list is a list");
}

#[test]
fn gc_without_a_list_frees_nothing() {
    let home = Home::new();
    let daemon = home.start_with_manifests(MANIFESTS);
    let _ = home.add("a");
    let before = daemon.held("Active");
    for list in [None, Some(Value::Null)] {
        let mut config = home.config("1.1.0", &json!({}));
        if let Some(list) = list {
            config["cni.dev/valid-attachments"] = list;
        }
        Call::new("GC", "").run(&config).silent();
    }
    let mut config = home.config("1.1.0", &json!({}));
    config["cni.dev/valid-attachments"] = json!([{"containerID": "a"}]);
    Call::new("GC", "").run(&config).failed(7);
    assert_eq!(daemon.held("Active"), before);
}

#[test]
fn check_compares_with_what_add_answered() {
    let home = Home::new();
    let _daemon = home.start_with_manifests(MANIFESTS);
    let with = |prev: &Value| {
        let mut config = home.config("1.0.0", &json!({}));
        config["prevResult"] = prev.clone();
        config
    };
    let check = |prev: &Value| Call::new("CHECK", "c1").run(&with(prev));
    let result = Call::new("ADD", "c1").run(&home.config("1.0.0", &json!({}))).ok();
    check(&result).silent();
    let mut chained = result.clone();
    chained["ips"].as_array_mut().unwrap().push(json!({"address": "192.0.2.7/24"}));
    check(&chained).silent();
    let mut other = result.clone();
    other["ips"][0]["address"] = json!("10.5.0.12/24");
    let said = check(&other).failed(110);
    assert!(said.contains("10.5.0.12"), "{said}");
    Call::new("CHECK", "c1").run(&home.config("1.0.0", &json!({}))).failed(7);
    home.del("c1");
    check(&result).failed(110);
}

#[test]
fn what_no_runtime_would_send_is_refused_and_leaves_nothing() {
    let home = Home::new();
    let daemon = home.start_with_manifests(MANIFESTS);
    let config = home.config("1.0.0", &json!({}));
    for container in ["../../etc/passwd", "a\r\nb", "a b", "-a"] {
        Call::new("ADD", container).run(&config).failed(4);
    }
    for ifname in ["a/b", "..", "sixteen-letters-", "a b"] {
        Call::new("ADD", "c1").ifname(ifname).run(&config).failed(4);
    }
    let deep = format!("{}{}{}", r#"{"name":"n","ipam":"#, "[".repeat(10_000), "]".repeat(10_000)) + "}";
    Call::new("ADD", "c1").run_bytes(deep.as_bytes()).failed(7);
    let long = format!(r#"{{"name":"n","x":"{}"}}"#, "y".repeat(1 << 20));
    Call::new("ADD", "c1").run_bytes(long.as_bytes()).failed(7);
    assert!(daemon.held("Active").is_empty());
}
