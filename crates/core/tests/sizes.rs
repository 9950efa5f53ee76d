//! Pools of every size: the cost is that of what is used, never that of the pool.

mod common;

use berth_core::addr::{Cidr, Count, Family};
use berth_core::ipam::Group;
use berth_core::model::{Gateway, Pick, Pool};
use common::*;

fn every_cidr() -> impl Iterator<Item = Cidr> {
    let v4 = (0..=32).map(|len| Cidr::containing(ip("203.0.113.77"), len));
    let v6 = (0..=128).map(|len| Cidr::containing(ip("2001:db8:5:6:7:8:9:a"), len));
    v4.chain(v6)
}

#[test]
fn every_size_is_counted_and_given_out_exactly() {
    for cidr in every_cidr() {
        let family = cidr.family();
        let left_out = match (cidr.prefix_len() + 1 >= family.bits(), family) {
            (true, _) => 0u32,
            // Network, gateway and, in IPv4, broadcast address.
            (false, Family::V4) => 3,
            (false, Family::V6) => 2,
        };
        let capacity = Count::power_of_two(family.bits() - cidr.prefix_len()) - Count::from(left_out);
        for pick in [Pick::LeastRecentlyReleased, Pick::Sequential, Pick::Random] {
            let mut ipam = ipam([Pool { pick, ..Pool::new("p", vec![cidr.range()]) }]);
            let usage = ipam.pool_usage("p", NOW).unwrap();
            assert_eq!((usage.capacity, usage.free), (capacity, capacity), "{cidr}");

            let first = add(&mut ipam, container("first"), Group::default());
            assert_eq!(first.is_ok(), !capacity.is_zero(), "{cidr}");
            let Ok(first) = first else { continue };
            let first = &first.given[0];
            let edge = cidr.prefix_len() + 1 < family.bits();
            assert!(cidr.contains(first.address()) && (!edge || first.address() != cidr.network()), "{cidr}");
            assert_eq!((first.prefix_len, first.gateway), (cidr.prefix_len(), cidr.first_host()), "{cidr}");

            // The last address there is: before the broadcast address, where there is one.
            let edge = u128::from(left_out == 3);
            let last = family.addr(cidr.range().last_number() - edge);
            if last != first.address() {
                let asked = Group { addresses: vec![last], ..Group::default() };
                assert_eq!(add(&mut ipam, container("last"), asked).unwrap().given[0].address(), last, "{cidr}");
            }
            let usage = ipam.pool_usage("p", NOW).unwrap();
            assert_eq!(usage.in_use + usage.free, capacity, "{cidr}");
            assert!(ipam.blocks().count() <= 2, "{cidr} touched more than it gave out");
            assert_sound(&ipam);
            for id in ["first", "last"] {
                del(&mut ipam, id);
            }
            assert_eq!(ipam.pool_usage("p", NOW).unwrap().free, capacity, "{cidr}");
        }
    }
}

#[test]
fn point_to_point_and_host_networks_are_usable_whole() {
    for (text, addresses) in [
        ("10.0.0.6/31", vec!["10.0.0.6", "10.0.0.7"]),
        ("10.0.0.7/32", vec!["10.0.0.7"]),
        ("fd00::6/127", vec!["fd00::6", "fd00::7"]),
        ("fd00::7/128", vec!["fd00::7"]),
        ("10.0.0.7", vec!["10.0.0.7"]),
        ("10.0.0.0-10.0.0.2", vec!["10.0.0.0", "10.0.0.1", "10.0.0.2"]),
    ] {
        let mut ipam = ipam([pool("p", &[text])]);
        let got: Vec<String> = (0..addresses.len()).map(|n| one(&mut ipam, &n.to_string())).collect();
        assert_eq!(got, addresses);
        assert!(add(&mut ipam, container("more"), Group::default()).is_err());
    }
}

#[test]
fn invariant_10_cost_does_not_grow_with_the_pool() {
    // All of IPv6 as single addresses, as /64s, as the one /0 it is.
    for (unit_len, capacity) in [(128, Count::power_of_two(128)), (64, Count::power_of_two(64)), (0, Count::ONE)] {
        let mut ipam = ipam([Pool { unit_len, ..whole("p", &["::/0"]) }]);
        assert_eq!(ipam.pool_usage("p", NOW).unwrap().capacity, capacity);
        let last = Group { addresses: vec![ip("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")], ..Group::default() };
        assert_eq!(add(&mut ipam, container("last"), last).unwrap().given[0].unit.prefix_len(), unit_len);
        assert_eq!(add(&mut ipam, container("next"), Group::default()).is_ok(), unit_len > 0);
        let usage = ipam.pool_usage("p", NOW).unwrap();
        assert_eq!(usage.free + usage.in_use, capacity);
        assert!(ipam.blocks().count() <= 2);
        assert_sound(&ipam);
    }
    let four = ipam([Pool { unit_len: 0, ..whole("p", &["0.0.0.0/0"]) }]);
    assert_eq!(four.pool_usage("p", NOW).unwrap().capacity, Count::ONE);
}

#[test]
fn prefixes_are_given_out_whole() {
    let nodes = Pool { unit_len: 24, gateway: Gateway::None, ..pool("nodes", &["10.0.0.0/22"]) };
    let mut ipam = ipam([Pool { exclude: vec![range("10.0.1.7")], ..nodes }]);
    let units: Vec<String> = (0..3)
        .map(|n| add(&mut ipam, container(&n.to_string()), Group::default()).unwrap().given[0].unit.to_string())
        .collect();
    // The /24 with an excluded address cannot be given out whole.
    assert_eq!(units, ["10.0.0.0/24", "10.0.2.0/24", "10.0.3.0/24"]);
    assert!(add(&mut ipam, container("more"), Group::default()).is_err());
    let inside = add(&mut ipam, container("inside"), exactly(&["10.0.2.77"])).unwrap_err();
    assert!(inside.to_string().contains("taken"), "{inside}");
    assert_sound(&ipam);
}

#[test]
fn usage_is_exact_past_2_to_the_64() {
    let mut ipam = ipam([pool("p", &["fd00::/32"])]);
    let mut config = ipam.config().clone();
    let reservation = berth_core::model::Reservation {
        name: "r".into(),
        network: "default".into(),
        ranges: vec![range("fd00::/64"), range("fd00:0:1::/48")],
    };
    // One address of the reserved part is in use already: it counts as in use, not as reserved.
    add(&mut ipam, container("a"), exactly(&["fd00::5"])).unwrap();
    config.reservations.insert("r".into(), reservation);
    ipam.admits(&config).unwrap();
    ipam.configure(config);
    let usage = ipam.pool_usage("p", NOW).unwrap();
    let two = Count::power_of_two;
    assert_eq!(usage.capacity, two(96) - Count::from(2u32));
    assert_eq!(usage.reserved, two(64) + two(80) - Count::from(3u32));
    assert_eq!(usage.in_use, Count::ONE);
    assert_eq!(usage.free, two(96) - two(80) - two(64));
    assert_eq!(usage.capacity.to_string(), "79228162514264337593543950334");
    assert_eq!(ipam.network_usage("default", Family::V6, NOW), usage);
}
