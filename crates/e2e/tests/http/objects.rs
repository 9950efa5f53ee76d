//! Objects: applied all or none, listed, deleted.

use crate::{documents, pool};
use berth_e2e::{Daemon, Home};
use serde_json::{Value, json};

fn names(daemon: &Daemon) -> Vec<Value> {
    let items = daemon.http.get("/v1alpha1/objects/ippools").ok();
    items["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].clone()).collect()
}

#[test]
fn yaml_json_and_lists_say_the_same() {
    let home = Home::new();
    let daemon = home.start();
    let yaml = "
# two documents, one of them in flow style
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: a}
spec:
  ranges:
  - 10.1.0.0/24
---
{apiVersion: berth.io/v1alpha1, kind: IPPool, metadata: {name: b}, spec: {ranges: [10.2.0.0/24]}}
";
    let (a, b) = (pool("a", &json!({"ranges": ["10.1.0.0/24"]})), pool("b", &json!({"ranges": ["10.2.0.0/24"]})));
    assert_eq!(daemon.http.apply(yaml).actions(), "created a, created b");
    assert_eq!(daemon.http.apply(&documents(&[b.clone(), a.clone()])).actions(), "unchanged b, unchanged a");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [a, b]});
    assert_eq!(daemon.http.apply(&list.to_string()).actions(), "unchanged a, unchanged b");
    let c = pool("a", &json!({"ranges": ["10.1.0.0/24", "10.3.0.0/24"]}));
    assert_eq!(daemon.http.apply(&c.to_string()).actions(), "configured a");
}

#[test]
fn metadata_counts_what_happened() {
    let home = Home::new();
    let daemon = home.start();
    let meta = |object: &Value| {
        let _ = daemon.http.apply(&object.to_string()).ok();
        daemon.http.get("/v1alpha1/objects/ippools/a").ok()["metadata"].clone()
    };
    let mut object = pool("a", &json!({"ranges": ["10.1.0.0/24"]}));
    let first = meta(&object);
    assert_eq!(first["generation"], 1);
    assert_eq!(meta(&object), first, "applying it again changes nothing");
    object["metadata"]["labels"] = json!({"team": "net"});
    let labelled = meta(&object);
    assert_eq!(labelled["generation"], 1, "a label is no change of the specification");
    assert_ne!(labelled["resourceVersion"], first["resourceVersion"]);
    object["spec"]["ranges"] = json!(["10.1.0.0/23"]);
    let wider = meta(&object);
    assert_eq!(wider["generation"], 2);
    for field in ["uid", "creationTimestamp"] {
        assert_eq!(wider[field], first[field], "{field}");
    }
}

#[test]
fn a_manifest_is_applied_whole_or_not_at_all() {
    let home = Home::new();
    let daemon = home.start_with_manifests(&documents(&[pool("a", &json!({"ranges": ["10.1.0.0/24"]}))]));
    let changed = pool("a", &json!({"ranges": ["10.1.0.0/23"]}));
    let good = pool("b", &json!({"ranges": ["10.2.0.0/24"]}));
    for bad in [
        pool("c", &json!({"ranges": ["10.3.0.0/99"]})),
        pool("c", &json!({"ranges": ["10.3.0.0/24"], "subnet": "missing"})),
        pool("c", &json!({"ranges": ["10.3.0.0/24"], "rnages": []})),
        json!({"apiVersion": "berth.io/v1alpha1", "kind": "IPClaim", "metadata": {"name": "c"}, "spec": {"addresses": ["10.9.9.9"]}}),
    ] {
        let reply = daemon.http.apply(&documents(&[changed.clone(), good.clone(), bad.clone()]));
        assert_eq!(reply.status, 422, "{bad}: {}", reply.body);
        assert_eq!(names(&daemon), ["a"], "{bad}");
        let ranges = &daemon.http.get("/v1alpha1/objects/ippools/a").ok()["spec"]["ranges"];
        assert_eq!(ranges, &json!(["10.1.0.0/24"]), "{bad}");
    }
}

#[test]
fn a_dry_run_says_what_would_be_and_does_nothing() {
    let home = Home::new();
    let daemon = home.start_with_manifests(&documents(&[pool("a", &json!({"ranges": ["10.1.0.0/24"]}))]));
    let dry = |manifests: &str| daemon.http.send("POST", "/v1alpha1/apply?dryRun=true", "", manifests);
    let b = pool("b", &json!({"ranges": ["10.2.0.0/24"]}));
    let claim = json!({"apiVersion": "berth.io/v1alpha1", "kind": "IPClaim", "metadata": {"name": "c"}, "spec": {"pools": ["b"]}});
    assert_eq!(dry(&documents(&[b.clone(), claim.clone()])).actions(), "created b, created c");
    assert_eq!(names(&daemon), ["a"]);
    assert_eq!(daemon.http.get("/v1alpha1/objects/ipclaims").ok()["items"], json!([]));
    assert_eq!(daemon.held("Held"), []);
    dry(&pool("b", &json!({"ranges": ["nonsense"]})).to_string()).problem(422, "invalid");
    assert_eq!(daemon.http.apply(&documents(&[b, claim])).actions(), "created b, created c");
    assert_eq!(daemon.held("Held").len(), 1, "a claim is bound when it is made");
}

#[test]
fn what_is_in_use_is_neither_deleted_nor_cut_off() {
    let home = Home::new();
    let daemon = home.start_with_manifests(&documents(&[pool("a", &json!({"ranges": ["10.1.0.0/24"]}))]));
    let address = home.add("c1")[0].replace("/24", "");
    let names_the_holder = |problem: Value| {
        let detail = problem["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(&address) && detail.contains("container c1"), "{detail}");
        assert_eq!(problem["exitCode"], 22);
    };
    names_the_holder(daemon.http.delete("/v1alpha1/objects/ippools/a").problem(409, "in-use"));
    let shrunk = pool("a", &json!({"ranges": ["10.1.0.128/25"]}));
    names_the_holder(daemon.http.apply(&shrunk.to_string()).problem(409, "in-use"));
    assert_eq!(home.add("c1")[0], format!("{address}/24"), "nothing happened to it");
    home.del("c1");
    assert_eq!(daemon.http.apply(&shrunk.to_string()).actions(), "configured a");
    assert_eq!(daemon.http.delete("/v1alpha1/objects/ippools/a").ok()["action"], "deleted");
    daemon.http.delete("/v1alpha1/objects/ippools/a").problem(404, "unknown-pool");
}

#[test]
fn kinds_have_other_names_and_a_wrong_one_gets_a_suggestion() {
    let home = Home::new();
    let daemon = home.start();
    for kind in ["ippools", "ippool", "IPPool", "pools"] {
        assert_eq!(
            daemon.http.get(&format!("/v1alpha1/objects/{kind}")).ok()["items"].as_array().unwrap().len(),
            1,
            "{kind}"
        );
    }
    let problem = daemon.http.get("/v1alpha1/objects/ippolls").problem(404, "unknown-kind");
    assert!(problem["hint"].as_str().unwrap().contains("did you mean"), "{problem}");
    daemon.http.get("/v1alpha1/objects/ipsubnets/none").problem(404, "not-found");
    daemon.http.get("/v1alpha1/objects/ipclaims/none").problem(404, "unknown-claim");
}

#[test]
fn a_thousand_pools_in_one_manifest() {
    let home = Home::new();
    let daemon = home.start();
    let pools: Vec<Value> = (0..1000)
        .map(|n| pool(&format!("p{n:04}"), &json!({"ranges": [format!("10.{}.{}.0/24", n / 250, n % 250)]})))
        .collect();
    let reply = daemon.http.apply(&documents(&pools));
    assert_eq!(reply.ok()["results"].as_array().unwrap().len(), 1000);
    assert_eq!(names(&daemon).len(), 1000);
    assert_eq!(daemon.http.apply(&documents(&pools)).actions().matches("unchanged").count(), 1000);
}
