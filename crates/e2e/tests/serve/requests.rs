//! What a configuration may ask for: pools, families, addresses, ranges, claims.

use berth_e2e::{Call, Home};
use serde_json::{Value, json};

const MANIFESTS: &str = "
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: web-a}
spec: {ranges: [10.1.0.8/30], useNetworkAddress: true, useBroadcastAddress: true, gateway: none, pick: Sequential}
---
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: web-b}
spec: {ranges: [10.2.0.0/24], pick: Sequential, default: true}
---
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: six}
spec: {ranges: ['fd00:2::10-fd00:2::11'], prefixLength: 64, default: true}
---
apiVersion: berth.io/v1alpha1
kind: IPReservation
metadata: {name: printers}
spec: {addresses: [10.2.0.200-10.2.0.209]}
---
apiVersion: berth.io/v1alpha1
kind: IPClaim
metadata: {name: db, namespace: shop}
spec: {addresses: [10.2.0.77]}
";

fn add(home: &Home, container: &str, ipam: &Value) -> Vec<String> {
    Call::new("ADD", container).run(&home.config("1.0.0", ipam)).addresses()
}

#[test]
fn pools_are_used_in_the_order_named_and_by_wildcard() {
    let home = Home::new();
    let _daemon = home.start_with_manifests(MANIFESTS);
    assert_eq!(add(&home, "c1", &json!({"pools": ["web-b", "web-a"]})), ["10.2.0.2/24"]);
    for n in 0..4 {
        assert_eq!(add(&home, &format!("d{n}"), &json!({"pools": ["web-?"]})), [format!("10.1.0.{}/30", 8 + n)]);
    }
    assert_eq!(add(&home, "d4", &json!({"pools": ["web-[ab]"]})), ["10.2.0.3/24"], "web-a is full");
    let said = Call::new("ADD", "x").run(&home.config("1.0.0", &json!({"pools": ["nine"]}))).failed(107);
    assert!(said.contains("nine") && said.contains("berth get pools"), "{said}");
}

#[test]
fn dual_stack_is_all_or_nothing() {
    let home = Home::new();
    let daemon = home.start_with_manifests(MANIFESTS);
    assert_eq!(add(&home, "c1", &json!({})), ["10.2.0.2/24", "fd00:2::10/64"], "one of each default family");
    assert_eq!(add(&home, "c2", &json!({"families": ["IPv6", "IPv4"]})).len(), 2);
    let before = daemon.held("Active");
    let said = Call::new("ADD", "c3").run(&home.config("1.0.0", &json!({}))).failed(102);
    assert!(said.contains("six"), "{said}");
    assert_eq!(daemon.held("Active"), before, "the IPv4 half is not left behind");
    assert_eq!(add(&home, "c3", &json!({"families": ["IPv4"]})), ["10.2.0.4/24"]);
}

#[test]
fn addresses_may_be_asked_for_in_three_places() {
    let home = Home::new();
    let _daemon = home.start_with_manifests(MANIFESTS);
    let config = home.config("1.0.0", &json!({}));
    let by_args = Call::new("ADD", "a").env("CNI_ARGS", "IgnoreUnknown=1;IP=10.2.0.30").run(&config);
    assert_eq!(by_args.addresses(), ["10.2.0.30/24"]);
    let mut args = config.clone();
    args["args"] = json!({"cni": {"ips": ["10.2.0.31/24", "fd00:2::11"]}});
    assert_eq!(Call::new("ADD", "b").run(&args).addresses(), ["10.2.0.31/24", "fd00:2::11/64"]);
    let mut runtime = config.clone();
    runtime["runtimeConfig"] = json!({"ips": ["10.2.0.32"]});
    assert_eq!(Call::new("ADD", "c").run(&runtime).addresses(), ["10.2.0.32/24"]);
    let said = Call::new("ADD", "d").run(&runtime).failed(103);
    assert!(said.contains("10.2.0.32") && said.contains("container c"), "it says who has it: {said}");
}

#[test]
fn addresses_that_nobody_gets_are_refused() {
    let home = Home::new();
    let daemon = home.start_with_manifests(MANIFESTS);
    let before = daemon.held("Active");
    for (address, code, why) in [
        ("10.2.0.1", 105, "gateway"),
        ("10.2.0.0", 105, "network"),
        ("10.2.0.255", 105, "broadcast"),
        ("10.2.0.205", 105, "IPReservation"),
        ("10.9.0.1", 104, "10.9.0.1"),
        ("10.2.0.77", 103, "shop/db"),
    ] {
        let mut config = home.config("1.0.0", &json!({}));
        config["runtimeConfig"] = json!({"ips": [address]});
        let said = Call::new("ADD", "thief").pod("other", "thief").run(&config).failed(code);
        assert!(said.contains(why), "{address}: {said}");
    }
    assert_eq!(daemon.held("Active"), before);
}

#[test]
fn one_address_comes_from_each_set_of_ranges() {
    let home = Home::new();
    let _daemon = home.start_with_manifests(MANIFESTS);
    let mut config = home.config("1.0.0", &json!({}));
    config["runtimeConfig"] = json!({"ipRanges": [
        [{"subnet": "10.2.0.0/24", "rangeStart": "10.2.0.100", "rangeEnd": "10.2.0.101"}],
        [{"subnet": "fd00:2::/64"}],
    ]});
    assert_eq!(Call::new("ADD", "c1").run(&config).addresses(), ["10.2.0.100/24", "fd00:2::10/64"]);
    assert_eq!(Call::new("ADD", "c2").run(&config).addresses(), ["10.2.0.101/24", "fd00:2::11/64"]);
    Call::new("ADD", "c3").run(&config).failed(102);
}

#[test]
fn a_claim_gives_its_address_to_one_user_at_a_time() {
    let home = Home::new();
    let daemon = home.start_with_manifests(MANIFESTS);
    let config = home.config("1.0.0", &json!({"claim": "db"}));
    let used = |container: &str, pod: &str| Call::new("ADD", container).pod("shop", pod).run(&config);
    assert_eq!(used("c1", "db-0").addresses(), ["10.2.0.77/24"]);
    let said = used("c2", "db-1").failed(103);
    assert!(said.contains("shop/db-0"), "{said}");
    let said = Call::new("ADD", "c3").pod("other", "x").run(&config).failed(109);
    assert!(said.contains("db"), "a claim is of its namespace: {said}");
    daemon.http.delete("/v1alpha1/objects/ipclaims/db?namespace=shop").problem(409, "in-use");
    home.del("c1");
    assert_eq!(used("c2", "db-1").addresses(), ["10.2.0.77/24"]);
}

#[test]
fn a_new_sandbox_of_the_same_pod_takes_its_fixed_address_over() {
    let home = Home::new();
    let daemon = home.start_with_manifests(MANIFESTS);
    let config = home.config("1.0.0", &json!({"claim": "db"}));
    for container in ["c1", "c2"] {
        let ran = Call::new("ADD", container).pod("shop", "db-0").run(&config);
        assert_eq!(ran.addresses(), ["10.2.0.77/24"], "the DEL of {container}'s forerunner was lost or is late");
    }
    home.del("c1");
    let fixed = ("10.2.0.77".to_owned(), "c2".to_owned());
    assert_eq!(daemon.held("Active"), [fixed], "and when it comes, it frees nothing");
}
