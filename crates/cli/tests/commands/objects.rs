//! apply, get, delete.

use crate::canned::{Answer, problem, transcript};
use insta::assert_snapshot;
use serde_json::json;
use std::fs;

fn pools() -> Answer {
    let pool = |name: &str, spec, status| {
        json!({
            "apiVersion": "berth.io/v1alpha1",
            "kind": "IPPool",
            "metadata": { "name": name, "creationTimestamp": "2026-01-30T12:00:00Z" },
            "spec": spec,
            "status": status,
        })
    };
    let usage = |phase: &str, capacity: &str, in_use: &str, free: &str| {
        json!({
            "phase": phase,
            "usage": {
                "capacity": capacity, "inUse": in_use, "free": free,
                "held": "0", "cooling": "1", "quarantined": "0", "reserved": "10",
            },
        })
    };
    let blue = pool("blue", json!({ "ranges": ["10.77.0.0/16"] }), usage("Ready", "65534", "1200", "64323"));
    let spec = json!({ "ranges": ["fd00::/64", "fd01::1-fd01::9"], "network": "lab", "unitPrefixLength": 80 });
    let six = pool("six", spec, usage("Full", "18446744073709551616", "18446744073709551605", "0"));
    (200, json!({ "items": [blue, six] }))
}

fn claim() -> Answer {
    let object = json!({
        "apiVersion": "berth.io/v1alpha1",
        "kind": "IPClaim",
        "metadata": { "name": "vip", "namespace": "web" },
        "spec": { "pools": ["blue"] },
        "status": { "phase": "Bound", "addresses": ["10.77.0.9", "fd00::9"] },
    });
    (200, object)
}

#[test]
fn get_prints_columns_for_people() {
    assert_snapshot!(
        [
            transcript("get pools", &[pools()]),
            transcript("get pools -o wide", &[pools()]),
            transcript("get claim vip -n web", &[claim()])
        ]
        .join("\n\n")
    );
}

#[test]
fn get_prints_the_answer_for_programs() {
    assert_snapshot!(
        [
            transcript("get claim vip -n web -o json", &[claim()]),
            transcript("get claim vip -n web -o yaml", &[claim()]),
            transcript("get pools -o name", &[pools()])
        ]
        .join("\n\n")
    );
}

#[test]
fn get_shows_the_objects_of_bcs() {
    let ip = |name: &str, status| {
        json!({
            "apiVersion": "netservice.bkbcs.tencent.com/v1",
            "kind": "BCSNetIP",
            "metadata": { "name": name },
            "spec": { "pool": "10.1.2.0", "mask": 24, "gateway": "10.1.2.1" },
            "status": status,
        })
    };
    let active = json!({ "status": "Active", "host": "10.1.2.11", "podPrimaryKey": "web/shop-0", "fixed": true });
    let items = [ip("10.1.2.20", active), ip("10.1.2.21", json!({ "status": "Available" }))];
    assert_snapshot!(transcript("get bcsnetip", &[(200, json!({ "items": items }))]));
}

#[test]
fn get_says_when_there_is_nothing() {
    let nothing = (200, json!({ "items": [] }));
    assert_snapshot!(
        [transcript("get claims -n web", std::slice::from_ref(&nothing)), transcript("get claims -q", &[nothing])]
            .join("\n\n")
    );
}

#[test]
fn a_kind_of_a_newer_daemon_has_a_name_at_least() {
    let object = json!({ "kind": "IPRoute", "metadata": { "name": "up" }, "spec": {} });
    assert_snapshot!(transcript("get iproutes", &[(200, json!({ "items": [object] }))]));
}

#[test]
fn endpoints_are_what_is_held() {
    let holder = json!({
        "kind": "container", "id": "0123456789abcdef", "ifname": "eth0", "namespace": "web", "pod": "shop-0",
    });
    let address = |address: &str, state: &str, holder| {
        json!({
            "address": address, "unit": format!("{address}/32"), "network": "default", "pool": "blue", "state": state,
            "since": "2026-02-01T11:55:00Z", "until": null, "holder": holder,
        })
    };
    let quarantined = address("10.77.0.6", "Quarantined", json!(null));
    let items = [address("10.77.0.5", "Active", holder), quarantined];
    let answer = (200, json!({ "items": items, "continue": null }));
    assert_snapshot!(
        [transcript("get endpoints -n web", &[answer]), transcript("get endpoint shop-0", &[])].join("\n\n")
    );
}

#[test]
fn apply_sends_all_files_as_one() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.yaml"), "kind: IPPool\nmetadata: {name: blue}\n").unwrap();
    fs::write(dir.path().join("b.json"), "{\"kind\": \"IPClaim\", \"metadata\": {\"name\": \"vip\"}}\n").unwrap();
    let answer = json!({ "results": [
        { "kind": "IPPool", "name": "blue", "action": "configured" },
        { "kind": "IPClaim", "name": "vip", "namespace": "default", "action": "created" },
    ] });
    let path = dir.path().display().to_string();
    let show = |line: &str| transcript(line, &[(200, answer.clone())]).replace(&path, "DIR");
    assert_snapshot!(
        [
            show(&format!("apply -f {path}")),
            show(&format!("apply -f {path}/a.yaml -f {path}/b.json --dry-run")),
            show(&format!("apply -f {path}/a.yaml -o name"))
        ]
        .join("\n\n")
    );
}

#[test]
fn delete_goes_on_and_reports_every_failure() {
    let deleted = |name: &str| (200, json!({ "kind": "IPPool", "name": name, "action": "deleted" }));
    let in_use = problem(409, "in-use", "IPPool \"b\" is in use: pod web/shop-0", "release those addresses first", 22);
    let missing = problem(404, "not-found", "IPPool \"c\" does not exist", "`berth get pools` lists them", 16);
    assert_snapshot!(transcript("delete pool a b c d", &[deleted("a"), in_use, missing, deleted("d")]));
}

#[test]
fn delete_takes_down_a_file_from_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lab.yaml");
    let text = "kind: IPSubnet\nmetadata: {name: lab}\n---\nkind: IPClaim\nmetadata: {name: vip, namespace: web}\n";
    fs::write(&file, text).unwrap();
    let deleted = (200, json!({}));
    let shown = transcript(&format!("delete -f {}", file.display()), &[deleted.clone(), deleted]);
    assert_snapshot!(shown.replace(&dir.path().display().to_string(), "DIR"));
}
