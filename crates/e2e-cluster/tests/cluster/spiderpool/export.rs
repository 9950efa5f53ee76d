//! The way back: what Berth has given out, in Spiderpool's words.

use super::takeover::endpoint;
use super::{apply, install};
use berth_dialects::native::block::{BlockSpec, from_spec};
use berth_e2e::{binaries, succeed, until};
use berth_e2e_cluster::World;
use serde_json::{Value, json};
use std::process::Command;

fn berth(world: &World, line: &[&str]) -> Command {
    let mut berth = Command::new(binaries::berth());
    berth.args(line).args(["--output", "json", "--kubeconfig"]).arg(world.plane.kubeconfig());
    berth
}

fn records(world: &World, pool: &str) -> Value {
    let text = world.field(&format!("spiderippool/{pool}"), ".status.allocatedIPs");
    serde_json::from_str(&text).unwrap_or_default()
}

/// Who has which address: state, pod, UID and interface.
fn holders(world: &World) -> Value {
    let blocks = world.plane.kubectl_ok(&["get", "ipblocks", "-o", "json"]).unwrap();
    let blocks: Value = serde_json::from_str(&blocks).unwrap();
    let mut all = serde_json::Map::new();
    for object in blocks["items"].as_array().unwrap() {
        let spec: BlockSpec = serde_json::from_value(object["spec"].clone()).unwrap();
        let (key, block) = from_spec(&spec).unwrap();
        for (slot, view) in block.slots() {
            let Some(holder) = view.holder() else { continue };
            let state = format!("{:?}", view.state);
            if state == "Released" {
                continue;
            }
            let pod = format!("{}/{}", holder.namespace, holder.pod);
            let who = json!([state, pod, holder.uid, holder.ifname]);
            all.insert(key.plane.addr(key.unit(slot)).to_string(), who);
        }
    }
    Value::Object(all)
}

#[test]
fn what_was_imported_is_exported_record_by_record() {
    let Some(world) = World::start() else { return };
    install(&world);
    world.nodes(&["n1"]);
    apply(&world, "SpiderIPPool", "p", &json!({"subnet": "10.30.0.0/24", "ips": ["10.30.0.10-10.30.0.13"]}));
    let set = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s", "controller": true}]);
    let web = world.pod("n1", "web", &json!({}));
    let first = world.make_pod("n1", "db-0", &json!({"ownerReferences": set}));
    endpoint(&world, "web", &web.uid, "n1", "10.30.0.10", "Pod");
    endpoint(&world, "db-0", &first.uid, "n1", "10.30.0.11", "StatefulSet");
    endpoint(&world, "db-1", "u-before", "n1", "10.30.0.12", "StatefulSet");
    let before = json!({"10.30.0.10": {"pod": "default/web", "podUid": web.uid},
        "10.30.0.11": {"pod": "default/db-0", "podUid": first.uid},
        "10.30.0.12": {"pod": "default/db-1", "podUid": "u-before"}});
    let status = |records: Value| json!({"status": {"allocatedIPs": records, "allocatedIPCount": 3}}).to_string();
    let patch = |status: &str| {
        let line = ["patch", "spiderippool", "p", "--subresource=status", "--type=merge", "--patch", status];
        world.plane.kubectl_ok(&line).unwrap();
    };
    patch(&status(json!(before.to_string())));
    succeed(&mut berth(&world, &["import", "spiderpool", "--apply"]));
    patch(&status(Value::Null));
    let said: Value = serde_json::from_str(&succeed(&mut berth(&world, &["export", "spiderpool"]))).unwrap();
    assert_eq!(records(&world, "p"), Value::Null, "only asked");
    assert_eq!(
        (said["refused"].as_array().unwrap().len(), said["remarks"].as_array().unwrap().len()),
        (0, 0),
        "{said}"
    );
    succeed(&mut berth(&world, &["export", "spiderpool", "--apply"]));
    assert_eq!(records(&world, "p"), before);
    assert_eq!(world.field("spiderendpoint/db-1", ".status.current.uid"), "u-before");
    world.check();
}

#[test]
fn pools_of_berth_go_to_spiderpool_and_come_back_with_the_same_holders() {
    let Some(world) = World::start() else { return };
    install(&world);
    world.nodes(&["n1", "n2"]);
    world.node_is("n1", "True");
    world.node_is("n2", "True");
    world.pool("blue", &json!({"ranges": ["10.31.0.0/24"], "sticky": {}, "default": true}));
    world.pool("red", &json!({"ranges": ["10.32.0.0/24"], "network": "red"}));
    let set = json!({"ownerReferences":
        [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s", "controller": true}]});
    let (one, two) = (world.agent("n1"), world.agent("n2"));
    let web = world.pod("n1", "web", &json!({}));
    let (stays, away) = (world.make_pod("n2", "db-0", &set), world.make_pod("n2", "db-1", &set));
    let _ = one.address(&web, "c1");
    let _ = two.address(&stays, "c2");
    let _ = two.address(&away, "c3");
    assert_eq!(two.del(&away, "c3").code, 0);
    world.plane.kubectl_ok(&["delete", "pod", "db-1", "--force", "--grace-period=0"]).unwrap();
    until("what is kept to be written", || {
        let held = holders(&world).as_object().unwrap().values().filter(|who| who[0] == "Held").count();
        (held == 1).then_some(())
    });
    let before = holders(&world);
    one.stop();
    two.stop();

    let refused = berth(&world, &["export", "spiderpool", "--apply"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "one pool cannot be said");
    let said: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert!(said["refused"][0]["object"].as_str().unwrap().contains("red"), "{said}");
    assert_eq!(said["refused"].as_array().unwrap().len(), 1, "{said}");
    assert_eq!(records(&world, "blue").as_object().unwrap().len(), 3);
    // Berth is gone and comes back without anything of its own.
    succeed(Command::new(binaries::berth()).args(["uninstall", "--kubeconfig"]).arg(world.plane.kubeconfig()));
    for kind in ["ippools", "ipblocks", "ipendpoints"] {
        world.plane.kubectl_ok(&["delete", kind, "--all", "--all-namespaces"]).unwrap();
    }
    succeed(&mut berth(&world, &["import", "spiderpool", "--apply"]));
    let mut after = holders(&world);
    // Who is away has no UID, before and after; whose network is red has nothing in either.
    assert_eq!(after.as_object().unwrap().len(), 3, "{after}");
    for (address, who) in before.as_object().unwrap() {
        let now = after.as_object_mut().unwrap().remove(address).unwrap_or_default();
        assert_eq!((&now[0], &now[1]), (&who[0], &who[1]), "{address}");
        if who[0] == "Active" {
            assert_eq!((&now[2], &now[3]), (&who[2], &who[3]), "{address}");
        }
    }
    world.check();
}
