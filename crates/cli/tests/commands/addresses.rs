//! allocate, explain, release, show, history, quarantine.

use crate::canned::{Answer, problem, transcript};
use insta::assert_snapshot;
use serde_json::{Value, json};

fn given() -> Value {
    json!([
        { "address": "10.77.0.5", "unit": "10.77.0.5/32", "prefixLength": 16, "gateway": "10.77.0.1",
          "pool": "blue", "network": "default", "reason": "least recently released" },
        { "address": "fd00:0:0:7::", "unit": "fd00:0:0:7::/64", "prefixLength": 64, "gateway": null,
          "pool": "six", "network": "default", "reason": "never used" },
    ])
}

fn pod() -> Value {
    json!({
        "kind": "container", "network": "podman", "id": "0123456789abcdef0123", "ifname": "eth0", "namespace": "web",
        "pod": "shop-0", "uid": "6f9619ff", "node": "node-1", "identity": "pod/web/shop-0/eth0", "keep": "24h",
    })
}

fn address(address: &str, state: &str, holder: &Value) -> Value {
    json!({
        "address": address, "unit": format!("{address}/32"), "network": "default", "pool": "blue", "state": state,
        "since": "2026-02-01T11:55:00Z", "until": "2026-02-01T13:00:00Z", "holder": holder,
    })
}

#[test]
fn allocate_asks_and_shows_what_it_got() {
    let answer: Answer = (200, json!({ "addresses": given(), "routes": [], "dns": {} }));
    let one = std::slice::from_ref(&answer);
    let lines = [
        "allocate --holder printer",
        "allocate --holder printer -o wide",
        "allocate --holder printer -o name",
        "allocate --claim web/vip -o name",
        "allocate --holder x -p blue -p six* --network lab --address 10.77.0.5/16 --family ipv4 --family v6 --count 2",
        "allocate --holder vm-7 --keep forever -n web --pod shop-0 --node node-1 --pod-label a=b --node-label c=d -o name",
    ];
    assert_snapshot!(lines.map(|line| transcript(line, one)).join("\n\n"));
}

#[test]
fn allocate_makes_up_a_holder_and_tells() {
    let answer: Answer = (200, json!({ "addresses": given() }));
    let shown = transcript("allocate -o name", &[answer]);
    let name = shown.split("\"id\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert!(name.starts_with("cli-"), "{name}");
    assert_snapshot!(shown.replace(&name, "cli-NAME"));
}

#[test]
fn explain_shows_every_pool_and_the_verdict() {
    let considered = json!([
        { "pool": "blue", "family": "IPv4", "dropped": null },
        { "pool": "red", "family": "IPv4", "dropped": "namespace \"web\" is not allowed" },
    ]);
    let answer = (200, json!({ "considered": considered, "addresses": given() }));
    let first = transcript("explain --holder x -n web", &[answer]);
    let (_, error) = problem(409, "pool-exhausted", "no address left in pool \"blue\"", "add a range to the pool", 11);
    let answer: Answer = (200, json!({ "considered": considered, "error": error }));
    let second = transcript("explain --holder x", std::slice::from_ref(&answer));
    assert_snapshot!([first, second, transcript("explain --holder x -o json -q", &[answer])].join("\n\n"));
}

#[test]
fn release_by_address_holder_and_node() {
    let released = |addresses: Value| (200, json!({ "released": addresses }));
    let outside =
        problem(422, "address-outside-pool", "address 10.9.9.9 is in none of the pools blue", "see pools", 13);
    let answers = [released(json!(["10.77.0.5"])), outside, released(json!(["fd00::5"]))];
    assert_snapshot!(
        [
            transcript("release 10.77.0.5 10.9.9.9 fd00::5/64", &answers),
            transcript("release --holder printer", &[released(json!(["10.77.0.5", "fd00::5"]))]),
            transcript("release --node node-7", &[released(json!([]))])
        ]
        .join("\n\n")
    );
}

#[test]
fn show_lists_page_by_page() {
    let printer = json!({ "kind": "named", "id": "printer" });
    let first = json!({ "items": [address("10.77.0.5", "Active", &pod())], "continue": "default/10.77.0.5/32" });
    let last = [address("10.77.0.6", "Held", &printer), address("10.77.0.7", "Quarantined", &json!(null))];
    let answers: [Answer; 2] = [(200, first), (200, json!({ "items": last, "continue": null }))];
    assert_snapshot!(
        [
            transcript("show --pool blue --state ACTIVE", &answers),
            transcript("show -o wide", &answers),
            transcript("show -o name", &answers),
            transcript("--color always show --pool blue", &answers)
        ]
        .join("\n\n")
    );
}

#[test]
fn show_tells_all_about_one_address() {
    let answer = (200, json!({ "items": [address("10.77.0.5", "Active", &pod())], "continue": null }));
    let first = transcript("show 10.77.0.5", &[answer]);
    let free = json!({
        "address": "fd00::7", "unit": "fd00::7/128", "network": "default", "pool": "six", "state": "Free",
        "since": null, "until": null, "holder": null,
    });
    assert_snapshot!([first, transcript("show FD00::7", &[(200, json!({ "items": [free] }))])].join("\n\n"));
}

#[test]
fn history_goes_back_in_time() {
    let event = |at: &str, state: &str, holder: Value| json!({ "at": at, "state": state, "network": "default", "unit": "10.77.0.5/32", "holder": holder });
    let items =
        [event("2026-01-31T12:00:00Z", "Active", pod()), event("2026-02-01T11:59:00Z", "Released", json!(null))];
    let answer: Answer = (200, json!({ "items": items }));
    assert_snapshot!(
        [
            transcript("history 10.77.0.5 --since 48h", std::slice::from_ref(&answer)),
            transcript("history 10.77.0.5 -o wide", &[answer]),
            transcript("history 10.77.0.9", &[(200, json!({ "items": [] }))])
        ]
        .join("\n\n")
    );
}

#[test]
fn quarantine_shows_until_when() {
    let answer = (200, address("10.77.0.7", "Quarantined", &json!(null)));
    assert_snapshot!(transcript("quarantine 10.77.0.7 --for 1h", &[answer]));
}
