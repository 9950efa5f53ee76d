//! What the daemon wants to know of the wire, and what it makes of what it hears: no wire needed.

use super::*;
use berth_wire::protocol::{Detect, Findings, Stranger, Timing};
use std::net::IpAddr;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn world(detect: &str) -> (tempfile::TempDir, Node) {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    let spec = format!("spec: {{ranges: [10.77.0.0/27], pick: Sequential, detect: {detect}}}");
    let head = "apiVersion: berth.io/v1alpha1\nkind: IPPool\nmetadata: {name: blue}\n";
    node.apply(&parse_manifests(&format!("{head}{spec}")).unwrap(), false).unwrap();
    (dir, node)
}

/// The questions that an ADD is answered with, and the address.
fn asked(response: Response) -> (IpAddr, Detect) {
    match response {
        Response::Detect { result, detect } => (result.ips[0].address, *detect),
        other => panic!("{other:?}"),
    }
}

fn tell(node: &Node, container: &str, claim: Option<&str>, findings: Findings) -> Response {
    answer(node, Request::new(1, Op::Detected { add: wish(container, claim), findings }))
}

fn stranger(address: &str) -> Stranger {
    Stranger { address: ip(address), hardware: "02:00:00:00:00:09".into(), fixed: false }
}

fn refusal(response: Response) -> (u32, String) {
    match response {
        Response::Error(error) => (error.code, error.msg),
        other => panic!("{other:?}"),
    }
}

#[test]
fn addresses_that_were_quiet_a_moment_ago_are_not_asked_for_again() {
    let (_dir, node) = world("{gateway: Ignore}");
    let (first, detect) = asked(add(&node, "a", None, 1));
    assert_eq!((first, detect.timing), (ip("10.77.0.2"), Timing::Fast));
    assert_eq!(detect.addresses.len(), 1);
    let next: Vec<IpAddr> = (3..11).map(|n| IpAddr::from([10, 77, 0, n])).collect();
    assert_eq!(detect.ahead, next, "those that come next are asked for in the same go");
    let quiet = [vec![first], detect.ahead].concat();
    assert_eq!(tell(&node, "a", None, Findings { quiet, ..Findings::default() }), Response::Done);
    let (_, detect) = asked(add(&node, "a", None, 1));
    assert_eq!(detect.addresses.len(), 1, "what is in use by now may be somebody else's next time");
    for (n, container) in ["b", "c", "d", "e", "f", "g", "h", "i"].into_iter().enumerate() {
        let (address, detect) = asked(add(&node, container, None, 1));
        assert_eq!(address, next[n]);
        assert_eq!((detect.addresses, detect.ahead, detect.announce), (vec![], vec![], vec![address]));
    }
    let (_, detect) = asked(add(&node, "j", None, 1));
    assert_eq!((detect.addresses.len(), detect.ahead.len()), (1, 8));
    let (_, detect) = asked(add(&node, "b", None, 1));
    assert_eq!(detect.addresses.len(), 1, "silence is good for one ADD: this one may have died before it was used");
}

#[test]
fn the_standards_pauses_are_not_shared_with_others() {
    let (_dir, node) = world("{conflicts: Rfc5227}");
    let (_, detect) = asked(add(&node, "a", None, 1));
    assert_eq!((detect.timing, detect.ahead), (Timing::Rfc5227, vec![]));
    assert_eq!(detect.gateways, [ip("10.77.0.1")]);
}

#[test]
fn a_pool_that_asks_for_the_gateway_only_waits_for_nothing_else() {
    let (_dir, node) = world("{conflicts: Ignore, gateway: Require}");
    let (_, detect) = asked(add(&node, "a", None, 1));
    assert_eq!(detect, Detect { gateways: vec![ip("10.77.0.1")], ..Detect::default() });
    let silent = || Findings { silent: vec![ip("10.77.0.1")], ..Findings::default() };
    let (code, said) = refusal(tell(&node, "a", None, silent()));
    assert_eq!(code, 113, "{said}");
    assert!(matches!(add(&world("{conflicts: Ignore, gateway: Ignore}").1, "a", None, 1), Response::Ok(_)));
}

#[test]
fn others_stand_in_unless_this_one_was_wanted() {
    let (_dir, node) = world("{gateway: Ignore}");
    add(&node, "a", None, 1);
    let findings = Findings { strangers: vec![stranger("10.77.0.2"), stranger("10.77.0.3")], ..Findings::default() };
    let (address, detect) = asked(tell(&node, "a", None, findings));
    assert_eq!((address, detect.addresses.len()), (ip("10.77.0.4"), 1), "the new one is asked for too");

    node.apply(&claim("{addresses: [10.77.0.10]}"), false).unwrap();
    add(&node, "b", Some("shop/db"), 1);
    let aside = Findings { strangers: vec![stranger("10.77.0.12")], ..Findings::default() };
    assert_eq!(asked(tell(&node, "b", Some("shop/db"), aside)).0, ip("10.77.0.10"), "it is not about the claim");
    let findings = Findings { strangers: vec![stranger("10.77.0.10")], ..Findings::default() };
    let (code, said) = refusal(tell(&node, "b", Some("shop/db"), findings));
    assert!(code == 103 && said.contains("02:00:00:00:00:09"), "{said}");
    assert_eq!(bound(&node), ["10.77.0.10"], "the claim keeps what it has");
}

#[test]
fn a_stranger_that_is_told_of_after_del_changes_nothing() {
    let (_dir, node) = world("{gateway: Ignore}");
    add(&node, "a", None, 1);
    assert_eq!(answer(&node, Request::new(2, Op::Del(attachment("a")))), Response::Done);
    let findings = Findings { strangers: vec![stranger("10.77.0.2")], ..Findings::default() };
    assert_eq!(refusal(tell(&node, "a", None, findings)).0, 11);
    assert_eq!(holders(&node, State::Active), [""; 0]);
}
