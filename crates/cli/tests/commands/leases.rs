//! leases, leases return.

use crate::canned::{problem, transcript};
use insta::assert_snapshot;
use serde_json::json;

#[test]
fn leases_are_listed_and_returned() {
    let lease = json!({ "network": "default", "range": "10.77.4.0/26", "pool": "blue", "node": "node-1",
        "since": "2026-02-01T11:00:00Z", "inUse": "3", "size": "64" });
    let all = (200, json!({ "items": [lease] }));
    let one = (200, lease);
    let busy = problem(
        409,
        "in-use",
        "lease 10.77.4.0/26 of node \"node-1\" is in use: 10.77.4.1 by holder x",
        "release those addresses first",
        22,
    );
    let shown = [
        transcript("leases", std::slice::from_ref(&all)),
        transcript("leases -o wide --node node-1 --pool blue --network default", std::slice::from_ref(&all)),
        transcript("leases -o yaml", std::slice::from_ref(&all)),
        transcript("leases -o name", &[all]),
        transcript("leases", &[(200, json!({ "items": [] }))]),
        transcript("leases return 10.77.4.0/26 --network lab", &[one]),
        transcript("leases return 10.77.4.0/26", &[busy]),
    ];
    assert_snapshot!(shown.join("\n\n"));
}
