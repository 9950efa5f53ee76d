//! BCS netservice on one machine: the walk-through of its documentation, as written, with addresses in place of `xx`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use berth_e2e::http::text;
use berth_e2e::{Daemon, Home, until};
use serde_json::{Value, json};

/// As the documentation has it.
const POOL: &str = "
apiVersion: networkextension.bkbcs.tencent.com/v1
kind: BCSNetPool
metadata:
  name: 10.7.8.0
spec:
  net: 10.7.8.0
  mask: 24
  gateway: 10.7.8.1
  hosts:
  - 10.7.8.11
  - 10.7.8.12
  availableIPs:
  - 10.7.8.20
  - 10.7.8.21
  - 10.7.8.22
";

const ALLOCATOR: &str = "/netservicecontroller/v1/allocator";

fn body(host: &str, container: &str, more: Value) -> Value {
    let mut body =
        json!({"host": host, "containerID": container, "podName": format!("pod-{container}"), "podNamespace": "game"});
    if let Value::Object(more) = more {
        body.as_object_mut().unwrap().extend(more);
    }
    body
}

/// The envelope of an answer, which is always HTTP 200 and always has all five fields.
fn send(daemon: &Daemon, method: &str, path: &str, body: &Value) -> Value {
    let headers = "Content-Type: application/json\r\nX-Request-Id: r-17\r\n";
    let envelope = daemon.http.send(method, path, headers, &body.to_string()).ok();
    let keys: Vec<&String> = envelope.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["code", "data", "message", "request_id", "result"], "{envelope}");
    assert_eq!(envelope["request_id"], "r-17");
    assert_eq!(envelope["result"], envelope["code"] == 0, "{envelope}");
    envelope
}

fn allocate(daemon: &Daemon, body: &Value) -> Value {
    send(daemon, "POST", ALLOCATOR, body)
}

/// The address in the data of a success.
fn given(envelope: &Value) -> &str {
    assert_eq!(envelope["code"], 0, "{envelope}");
    text(&envelope["data"]["ipAddr"])
}

/// Status of every BCSNetIP, as `10.7.8.20 Available`.
fn statuses(daemon: &Daemon) -> Vec<String> {
    let items = daemon.http.get("/v1alpha1/objects/bcsnetip").ok();
    let status = |item: &Value| format!("{} {}", text(&item["metadata"]["name"]), text(&item["status"]["status"]));
    items["items"].as_array().unwrap().iter().map(status).collect()
}

fn net_ip(daemon: &Daemon, address: &str) -> Value {
    daemon.http.get(&format!("/v1alpha1/objects/bcsnetips/{address}")).ok()
}

#[test]
fn the_walk_through() {
    let home = Home::new();
    let daemon = home.start();
    assert_eq!(daemon.http.apply(POOL).actions(), "created 10.7.8.0");
    assert_eq!(daemon.http.get("/v1alpha1/objects/bcsnetpools/10.7.8.0").ok()["status"]["status"], "Normal");
    assert_eq!(statuses(&daemon), ["10.7.8.20 Available", "10.7.8.21 Available", "10.7.8.22 Available"]);
    let spec = net_ip(&daemon, "10.7.8.20")["spec"].clone();
    assert_eq!((text(&spec["pool"]), &spec["mask"], text(&spec["gateway"])), ("10.7.8.0", &json!(24), "10.7.8.1"));

    let wanted = body("10.7.8.11", "c1", json!({"ipAddr": "10.7.8.21"}));
    let envelope = allocate(&daemon, &wanted);
    assert_eq!(envelope["message"], "allocate IP [10.7.8.21] for Host 10.7.8.11 success");
    let expected = json!({"host": "10.7.8.11", "containerID": "c1", "ipAddr": "10.7.8.21", "podName": "pod-c1",
        "podNamespace": "game", "gateway": "10.7.8.1", "mask": 24});
    assert_eq!(envelope["data"], expected);
    assert_eq!(statuses(&daemon), ["10.7.8.20 Available", "10.7.8.21 Active", "10.7.8.22 Available"]);
    let status = net_ip(&daemon, "10.7.8.21")["status"].clone();
    for (field, value) in [
        ("host", "10.7.8.11"),
        ("containerID", "c1"),
        ("podName", "pod-c1"),
        ("podNamespace", "game"),
        ("podPrimaryKey", "game/pod-c1"),
    ] {
        assert_eq!(status[field], value, "{status}");
    }

    let refused = daemon.http.delete("/v1alpha1/objects/bcsnetpools/10.7.8.0").problem(409, "in-use");
    let words = "can not perform operation for pool 10.7.8.0, active IP 10.7.8.21 exists";
    assert!(text(&refused["detail"]).contains(words), "{refused}");

    let release = body("10.7.8.11", "c1", json!({}));
    let envelope = send(&daemon, "DELETE", ALLOCATOR, &release);
    assert_eq!(
        (text(&envelope["message"]), &envelope["data"]),
        ("deactive IP [10.7.8.21] success, it's available now", &release)
    );
    assert_eq!(statuses(&daemon)[1], "10.7.8.21 Available");
    let again = send(&daemon, "DELETE", ALLOCATOR, &release);
    assert_eq!(
        (&again["code"], text(&again["message"])),
        (&json!(0), "didn't find related BCSNetIP instance for container c1")
    );
    assert_eq!(daemon.http.delete("/v1alpha1/objects/bcsnetpools/10.7.8.0").ok()["action"], "deleted");
    assert_eq!(statuses(&daemon), Vec::<String>::new());
}

#[test]
fn the_same_container_gets_the_same_address_and_everyone_gets_one() {
    let home = Home::new();
    let daemon = home.start_with_manifests(POOL);
    let of = |host: &str, container: &str| given(&allocate(&daemon, &body(host, container, json!({})))).to_owned();
    let mut all = vec![of("10.7.8.11", "c1"), of("10.7.8.12", "c2"), of("10.7.8.11", "c3")];
    assert_eq!(of("10.7.8.11", "c1"), all[0], "a retry after a timeout takes no second one");
    all.sort();
    assert_eq!(all, ["10.7.8.20", "10.7.8.21", "10.7.8.22"]);
    let full = allocate(&daemon, &body("10.7.8.11", "c4", json!({})));
    assert_eq!((&full["code"], text(&full["message"])), (&json!(2), "no available IP for pod game/pod-c4"));
}

#[test]
fn everything_on_a_host_is_released_at_once() {
    let home = Home::new();
    let daemon = home.start_with_manifests(POOL);
    for (host, container) in [("10.7.8.11", "c1"), ("10.7.8.12", "c2"), ("10.7.8.11", "c3")] {
        let _ = given(&allocate(&daemon, &body(host, container, json!({}))));
    }
    let envelope = send(&daemon, "DELETE", &format!("{ALLOCATOR}/host/10.7.8.11"), &json!({}));
    assert_eq!(envelope["code"], 0, "{envelope}");
    assert_eq!(daemon.holders("Active"), ["c2"]);
    let envelope = send(&daemon, "DELETE", &format!("{ALLOCATOR}/host/10.7.8.99"), &json!({}));
    assert_eq!(envelope["code"], 0, "nothing to release is a success: {envelope}");
}

#[test]
fn what_is_missing_or_wrong_is_said_in_the_words_of_bcs() {
    let home = Home::new();
    let daemon = home.start_with_manifests(POOL);
    let taken = given(&allocate(&daemon, &body("10.7.8.11", "c0", json!({"ipAddr": "10.7.8.20"})))).to_owned();
    for (body, code, message) in [
        (body("10.7.8.99", "c1", json!({})), 2, "host 10.7.8.99 does not exist in pools"),
        (body("", "c1", json!({})), 1, "lost Host/ContainerID info in request"),
        (body("10.7.8.11", "", json!({})), 1, "lost Host/ContainerID info in request"),
        (body("10.7.8.11", "c1", json!({"podName": ""})), 1, "lost PodNamespace/PodName info in request"),
        (body("10.7.8.11", "c1", json!({"ipAddr": taken})), 2, "update IP [10.7.8.20] status failed"),
        (body("10.7.8.11", "c1", json!({"ipAddr": "10.7.8.99"})), 2, "update IP [10.7.8.99] status failed"),
        (body("10.7.8.11", "c1", json!({"ipAddr": "nonsense"})), 1, "ipAddr nonsense is not a valid IP address"),
    ] {
        let envelope = allocate(&daemon, &body);
        assert_eq!(envelope["code"], code, "{envelope}");
        assert_eq!(envelope["data"], Value::Null, "{envelope}");
        assert!(text(&envelope["message"]).starts_with(message), "{envelope}");
    }
    let reply = daemon.http.send("POST", ALLOCATOR, "", "{");
    assert_eq!(reply.status, 400, "{}", reply.body);
    let empty = daemon.http.send("POST", ALLOCATOR, "", "").ok();
    assert_eq!((&empty["code"], text(&empty["message"])), (&json!(1), "lost request body for allocating ip"));
    assert_eq!(daemon.holders("Active"), ["c0"]);
}

#[test]
fn a_pool_that_would_lose_an_active_address_is_refused() {
    let home = Home::new();
    let daemon = home.start_with_manifests(POOL);
    let _ = given(&allocate(&daemon, &body("10.7.8.11", "c1", json!({"ipAddr": "10.7.8.21"}))));
    let without = POOL.replace("  - 10.7.8.21\n", "");
    let refused = daemon.http.apply(&without).problem(409, "in-use");
    assert!(text(&refused["detail"]).contains("active IP 10.7.8.21 exists"), "{refused}");
    assert_eq!(daemon.http.apply(&POOL.replace("  - 10.7.8.22\n", "")).actions(), "configured 10.7.8.0");
    assert_eq!(statuses(&daemon), ["10.7.8.20 Available", "10.7.8.21 Active"]);
}

#[test]
fn a_fixed_address_waits_for_its_pod_and_for_no_longer_than_it_says() {
    let home = Home::new();
    let daemon = home.start_with_manifests(POOL);
    let pod = |container: &str, name: &str, more: Value| {
        let mut body = body("10.7.8.11", container, more);
        body["podName"] = json!(name);
        body
    };
    for (name, address, keep) in
        [("web-0", "10.7.8.20", ""), ("web-1", "10.7.8.21", "10h"), ("web-2", "10.7.8.22", "300ms")]
    {
        let fixed = json!({"fixed": true, "keepDuration": keep, "ipAddr": address});
        assert_eq!(given(&allocate(&daemon, &pod(name, name, fixed))), address);
        assert_eq!(net_ip(&daemon, address)["status"]["fixed"], true);
        let _ = send(&daemon, "DELETE", ALLOCATOR, &pod(name, name, json!({})));
    }
    until("the third to expire", || (statuses(&daemon)[2] == "10.7.8.22 Available").then_some(()));
    assert_eq!(statuses(&daemon), ["10.7.8.20 Reserved", "10.7.8.21 Reserved", "10.7.8.22 Available"]);
    let expires = |address: &str| net_ip(&daemon, address)["status"]["fixedIPExpiredTime"].clone();
    assert!(expires("10.7.8.20").is_null() && expires("10.7.8.21").is_string());
    let stranger = allocate(&daemon, &pod("c1", "other", json!({"ipAddr": "10.7.8.21"})));
    assert_eq!(stranger["code"], 2, "{stranger}");
    let back = allocate(&daemon, &pod("c2", "web-1", json!({"fixed": true})));
    assert_eq!(given(&back), "10.7.8.21", "the pod of that name has it again");
}

#[test]
fn a_pool_may_make_all_its_addresses_fixed() {
    let home = Home::new();
    let annotations = "
  annotations:
    netservicecontroller.bkbcs.tencent.com/fixed: \"true\"
    netservicecontroller.bkbcs.tencent.com/keep-duration: 10h
spec:";
    let daemon = home.start_with_manifests(&POOL.replace("\nspec:", annotations));
    let first = given(&allocate(&daemon, &body("10.7.8.11", "c1", json!({"podName": "web-0"})))).to_owned();
    let _ = send(&daemon, "DELETE", ALLOCATOR, &body("10.7.8.11", "c1", json!({"podName": "web-0"})));
    assert_eq!(daemon.held("Held").len(), 1);
    assert_eq!(
        given(&allocate(&daemon, &body("10.7.8.12", "c2", json!({"podName": "web-0"})))),
        first,
        "on another host too"
    );
}

#[test]
fn addresses_of_other_machines_outlive_this_one() {
    let home = Home::new();
    let daemon = home.start_with_manifests(POOL);
    let _ = given(&allocate(&daemon, &body("10.7.8.11", "c1", json!({}))));
    daemon.kill();
    let daemon = home.start();
    assert_eq!(daemon.holders("Active"), ["c1"]);
    daemon.check();
}
