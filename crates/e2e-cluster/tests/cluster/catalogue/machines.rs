//! F: virtual machines. Their pods have names that never come back, and their addresses stay all the same.

use super::pools;
use berth_core::block::State;
use berth_e2e_cluster::machines::{INSTANCE, MAKER};
use berth_e2e_cluster::{Agent, Case, Pod};
use serde_json::json;
use std::net::IpAddr;
use std::sync::Arc;

const BOTH: [&str; 2] = ["eth0", "net1"];

/// A case with two nodes and a pool that keeps addresses.
fn begin() -> Option<(Case<'static>, [Arc<Agent>; 2])> {
    let case = Case::begin()?;
    case.know_machines();
    case.berth("IPPool", "p", &json!({"ranges": ["10.N.0.0/24"], "sticky": {"keep": "1h"}}));
    let nodes = ["n1", "n2"].map(|node| case.node_without_kubelet(node, &json!({})));
    Some((case, nodes))
}

/// ADD of an interface; its address.
fn add(agent: &Agent, pod: &Pod, ifname: &str) -> IpAddr {
    let ran = agent.call("ADD", pod, &pod.uid, ifname).run(&agent.config(&json!({})));
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.addresses()[0].split('/').next().unwrap().parse().unwrap()
}

fn del(agent: &Agent, pod: &Pod, ifname: &str) {
    agent.call("DEL", pod, &pod.uid, ifname).run(&agent.config(&json!({}))).silent();
}

/// Who has an address, by UID: its holder, and where that is moving from.
fn users(case: &Case<'_>, address: IpAddr) -> Vec<String> {
    let blocks = case.decoded_blocks();
    let slots = blocks.iter().flat_map(|(key, block)| block.slots().map(move |(slot, view)| (key, slot, view)));
    let own =
        slots.filter(|(key, slot, view)| view.state == State::Active && key.plane.addr(key.unit(*slot)) == address);
    own.flat_map(|(.., view)| view.holders()).map(|holder| holder.uid).collect()
}

#[test]
fn f00001_the_address_of_a_machine_is_kept_over_restarts() {
    let Some((case, [one, two])) = begin() else { return };
    let asks = pools(&[case.name("p")]);
    case.make_machine(MAKER, "vm");
    let instance = case.make_machine(INSTANCE, "vm");
    let first = case.launcher(&one, &instance, "aaaaa", &asks, None);
    let address = add(&one, &first, "eth0");
    // A pod that is called like the machine is somebody else.
    let named = case.pod_on(&one, &case.namespace, "vm", &json!({"annotations": asks}));
    assert_ne!(add(&one, &named, "eth0"), address);
    // The pod is replaced, on another node.
    del(&one, &first, "eth0");
    case.force_delete(&first);
    let second = case.launcher(&two, &instance, "bbbbb", &asks, None);
    assert_eq!(add(&two, &second, "eth0"), address);
    // The machine is restarted: another instance of the name.
    del(&two, &second, "eth0");
    case.end_machine(INSTANCE, "vm");
    case.force_delete(&second);
    case.until("its pod to be gone", || case.get("v1", "Pod", Some(&case.namespace), &second.name).is_none());
    let instance = case.make_machine(INSTANCE, "vm");
    let third = case.launcher(&one, &instance, "ccccc", &asks, None);
    assert_eq!(add(&one, &third, "eth0"), address);
    // A pod of the machine that is not where it moves to gets nothing of it while the other one is there.
    let fourth = case.launcher(&two, &instance, "ddddd", &asks, None);
    let refused = two.add(&fourth, &fourth.uid);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert_eq!(users(&case, address), [third.uid.as_str()]);
    // Nobody says DEL: once the server knows the old pod no more, the new one has the address.
    case.force_delete(&third);
    assert_eq!(add(&two, &fourth, "eth0"), address);
    del(&one, &third, "eth0");
    assert_eq!(users(&case, address), [fourth.uid.as_str()]);
    let endpoint = case.get("berth.io/v1alpha1", "IPEndpoint", Some(&case.namespace), "vm").unwrap();
    assert_eq!((&endpoint["spec"]["uid"], &endpoint["spec"]["owner"]["kind"]), (&json!(fourth.uid), &json!(INSTANCE)));
}

#[test]
fn f00002_a_machine_that_moves_has_its_address_at_both_ends_and_then_at_one() {
    let Some((case, [one, two])) = begin() else { return };
    let asks = pools(&[case.name("p")]);
    let instance = case.make_machine(INSTANCE, "vm");
    let source = case.launcher(&one, &instance, "aaaaa", &asks, None);
    let address = add(&one, &source, "eth0");
    // It fails: the source has the address as before.
    let failed = case.launcher(&two, &instance, "bbbbb", &asks, Some("m1"));
    for _ in 0..2 {
        assert_eq!(add(&two, &failed, "eth0"), address);
        assert_eq!(users(&case, address), [failed.uid.as_str(), &source.uid]);
        assert_eq!(add(&one, &source, "eth0"), address, "the same answer again");
        del(&two, &failed, "eth0");
        assert_eq!(users(&case, address), [source.uid.as_str()]);
    }
    case.force_delete(&failed);
    // It succeeds, while the agent of the source is restarted.
    let target = case.launcher(&two, &instance, "ccccc", &asks, Some("m2"));
    assert_eq!(add(&two, &target, "eth0"), address);
    case.check();
    one.kill();
    one.start();
    for _ in 0..2 {
        del(&one, &source, "eth0");
        assert_eq!(users(&case, address), [target.uid.as_str()]);
    }
    case.force_delete(&source);
    // And back, where nobody says DEL of the source: its pod is gone, and what it had left goes with the next one that asks.
    let back = case.launcher(&one, &instance, "ddddd", &asks, Some("m3"));
    assert_eq!(add(&one, &back, "eth0"), address);
    case.force_delete(&target);
    let on = case.launcher(&two, &instance, "eeeee", &asks, Some("m4"));
    assert_eq!(add(&two, &on, "eth0"), address);
    assert_eq!(users(&case, address), [on.uid.as_str(), &back.uid]);
    del(&one, &back, "eth0");
    case.force_delete(&back);
    del(&two, &on, "eth0");
    assert_eq!((users(&case, address).len(), case.used()), (0, 1), "it is kept");
    // Another machine does not move here.
    let other = case.make_machine(INSTANCE, "other");
    let stranger = case.launcher(&two, &other, "fffff", &asks, Some("m5"));
    assert_ne!(add(&two, &stranger, "eth0"), address);
}

#[test]
fn f00002_the_target_whose_pod_is_gone_leaves_the_address_to_the_source() {
    let Some((case, [one, two])) = begin() else { return };
    let asks = pools(&[case.name("p")]);
    let instance = case.make_machine(INSTANCE, "vm");
    let source = case.launcher(&one, &instance, "aaaaa", &asks, None);
    let address = add(&one, &source, "eth0");
    let target = case.launcher(&two, &instance, "bbbbb", &asks, Some("m1"));
    assert_eq!(add(&two, &target, "eth0"), address);
    two.kill();
    // The controller finds that it is gone; nobody says DEL.
    case.force_delete(&target);
    case.until("the source to have it alone", || users(&case, address) == [source.uid.as_str()]);
    assert_eq!(add(&one, &source, "eth0"), address);
    case.check();
}

#[test]
fn f00003_all_interfaces_of_a_machine_keep_their_addresses() {
    let Some((case, [one, two])) = begin() else { return };
    let name = case.name("p");
    let asks = json!({"berth.io/networks": json!([
        {"interface": "eth0", "pools": [name]}, {"interface": "net1", "pools": [name]}]).to_string()});
    let instance = case.make_machine(INSTANCE, "vm");
    let first = case.launcher(&one, &instance, "aaaaa", &asks, None);
    let addresses = BOTH.map(|ifname| add(&one, &first, ifname));
    assert_ne!(addresses[0], addresses[1]);
    BOTH.iter().for_each(|ifname| del(&one, &first, ifname));
    case.force_delete(&first);
    let second = case.launcher(&two, &instance, "bbbbb", &asks, None);
    assert_eq!(BOTH.map(|ifname| add(&two, &second, ifname)), addresses);
    // And on the move: one interface after the other.
    let third = case.launcher(&one, &instance, "ccccc", &asks, Some("m1"));
    assert_eq!(BOTH.map(|ifname| add(&one, &third, ifname)), addresses);
    for (address, ifname) in addresses.into_iter().zip(BOTH) {
        assert_eq!(users(&case, address), [third.uid.as_str(), &second.uid], "{ifname}");
        del(&two, &second, ifname);
        assert_eq!(users(&case, address), [third.uid.as_str()], "{ifname}");
    }
    assert_eq!(case.used(), 2);
    case.check();
}

#[test]
fn f_and_g_what_is_kept_for_a_machine_comes_back_when_neither_it_nor_its_maker_is_there() {
    let Some((case, [one, _two])) = begin() else { return };
    let asks = pools(&[case.name("p")]);
    let run = |name: &str| {
        let instance = case.make_machine(INSTANCE, name);
        let pod = case.launcher(&one, &instance, "aaaaa", &asks, None);
        let address = add(&one, &pod, "eth0");
        del(&one, &pod, "eth0");
        case.force_delete(&pod);
        address
    };
    let held = |address: IpAddr| case.holders().get(&address).is_some_and(|(state, _)| *state == State::Held);
    // One is stopped: what makes it is there. Of one its instance is there, between two pods. One is nobody's.
    case.make_machine(MAKER, "stopped");
    let stopped = run("stopped");
    case.end_machine(INSTANCE, "stopped");
    let between = run("between");
    let alone = run("alone");
    case.end_machine(INSTANCE, "alone");
    case.until("what is nobody's to come back", || !held(alone));
    assert!(held(stopped) && held(between), "these come back to theirs: {:?}", case.holders());
    let endpoint = |name: &str| case.get("berth.io/v1alpha1", "IPEndpoint", Some(&case.namespace), name);
    case.until("the record to go", || endpoint("alone").is_none());
    assert!(endpoint("stopped").is_some());
    case.end_machine(MAKER, "stopped");
    case.until("the next", || !held(stopped));
    assert!(held(between));
    case.end_machine(INSTANCE, "between");
    case.until_used(0);
}
