//! The daemon's own rules, without its doors: what GC keeps, what becomes of claims.

mod detect;

use crate::node::Node;
use berth_core::block::State;
use berth_core::error::Error;
use berth_dialects::{Object, parse_manifests};
use berth_store::Durability;
use berth_wire::protocol::{AddRequest, Attachment, Live, Op, Request, Response};
use std::path::Path;

const POOL: &str = "
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: blue}
spec: {ranges: [10.77.0.0/24], pick: Sequential}
";

fn open(dir: &Path) -> Node {
    Node::open(dir, "node-1", Durability::Boot).unwrap()
}

fn claim(spec: &str) -> Vec<Object> {
    let head = "apiVersion: berth.io/v1alpha1\nkind: IPClaim\nmetadata: {name: db, namespace: shop}\n";
    parse_manifests(&format!("{head}spec: {spec}\n")).unwrap()
}

fn answer(node: &Node, request: Request) -> Response {
    berth_door::Service::answer_all(node, vec![request]).remove(0).now()
}

fn attachment(container: &str) -> Attachment {
    Attachment { network: "net".into(), container: container.into(), ifname: "eth0".into() }
}

fn add(node: &Node, container: &str, claim: Option<&str>, stamp: u64) -> Response {
    answer(node, Request::new(stamp, Op::Add(wish(container, claim))))
}

fn wish(container: &str, claim: Option<&str>) -> AddRequest {
    AddRequest {
        attachment: attachment(container),
        pod: None,
        domain: None,
        pools: Vec::new(),
        addresses: Vec::new(),
        ranges: Vec::new(),
        families: Vec::new(),
        claim: claim.map(str::to_owned),
        uplink: None,
    }
}

fn gc(node: &Node, valid: &[&str], stamp: u64) {
    let valid = valid.iter().map(|&container| Live { container: container.into(), ifname: "eth0".into() }).collect();
    assert_eq!(answer(node, Request::new(stamp, Op::Gc { network: "net".into(), valid })), Response::Done);
}

/// Who has which address, in order of address.
fn holders(node: &Node, state: State) -> Vec<String> {
    node.engine.read(|ipam| {
        let slots = ipam.slots().filter(|(_, _, view)| view.state == state);
        slots.map(|(plane, unit, view)| format!("{} {}", plane.addr(unit), view.holder().unwrap().id)).collect()
    })
}

fn bound(node: &Node) -> Vec<String> {
    node.engine.read(|ipam| ipam.of_identity("claim/shop/db").iter().map(ToString::to_string).collect())
}

/// The list of a GC is as old as its request: what was added since cannot be in it.
#[test]
fn gc_keeps_what_was_added_after_it_was_started() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    node.apply(&parse_manifests(POOL).unwrap(), false).unwrap();
    for (container, stamp) in [("old", 5), ("listed", 6), ("new", 20)] {
        assert!(matches!(add(&node, container, None, stamp), Response::Ok(_)));
    }
    gc(&node, &["listed"], 10);
    assert_eq!(holders(&node, State::Active), ["10.77.0.3 listed", "10.77.0.4 new"]);
    drop(node);
    let node = open(dir.path());
    gc(&node, &["listed"], 11);
    assert_eq!(holders(&node, State::Active).len(), 2, "also if the daemon was restarted in between");
    gc(&node, &["listed"], 30);
    assert_eq!(holders(&node, State::Active), ["10.77.0.3 listed"]);
}

/// A crash can come between deleting a claim and letting its addresses go.
#[test]
fn what_is_kept_for_a_claim_that_is_gone_is_let_go() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    node.apply(&parse_manifests(POOL).unwrap(), false).unwrap();
    node.apply(&claim("{addresses: [10.77.0.10]}"), false).unwrap();
    node.forget_lost_claims().unwrap();
    assert_eq!(bound(&node), ["10.77.0.10"], "a claim that is there keeps what it has");
    let key = ("IPClaim".to_owned(), "shop".to_owned(), "db".to_owned());
    let lose = |node: &Node| node.engine.with_store(|journal| journal.write_objects(&[(key.clone(), None)])).unwrap();
    lose(&node);
    assert_eq!(bound(&node), ["10.77.0.10"]);
    node.forget_lost_claims().unwrap();
    assert_eq!(bound(&node), [""; 0]);
    assert_eq!(holders(&node, State::Held), [""; 0]);

    // Found at the next start too.
    node.apply(&claim("{addresses: [10.77.0.11]}"), false).unwrap();
    lose(&node);
    drop(node);
    assert_eq!(holders(&open(dir.path()), State::Held), [""; 0]);
}

#[test]
fn a_claim_that_asks_for_something_else_is_bound_anew() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    node.apply(&parse_manifests(POOL).unwrap(), false).unwrap();
    node.apply(&claim("{addresses: [10.77.0.10]}"), false).unwrap();
    node.apply(&claim("{addresses: [10.77.0.11]}"), true).unwrap();
    assert_eq!(bound(&node), ["10.77.0.10"], "a dry run changes nothing");
    node.apply(&claim("{addresses: [10.77.0.11]}"), false).unwrap();
    assert_eq!(bound(&node), ["10.77.0.11"]);
    assert_eq!(holders(&node, State::Held), ["10.77.0.11 claim/shop/db"], "the other one is free again");
    node.apply(&claim("{addresses: [10.77.0.11], keep: 1h}"), false).unwrap();
    assert_eq!(bound(&node), ["10.77.0.11"], "how long it is kept is nothing to move for");
}

/// Nothing of an edit that is refused is left, neither in the object nor in the addresses.
#[test]
fn a_claim_in_use_stays_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    node.apply(&parse_manifests(POOL).unwrap(), false).unwrap();
    node.apply(&claim("{addresses: [10.77.0.10]}"), false).unwrap();
    assert!(matches!(add(&node, "c", Some("shop/db"), 1), Response::Ok(_)));
    let stored = || node.stored("IPClaim", "shop", "db").unwrap().spec;
    let before = stored();
    let error = node.apply(&claim("{addresses: [10.77.0.11]}"), false).unwrap_err();
    assert!(matches!(&error, Error::InUse { holders, .. } if holders.contains("10.77.0.10 by container c")), "{error}");
    assert!(matches!(node.delete("IPClaim", "shop", "db"), Err(Error::InUse { .. })));
    assert_eq!((stored(), bound(&node)), (before, vec!["10.77.0.10".to_owned()]));
    node.apply(&claim("{addresses: [10.77.0.10], keep: 1h}"), false).unwrap();
    assert_eq!(answer(&node, Request::new(2, Op::Del(attachment("c")))), Response::Done);
    node.apply(&claim("{addresses: [10.77.0.11]}"), false).unwrap();
    assert_eq!(bound(&node), ["10.77.0.11"]);
    node.delete("IPClaim", "shop", "db").unwrap();
    assert_eq!(holders(&node, State::Held), [""; 0]);
}
