//! Pools of applications: cut as a naive model cuts them, and decided upon so that nothing in use is ever lost.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use berth_core::addr::{Family, Range, RangeSet};
use berth_core::apps::{
    Application, Controller, Cut, Effect, Identity, Occupied, Size, Workload, World, cut, decide, enact, occupied,
    pool_name,
};
use berth_core::detect::{Conflicts, Detection};
use berth_core::error::Error;
use berth_core::ipam::{Config, Request};
use berth_core::model::{Gateway, Pool, Reservation, Subject, Subnet};
use common::{NOW, cidr, container, from, ip, ipam, range};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

fn subnet(name: &str, text: &str) -> Subnet {
    let (routes, dns) = (Vec::new(), berth_core::net::Dns::default());
    Subnet {
        name: name.into(),
        network: "default".into(),
        cidr: cidr(text),
        available: None,
        object: "IPSubnet",
        gateway: Gateway::Auto,
        routes,
        dns,
        refused: false,
    }
}

fn identity(name: &str) -> Identity {
    Identity { group: "apps".into(), kind: "Deployment".into(), namespace: "shop".into(), name: name.into() }
}

fn workload(name: &str, subnets: &[&str], replicas: u32) -> Workload {
    Workload {
        api_version: "apps/v1".into(),
        identity: identity(name),
        uid: format!("uid-{name}"),
        interfaces: vec![("eth0".into(), subnets.iter().map(|&s| s.to_owned()).collect())],
        replicas: Some(replicas),
        ..Workload::default()
    }
}

/// Subnets `a` and `b` of fourteen addresses each without network, broadcast and gateway: thirteen. And `six`.
fn config() -> Config {
    let subnets = [subnet("a", "10.0.0.0/28"), subnet("b", "10.0.1.0/28"), subnet("six", "fd00::/64")];
    Config { subnets: subnets.into_iter().map(|s| (s.name.clone(), s)).collect(), ..Config::default() }
}

/// Decides and enacts, and checks that deciding again changes nothing.
fn settle(
    config: &mut Config,
    busy: &RangeSet,
    who: &Identity,
    workload: Option<&Workload>,
) -> (Vec<Effect>, Vec<&'static str>) {
    let occupied = Occupied { busy: busy.clone(), ..Occupied::default() };
    let occupied = BTreeMap::from([(Arc::from("default"), occupied)]);
    let decide_now = |config: &Config| {
        let effects = decide(who, workload, &World { config, occupied: &occupied, name: pool_name });
        effects.into_iter().partition::<Vec<_>, _>(|effect| !matches!(effect, Effect::Tell(_)))
    };
    let (effects, told) = decide_now(config);
    effects.iter().for_each(|effect| enact(config, effect));
    let (again, _) = decide_now(config);
    assert_eq!(again, [], "done once, nothing is left to be done, after {effects:?}");
    config.validate().expect("the pools fit together");
    let reason = |effect: &Effect| if let Effect::Tell(event) = effect { event.reason } else { "" };
    (effects, told.iter().map(reason).collect())
}

fn pools_of<'a>(config: &'a Config, who: &Identity) -> Vec<&'a Pool> {
    let own = |pool: &&Pool| pool.application.as_ref().is_some_and(|application| application.identity() == *who);
    config.pools.values().filter(own).collect()
}

fn text(pool: &Pool) -> String {
    pool.ranges.iter().copied().collect::<RangeSet>().to_string()
}

fn set(texts: &[&str]) -> RangeSet {
    texts.iter().map(|text| range(text)).collect()
}

#[test]
fn what_is_found_out_on_the_wire_is_the_applications_to_say_or_else_the_pools() {
    let (mut config, who) = (config(), identity("web"));
    let strict = Detection { conflicts: Conflicts::Rfc5227, ..Detection::default() };
    let mut web = Workload { detect: Some(strict), ..workload("web", &["a"], 3) };
    settle(&mut config, &RangeSet::new(), &who, Some(&web));
    let name = pools_of(&config, &who)[0].name.clone();
    assert_eq!(config.pools[&name].detect, Some(strict), "from its first pod on");
    web.detect = Some(Detection::default());
    let (effects, _) = settle(&mut config, &RangeSet::new(), &who, Some(&web));
    assert!(matches!(&effects[..], [Effect::Update { detect: Some(_), .. }]), "{effects:?}");
    assert_eq!(config.pools[&name].detect, web.detect);
    // Without a word of the application it is somebody's who edits the pool.
    web.detect = None;
    config.pools.get_mut(&name).expect("the pool").detect = Some(strict);
    let (effects, _) = settle(&mut config, &RangeSet::new(), &who, Some(&web));
    assert_eq!((effects, config.pools[&name].detect), (vec![], Some(strict)));
}

#[test]
fn an_application_gets_a_pool_of_each_family_that_follows_its_replicas() {
    let (mut config, who) = (config(), identity("web"));
    let mut web = workload("web", &["a", "six"], 3);
    web.surge = 1;
    let (effects, told) = settle(&mut config, &RangeSet::new(), &who, Some(&web));
    assert_eq!((effects.len(), told.len()), (2, 0));
    let pools = pools_of(&config, &who);
    assert_eq!(text(pools[0]), "10.0.0.2-10.0.0.5", "the gateway is left out");
    assert_eq!(text(pools[1]), "fd00::2-fd00::5");
    assert_eq!(pools[0].subnet.as_deref(), Some("a"));
    web.replicas = Some(6);
    settle(&mut config, &RangeSet::new(), &who, Some(&web));
    assert_eq!(text(pools_of(&config, &who)[0]), "10.0.0.2-10.0.0.8");
    // Down again while the last ones are in use: what is free goes, and the rest when its pods are gone.
    web.replicas = Some(1);
    settle(&mut config, &set(&["10.0.0.6-10.0.0.8"]), &who, Some(&web));
    assert_eq!(text(pools_of(&config, &who)[0]), "10.0.0.6-10.0.0.8");
    settle(&mut config, &set(&["10.0.0.7"]), &who, Some(&web));
    assert_eq!(text(pools_of(&config, &who)[0]), "10.0.0.6/31");
    settle(&mut config, &RangeSet::new(), &who, None);
    assert_eq!(config.pools.len(), 0, "gone with it");
}

#[test]
fn fixed_and_spare_sizes_and_a_size_that_nobody_knows() {
    let (mut config, who) = (config(), identity("web"));
    let mut web = workload("web", &["a"], 9);
    web.size = Some(Size::Fixed(2));
    settle(&mut config, &RangeSet::new(), &who, Some(&web));
    assert_eq!(text(pools_of(&config, &who)[0]), "10.0.0.2/31");
    (web.size, web.replicas) = (Some(Size::Spare(2)), Some(1));
    settle(&mut config, &RangeSet::new(), &who, Some(&web));
    assert_eq!(text(pools_of(&config, &who)[0]), "10.0.0.2-10.0.0.4");
    web.replicas = None;
    let (effects, told) = settle(&mut config, &RangeSet::new(), &who, Some(&web));
    assert_eq!((effects, told), (vec![], vec!["PoolSizeUnknown"]), "nothing shrinks for want of a number");
}

#[test]
fn what_is_short_gets_what_there_is_and_takes_the_next_subnet_first() {
    let (mut config, big, small) = (config(), identity("big"), identity("small"));
    let (_, told) = settle(&mut config, &RangeSet::new(), &big, Some(&workload("big", &["a"], 10)));
    assert!(told.is_empty());
    settle(&mut config, &RangeSet::new(), &small, Some(&workload("small", &["a", "b"], 5)));
    assert_eq!(text(pools_of(&config, &small)[0]), "10.0.1.2-10.0.1.6", "the first that has room for all");
    let third = identity("third");
    let (_, told) = settle(&mut config, &RangeSet::new(), &third, Some(&workload("third", &["a"], 5)));
    assert_eq!((text(pools_of(&config, &third)[0]), told), ("10.0.0.12-10.0.0.14".into(), vec!["SubnetExhausted"]));
    let fourth = identity("fourth");
    let (effects, told) = settle(&mut config, &RangeSet::new(), &fourth, Some(&workload("fourth", &["a", "x"], 5)));
    assert_eq!((effects, told), (vec![], vec!["UnknownSubnet", "SubnetExhausted"]));
    // Others give up theirs: it grows.
    settle(&mut config, &RangeSet::new(), &big, None);
    settle(&mut config, &RangeSet::new(), &third, Some(&workload("third", &["a"], 5)));
    assert_eq!(text(pools_of(&config, &third)[0]), "10.0.0.2/31, 10.0.0.12-10.0.0.14");
}

#[test]
fn reserved_quarantined_and_foreign_addresses_are_left_alone() {
    let (mut config, who) = (config(), identity("web"));
    config.pools.insert("people".into(), common::pool("people", &["10.0.0.4-10.0.0.5"]));
    let reserved = Reservation { name: "r".into(), network: "default".into(), ranges: vec![range("10.0.0.3")] };
    config.reservations.insert("r".into(), reserved.clone());
    let held = Occupied { busy: set(&["10.0.0.6"]), resting: set(&["10.0.0.7"]), quarantined: set(&["10.0.0.8"]) };
    let mut occupied = BTreeMap::from([(Arc::from("default"), held)]);
    let web = workload("web", &["a"], 2);
    let world = World { config: &config, occupied: &occupied, name: pool_name };
    let effects = decide(&who, Some(&web), &world);
    effects.iter().for_each(|effect| enact(&mut config, effect));
    assert_eq!(text(pools_of(&config, &who)[0]), "10.0.0.2, 10.0.0.9");
    // One of its own is seen in use by a stranger, another is reserved: both are made up for, and the reserved one goes.
    let strange = Occupied { quarantined: set(&["10.0.0.9"]), ..Occupied::default() };
    occupied.insert(Arc::from("default"), strange);
    config
        .reservations
        .insert("s".into(), Reservation { ranges: vec![range("10.0.0.2")], name: "s".into(), ..reserved });
    let effects = decide(&who, Some(&web), &World { config: &config, occupied: &occupied, name: pool_name });
    effects.iter().for_each(|effect| enact(&mut config, effect));
    assert_eq!(text(pools_of(&config, &who)[0]), "10.0.0.6/31, 10.0.0.9");
}

#[test]
fn a_kept_pool_is_found_again_by_the_same_application_and_by_no_other() {
    let (mut config, who) = (config(), identity("web"));
    let kept = Workload { keep: true, ..workload("web", &["a"], 3) };
    settle(&mut config, &RangeSet::new(), &who, Some(&kept));
    let before = text(pools_of(&config, &who)[0]);
    let (effects, _) = settle(&mut config, &RangeSet::new(), &who, None);
    assert_eq!(effects, [], "it stays");
    // Another kind of the same name has a pool of its own.
    let other = Identity { kind: "StatefulSet".into(), ..who.clone() };
    let set = Workload { identity: other.clone(), ..workload("web", &["a"], 2) };
    settle(&mut config, &RangeSet::new(), &other, Some(&set));
    assert_eq!(text(pools_of(&config, &other)[0]), "10.0.0.5-10.0.0.6");
    // The same one again, of another version and with another UID.
    let again = Workload { uid: "new".into(), api_version: "apps/v2".into(), ..kept };
    let (effects, _) = settle(&mut config, &RangeSet::new(), &who, Some(&again));
    assert!(matches!(&effects[..], [Effect::Update { application, .. }] if application.uid == "new"), "{effects:?}");
    assert_eq!(text(pools_of(&config, &who)[0]), before);
    // Gone, and nobody wants to keep it any longer.
    settle(&mut config, &RangeSet::new(), &who, None);
    let name = pools_of(&config, &who)[0].name.clone();
    let application = config.pools.get_mut(&name).and_then(|pool| pool.application.as_mut());
    application.expect("an application's pool").keep = false;
    settle(&mut config, &RangeSet::new(), &who, None);
    assert!(pools_of(&config, &who).is_empty());
}

#[test]
fn another_subnet_means_another_pool_and_the_old_one_goes_with_its_pods() {
    let (mut config, who) = (config(), identity("web"));
    settle(&mut config, &RangeSet::new(), &who, Some(&workload("web", &["a"], 3)));
    let moved = workload("web", &["b"], 3);
    settle(&mut config, &set(&["10.0.0.3"]), &who, Some(&moved));
    let now: Vec<String> = pools_of(&config, &who).into_iter().map(text).collect();
    assert_eq!(BTreeSet::from_iter(now), BTreeSet::from(["10.0.0.3".to_owned(), "10.0.1.2-10.0.1.4".to_owned()]));
    settle(&mut config, &RangeSet::new(), &who, Some(&moved));
    assert_eq!(pools_of(&config, &who).len(), 1);
    // Another interface joins, and the first goes elsewhere.
    let mut two = moved;
    two.interfaces = vec![("eth0".into(), vec!["six".into()]), ("net1".into(), vec!["b".into(), "six".into()])];
    settle(&mut config, &set(&["10.0.1.2"]), &who, Some(&two));
    assert_eq!(pools_of(&config, &who).len(), 4, "the old one has a pod still");
    settle(&mut config, &RangeSet::new(), &who, Some(&two));
    let interfaces = pools_of(&config, &who).into_iter().filter_map(|pool| pool.application.as_ref());
    let mut interfaces: Vec<&str> = interfaces.map(|application| application.interface.as_str()).collect();
    interfaces.sort_unstable();
    assert_eq!(interfaces, ["eth0", "net1", "net1"]);
    two.interfaces.clear();
    settle(&mut config, &RangeSet::new(), &who, Some(&two));
    assert!(config.pools.is_empty(), "it asks for nothing any more");
}

#[test]
fn of_two_that_were_cut_alike_one_yields() {
    let (mut config, one, two) = (config(), identity("one"), identity("two"));
    let mut other = config.clone();
    settle(&mut config, &RangeSet::new(), &one, Some(&workload("one", &["a"], 3)));
    settle(&mut other, &RangeSet::new(), &two, Some(&workload("two", &["a"], 3)));
    config.pools.extend(other.pools);
    let busy = RangeSet::new();
    let occupied = BTreeMap::from([(Arc::from("default"), Occupied { busy, ..Occupied::default() })]);
    for (who, name) in [(&one, "one"), (&two, "two")] {
        let workload = workload(name, &["a"], 3);
        let world = World { config: &config, occupied: &occupied, name: pool_name };
        let effects = decide(who, Some(&workload), &world);
        effects.iter().for_each(|effect| enact(&mut config, effect));
    }
    config.validate().expect("they are apart");
    assert_eq!(pools_of(&config, &one).len() + pools_of(&config, &two).len(), 2);
}

#[test]
fn a_pool_of_an_application_is_for_its_pods_only_even_by_name() {
    let application = Application {
        api_version: "apps/v1".into(),
        kind: "StatefulSet".into(),
        namespace: "shop".into(),
        name: "db".into(),
        ..Application::default()
    };
    let own = Pool { application: Some(application), ..common::pool("own", &["10.0.0.0/24"]) };
    let mut ipam = ipam([own]);
    let mut ask = |id: &str, name: &str, pools: &[&str]| {
        let controller =
            Controller { group: "apps".into(), kind: "StatefulSet".into(), name: name.into(), ..Default::default() };
        let subject = Subject { namespace: "shop".into(), controllers: vec![controller], ..Subject::default() };
        let request = Request { holder: container(id), subject, groups: vec![from(pools)] };
        ipam.allocate(&request, NOW, &mut berth_core::ipam::Entropy(1))
    };
    assert!(ask("c1", "db", &["own"]).is_ok());
    let Err(Error::NoQualifiedPool { reasons }) = ask("c2", "web", &["own"]) else { panic!("another's") };
    assert!(reasons.contains("StatefulSet shop/db only"), "{reasons}");
    assert!(ask("c3", "db", &[]).is_err(), "and for those who ask for it: it is nobody's default");
    let taken = occupied(&ipam, NOW);
    assert_eq!(taken["default"].busy.count().saturating_u64(), 1);
}

fn addr(n: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, n))
}

fn ranges(of: &BTreeSet<u8>) -> RangeSet {
    of.iter().map(|&n| Range::single(addr(n))).collect()
}

/// The same, address by address.
fn naive(
    present: &BTreeSet<u8>,
    allowed: &BTreeSet<u8>,
    free: &BTreeSet<u8>,
    used: &BTreeSet<u8>,
    quarantined: &BTreeSet<u8>,
    want: usize,
) -> (BTreeSet<u8>, usize, usize) {
    let stays = |n: &u8| allowed.contains(n) || used.contains(n) || quarantined.contains(n);
    let mut all: BTreeSet<u8> = present.iter().copied().filter(stays).collect();
    let counts = |n: &u8| allowed.contains(n) && !quarantined.contains(n);
    let count = |all: &BTreeSet<u8>| all.iter().copied().filter(counts).count();
    for &n in free {
        if count(&all) < want {
            all.insert(n);
        }
    }
    let idle: Vec<u8> = all.iter().copied().filter(|n| counts(n) && !used.contains(n)).collect();
    for n in idle.iter().rev() {
        if count(&all) > want {
            all.remove(n);
        }
    }
    let have = count(&all);
    (all, want.saturating_sub(have), have.saturating_sub(want))
}

fn subset() -> impl Strategy<Value = BTreeSet<u8>> {
    prop_oneof![
        prop::collection::btree_set(0u8..40, 0..40),
        (0u8..40, 0u8..40).prop_map(|(first, len)| (first..(first + len).min(40)).collect()),
    ]
}

proptest! {
    #[test]
    fn pools_are_cut_as_address_by_address(
        present in subset(), allowed in subset(), used in subset(), quarantined in subset(), want in 0u32..45,
    ) {
        let used: BTreeSet<u8> = used.difference(&quarantined).copied().collect();
        let taken = |n: &u8| present.contains(n) || used.contains(n) || quarantined.contains(n);
        let free: BTreeSet<u8> = allowed.iter().copied().filter(|n| !taken(n)).collect();
        let (all, missing, surplus) = naive(&present, &allowed, &free, &used, &quarantined, want as usize);
        let cutting = cut(Cut {
            present: &ranges(&present),
            allowed: &ranges(&allowed),
            free: &ranges(&free),
            used: &ranges(&used),
            quarantined: &ranges(&quarantined),
            want,
        });
        prop_assert_eq!(cutting.ranges, ranges(&all));
        prop_assert_eq!((cutting.missing, cutting.surplus), (missing as u128, surplus as u128));
    }

    /// Many applications on two subnets: they come, go, grow, shrink, move, and their pods come and go meanwhile.
    #[test]
    fn applications_never_share_an_address_nor_lose_one_in_use(
        steps in prop::collection::vec((0usize..4, 0u8..8, 0u32..7), 1..60),
    ) {
        let names = ["w", "x", "y", "z"];
        let mut config = config();
        let mut apps: [Option<Workload>; 4] = Default::default();
        let mut busy: BTreeMap<IpAddr, usize> = BTreeMap::new();
        let look = |busy: &BTreeMap<IpAddr, usize>| busy.keys().map(|&a| Range::single(a)).collect::<RangeSet>();
        for (app, what, number) in steps {
            let who = identity(names[app]);
            match what {
                // A pod comes: it takes a free address of a pool of its application.
                0..=2 => {
                    let sets = pools_of(&config, &who).into_iter().map(|p| p.ranges.iter().copied().collect::<RangeSet>());
                    let idle = sets.flat_map(|set| set.difference(&look(&busy)).ranges().to_vec());
                    if let Some(range) = idle.into_iter().find(|range| range.family() == Family::V4) {
                        busy.insert(range.last(), app);
                    }
                    continue;
                }
                3 => {
                    let of = busy.iter().filter(|(_, of)| **of == app).map(|(&a, _)| a).nth(number as usize);
                    of.map(|address| busy.remove(&address));
                }
                4 => apps[app] = None,
                5 => apps[app] = Some(workload(names[app], &["b"], number)),
                _ => apps[app] = Some(workload(names[app], &["a", "six"], number)),
            }
            let before: BTreeMap<String, RangeSet> =
                config.pools.values().map(|p| (p.name.clone(), p.ranges.iter().copied().collect())).collect();
            // Checks by itself that pools do not overlap, and that it comes to rest.
            let (_, told) = settle(&mut config, &look(&busy), &who, apps[app].as_ref());
            for (pool, ranges) in before {
                let kept: RangeSet =
                    config.pools.get(&pool).iter().flat_map(|p| p.ranges.iter().copied()).collect();
                let lost = ranges.difference(&kept).intersection(&look(&busy));
                prop_assert!(lost.is_empty(), "{pool} lost {lost}, which is in use");
            }
            if let Some(workload) = &apps[app] {
                let want = workload.replicas.unwrap_or(0).max(1);
                let current = workload.interfaces[0].1.iter().map(|name| (name, &config.subnets[name]));
                for (name, subnet) in current {
                    let own = pools_of(&config, &who).into_iter().find(|pool| pool.subnet.as_ref() == Some(name));
                    let set: RangeSet = own.iter().flat_map(|pool| pool.ranges.iter().copied()).collect();
                    let have = set.count().saturating_u64();
                    let used = set.intersection(&look(&busy)).count().saturating_u64();
                    let short = told.contains(&"SubnetExhausted") && subnet.cidr.family() == Family::V4;
                    prop_assert!(have == u64::from(want).max(used) || short && have < u64::from(want), "{have} of {want}");
                }
            }
        }
        busy.clear();
        for name in names {
            settle(&mut config, &RangeSet::new(), &identity(name), None);
        }
        prop_assert!(config.pools.is_empty(), "nothing is left behind");
    }
}

#[test]
fn a_subnet_of_any_size_costs_the_same() {
    let mut config = config();
    let all = subnet("all", "fd01::/16");
    config.subnets.insert("all".into(), all);
    let who = identity("web");
    settle(&mut config, &RangeSet::new(), &who, Some(&workload("web", &["all"], u32::MAX)));
    assert_eq!(text(pools_of(&config, &who)[0]), "fd01::2-fd01::1:0:0");
    assert_eq!(pools_of(&config, &who)[0].ranges.len(), 1);
    let _ = ip("fd01::1");
}

#[test]
fn a_pool_has_no_more_pieces_than_an_object_may_have() {
    let free: RangeSet = (0u32..8192)
        .flat_map(|n| (n % 4 == 0 || n >= 8000).then(|| Range::single(IpAddr::V4(Ipv4Addr::from_bits(n)))))
        .collect();
    let none = RangeSet::new();
    let cutting = cut(Cut { present: &none, allowed: &free, free: &free, used: &none, quarantined: &none, want: 1215 });
    assert_eq!(
        (cutting.ranges.ranges().len(), cutting.missing),
        (1024, 0),
        "the largest piece of 192, and 1023 others"
    );
    let cutting = cut(Cut { present: &none, allowed: &free, free: &free, used: &none, quarantined: &none, want: 1216 });
    assert_eq!((cutting.ranges.ranges().len(), cutting.missing), (1024, 1), "and not one more");
}
