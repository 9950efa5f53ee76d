//! Runs of a pool that are lent to nodes, listed and taken back.

use crate::{documents, pool};
use berth_e2e::http::text;
use berth_e2e::{Daemon, Home};
use serde_json::{Value, json};

fn lent(daemon: &Daemon, query: &str) -> Vec<String> {
    let answer = daemon.http.get(&format!("/v1alpha1/leases{query}")).ok();
    let line = |lease: &Value| {
        let [network, range, node, in_use, size] =
            ["network", "range", "node", "inUse", "size"].map(|key| text(&lease[key]).to_owned());
        format!("{network} {range} {node} {in_use}/{size}")
    };
    answer["items"].as_array().unwrap().iter().map(line).collect()
}

#[test]
fn leases_are_listed_and_taken_back_when_empty() {
    let home = Home::new();
    let edges = json!({"blockSize": 30, "gateway": "none", "useNetworkAddress": true, "useBroadcastAddress": true});
    let spec = |range: &str, network: &str| {
        let mut spec = edges.clone();
        spec["ranges"] = json!([range]);
        spec["network"] = json!(network);
        spec
    };
    let pools = [pool("a", &spec("10.3.0.0/29", "default")), pool("b", &spec("10.3.0.0/29", "lab"))];
    let daemon = home.start_with_manifests(&documents(&pools));
    assert_eq!(lent(&daemon, ""), [""; 0]);
    for (id, node, network) in [("x", "n1", "default"), ("y", "n2", "default"), ("z", "n1", "lab")] {
        let body = json!({"holder": {"id": id, "node": node}, "network": network});
        let _ = daemon.http.post("/v1alpha1/addresses", &body).ok();
    }
    assert_eq!(
        lent(&daemon, ""),
        ["default 10.3.0.0/30 n1 1/4", "default 10.3.0.4/30 n2 1/4", "lab 10.3.0.0/30 n1 1/4"]
    );
    assert_eq!(lent(&daemon, "?network=lab"), ["lab 10.3.0.0/30 n1 1/4"]);
    assert_eq!(lent(&daemon, "?node=n2"), ["default 10.3.0.4/30 n2 1/4"]);

    let first = "/v1alpha1/leases/10.3.0.0%2F30";
    let problem = daemon.http.delete(first).problem(409, "in-use");
    assert!(text(&problem["detail"]).contains("10.3.0.0 by holder x"), "{problem}");
    let _ = daemon.http.delete("/v1alpha1/addresses?holder=x").ok();
    assert_eq!(lent(&daemon, "?network=default")[0], "default 10.3.0.0/30 n1 0/4");
    assert_eq!(daemon.http.delete(first).ok()["node"], "n1");
    assert_eq!(lent(&daemon, "?network=default"), ["default 10.3.0.4/30 n2 1/4"], "and the other network's stays");
    let problem = daemon.http.delete(first).problem(404, "not-found");
    assert!(text(&problem["hint"]).contains("berth leases"), "{problem}");
    daemon.http.delete(&format!("{first}?network=lab")).problem(409, "in-use");
    daemon.http.delete("/v1alpha1/leases/ten").problem(422, "invalid");
    daemon.check();
}
