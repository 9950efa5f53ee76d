//! Somebody on the wire has an address of a pool, and nobody has told Berth.

use crate::{last_byte, object};
use berth_cluster::Station;
use berth_e2e_nodes::{Lab, Workload};
use serde_json::{Value, json};

pub(crate) fn with_a_stranger(lab: &mut Lab) {
    // Addresses are given out lowest first: the second pod would get what the stranger has.
    let stranger = Station::new(lab.cluster.underlay(), "stranger", &["172.20.6.11/24"]).unwrap();
    let metadata = json!({"name": "wire", "annotations": {"berth.io/detect": r#"{"gateway": "Ignore"}"#}});
    let spec = json!({"subnet": "172.20.6.0/24", "ips": ["172.20.6.10-172.20.6.20"]});
    object(lab, "SpiderIPPool", &metadata, &spec);
    let asks = json!({"ipam.spidernet.io/ippool": r#"{"ipv4": ["wire"]}"#});
    let wary = Workload::deployment_with(lab, "wary", 3, &asks);
    assert_eq!(last_bytes(lab, &wary), [10, 12, 13], "everything but what the stranger has");
    lab.until("an event that says so", || {
        let events = lab.get("events -A --field-selector reason=AddressConflict");
        let told = |event: &Value| {
            let about = &event["involvedObject"];
            let note = event["message"].as_str().unwrap_or_default();
            about["kind"] == "SpiderIPPool" && about["name"] == "wire" && note.contains("172.20.6.11 (1 in all)")
        };
        if events.iter().any(told) { Ok(()) } else { Err(format!("{events:?}")) }
    });
    // It is set apart for a while, whether or not somebody answers for it now.
    drop(stranger);
    wary.scale(lab, 4);
    wary.wait(lab);
    assert_eq!(last_bytes(lab, &wary), [10, 12, 13, 14]);
    wary.delete(lab);
}

/// What the pods have, in order.
fn last_bytes(lab: &Lab, of: &Workload) -> Vec<u8> {
    lab.holders(&of.pods(lab)).into_keys().map(|address| last_byte(address, "172.20.6.")).collect()
}
