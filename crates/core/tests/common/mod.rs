//! What the tests share: pools, holders and requests in a line.
#![allow(dead_code, unreachable_pub, reason = "every test takes what it needs")]
#![allow(clippy::allow_attributes, reason = "whether an expectation is met differs from test to test")]
#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for something else")]

use berth_core::addr::{Cidr, Range};
use berth_core::error::Error;
use berth_core::holder::Holder;
use berth_core::ipam::{Config, Entropy, Group, Ipam, Outcome, Request};
use berth_core::model::{Edges, Gateway, Pool, Subject};
use berth_core::time::Time;
use std::net::IpAddr;

pub const NOW: Time = Time::from_secs(1_790_000_000);

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

pub fn range(text: &str) -> Range {
    text.parse().unwrap()
}

pub fn pool(name: &str, ranges: &[&str]) -> Pool {
    Pool::new(name, ranges.iter().map(|text| range(text)).collect())
}

/// A pool that gives out every address of its ranges.
pub fn whole(name: &str, ranges: &[&str]) -> Pool {
    let edges = Edges { network: true, broadcast: true, gateway: true };
    Pool { edges, gateway: Gateway::None, ..pool(name, ranges) }
}

pub fn config(pools: impl IntoIterator<Item = Pool>) -> Config {
    Config { pools: pools.into_iter().map(|pool| (pool.name.clone(), pool)).collect(), ..Config::default() }
}

pub fn ipam(pools: impl IntoIterator<Item = Pool>) -> Ipam {
    let mut ipam = Ipam::new();
    let config = config(pools);
    ipam.admits(&config).unwrap();
    ipam.configure(config);
    ipam
}

pub fn container(id: &str) -> Holder {
    Holder { network: "net".into(), id: id.into(), ifname: "eth0".into(), ..Holder::default() }
}

pub fn pod(id: &str, namespace: &str, name: &str, uid: &str) -> Holder {
    Holder { namespace: namespace.into(), pod: name.into(), uid: uid.into(), ..container(id) }
}

pub fn from(pools: &[&str]) -> Group {
    Group { pools: pools.iter().map(|&name| name.to_owned()).collect(), ..Group::default() }
}

pub fn exactly(addresses: &[&str]) -> Group {
    Group { addresses: addresses.iter().map(|text| ip(text)).collect(), ..Group::default() }
}

pub fn request(holder: Holder, groups: Vec<Group>) -> Request {
    let subject = Subject { namespace: holder.namespace.clone(), node: holder.node.clone(), ..Subject::default() };
    Request { holder, subject, groups }
}

pub fn add(ipam: &mut Ipam, holder: Holder, group: Group) -> Result<Outcome, Error> {
    add_at(ipam, holder, group, NOW)
}

pub fn add_at(ipam: &mut Ipam, holder: Holder, group: Group, now: Time) -> Result<Outcome, Error> {
    let outcome = ipam.allocate(&request(holder, vec![group]), now, &mut Entropy(7));
    ipam.commit();
    outcome
}

/// The addresses given, as text.
pub fn given(outcome: &Outcome) -> Vec<String> {
    outcome.given.iter().map(|given| given.address().to_string()).collect()
}

/// One address of the only pool, as text.
pub fn one(ipam: &mut Ipam, id: &str) -> String {
    given(&add(ipam, container(id), Group::default()).unwrap()).remove(0)
}

pub fn del(ipam: &mut Ipam, id: &str) -> Vec<IpAddr> {
    let freed = ipam.release(container(id).attachment(), NOW);
    ipam.commit();
    freed
}

/// Every slot that was ever used, as text: equal states print alike.
pub fn dump(ipam: &Ipam) -> Vec<String> {
    ipam.slots().map(|(plane, unit, view)| format!("{plane:?} {} {:?}", plane.addr(unit), view.to_slot())).collect()
}

pub fn assert_sound(ipam: &Ipam) {
    assert_eq!(ipam.check(NOW), Vec::new());
}
