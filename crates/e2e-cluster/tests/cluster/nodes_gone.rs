//! Many nodes go at once.

use berth_core::addr::Family;
use berth_core::block::{Block, BlockKey, Plane, Slot};
use berth_core::holder::Holder;
use berth_core::time::Time;
use berth_dialects::native::block::{block_name, to_spec};
use berth_e2e::until;
use berth_e2e_cluster::{Proxy, World};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const NODES: u32 = 250;
const PODS_EACH: u32 = 12;

/// The blocks that agents of these nodes would have left: one pod after another.
fn left_behind() -> Vec<Value> {
    let plane = Plane { network: "default".into(), family: Family::V4, unit_len: 32 };
    let mut blocks: BTreeMap<u128, (BlockKey, Block)> = BTreeMap::new();
    for n in 0..NODES * PODS_EACH {
        let unit = u128::from(0x0a09_0000 + n + 2);
        let (key, slot) = BlockKey::of(&plane, unit);
        let holder = Holder {
            network: "net".into(),
            id: format!("{n:064x}"),
            ifname: "eth0".into(),
            namespace: "default".into(),
            pod: format!("pod-{n}"),
            uid: format!("uid-{n}"),
            node: format!("node-{}", n % NODES),
            ..Holder::default()
        };
        let entry = blocks.entry(key.index).or_insert_with(|| (key.clone(), Block::default()));
        entry.1.set(slot, Some(&Slot::active(holder, Time(1))));
    }
    let object = |(key, block): &(BlockKey, Block)| {
        json!({"apiVersion": "berth.io/v1alpha1", "kind": "IPBlock", "metadata": {"name": block_name(key)},
            "spec": to_spec(key, block)})
    };
    blocks.values().map(object).collect()
}

#[test]
fn b30_calico_7839_two_hundred_and_fifty_nodes_go_at_once() {
    let Some(world) = World::start() else { return };
    world.nodes(&["stays"]);
    world.node_is("stays", "True");
    world.pool("p", &json!({"ranges": ["10.9.0.0/20"]}));
    let blocks = left_behind();
    let count = blocks.len();
    world.apply(&json!({"apiVersion": "v1", "kind": "List", "items": blocks}).to_string());
    assert_eq!(world.used(), u64::from(NODES * PODS_EACH));
    // One pod lives, under a name and UID that a record has: it keeps its address.
    let alive = world.pod("stays", "alive", &json!({}));
    let agent = world.agent("stays");
    let kept = agent.address(&alive, "alive");
    let account = world.plane.kubeconfig_for_service_account("berth-system", "berth-controller", None).unwrap();
    let proxy = Proxy::start(&account);
    let url = proxy.url();
    let _controller = world.controller("r1", &["--reclaim", "node-gone=0s", "--api-server", &url]);
    until("all of it to come back", || (world.used() == 1).then_some(()));
    assert_eq!(agent.address(&alive, "alive"), kept);
    let seen = proxy.seen();
    let of = |verb: &str, resource: &str| seen.iter().filter(|s| s.verb == verb && s.resource == resource).count();
    // Work goes by blocks and nodes, not by addresses: each block is written once, and pods are asked about in lists.
    assert!(of("update", "ipblocks") <= 2 * count, "{} writes for {count} blocks", of("update", "ipblocks"));
    assert!(of("get", "pods") < 64, "{} pods were asked about one by one", of("get", "pods"));
}
