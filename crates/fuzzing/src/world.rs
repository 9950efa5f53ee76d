//! The small world that operation sequences play in: five pools, thirty containers.

use crate::bytes::Bytes;
use berth_core::addr::{Family, Range};
use berth_core::holder::{Holder, Sticky};
use berth_core::ipam::Config;
use berth_core::model::{Gateway, Pick, Pool, Reservation, StickyPolicy};
use std::net::IpAddr;
use std::time::Duration;

/// How many containers there are.
pub const CONTAINERS: u8 = 30;

/// How long the sticky pool keeps addresses.
pub const KEEP: Duration = Duration::from_secs(100);

fn range(text: &str) -> Range {
    text.parse().expect("a range")
}

/// An address written out.
pub fn addr(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// The pools, with order, cool-down and quota chosen by the bytes.
pub fn pools(bytes: &mut Bytes<'_>) -> Vec<Pool> {
    let mut pools = vec![
        // Network, gateway and broadcast addresses are left out of this one.
        Pool::new("a", vec![range("10.0.0.0/28")]),
        // This one lies across two blocks and is no CIDR.
        Pool::new("b", vec![range("10.0.1.60-10.0.1.70")]),
        // This one shares a block with the one before.
        Pool {
            sticky: Some(StickyPolicy { keep: Some(KEEP), ..StickyPolicy::default() }),
            ..Pool::new("s", vec![range("10.0.1.72/29")])
        },
        // A /25 for each holder.
        Pool { unit_len: 25, gateway: Gateway::None, ..Pool::new("u", vec![range("10.1.0.0/22")]) },
        Pool::new("v", vec![range("fd00::/124")]),
    ];
    for pool in &mut pools {
        pool.pick = bytes.one_of(&[Pick::LeastRecentlyReleased, Pick::Sequential, Pick::Random]);
        pool.cool_down = Duration::from_secs(bytes.one_of(&[0, 10, 60]));
        pool.reuse_cooling = bytes.below(2) == 1;
        pool.quota.per_namespace = bytes.one_of(&[None, None, Some(0), Some(3), Some(6)]);
    }
    pools
}

/// Every unit each pool may give out, written out by hand.
pub fn members() -> Vec<Vec<IpAddr>> {
    let run = |prefix: &str, numbers: std::ops::RangeInclusive<u32>| -> Vec<IpAddr> {
        numbers.map(|n| addr(&format!("{prefix}{n}"))).collect()
    };
    let prefixes = (0..8).map(|n| addr(&format!("10.1.{}.{}", n / 2, n % 2 * 128))).collect();
    let six = (2..16).map(|n| addr(&format!("fd00::{n:x}"))).collect();
    vec![run("10.0.0.", 2..=14), run("10.0.1.", 60..=70), run("10.0.1.", 74..=78), prefixes, six]
}

/// The configuration with these pools and, maybe, some addresses reserved.
pub fn config(pools: &[Pool], reserved: &[IpAddr]) -> Config {
    let ranges: Vec<Range> = reserved.iter().map(|&addr| Range::single(addr)).collect();
    let reservation = Reservation { name: "r".to_owned(), network: "default".into(), ranges };
    let reservations = if reserved.is_empty() { [].into() } else { [("r".to_owned(), reservation)].into() };
    let pools = pools.iter().map(|pool| (pool.name.clone(), pool.clone())).collect();
    Config { pools, reservations, ..Config::default() }
}

/// The namespace of a container.
pub fn namespace(container: u8) -> String {
    format!("n{}", container % 2)
}

/// What the sticky pool keeps addresses for: three containers are incarnations of one pod.
pub fn pod_identity(container: u8) -> String {
    format!("pod/{}/p{}/eth0", namespace(container), container % 5)
}

/// The holder that a container is; with a claim, it comes back as that.
pub fn holder(container: u8, claim: Option<&str>) -> Holder {
    Holder {
        network: "net".to_owned(),
        id: format!("{container:064x}"),
        ifname: "eth0".to_owned(),
        namespace: namespace(container),
        pod: format!("p{}", container % 5),
        uid: format!("uid-{container}"),
        sticky: claim.map(|identity| Sticky { identity: identity.to_owned(), keep: None }),
        ..Holder::default()
    }
}

/// The families of the pools.
pub fn family(pool: &Pool) -> Family {
    pool.family
}
