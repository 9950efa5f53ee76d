//! Addresses that Spiderpool gave out before Berth came.

use super::{apply, install};
use berth_e2e::{binaries, succeed, until};
use berth_e2e_cluster::World;
use serde_json::{Value, json};
use std::process::Command;

pub(crate) fn endpoint(world: &World, name: &str, uid: &str, node: &str, address: &str, owner: &str) {
    let nic = json!({"interface": "eth0", "ipv4": format!("{address}/24"), "ipv4Pool": "p", "vlan": 0});
    let status = json!({"current": {"uid": uid, "node": node, "ips": [nic]}, "ownerControllerType": owner,
        "ownerControllerName": "x"});
    let object = json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderEndpoint",
        "metadata": {"name": name, "namespace": "default"}, "status": status});
    world.apply(&object.to_string());
}

#[test]
fn what_spiderpool_gave_out_is_taken_over_and_given_to_nobody_else() {
    let Some(world) = World::start() else { return };
    install(&world);
    world.nodes(&["n1", "n2"]);
    world.node_is("n1", "True");
    world.node_is("n2", "True");
    let spec = json!({"subnet": "10.30.0.0/24", "ips": ["10.30.0.10-10.30.0.13"], "default": true});
    apply(&world, "SpiderIPPool", "p", &spec);
    let set = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s", "controller": true}]);
    let web = world.pod("n1", "web", &json!({}));
    let first = world.make_pod("n1", "db-0", &json!({"ownerReferences": set}));
    // web is in a record alone, db-0 runs, db-1 is away, gone is gone, and the last address is in no pool.
    endpoint(&world, "db-0", &first.uid, "n1", "10.30.0.11", "StatefulSet");
    endpoint(&world, "db-1", "u-before", "n2", "10.30.0.12", "StatefulSet");
    endpoint(&world, "gone", "u-gone", "n2", "10.30.0.13", "Deployment");
    endpoint(&world, "outside", "u-outside", "n2", "10.30.0.14", "StatefulSet");
    let records = json!({"10.30.0.10": {"pod": "default/web", "podUid": web.uid},
        "10.30.0.11": {"pod": "default/db-0", "podUid": first.uid}});
    let patch = json!({"status": {"allocatedIPs": records.to_string(), "allocatedIPCount": 2, "totalIPCount": 4}});
    let patch = patch.to_string();
    let patched = ["patch", "spiderippool", "p", "--subresource=status", "--type=merge", "--patch", &patch];
    world.plane.kubectl_ok(&patched).unwrap();

    let import = |more: &[&str]| -> Vec<(String, String)> {
        let mut berth = Command::new(binaries::berth());
        berth.args(["import", "spiderpool", "--output", "json", "--kubeconfig"]).arg(world.plane.kubeconfig());
        let said: Value = serde_json::from_str(&succeed(berth.args(more))).unwrap();
        let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
        let rows = said["addresses"].as_array().unwrap();
        rows.iter().map(|row| (text(row, "address"), text(row, "outcome"))).collect()
    };
    let expect = |outcomes: [&str; 5]| -> Vec<(String, String)> {
        (10..).zip(outcomes).map(|(n, outcome)| (format!("10.30.0.{n}"), outcome.to_owned())).collect()
    };
    let outcomes = expect(["imported", "imported", "kept", "left", "refused"]);
    assert_eq!(import(&[]), outcomes);
    assert_eq!(world.used(), 0, "only asked");
    assert_eq!(import(&["--apply"]), outcomes, "what was said is done");
    let known = expect(["known", "known", "kept", "left", "refused"]);
    assert_eq!(import(&[]), known, "also by asking");
    assert_eq!(import(&["--apply"]), known, "once more changes nothing");

    let _controller = world.controller("r1", &["--audit", "1s"]);
    let (one, two) = (world.agent("n1"), world.agent("n2"));
    let late = world.pod("n1", "late", &json!({}));
    assert_eq!(one.address(&late, "c1").to_string(), "10.30.0.13");
    // Who was away is found again, and who runs gets what it has when its sandbox is made anew.
    until("the record of who is away", || (!world.field("ipendpoint/db-1", ".metadata.name").is_empty()).then_some(()));
    let back = world.make_pod("n2", "db-1", &json!({"ownerReferences": set}));
    assert_eq!(two.address(&back, "c2").to_string(), "10.30.0.12");
    assert_eq!(one.address(&first, "c3").to_string(), "10.30.0.11");
    until("the pool to say so in Spiderpool's words", || {
        let said = world.field("spiderippool/p", ".status.allocatedIPs");
        (said.contains("default/web") && said.contains("10.30.0.12")).then_some(())
    });
    world.check();
}
