//! Where host-local is wrong, and what Berth does instead.

use super::{Node, got, texts};
use crate::{Call, Command, run_on};
use std::fs;

const DUAL: &str = r#""ranges":[[{"subnet":"10.1.2.0/29"}],[{"subnet":"10.1.3.0/30"}]]"#;

#[test]
fn a_refused_add_keeps_the_earlier_leases_and_frees_its_own() {
    let mut node = Node::new(r#""subnet":"10.1.2.0/29""#);
    assert_eq!(node.add("a"), got(["10.1.2.2/29"]));
    node.put("10.1.3.2", "other\r\neth0");
    node.ipam = DUAL.to_owned();
    let before = node.leases();
    for _ in 0..20 {
        assert!(node.add("a").unwrap_err().starts_with("failed to allocate for range 1: no IP addresses available"));
        assert!(node.add("b").unwrap_err().starts_with("failed to allocate for range 1: no IP addresses available"));
    }
    assert_eq!(node.leases(), before);
    node.assert_sealed();
    node.del("other");
    assert_eq!(node.add("a"), got(["10.1.2.2/29", "10.1.3.2/30"]), "what is missing is added");
}

#[test]
fn a_requested_address_may_be_asked_for_again() {
    let node = Node::subnet("10.1.2.0/29");
    assert_eq!(node.add_args("a", "IP=10.1.2.5"), got(["10.1.2.5/29"]));
    assert_eq!(node.add_args("a", "IP=10.1.2.5"), got(["10.1.2.5/29"]));
    assert_eq!(node.add("a"), got(["10.1.2.5/29"]));
    let other = "failed to allocate for range 0: 10.1.2.5 has been allocated to a, duplicate allocation is not allowed";
    assert_eq!(node.add_args("a", "IP=10.1.2.6"), Err(other.to_owned()));
    assert_eq!(node.leases().len(), 1);
}

#[test]
fn empty_files_are_nobodys() {
    let node = Node::subnet("10.1.2.0/29");
    for last in 2..=6 {
        node.put(&format!("10.1.2.{last}"), if last % 2 == 0 { "" } else { " \r\n" });
    }
    for last in 2..=6 {
        assert_eq!(node.add(&format!("c{last}")), got([&format!("10.1.2.{last}/29")]));
    }
    node.put("10.1.2.3", "");
    fs::rename(node.dir().join("10.1.2.3"), node.dir().join("10.1.2.4")).unwrap();
    assert_eq!(node.add_args("new", "IP=10.1.2.4"), got(["10.1.2.4/29"]));
}

#[test]
fn check_looks_at_the_previous_result() {
    let mut node = Node::subnet("10.1.2.0/29");
    let unknown = node.call(Command::Check, "a", 0).unwrap_err();
    assert_eq!(unknown.msg, "host-local: Failed to find address added by container a");
    node.add("a").unwrap();
    node.add("b").unwrap();
    let prev = |ips: &str| format!(r#","prevResult":{{"cniVersion":"1.0.0","ips":[{ips}]}}"#);
    for (extra, expected) in [
        (String::new(), Ok(())),
        (prev(r#"{"address":"10.1.2.2/29"}"#), Ok(())),
        (prev(r#"{"address":"10.1.2.2/29"},{"address":"192.0.2.9/24"}"#), Ok(())),
        (prev(r#"{"address":"10.1.2.3/29"}"#), Err("10.1.2.3")),
        (prev(r#"{"address":"10.1.2.2/29"},{"address":"10.1.2.6/29"}"#), Err("10.1.2.6")),
    ] {
        node.extra = extra;
        let outcome = node.call(Command::Check, "a", 0).map(drop).map_err(|error| error.msg);
        let text = |address| format!("host-local: address {address} of prevResult is not leased to container a");
        assert_eq!(outcome, expected.map_err(text), "{}", node.extra);
    }
}

#[test]
fn gc_frees_what_is_not_on_the_list() {
    for key in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
        let mut node = Node::subnet("10.1.2.0/24");
        for container in ["a", "b", "c"] {
            node.add(container).unwrap();
        }
        node.put("10.1.2.9", "b");
        node.put("10.1.2.10", "old");
        for nothing_said in [String::new(), format!(r#","{key}":null"#)] {
            node.extra = nothing_said;
            assert_eq!(node.call(Command::Gc, "", 0), Ok(None));
            assert_eq!(node.leases().len(), 5);
        }
        node.extra =
            format!(r#","{key}":[{{"containerID":"b","ifname":"eth0"}},{{"containerID":"c","ifname":"eth1"}}]"#);
        assert_eq!(node.call(Command::Gc, "", 0), Ok(None));
        assert_eq!(node.leases().into_keys().collect::<Vec<_>>(), ["10.1.2.3", "10.1.2.9"]);
        node.assert_sealed();
        node.extra = format!(r#","{key}":[{{"containerID":"b"}}]"#);
        assert_eq!(node.call(Command::Gc, "", 0).unwrap_err().code, 7);
        assert_eq!(node.leases().len(), 2);
        node.extra = format!(r#","{key}":[]"#);
        assert_eq!(node.call(Command::Gc, "", 0), Ok(None));
        assert!(node.leases().is_empty());
    }
}

#[test]
fn status_says_when_a_range_set_is_full() {
    let node = Node::new(DUAL);
    assert_eq!(node.call(Command::Status, "", 0), Ok(None));
    node.put("10.1.3.2", "c\r\neth0");
    let error = node.call(Command::Status, "", 0).unwrap_err();
    assert_eq!((error.code, error.msg.as_str()), (50, "no IP addresses available in range set: 10.1.3.1-10.1.3.2"));
    node.del("c");
    assert_eq!(node.call(Command::Status, "", 0), Ok(None));
    assert_eq!(Node::subnet("2001:db8::/64").call(Command::Status, "", 0), Ok(None), "a /64 is not walked");
}

#[test]
fn status_says_when_there_is_no_directory_to_write() {
    let config = br#"{"name":"n","ipam":{"subnet":"10.0.0.0/24","dataDir":"/proc/none"}}"#;
    let call = Call { config, container: "", ifname: "", args: "", stamp: 0 };
    assert_eq!(run_on(super::host(1), Command::Status, &call).unwrap_err().code, 50);
    assert_eq!(run_on(super::host(1), Command::Add, &call).unwrap_err().code, 5);
}

#[test]
fn del_does_not_look_at_the_ranges() {
    let mut node = Node::subnet("10.1.2.0/24");
    node.add("a").unwrap();
    node.ipam = r#""subnet":"usePodCidr","ranges":"none""#.to_owned();
    assert_eq!(node.add("b"), Err("invalid CIDR address: usePodCidr".to_owned()));
    node.del("a");
    assert!(node.leases().is_empty());
}

#[test]
fn del_fails_for_an_unreadable_lease_only_if_it_may_be_its_own() {
    let node = Node::subnet("10.1.2.0/24");
    node.add("a").unwrap();
    node.put("10.1.2.8", "old");
    // Nobody, not even root, can open a socket as a file.
    let unreadable = std::os::unix::net::UnixListener::bind(node.dir().join("10.1.2.9")).unwrap();
    for container in ["a", "old"] {
        node.del(container);
    }
    assert!(node.leases().is_empty());
    let error = node.call(Command::Del, "a", 0).unwrap_err();
    assert!(error.code == 5 && error.msg.contains("10.1.2.9"), "{error:?}");
    drop(unreadable);
    fs::remove_file(node.dir().join("10.1.2.9")).unwrap();
    node.del("a");
    node.assert_sealed();
}

#[test]
fn an_add_older_than_the_delete_leaves_nothing() {
    let node = Node::subnet("10.1.2.0/24");
    assert_eq!(node.call(Command::Del, "a", 20), Ok(None));
    let error = node.call(Command::Add, "a", 10).unwrap_err();
    assert_eq!((error.code, error.msg.as_str()), (11, "container a was deleted after this ADD began"));
    assert!(node.leases().is_empty());
    assert_eq!(texts(node.call(Command::Add, "a", 30).map(Option::unwrap)), got(["10.1.2.2/24"]), "a new life");
    assert_eq!(node.call(Command::Add, "a", 10).unwrap_err().code, 11, "and the old one still has no part in it");
    assert_eq!(node.leases().len(), 1);
    let other = node.call_with(Command::Add, "a", "eth1", "", 10);
    assert_eq!(texts(other.map(Option::unwrap)), got(["10.1.2.3/24"]), "another interface is another attachment");
}

#[test]
fn a_crowded_range_is_one_look_at_the_directory() {
    let node = Node::subnet("10.1.0.0/16");
    for i in 2..2000_u32 {
        let address = std::net::Ipv4Addr::from_bits(0x0a01_0000 + i).to_string();
        node.put(&address, &format!("{address}\r\neth0"));
    }
    node.put("last_reserved_ip.0", "10.1.0.1");
    node.del("nobody");
    let (outcome, calls) = crate::sys::fault::with(crate::sys::fault::Plan::Never, || node.add("a"));
    assert_eq!(outcome, got(["10.1.7.208/16"]));
    assert!(calls < 60, "{calls} calls");
}

#[test]
fn the_index_grows_with_the_leases() {
    let node = Node::scratch(r#""subnet":"10.1.0.0/16""#);
    for i in 0..3000 {
        node.add(&format!("c{i}")).unwrap();
    }
    node.add("last").unwrap();
    node.assert_sealed();
    assert_eq!(node.leases().len(), 3001);
}

#[test]
fn a_directory_cleared_by_hand_is_started_anew() {
    let node = Node::subnet("10.1.2.0/24");
    node.add("a").unwrap();
    fs::remove_dir_all(node.dir()).unwrap();
    assert_eq!(node.add("b"), got(["10.1.2.2/24"]));
    assert_eq!(node.add("a"), got(["10.1.2.3/24"]));
    node.assert_sealed();
    fs::remove_dir_all(node.own()).unwrap();
    assert_eq!(node.add("a"), got(["10.1.2.3/24"]), "the index is made anew");
    node.assert_sealed();
    fs::remove_file(node.dir().join("10.1.2.3")).unwrap();
    assert_eq!(node.add("a"), got(["10.1.2.4/24"]), "a lease removed by hand is gone");
}

#[test]
fn a_lease_edited_in_place_belongs_to_whom_it_says() {
    let node = Node::subnet("10.1.2.0/24");
    node.add("a").unwrap();
    node.put("10.1.2.2", "b\r\neth0");
    assert_eq!(node.add("a"), got(["10.1.2.3/24"]));
    assert_eq!(node.add("b"), got(["10.1.2.2/24"]));
}
