//! Every system call of every verb fails once, or is the last one before a kill, or the disk is full from there on.

use super::Node;
use crate::Command;
use crate::sys::fault::{Plan, with};
use std::collections::BTreeMap;

const IPAM: &str = r#""ranges":[[{"subnet":"10.1.2.0/28"}],[{"subnet":"2001:db8::/120"}]]"#;

/// A node in one of the states a verb may find: freshly sealed, never used, or touched by host-local.
fn node(state: usize) -> Node {
    let node = Node::scratch(IPAM);
    if state > 0 {
        for container in ["a", "b"] {
            node.add(container).unwrap();
        }
    }
    if state > 1 {
        node.put("10.1.2.9", "stranger\r\neth0");
        node.put("10.1.2.10", "");
    }
    node
}

fn owners(node: &Node) -> BTreeMap<String, usize> {
    let mut owners = BTreeMap::new();
    for owner in node.leases().into_values().filter(|owner| !owner.is_empty()) {
        *owners.entry(owner).or_default() += 1;
    }
    owners
}

#[test]
fn every_call_fails_once_and_nothing_is_lost_or_doubled() {
    for state in 0..3 {
        for (command, container) in [
            (Command::Add, "new"),
            (Command::Add, "a"),
            (Command::Del, "a"),
            (Command::Del, "nobody"),
            (Command::Check, "a"),
            (Command::Gc, ""),
            (Command::Status, ""),
        ] {
            for plan in [Plan::Once, Plan::Dead, Plan::Full] {
                for step in 0.. {
                    if survive(state, command, container, plan(step)) <= step {
                        break;
                    }
                }
            }
        }
    }
}

/// Runs one verb under a plan and returns how many calls it made.
fn survive(state: usize, command: Command, container: &str, plan: Plan) -> usize {
    let mut node = node(state);
    node.extra = r#","cni.dev/attachments":[{"containerID":"b","ifname":"eth0"}]"#.to_owned();
    let before = owners(&node);
    let (outcome, calls) = with(plan, || node.call(command, container, u64::MAX));
    let what = || format!("{command:?} {container} in state {state} under {plan:?}: {outcome:?}");

    // Whoever the verb was not about has what it had.
    let after = owners(&node);
    let bystander = |owner: &str| match command {
        Command::Gc => owner.starts_with("b\r"),
        _ => !owner.starts_with(container),
    };
    for (owner, count) in before.iter().filter(|(owner, _)| bystander(owner)) {
        assert_eq!(after.get(owner), Some(count), "{}", what());
    }
    // A success is one.
    if outcome.is_ok() {
        let own = after.get(&format!("{container}\r\neth0")).copied().unwrap_or(0);
        match command {
            Command::Add => assert_eq!(own, 2, "{}", what()),
            // Whose a lease is that could not be read this once, nobody knew; like host-local, DEL passes over it.
            Command::Del => assert!(own <= usize::from(state > 1 && matches!(plan, Plan::Once(_))), "{}", what()),
            Command::Gc => assert_eq!(after.len(), usize::from(state > 0), "{}", what()),
            _ => {}
        }
    }
    // An ADD that lived to fail left nothing behind.
    if outcome.is_err() && command == Command::Add && !matches!(plan, Plan::Dead(_) | Plan::Once(_)) {
        assert_eq!(after, before, "{}", what());
    }

    // The next calls see the truth: nothing is leaked, nothing is doubled, and the index can be believed again.
    node.del(container);
    assert!(!owners(&node).contains_key(&format!("{container}\r\neth0")), "{}", what());
    let again = node.add("again").unwrap_or_else(|error| panic!("{}: {error}", what()));
    assert_eq!(again.len(), 2);
    assert_eq!(node.add("again"), Ok(again), "{}", what());
    node.assert_sealed();
    assert!(node.leases().values().all(|owner| !owner.is_empty()), "{}", what());
    calls
}

#[test]
fn b25_a_full_disk_eats_no_addresses() {
    let node = Node::subnet("10.1.2.0/29");
    node.add("a").unwrap();
    for attempt in 0..40 {
        let (outcome, _) = with(Plan::Full(attempt % 20), || node.add("b"));
        if outcome.is_ok() {
            node.del("b");
        }
        assert_eq!(node.leases().len(), 1, "{outcome:?}");
    }
    for i in 0..4 {
        node.add(&format!("c{i}")).unwrap();
    }
    assert!(node.add("c5").is_err());
}

#[test]
fn b27_a_hundred_retries_of_half_a_failure_leak_nothing() {
    let node = Node::new(r#""ranges":[[{"subnet":"10.1.2.0/24"}],[{"subnet":"10.1.3.0/30"}]]"#);
    node.put("10.1.3.2", "other\r\neth0");
    for i in 0..100 {
        assert!(node.add(&format!("c{}", i % 3)).is_err());
    }
    assert_eq!(node.leases().len(), 1);
}
