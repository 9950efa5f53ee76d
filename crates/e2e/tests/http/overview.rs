//! How full, how consistent, how well; and what the API says about itself.

use crate::{documents, pool};
use berth_e2e::http::text;
use berth_e2e::{Daemon, Home};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn usage(daemon: &Daemon, group: &str, name: &str) -> Value {
    let answer = daemon.http.get("/v1alpha1/usage").ok();
    let named = answer[group].as_array().unwrap().iter().find(|item| item["name"] == name);
    named.unwrap_or_else(|| panic!("no {name} among {group}: {answer}"))["usage"].clone()
}

#[test]
fn counts_are_exact_at_any_size() {
    let home = Home::new();
    let whole = json!({"ranges": ["::/0"], "network": "all"});
    let every = json!({"ranges": ["::/0"], "network": "every", "gateway": "none", "useNetworkAddress": true});
    let daemon = home.start_with_manifests(&documents(&[pool("whole", &whole), pool("every", &every)]));
    // 2^128, which no integer of 128 bits holds; less the router and the subnet-router anycast address.
    assert_eq!(usage(&daemon, "pools", "every")["capacity"], "340282366920938463463374607431768211456");
    assert_eq!(usage(&daemon, "pools", "whole")["capacity"], "340282366920938463463374607431768211454");
    let _ =
        daemon.http.post("/v1alpha1/addresses", &json!({"holder": {"id": "x"}, "network": "every", "count": 3})).ok();
    let after = usage(&daemon, "pools", "every");
    assert_eq!((text(&after["inUse"]), text(&after["free"])), ("3", "340282366920938463463374607431768211453"));
    assert_eq!(usage(&daemon, "networks", "every"), after);
    daemon.check();
}

#[test]
fn every_state_is_counted_and_they_add_up() {
    let home = Home::new();
    let subnet = json!({"apiVersion": "berth.io/v1alpha1", "kind": "IPSubnet", "metadata": {"name": "lan"}, "spec": {"cidr": "10.1.0.0/24"}});
    let reserved = json!({"apiVersion": "berth.io/v1alpha1", "kind": "IPReservation", "metadata": {"name": "r"}, "spec": {"addresses": ["10.1.0.100-10.1.0.109"]}});
    let a = pool("a", &json!({"ranges": ["10.1.0.0/24"], "subnet": "lan", "coolDown": "1h", "pick": "Sequential"}));
    let daemon = home.start_with_manifests(&documents(&[subnet, a, reserved]));
    let post = |path: &str, body: Value| drop(daemon.http.post(path, &body).ok());
    post("/v1alpha1/addresses", json!({"holder": {"id": "x"}, "count": 4}));
    post("/v1alpha1/addresses", json!({"holder": {"id": "kept"}, "keep": "forever"}));
    let _ = daemon.http.delete("/v1alpha1/addresses?holder=kept").ok();
    let _ = daemon.http.delete("/v1alpha1/addresses/10.1.0.2").ok();
    post("/v1alpha1/quarantine", json!({"address": "10.1.0.50"}));
    let expected = json!({"capacity": "253", "inUse": "3", "held": "1", "cooling": "1", "quarantined": "1", "reserved": "10", "free": "237"});
    assert_eq!(usage(&daemon, "pools", "a"), expected);
    assert_eq!(usage(&daemon, "subnets", "lan"), expected);
    assert_eq!(daemon.http.get("/v1alpha1/objects/ippools/a").ok()["status"]["usage"], expected);
    daemon.check();
}

#[test]
fn healthy_and_ready() {
    let home = Home::new();
    let daemon = home.start();
    for path in ["/healthz", "/readyz"] {
        let reply = daemon.http.get(path);
        assert_eq!((reply.status, reply.body.as_str()), (200, "ok\n"), "{path}");
    }
}

/// The value of a sample, by name and labels as they are written.
fn sample(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().unwrap()
}

#[test]
fn metrics_parse_and_count() {
    let home = Home::new();
    let daemon = home.start_with_manifests(&documents(&[pool("a", &json!({"ranges": ["10.1.0.0/24"]}))]));
    let _ = (home.add("c1"), home.add("c2"));
    home.del("c1");
    daemon
        .http
        .post("/v1alpha1/addresses", &json!({"holder": {"id": "x"}, "pools": ["none"]}))
        .problem(404, "unknown-pool");
    let reply = daemon.http.get("/metrics");
    assert!(reply.head.contains("content-type: application/openmetrics-text"), "{}", reply.head);
    let text = reply.body;
    for (series, value) in [
        (r#"berth_requests_total{op="add",outcome="ok"}"#, 2.0),
        (r#"berth_requests_total{op="del",outcome="ok"}"#, 1.0),
        (r#"berth_requests_total{op="allocate",outcome="error"}"#, 1.0),
        (r#"berth_request_seconds_count{op="add"}"#, 2.0),
        (r#"berth_pool_addresses{pool="a",network="default",state="capacity"}"#, 253.0),
        (r#"berth_pool_addresses{pool="a",network="default",state="in_use"}"#, 1.0),
    ] {
        assert!((sample(&text, series) - value).abs() < f64::EPSILON, "{series} in\n{text}");
    }
    // Every line is a comment, or a name, perhaps labels, and a number; every name was announced; the end is marked.
    let typed: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let name = series.split('{').next().unwrap();
        let base =
            ["_total", "_count", "_sum", "_bucket"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        assert!(typed.contains(base) || typed.contains(name), "{name} has no TYPE");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn the_description_has_every_route_and_no_other() {
    let home = Home::new();
    let daemon = home.start();
    let document = daemon.http.get("/openapi.json").ok();
    assert!(text(&document["openapi"]).starts_with("3."), "{}", document["openapi"]);
    let mut described = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            described.insert(format!("{} {path}", method.to_uppercase()));
            assert!(
                operation["responses"].as_object().is_some_and(|responses| !responses.is_empty()),
                "{method} {path}"
            );
        }
    }
    let routes = [
        "DELETE /netservicecontroller/v1/allocator",
        "DELETE /netservicecontroller/v1/allocator/host/{hostip}",
        "DELETE /v1alpha1/addresses",
        "DELETE /v1alpha1/addresses/{address}",
        "DELETE /v1alpha1/leases/{range}",
        "DELETE /v1alpha1/objects/{kind}/{name}",
        "GET /healthz",
        "GET /metrics",
        "GET /readyz",
        "GET /v1alpha1/addresses",
        "GET /v1alpha1/addresses/{address}",
        "GET /v1alpha1/addresses/{address}/history",
        "GET /v1alpha1/check",
        "GET /v1alpha1/leases",
        "GET /v1alpha1/objects/{kind}",
        "GET /v1alpha1/objects/{kind}/{name}",
        "GET /v1alpha1/usage",
        "POST /netservicecontroller/v1/allocator",
        "POST /v1alpha1/addresses",
        "POST /v1alpha1/apply",
        "POST /v1alpha1/explain",
        "POST /v1alpha1/import",
        "POST /v1alpha1/quarantine",
    ];
    assert_eq!(described, routes.map(str::to_owned).into());
    // What is described is served, and of a path that is described nothing else is.
    for path in document["paths"].as_object().unwrap().keys() {
        let concrete =
            path.replace("{kind}", "nokind").replace("{name}", "x").replace("{address}", "x").replace("{hostip}", "h");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let body = daemon.http.send(method, &concrete, "", "").body;
            assert!(!body.contains("urn:berth:problem:unknown-route"), "{method} {path}: {body}");
            let served = !body.contains("urn:berth:problem:unknown-method");
            assert_eq!(served, described.contains(&format!("{method} {path}")), "{method} {path}: {body}");
        }
    }
}

#[test]
fn every_reference_in_the_description_leads_somewhere() {
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let home = Home::new();
    let document = home.start().http.get("/openapi.json").ok();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 10, "{found:?}");
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference} leads out of the document"));
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
}
