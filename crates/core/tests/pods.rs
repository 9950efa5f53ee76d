//! What pods of a cluster need of the core: subnets by node, names that never come back, several interfaces at once.

mod common;

use berth_core::error::Error;
use berth_core::holder::{Holder, Sticky};
use berth_core::ipam::{Config, Entropy, Group, Ipam, Request};
use berth_core::model::{Gateway, Pool, StickyPolicy, Subnet, Uplink, Whom};
use common::*;

fn near(name: &str, ranges: &[&str]) -> Pool {
    let mut near = pool(name, ranges);
    near.audience.reachable = true;
    near
}

fn on_node(holder: Holder, group: Group, cidrs: &[&str]) -> Request {
    let mut wanted = request(holder, vec![group]);
    wanted.subject.node = "n".into();
    wanted.subject.node_cidrs = cidrs.iter().map(|text| cidr(text)).collect();
    wanted
}

#[test]
fn replicas_get_addresses_of_the_subnet_their_node_is_in() {
    let racks = [near("rack1", &["172.20.1.0/24"]), near("rack2", &["172.20.2.0/24"])];
    let mut ipam = ipam(racks);
    let mut place = |id: &str, cidrs: &[&str], group: Group| {
        let outcome = ipam.allocate(&on_node(container(id), group, cidrs), NOW, &mut Entropy(7));
        outcome.map(|outcome| outcome.given[0].pool.clone()).map_err(|error| error.to_string())
    };
    for (n, group) in [from(&["rack1", "rack2"]), from(&["rack*"]), Group::default()].into_iter().enumerate() {
        let mut at = |id: &str, cidrs: &[&str]| place(&format!("{n}{id}"), cidrs, group.clone());
        assert_eq!(at("a", &["172.20.1.0/24"]).as_deref(), Ok("rack1"));
        assert_eq!(at("b", &["192.168.7.0/24", "172.20.2.0/24"]).as_deref(), Ok("rack2"));
        assert_eq!(at("c", &["172.20.2.9/32"]).as_deref(), Ok("rack2"), "an address alone does");
        assert_eq!(at("d", &["172.20.0.0/16"]).as_deref(), Ok("rack1"), "who is in all of them has the choice");
        assert_eq!(
            at("e", &["172.20.3.0/24"]).unwrap_err(),
            "no pool qualifies: rack1: node \"n\" has no address in 172.20.1.0/24, only in 172.20.3.0/24; \
             rack2: node \"n\" has no address in 172.20.2.0/24, only in 172.20.3.0/24"
        );
    }
}

#[test]
fn who_is_put_on_a_nic_gets_addresses_of_its_networks_whatever_the_pools_say() {
    let mut ipam = ipam([pool("rack1", &["172.20.1.0/24"]), pool("rack2", &["172.20.2.0/24"])]);
    let mut place = |id: &str, nics: &[&str], cidrs: &[&str]| {
        let mut wanted = on_node(container(id), from(&["rack1", "rack2"]), &["172.20.1.0/24", "172.20.2.0/24"]);
        let cidrs = cidrs.iter().map(|text| cidr(text)).collect();
        wanted.subject.uplink = Some(Uplink { nics: nics.iter().map(|&nic| nic.to_owned()).collect(), cidrs });
        let outcome = ipam.allocate(&wanted, NOW, &mut Entropy(7));
        outcome.map(|outcome| outcome.given[0].pool.clone()).map_err(|error| error.to_string())
    };
    assert_eq!(place("a", &["eth1"], &["172.20.2.0/24"]).as_deref(), Ok("rack2"), "not what other NICs reach");
    assert_eq!(place("b", &[], &["172.20.1.0/24", "172.20.2.0/24"]).as_deref(), Ok("rack1"));
    assert_eq!(
        place("c", &["eth2"], &["172.20.3.0/24"]).unwrap_err(),
        "no pool qualifies: rack1: the interface is on eth2 of node \"n\", which has no address in 172.20.1.0/24, only in \
         172.20.3.0/24; rack2: the interface is on eth2 of node \"n\", which has no address in 172.20.2.0/24, only in \
         172.20.3.0/24"
    );
    let none = place("d", &[], &[]).unwrap_err();
    assert!(none.contains("the interface is on node \"n\", which has no address in 172.20.1.0/24;"), "{none}");
}

#[test]
fn the_subnet_that_counts_is_the_pools_own() {
    let subnet = Subnet {
        name: "lan".into(),
        network: "default".into(),
        cidr: cidr("172.20.1.0/24"),
        available: None,
        object: berth_core::model::SUBNET_OBJECT,
        gateway: Gateway::Auto,
        routes: Vec::new(),
        dns: berth_core::net::Dns::default(),
        refused: false,
    };
    let few = &["172.20.1.100-172.20.1.103"][..];
    for (pool, node, served) in [
        (Pool { subnet: Some("lan".into()), ..near("p", few) }, "172.20.1.9/32", true),
        (Pool { prefix_len: Some(24), ..near("p", few) }, "172.20.1.9/32", true),
        (near("p", few), "172.20.1.9/32", false),
        (near("p", few), "172.20.1.0/24", true),
        // The pool picks, and might pick what the node does not reach.
        (near("p", &["172.20.1.0/24", "172.20.2.0/24"]), "172.20.1.0/24", false),
        (near("p", &["172.20.1.0/24", "172.20.2.0/24"]), "172.20.0.0/16", true),
    ] {
        let config = Config { subnets: [("lan".to_owned(), subnet.clone())].into(), ..config([pool.clone()]) };
        let mut ipam = Ipam::new();
        ipam.configure(config);
        let outcome = ipam.allocate(&on_node(container("a"), Group::default(), &[node]), NOW, &mut Entropy(7));
        assert_eq!(outcome.is_ok(), served, "{node} {:?}: {outcome:?}", pool.ranges);
    }
}

#[test]
fn a_sticky_pod_that_moves_gets_an_address_that_works_there() {
    let sticky = |pool: Pool| Pool { sticky: Some(StickyPolicy::default()), ..pool };
    let mut ipam = ipam([sticky(near("rack1", &["172.20.1.0/24"])), sticky(near("rack2", &["172.20.2.0/24"]))]);
    let mut run = |id: &str, node: &str| {
        let got = ipam.allocate(&on_node(pod(id, "ns", "db-0", id), Group::default(), &[node]), NOW, &mut Entropy(7));
        let got = given(&got.unwrap()).remove(0);
        ipam.release(container(id).attachment(), NOW);
        ipam.commit();
        got
    };
    let (first, second) = (run("a", "172.20.1.0/24"), run("b", "172.20.2.0/24"));
    assert!(first.starts_with("172.20.1.") && second.starts_with("172.20.2."), "{first} {second}");
    assert_eq!(run("c", "172.20.1.0/24"), first, "back home, back to the old address");
}

#[test]
fn a_name_that_never_comes_back_keeps_nothing() {
    let fixed = Pool { sticky: Some(StickyPolicy::default()), ..pool("p", &["10.0.0.0/29"]) };
    let mut ipam = ipam([fixed]);
    let fleeting = |holder: Holder| {
        let mut wanted = request(holder, vec![Group::default()]);
        wanted.subject.fleeting = true;
        wanted
    };
    // Five usable addresses; without the flag the sixth rollout would find the pool full.
    for n in 0..20 {
        let id = format!("c{n}");
        let wanted = fleeting(pod(&id, "ns", &format!("web-{n}"), &id));
        ipam.allocate(&wanted, NOW, &mut Entropy(7)).unwrap();
        ipam.release(container(&id).attachment(), NOW);
        ipam.commit();
    }
    assert!(ipam.slots().all(|(_, _, view)| view.identity().is_none()));
    let claimed = Some(Sticky { identity: "claim/ns/x".into(), keep: None });
    let user = fleeting(Holder { sticky: claimed, ..pod("u", "ns", "web-x", "u") });
    let first = given(&ipam.allocate(&user, NOW, &mut Entropy(7)).unwrap());
    ipam.release(container("u").attachment(), NOW);
    ipam.commit();
    let again = fleeting(Holder { id: "v".into(), pod: "web-y".into(), uid: "v".into(), ..user.holder });
    assert_eq!(given(&ipam.allocate(&again, NOW, &mut Entropy(7)).unwrap()), first, "a claim is kept all the same");
    assert_sound(&ipam);
}

#[test]
fn all_interfaces_or_none() {
    let mut ipam = ipam([pool("a", &["10.0.0.0/29"]), pool("b", &["10.0.1.7"])]);
    let nic = |id: &str, ifname: &str, pool: &str| {
        request(Holder { ifname: ifname.into(), ..pod(id, "ns", id, id) }, vec![from(&[pool])])
    };
    let both = |id: &str| [nic(id, "eth0", "a"), nic(id, "net1", "b")];
    let first = ipam.allocate_all(&both("x"), NOW, &mut Entropy(7)).unwrap();
    ipam.commit();
    assert_eq!(first.iter().flat_map(given).collect::<Vec<_>>(), ["10.0.0.2", "10.0.1.7"]);
    let before = dump(&ipam);
    let (place, error) = ipam.allocate_all(&both("y"), NOW, &mut Entropy(7)).unwrap_err();
    assert_eq!(place, 1);
    assert!(matches!(error, Error::PoolExhausted { .. }), "{error}");
    assert_eq!((dump(&ipam), ipam.changes().len()), (before, 0), "nothing is left of the first interface");
    // The ADD of the second interface asks again for both, and the answer is the same.
    let again = ipam.allocate_all(&both("x"), NOW, &mut Entropy(7)).unwrap();
    assert_eq!(again.iter().flat_map(given).collect::<Vec<_>>(), ["10.0.0.2", "10.0.1.7"]);
    assert_sound(&ipam);
}

#[test]
fn a_pool_for_sets_keeps_nothing_for_others_nor_for_a_set_that_went_elsewhere() {
    let sticky = Some(StickyPolicy { keep: None, whom: Whom::SetsAndMachines });
    let named = |name: &str, range: &str| Pool { sticky, ..pool(name, &[range]) };
    let mut ipam = ipam([named("a", "10.0.0.8/29"), named("b", "10.0.1.8/29")]);
    let mut run = |id: &str, name: &str, pool: &str, of_set: bool| {
        let mut wanted = request(pod(id, "ns", name, id), vec![from(&[pool])]);
        wanted.subject.of_set = of_set;
        let got = given(&ipam.allocate(&wanted, NOW, &mut Entropy(7)).unwrap()).remove(0);
        ipam.release(container(id).attachment(), NOW);
        ipam.commit();
        (got, ipam.slots().filter(|(_, _, view)| view.identity().is_some()).count())
    };
    assert_eq!(run("a", "bare", "a", false).1, 0, "a name that comes back is not enough");
    let (first, kept) = run("b", "db-0", "a", true);
    assert_eq!(kept, 1);
    assert_eq!(run("c", "db-0", "a", true).0, first);
    assert_eq!(run("d", "db-0", "b", true).1, 1, "what it had elsewhere is not kept any longer");
    assert_sound(&ipam);
}
