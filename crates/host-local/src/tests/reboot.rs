//! Leases die with the boot, and nothing else does.

use super::{Node, got, host};
use crate::host::Host;
use crate::import::read_on;
use std::fs;
use std::time::{Duration, SystemTime};

fn reboot(node: &mut Node) {
    let boot = node.host.boot.unwrap() + 1;
    node.host = host(boot);
}

#[test]
fn twenty_boots_leave_no_lease_behind() {
    let mut node = Node::subnet("10.1.2.0/24");
    for boot in 0..20 {
        for i in 0..10 {
            node.add(&format!("boot{boot}-{i}")).unwrap();
        }
        assert_eq!(node.leases().len(), 10);
        reboot(&mut node);
    }
    let cursor = node.content("last_reserved_ip.0").unwrap();
    assert_eq!(cursor, "10.1.2.201");
    assert_eq!(node.add("next"), got(["10.1.2.202/24"]), "the search goes on where it was");
    assert_eq!(node.leases().len(), 1);
    node.assert_sealed();
}

#[test]
fn the_first_verb_after_the_boot_may_be_any() {
    let mut node = Node::subnet("10.1.2.0/30");
    node.add("a").unwrap();
    reboot(&mut node);
    assert_eq!(node.call(crate::Command::Status, "", 0), Ok(None));
    node.add("b").unwrap();
    reboot(&mut node);
    node.del("c");
    assert!(node.leases().is_empty());
    node.add("d").unwrap();
    reboot(&mut node);
    assert!(node.call(crate::Command::Check, "d", 0).is_err());
}

#[test]
fn what_host_local_leased_since_the_boot_lives() {
    let mut node = Node::subnet("10.1.2.0/24");
    node.add("a").unwrap();
    node.add("b").unwrap();
    reboot(&mut node);
    // host-local deletes and adds the container again, as podman does: same name, same address, same content.
    fs::remove_file(node.dir().join("10.1.2.2")).unwrap();
    std::thread::sleep(Duration::from_millis(15));
    node.put("10.1.2.2", "a\r\neth0");
    node.put("10.1.2.9", "new\r\neth0");
    assert_eq!(node.add("a"), got(["10.1.2.2/24"]));
    assert_eq!(node.leases().into_keys().collect::<Vec<_>>(), ["10.1.2.2", "10.1.2.9"]);
    node.assert_sealed();
    reboot(&mut node);
    node.del("x");
    assert!(node.leases().is_empty(), "at the next boot they are known");
}

#[test]
fn a_stranger_is_dropped_only_if_it_is_certainly_older_than_the_boot() {
    fn future() -> Option<i64> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        i64::try_from((now + Duration::from_secs(60)).as_nanos()).ok()
    }
    fn just_now() -> Option<i64> {
        future().map(|at| at - 58_000_000_000)
    }
    for (booted, kept) in [((|| None) as fn() -> _, true), (just_now, true), (future, false)] {
        let mut node = Node::subnet("10.1.2.0/24");
        node.host = Host { booted, ..host(1) };
        node.put("10.1.2.9", "stranger\r\neth0");
        node.del("x");
        assert_eq!(node.leases().len(), usize::from(kept));
    }
}

#[test]
fn leases_of_an_earlier_boot_are_marked_for_who_only_reads() {
    let mut node = Node::subnet("10.1.2.0/24");
    node.add("a").unwrap();
    node.add("b").unwrap();
    let stale = |node: &Node| {
        let leases = read_on(node.host, &node.dir()).unwrap().leases;
        assert_eq!(leases.len(), 2);
        leases.into_iter().filter(|lease| lease.stale).map(|lease| lease.container).collect::<Vec<_>>()
    };
    assert!(stale(&node).is_empty());
    reboot(&mut node);
    // host-local has leased the same address to the same container again.
    fs::remove_file(node.dir().join("10.1.2.2")).unwrap();
    std::thread::sleep(Duration::from_millis(15));
    node.put("10.1.2.2", "a\r\neth0");
    let (before, index) = (node.leases(), fs::read(node.own().join("index")).unwrap());
    assert_eq!(stale(&node), ["b"]);
    assert_eq!((node.leases(), fs::read(node.own().join("index")).unwrap()), (before, index), "nothing was changed");
    node.host.boot = None;
    assert!(stale(&node).is_empty(), "of which boot they are cannot be told");
    fs::remove_dir_all(node.own()).unwrap();
    node.host.booted = || Some(i64::MAX);
    assert_eq!(stale(&node), ["a", "b"], "without an index the clocks tell");
}

#[test]
fn a_crash_while_clearing_up_after_a_boot_kills_nobody() {
    use crate::sys::fault::{Plan, with};
    for step in 0.. {
        let mut node = Node::subnet("10.1.2.0/24");
        node.add("dead1").unwrap();
        node.add("dead2").unwrap();
        reboot(&mut node);
        node.put("10.1.2.9", "live\r\neth0");
        let (_, calls) = with(Plan::Dead(step), || node.call(crate::Command::Del, "x", 0));
        node.del("y");
        assert_eq!(node.leases().into_keys().collect::<Vec<_>>(), ["10.1.2.9"], "killed at call {step}");
        node.assert_sealed();
        if calls <= step {
            break;
        }
    }
}

#[test]
fn without_a_boot_id_nothing_is_believed_and_nothing_dies() {
    let mut node = Node::subnet("10.1.2.0/24");
    node.add("a").unwrap();
    node.host.boot = None;
    assert_eq!(node.add("a"), got(["10.1.2.2/24"]));
    assert_eq!(node.add("b"), got(["10.1.2.3/24"]));
    node.del("a");
    assert_eq!(node.add("c"), got(["10.1.2.4/24"]));
    node.host = host(super::BOOT);
    assert_eq!(node.add("b"), got(["10.1.2.3/24"]));
    node.assert_sealed();
}
