//! SpiderEndpoints and the records of pools: what they say of a pod beside its addresses.

use super::{apply, install};
use berth_e2e::until;
use berth_e2e_cluster::World;
use serde_json::{Value, json};

#[test]
fn endpoints_show_the_pods_own_routes_and_records_who_was_there_last() {
    let Some(world) = World::start() else { return };
    install(&world);
    world.nodes(&["n1"]);
    world.node_is("n1", "True");
    let spec = json!({"subnet": "10.33.0.0/24", "ips": ["10.33.0.10-10.33.0.19"], "gateway": "10.33.0.1",
        "default": true});
    apply(&world, "SpiderIPPool", "p", &spec);
    let _controller = world.controller("r1", &[]);
    let agent = world.agent("n1");
    let annotations = json!({
        "ipam.spidernet.io/ippools": r#"[{"interface":"eth0","ipv4":["p"],"cleangateway":true}]"#,
        "ipam.spidernet.io/routes": r#"[{"dst":"10.7.0.0/16","gw":"10.33.0.254"}]"#,
    });
    let web = world.pod("n1", "web", &annotations);
    let _ = agent.address(&web, "c1");
    let said =
        |pod: &str, path: &str| world.field(&format!("spiderendpoint/{pod}"), &format!(".status.current.{path}"));
    until("its endpoint", || (said("web", "ips[0].cleanGateway") == "true").then_some(()));
    assert_eq!(said("web", "ips[0].routes[*].dst"), "10.7.0.0/16");
    assert_eq!(said("web", "ips[0].ipv4Gateway"), "10.33.0.1");

    let set = json!({"ownerReferences":
        [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s", "controller": true}]});
    let first = world.make_pod("n1", "db-0", &set);
    let address = agent.address(&first, "c2").to_string();
    until("its endpoint", || (said("db-0", "uid") == first.uid).then_some(()));
    until("its record", || world.field("spiderippool/p", ".status.allocatedIPs").contains(&first.uid).then_some(()));
    agent.del(&first, "c2").silent();
    world.plane.kubectl_ok(&["delete", "pod", "db-0", "--force", "--grace-period=0"]).unwrap();
    // From the moment that it is only kept, the block names no UID any more; the record goes on to.
    let record = || -> Value {
        let records: Value = serde_json::from_str(&world.field("spiderippool/p", ".status.allocatedIPs")).unwrap();
        records[&address].clone()
    };
    for _ in 0..20 {
        assert_eq!(record(), json!({"pod": "default/db-0", "podUid": first.uid}));
        std::thread::sleep(std::time::Duration::from_millis(250));
    }
}
