//! Addresses: given out, taken back, shown, explained, set apart, taken over.

use crate::{documents, pool};
use berth_e2e::http::text;
use berth_e2e::{Call, Daemon, Home, until};
use serde_json::{Value, json};

fn start(home: &Home) -> Daemon {
    home.start_with_manifests(&documents(&[pool("a", &json!({"ranges": ["10.1.0.0/24"], "pick": "Sequential"}))]))
}

fn allocate(daemon: &Daemon, id: &str) -> String {
    let answer = daemon.http.post("/v1alpha1/addresses", &json!({"holder": {"id": id}})).ok();
    text(&answer["addresses"][0]["address"]).to_owned()
}

#[test]
fn an_address_is_given_shown_and_taken_back() {
    let home = Home::new();
    let daemon = start(&home);
    let answer = daemon.http.post("/v1alpha1/addresses", &json!({"holder": {"id": "vm-1"}})).ok();
    let given = &answer["addresses"][0];
    assert_eq!((text(&given["address"]), text(&given["pool"])), ("10.1.0.2", "a"));
    assert_eq!((&given["prefixLength"], text(&given["gateway"])), (&json!(24), "10.1.0.1"));
    assert_eq!(allocate(&daemon, "vm-1"), "10.1.0.2", "asking again is the same asking");
    let shown = daemon.http.get("/v1alpha1/addresses/10.1.0.2").ok();
    assert_eq!((text(&shown["items"][0]["state"]), text(&shown["items"][0]["holder"]["id"])), ("Active", "vm-1"));
    assert_eq!(daemon.http.get("/v1alpha1/addresses/10.1.0.9").ok()["items"][0]["state"], "Free");
    let released = daemon.http.delete("/v1alpha1/addresses/10.1.0.2").ok();
    assert_eq!((&released["released"], text(&released["holder"]["id"])), (&json!(["10.1.0.2"]), "vm-1"));
    let again = daemon.http.delete("/v1alpha1/addresses/10.1.0.2");
    assert!(again.status >= 400, "nobody has it any more: {}", again.body);
}

#[test]
fn several_of_each_family_and_all_of_a_holder_at_once() {
    let home = Home::new();
    let daemon = start(&home);
    let answer = daemon.http.post("/v1alpha1/addresses", &json!({"holder": {"id": "big"}, "count": 5})).ok();
    assert_eq!(answer["addresses"].as_array().unwrap().len(), 5);
    let _ = allocate(&daemon, "other");
    let released = daemon.http.delete("/v1alpha1/addresses?holder=big").ok();
    assert_eq!(released["released"].as_array().unwrap().len(), 5);
    assert_eq!(daemon.holders("Active"), ["other"]);
}

#[test]
fn pages_show_everything_once() {
    let home = Home::new();
    let daemon = start(&home);
    let _ = daemon.http.post("/v1alpha1/addresses", &json!({"holder": {"id": "big"}, "count": 100})).ok();
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let page = daemon.http.get(&format!("/v1alpha1/addresses?limit=7{token}")).ok();
        seen.extend(page["items"].as_array().unwrap().iter().map(|item| text(&item["address"]).to_owned()));
        match page["continue"].as_str() {
            Some(next) => token = format!("&continue={}", next.replace('/', "%2F")),
            None => break,
        }
        assert!(seen.len() <= 100, "it goes round in circles");
    }
    let all: Vec<String> = daemon.held("Active").into_iter().map(|(address, _)| address).collect();
    assert_eq!(seen, all);
}

#[test]
fn history_tells_who_had_an_address_and_survives() {
    let home = Home::new();
    let daemon = start(&home);
    let ids = ["c1", "c2"];
    for id in ids {
        assert_eq!(
            Call::new("ADD", id).pod("shop", id).run(&home.config("1.0.0", &json!({}))).addresses(),
            ["10.1.0.2/24"]
        );
        home.del(id);
    }
    let events = |daemon: &Daemon, query: &str| {
        let answer = daemon.http.get(&format!("/v1alpha1/addresses/10.1.0.2/history{query}")).ok();
        let event = |item: &Value| {
            let pod = item["holder"]["pod"].as_str().unwrap_or("nobody").to_owned();
            assert!(item["at"].as_str().unwrap().ends_with('Z'));
            format!("{} {pod}", text(&item["state"]))
        };
        answer["items"].as_array().unwrap().iter().map(event).collect::<Vec<_>>()
    };
    let expected = ["Active c1", "Released nobody", "Active c2", "Released nobody"];
    assert_eq!(events(&daemon, ""), expected);
    assert_eq!(events(&daemon, "?since=1h"), expected);
    assert_eq!(events(&daemon, "?since=2100-01-01T00:00:00Z"), Vec::<String>::new());
    daemon.kill();
    assert_eq!(events(&home.start(), ""), expected);
}

#[test]
fn a_quarantined_address_is_given_to_nobody_until_its_time_is_over() {
    let home = Home::new();
    let daemon =
        home.start_with_manifests(&documents(&[pool("a", &json!({"ranges": ["10.1.0.10"], "prefixLength": 24}))]));
    let quarantine = |body: Value| daemon.http.post("/v1alpha1/quarantine", &body);
    let until_when = quarantine(json!({"address": "10.1.0.10", "for": "300ms"})).ok();
    assert_eq!(until_when["state"], "Quarantined");
    daemon.http.post("/v1alpha1/addresses", &json!({"holder": {"id": "x"}})).problem(409, "pool-exhausted");
    daemon
        .http
        .post("/v1alpha1/addresses", &json!({"holder": {"id": "x"}, "addresses": ["10.1.0.10"]}))
        .problem(409, "address-taken");
    until("the quarantine to end", || daemon.held("Quarantined").is_empty().then_some(()));
    assert_eq!(allocate(&daemon, "x"), "10.1.0.10");
    quarantine(json!({"address": "10.1.0.10"})).problem(409, "address-taken");
    quarantine(json!({"address": "10.9.0.10"})).problem(422, "address-outside-pool");
}

#[test]
fn explain_says_why_and_changes_nothing() {
    let home = Home::new();
    let bound = json!({"ranges": ["10.2.0.0/24"], "allow": {"namespaces": ["other"]}});
    let plain = json!({"ranges": ["10.1.0.0/24"], "pick": "Sequential"});
    let daemon = home.start_with_manifests(&documents(&[pool("a", &plain), pool("b", &bound)]));
    let explain = |body: &Value| daemon.http.post("/v1alpha1/explain", body).ok();
    let body = json!({"holder": {"id": "x"}, "pools": ["b", "a"]});
    let answer = explain(&body);
    let considered = answer["considered"].as_array().unwrap();
    let verdicts: Vec<(&str, bool)> = considered.iter().map(|c| (text(&c["pool"]), c["dropped"].is_null())).collect();
    assert_eq!(verdicts, [("b", false), ("a", true)]);
    assert!(text(&considered[0]["dropped"]).contains("namespace"), "{answer}");
    assert_eq!(answer["addresses"][0]["address"], "10.1.0.2");
    assert!(!text(&answer["addresses"][0]["reason"]).is_empty());
    assert_eq!(daemon.held("Active"), []);
    assert_eq!(
        daemon.http.post("/v1alpha1/addresses", &body).ok()["addresses"][0]["address"],
        "10.1.0.2",
        "as foretold"
    );
    let refused = explain(&json!({"holder": {"id": "y"}, "pools": ["b"]}));
    assert_eq!(refused["error"]["type"], "urn:berth:problem:no-qualified-pool");
}

#[test]
fn leases_of_another_allocator_are_taken_over() {
    let home = Home::new();
    let daemon = start(&home);
    assert_eq!(allocate(&daemon, "vm"), "10.1.0.2");
    let mut body = json!({"source": "host-local", "cniNetwork": "net1", "dryRun": true, "leases": [
        {"address": "10.1.0.7", "container": "c7", "ifname": "eth0"},
        {"address": "10.1.0.2", "container": "c2", "ifname": "eth0"},
        {"address": "10.9.0.9", "container": "c9", "ifname": "eth0"},
    ]});
    let import = |body: &Value| daemon.http.post("/v1alpha1/import", body).ok();
    let foretold = import(&body);
    assert_eq!(daemon.holders("Active"), ["vm"], "a dry run does nothing");
    body["dryRun"] = json!(false);
    let answer = import(&body);
    assert_eq!(answer, foretold);
    assert_eq!(answer["imported"], json!(["10.1.0.7"]));
    let refused: Vec<&str> = answer["refused"].as_array().unwrap().iter().map(|r| text(&r["address"])).collect();
    assert_eq!(refused, ["10.1.0.2", "10.9.0.9"]);
    assert_eq!(import(&body)["known"], json!(["10.1.0.7"]), "a second time nothing is new");
    assert_eq!(home.add("c7"), ["10.1.0.7/24"], "ADD of the running container is the same ADD");
    home.del("c7");
    assert_eq!(daemon.holders("Active"), ["vm"]);
    let many: Vec<Value> = (0..1001).map(|n| json!({"address": "10.1.0.8", "container": format!("c{n}")})).collect();
    let too_many = json!({"cniNetwork": "net1", "leases": many});
    assert_eq!(daemon.http.post("/v1alpha1/import", &too_many).problem(422, "invalid")["field"], "leases");
}
