//! Whether a request could be served, for nobody in particular: what STATUS asks.

mod common;

use berth_core::error::Error;
use berth_core::holder::{Holder, Sticky};
use berth_core::ipam::{Entropy, Group, Ipam, Request};
use berth_core::model::{Lending, Pool, Subject};
use common::*;

fn anyone(node: &str, groups: Vec<Group>) -> Request {
    let subject = Subject { node: node.into(), anyone: true, ..Subject::default() };
    Request { subject, groups, ..Request::default() }
}

fn ask(ipam: &mut Ipam, request: &Request) -> Result<(), Error> {
    let before = dump(ipam);
    let answer = ipam.could_serve(request, NOW, &mut Entropy(7));
    assert_eq!((ipam.changes().len(), dump(ipam)), (0, before), "it only looks");
    answer
}

#[test]
fn the_node_counts_and_the_asker_does_not() {
    let mut bound = pool("p", &["10.0.0.0/29"]);
    bound.audience.nodes = vec!["rack1-*".into()];
    bound.audience.namespaces = vec!["shop".into()];
    bound.quota.per_namespace = Some(0);
    let mut ipam = ipam([bound]);
    assert_eq!(ask(&mut ipam, &anyone("rack1-n1", vec![Group::default()])), Ok(()));
    let error = ask(&mut ipam, &anyone("rack2-n1", vec![Group::default()])).unwrap_err();
    assert!(error.to_string().contains("rack2-n1"), "{error}");
    assert!(matches!(ask(&mut ipam, &anyone("rack1-n1", vec![from(&["q"])])), Err(Error::UnknownPool(_))));
}

/// A default pool that is for other nodes, or disabled, does not make its family a must.
#[test]
fn pools_that_are_out_of_the_question_are_not_waited_for() {
    let mut six = pool("six", &["fd00::/64"]);
    six.audience.nodes = vec!["other".into()];
    let mut ipam = ipam([pool("four", &["10.0.0.0/29"]), six]);
    assert_eq!(ask(&mut ipam, &anyone("n", vec![Group::default()])), Ok(()));
    assert!(ask(&mut ipam, &anyone("n", vec![from(&["four", "six"])])).is_err(), "one that is named must serve");
}

#[test]
fn every_set_of_ranges_must_have_an_address_left() {
    let mut ipam = ipam([whole("p", &["10.0.0.0/29"])]);
    let within = |text: &str| Group { within: vec![range(text)], ..Group::default() };
    let both = anyone("n", vec![within("10.0.0.1"), within("10.0.0.2-10.0.0.3")]);
    assert_eq!(ask(&mut ipam, &both), Ok(()));
    add(&mut ipam, container("c"), exactly(&["10.0.0.1"])).unwrap();
    assert!(matches!(ask(&mut ipam, &both), Err(Error::PoolExhausted { .. })));
    let twice = anyone("n", vec![within("10.0.0.7"), within("10.0.0.7")]);
    assert!(matches!(ask(&mut ipam, &twice), Err(Error::PoolExhausted { .. })), "one address is not two");
}

#[test]
fn what_is_lent_to_others_is_not_there_in_a_strict_pool() {
    let lending = Some(Lending { block_len: 30, strict: true, most: None });
    let mut ipam = ipam([Pool { lending, ..whole("p", &["10.0.0.0/29"]) }]);
    for node in ["a", "b"] {
        ipam.lend("p", node, NOW, &mut Entropy(1)).unwrap();
    }
    ipam.commit();
    assert_eq!(ask(&mut ipam, &anyone("a", vec![Group::default()])), Ok(()));
    assert!(matches!(ask(&mut ipam, &anyone("c", vec![Group::default()])), Err(Error::PoolExhausted { .. })));
}

#[test]
fn an_identity_is_there_while_nobody_uses_it() {
    let mut ipam = ipam([pool("p", &["10.0.0.7"])]);
    let sticky = Some(Sticky { identity: "claim/shop/db".into(), keep: None });
    let mut claim = anyone("n", vec![Group::default()]);
    claim.holder.sticky.clone_from(&sticky);
    let user = Holder { sticky, ..container("c") };
    add(&mut ipam, user.clone(), Group::default()).unwrap();
    let error = ask(&mut ipam, &claim).unwrap_err();
    assert!(matches!(&error, Error::AddressTaken { by, .. } if by.contains("container c")), "{error}");
    del(&mut ipam, "c");
    assert_eq!(ask(&mut ipam, &claim), Ok(()), "it is kept for the claim");
    assert!(ask(&mut ipam, &anyone("n", vec![Group::default()])).is_err(), "and for nobody else");
}
