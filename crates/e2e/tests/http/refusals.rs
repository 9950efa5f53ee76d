//! Everything that is refused is refused with a problem document (RFC 9457) that says where and what next.

use crate::pool;
use berth_e2e::{Home, Http};
use serde_json::{Value, json};

#[track_caller]
fn hinted(problem: &Value) -> &str {
    problem["hint"].as_str().unwrap_or_else(|| panic!("no hint: {problem}"))
}

#[test]
fn unknown_routes_and_methods() {
    let home = Home::new();
    let daemon = home.start();
    for path in [
        "/",
        "/v1",
        "/v1alpha1",
        "/v1alpha1/nothing",
        "/v1alpha1/addresses/10.0.0.1/more",
        "/netservicecontroller/v1/x",
    ] {
        let problem = daemon.http.get(path).problem(404, "unknown-route");
        assert!(hinted(&problem).contains("/openapi.json"), "{path}");
    }
    for (method, path) in [
        ("PUT", "/v1alpha1/addresses"),
        ("GET", "/v1alpha1/apply"),
        ("DELETE", "/metrics"),
        ("PATCH", "/v1alpha1/objects/ippools/a"),
    ] {
        let problem = daemon.http.send(method, path, "", "").problem(405, "unknown-method");
        assert!(problem["detail"].as_str().unwrap().contains(method), "{problem}");
    }
}

#[test]
fn a_wrong_field_is_named() {
    let home = Home::new();
    let daemon = home.start();
    for (spec, field) in [
        (json!({"ranges": ["10.0.0.0/33"]}), "spec.ranges[0]"),
        (json!({"ranges": ["10.0.0.0/24", "fd00::/64"]}), "spec.ranges"),
        (json!({"ranges": "10.0.0.0/24"}), "spec.ranges"),
        (json!({"ranges": [5]}), "spec.ranges[0]"),
        (json!({}), "ranges"),
        (json!({"ranges": ["10.0.0.0/24"], "coolDown": "soon"}), "spec.coolDown"),
        (json!({"ranges": ["10.0.0.0/24"], "quota": {"perNamespace": -1}}), "spec.quota.perNamespace"),
        (json!({"ranges": ["10.0.0.0/24"], "prefixLength": 300}), "spec.prefixLength"),
        (json!({"ranges": ["10.0.0.0/24"], "pick": "Best"}), "spec.pick"),
        (json!({"ranges": ["10.0.0.0/24"], "colour": "red"}), "colour"),
    ] {
        let problem = daemon.http.apply(&pool("a", &spec).to_string()).problem(422, "invalid");
        let said = format!("{} {}", problem["field"], problem["detail"]);
        assert!(said.contains(field), "{spec}: {problem}");
        assert_eq!(problem["exitCode"], 2);
        assert!(!hinted(&problem).is_empty());
    }
    for (body, field) in [
        (json!({}), "holder.id"),
        (json!({"holder": {"id": "a"}, "families": ["IPv5"]}), "families"),
        (json!({"holder": {"id": "a"}, "count": 0}), "count"),
        (json!({"holder": {"id": "a"}, "keep": "soon"}), "keep"),
        (json!({"holder": {"id": "a", "kind": "ghost"}}), "holder.kind"),
    ] {
        assert_eq!(daemon.http.post("/v1alpha1/addresses", &body).problem(422, "invalid")["field"], field, "{body}");
    }
    for (body, field) in [
        (json!({"holder": {"id": 5}}), "holder.id"),
        (json!({"holder": {"id": "a"}, "pools": "p"}), "pools"),
        (json!({"holder": {"id": "a"}, "addresses": ["10.0.0"]}), "addresses[0]"),
    ] {
        assert_eq!(daemon.http.post("/v1alpha1/addresses", &body).problem(422, "bad-body")["field"], field, "{body}");
    }
    assert_eq!(daemon.held("Active"), []);
}

#[test]
fn bodies_that_are_no_bodies() {
    let home = Home::new();
    let daemon = home.start();
    let json_type = "Content-Type: application/json\r\n";
    let deep = "[".repeat(100_000);
    for (body, headers, status) in
        [("", json_type, 400), ("{", json_type, 400), (deep.as_str(), json_type, 422), ("{}", "", 415)]
    {
        let problem = daemon.http.send("POST", "/v1alpha1/addresses", headers, body).problem(status, "bad-body");
        assert_eq!(problem["exitCode"], 2);
    }
    let aliases = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned()
        + &(b'b'..b'k')
            .map(|c| (c as char, (c - 1) as char))
            .map(|(c, b)| format!("{c}: &{c} [*{b},*{b},*{b},*{b},*{b},*{b},*{b},*{b},*{b}]\n"))
            .collect::<String>();
    for manifest in [
        "",
        "---\n---\n",
        "just words",
        "- a\n- list",
        "a: [",
        "\t",
        &deep,
        &aliases,
        "kind: IPPool",
        "{kind: Nothing, apiVersion: v1, metadata: {name: x}}",
    ] {
        let problem = daemon.http.apply(manifest).problem(422, "invalid");
        assert!(hinted(&problem).contains("mend the manifest"), "{problem}");
    }
    daemon.http.raw(b"POST /v1alpha1/apply HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\n\xff\xfe").problem(400, "bad-body");
    assert_eq!(home.add("c1").len(), 1, "and it still serves");
}

#[test]
fn bodies_are_bounded() {
    let home = Home::new();
    let daemon = home.start();
    let limit = 4 << 20;
    let reply = daemon.http.apply(&"#".repeat(limit + 1));
    assert!(!hinted(&reply.problem(413, "bad-body")).is_empty());
    let fits = daemon.http.apply(&"#".repeat(limit));
    assert_eq!(fits.status, 422, "an empty manifest, but not too long a one");
    let body = format!(r#"{{"holder": {{"id": "{}"}}}}"#, "x".repeat(limit));
    daemon
        .http
        .send("POST", "/v1alpha1/addresses", "Content-Type: application/json\r\n", &body)
        .problem(413, "bad-body");
    daemon.http.send("POST", "/netservicecontroller/v1/allocator", "", &body).problem(413, "bad-body");
}

#[test]
fn wrong_paths_and_queries() {
    let home = Home::new();
    let daemon = home.start();
    for path in ["/v1alpha1/addresses/not-an-address", "/v1alpha1/addresses/10.0.0.1.2/history"] {
        assert!(!hinted(&daemon.http.get(path).problem(400, "bad-path")).is_empty());
    }
    for path in
        ["/v1alpha1/addresses?colour=red", "/v1alpha1/addresses?limit=many", "/v1alpha1/objects/ippools?names=x"]
    {
        assert!(!hinted(&daemon.http.get(path).problem(400, "bad-query")).is_empty());
    }
    daemon.http.get("/v1alpha1/addresses/10.0.0.1/history?since=yesterday").problem(422, "invalid");
    daemon.http.get("/v1alpha1/addresses/192.0.2.1").problem(422, "address-outside-pool");
    let problem = daemon.http.delete("/v1alpha1/addresses").problem(422, "invalid");
    assert_eq!(problem["field"], "holder", "everything is never released at once");
}

fn with(http: &Http, header: &str) -> berth_e2e::Reply {
    http.send("POST", "/v1alpha1/apply", header, "{}")
}

#[test]
fn a_web_page_of_somebody_else_gets_nowhere() {
    let home = Home::new();
    let daemon = home.start();
    // A name that an attacker lets point to 127.0.0.1.
    for host in ["evil.example", "evil.example:8090", "localhost.evil.example", "127.0.0.1.evil.example"] {
        with(&daemon.http, &format!("Host: {host}\r\n")).problem(421, "foreign-host");
    }
    for host in ["localhost", "localhost:8090", "127.0.0.1", "[::1]:8090", "192.0.2.1"] {
        with(&daemon.http, &format!("Host: {host}\r\n")).problem(422, "invalid");
    }
    // A form of another site that is sent to 127.0.0.1.
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1", "https://localhost"] {
        with(&daemon.http, &format!("Origin: {origin}\r\n")).problem(403, "foreign-origin");
    }
    with(&daemon.http, &format!("Origin: http://{}\r\n", daemon.http.address)).problem(422, "invalid");
}

#[test]
fn every_refusal_of_the_core_has_its_own_name() {
    let home = Home::new();
    let one = json!({"ranges": ["10.1.0.10"], "prefixLength": 24, "allow": {"namespaces": ["own"]}});
    let foreign = json!({"ranges": ["10.2.0.0/24"], "type": "calico"});
    let quota = json!({"ranges": ["10.3.0.0/24"], "quota": {"perNamespace": 0}});
    let plain = json!({"ranges": ["10.4.0.0/24"]});
    let daemon = home.start_with_manifests(&crate::documents(&[
        pool("plain", &plain),
        pool("one", &one),
        pool("foreign", &foreign),
        pool("quota", &quota),
    ]));
    let ask = |id: &str, namespace: &str, more: Value| {
        let mut body = json!({"holder": {"id": id, "namespace": namespace}});
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        daemon.http.post("/v1alpha1/addresses", &body)
    };
    let _ = ask("a", "own", json!({"pools": ["one"]})).ok();
    for (reply, status, slug, exit) in [
        (ask("b", "other", json!({"pools": ["one"]})), 403, "no-qualified-pool", 10),
        (ask("b", "own", json!({"pools": ["one"]})), 409, "pool-exhausted", 11),
        (ask("b", "own", json!({"addresses": ["10.1.0.10"]})), 409, "address-taken", 12),
        (ask("b", "own", json!({"addresses": ["10.9.0.1"]})), 422, "address-outside-pool", 13),
        (ask("b", "own", json!({"addresses": ["10.4.0.1"]})), 422, "address-reserved", 14),
        (ask("b", "own", json!({"pools": ["quota"]})), 429, "quota-reached", 15),
        (ask("b", "own", json!({"pools": ["none"]})), 404, "unknown-pool", 16),
        (ask("b", "own", json!({"pools": ["foreign"]})), 422, "unknown-pool-type", 17),
        (ask("b", "own", json!({"claim": "none"})), 404, "unknown-claim", 18),
    ] {
        let problem = reply.problem(status, slug);
        assert_eq!(problem["exitCode"], exit, "{problem}");
        assert!(!hinted(&problem).is_empty());
    }
    assert_eq!(daemon.holders("Active"), ["a"]);
}
