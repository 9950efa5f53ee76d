//! Bugs of other address managers that the core must not have, each named after the report.

mod common;

use berth_core::error::Error;
use berth_core::ipam::{Entropy, Group, Reason};
use berth_core::model::{Edges, Gateway, Pick, Pool};
use common::*;
use std::collections::BTreeSet;
use std::time::Duration;

/// A late DEL of an old sandbox freed the address of the pod's new one.
#[test]
fn azure_885_a_late_del_of_the_old_sandbox() {
    let mut ipam = ipam([pool("p", &["10.0.0.0/24"])]);
    let first = add(&mut ipam, pod("c1", "ns", "web", "uid"), Group::default()).unwrap();
    let second = add(&mut ipam, pod("c2", "ns", "web", "uid"), Group::default()).unwrap();
    assert_ne!(given(&first), given(&second));
    assert_eq!(del(&mut ipam, "c1"), [ip(&given(&first)[0])]);
    assert_eq!(ipam.of_attachment(container("c2").attachment()), [ip(&given(&second)[0])]);
    assert!(del(&mut ipam, "c1").is_empty(), "again is fine");
    assert_sound(&ipam);
}

/// A DEL was lost and a fixed address stayed with the pod's old sandbox: the new one was refused for ever.
#[test]
fn bcs_a_fixed_address_follows_the_pod_into_its_new_sandbox() {
    let mut fixed = pool("p", &["10.0.0.0/24"]);
    fixed.sticky = Some(berth_core::model::StickyPolicy::default());
    for uid in ["", "uid"] {
        let mut ipam = ipam([fixed.clone()]);
        let on = |id: &str, node: &str, uid: &str| {
            let mut holder = pod(id, "ns", "web-0", uid);
            holder.node = node.into();
            holder
        };
        let first = add(&mut ipam, on("c1", "n1", uid), Group::default()).unwrap();
        let second = add(&mut ipam, on("c2", "n1", uid), Group::default()).unwrap();
        assert_eq!(given(&first), given(&second));
        assert!(del(&mut ipam, "c1").is_empty(), "the address is the new sandbox's now");
        // Another node, and nothing that proves the first one's sandbox gone; or another pod of the same name.
        let elsewhere = add(&mut ipam, on("c3", "n2", if uid.is_empty() { "" } else { "other" }), Group::default());
        assert!(matches!(elsewhere, Err(Error::AddressTaken { .. })), "{elsewhere:?}");
        assert_sound(&ipam);
    }
}

/// Every recreated sandbox took one more address, until four pods had all of them.
#[test]
fn azure_4497_a_crash_loop_does_not_drain_the_pool() {
    // With a quota of two, and with two addresses in all: the third sandbox must find room.
    let mut quota = pool("p", &["10.0.0.0/24"]);
    quota.quota.per_namespace = Some(2);
    for pool in [pool("p", &["10.0.0.0/24"]), quota, pool("p", &["10.0.0.6/31"])] {
        let mut ipam = ipam([pool]);
        for n in 0..1000 {
            add(&mut ipam, pod(&format!("c{n}"), "ns", "web", "uid"), Group::default()).unwrap();
            assert!(ipam.pool_usage("p", NOW).unwrap().in_use.saturating_u64() <= 2);
            // The sandbox before keeps its address for a round: its DEL may be on the way.
            assert_eq!(ipam.of_attachment(container(&format!("c{n}")).attachment()).len(), 1);
        }
        assert_eq!(ipam.of_attachment(container("c998").attachment()).len(), 1);
        assert_sound(&ipam);
    }
}

/// The second interface's pool was empty: ADD failed, the first interface's address stayed, with every retry one more.
#[test]
fn spiderpool_4295_a_partial_failure_leaks_nothing() {
    let mut ipam = ipam([pool("first", &["10.0.0.0/24"]), pool("second", &["10.0.1.1"])]);
    add(&mut ipam, container("other"), from(&["second"])).unwrap();
    let before = dump(&ipam);
    for n in 0..100 {
        let wanted = request(container(&format!("c{n}")), vec![from(&["first"]), from(&["second"])]);
        let error = ipam.allocate(&wanted, NOW, &mut Entropy(1)).unwrap_err();
        assert_eq!(error, Error::PoolExhausted { pools: vec!["second".into()], cooling: 0, next_free: None });
        assert!(ipam.changes().is_empty());
    }
    assert_eq!(dump(&ipam), before);
    assert_eq!(one(&mut ipam, "next"), "10.0.0.2", "not even the search has moved on");
    assert_sound(&ipam);
}

/// The last address of the range was never given, the broadcast address was.
#[test]
fn whereabouts_35_and_38_the_edges_of_a_range() {
    let mut ipam = ipam([Pool { prefix_len: Some(24), ..pool("p", &["10.0.0.250-10.0.0.255"]) }]);
    let got: Vec<String> = (0..5).map(|n| one(&mut ipam, &n.to_string())).collect();
    assert_eq!(got, ["10.0.0.250", "10.0.0.251", "10.0.0.252", "10.0.0.253", "10.0.0.254"]);
    assert!(add(&mut ipam, container("more"), Group::default()).is_err());
    let broadcast = add(&mut ipam, container("b"), exactly(&["10.0.0.255"])).unwrap_err();
    assert!(matches!(broadcast, Error::AddressReserved { .. }));
}

/// Case (c) of Calico's ReleaseIPs tests: four allocations and releases give four addresses, the fifth the first again.
#[test]
fn calico_fifo_in_a_slash_30() {
    let mut ipam = ipam([whole("p", &["10.0.0.0/30"])]);
    let mut got = Vec::new();
    for n in 0..5 {
        got.push(one(&mut ipam, &n.to_string()));
        del(&mut ipam, &n.to_string());
    }
    assert_eq!(got[..4].iter().collect::<BTreeSet<_>>().len(), 4);
    assert_eq!(got[4], got[0]);
}

/// host-local remembers what it gave last: a freed address is not given again at once, over a restart too.
#[test]
fn host_local_round_robin() {
    let mut ipam = ipam([pool("p", &["10.0.0.0/29"])]);
    assert_eq!([one(&mut ipam, "a"), one(&mut ipam, "b"), one(&mut ipam, "c")], ["10.0.0.2", "10.0.0.3", "10.0.0.4"]);
    del(&mut ipam, "a");
    let mut restarted = berth_core::ipam::Ipam::new();
    restarted.configure(ipam.config().clone());
    for (key, block) in ipam.blocks() {
        restarted.load(key, block.clone());
    }
    for ipam in [&mut ipam, &mut restarted] {
        assert_eq!([one(ipam, "d"), one(ipam, "e"), one(ipam, "f")], ["10.0.0.5", "10.0.0.6", "10.0.0.2"]);
        assert_sound(ipam);
    }
}

/// Two stamps of one instant: what was released a moment ago, by the same clock reading, is free without a cool-down.
#[test]
fn no_address_is_missing_within_one_batch() {
    for pick in [Pick::LeastRecentlyReleased, Pick::Sequential, Pick::Random] {
        let mut ipam = ipam([Pool { pick, ..pool("p", &["10.0.0.7"]) }]);
        for n in 0..100 {
            one(&mut ipam, &n.to_string());
            del(&mut ipam, &n.to_string());
            assert_eq!(ipam.pool_usage("p", NOW).unwrap().cooling.to_string(), "0");
        }
    }
}

/// A kept address in a block that two pools share went to whoever asked the other pool, past its selectors.
#[test]
fn a_kept_address_stays_in_its_own_pool() {
    let sticky = Some(berth_core::model::StickyPolicy::default());
    let mut ipam = ipam([Pool { sticky, ..pool("kept", &["10.0.0.1"]) }, pool("plain", &["10.0.0.2"])]);
    add(&mut ipam, pod("c1", "ns", "web-0", "u1"), from(&["kept"])).unwrap();
    del(&mut ipam, "c1");
    let got = add(&mut ipam, pod("c2", "ns", "web-0", "u2"), from(&["plain"])).unwrap();
    assert_eq!(given(&got), ["10.0.0.2"]);
    // And while one container uses it, others of that name are served from other pools.
    let got = add(&mut ipam, pod("c3", "ns", "web-0", "u3"), from(&["kept"])).unwrap();
    assert_eq!((given(&got), got.given[0].reason), (vec!["10.0.0.1".to_owned()], Reason::KeptForHolder));
    del(&mut ipam, "c2");
    assert_eq!(given(&add(&mut ipam, pod("c4", "ns", "web-0", "u4"), from(&["plain"])).unwrap()), ["10.0.0.2"]);
    let refused = add(&mut ipam, pod("c5", "ns", "web-0", "u5"), from(&["kept"])).unwrap_err();
    assert!(matches!(refused, Error::AddressTaken { .. }), "{refused}");
    assert_sound(&ipam);
}

/// Reserving a whole block made ADD forget the pool of what was in use there, and answer without gateway and prefix.
#[test]
fn a_reservation_does_not_change_what_is_answered() {
    let mut ipam = ipam([pool("p", &["10.0.0.0/24"])]);
    let before = add(&mut ipam, container("a"), Group::default()).unwrap();
    let mut config = ipam.config().clone();
    let (name, ranges) = ("r".to_owned(), vec![range("10.0.0.0/26")]);
    let reservation = berth_core::model::Reservation { name: name.clone(), network: "default".into(), ranges };
    config.reservations.insert(name, reservation);
    ipam.admits(&config).unwrap();
    ipam.configure(config);
    let after = add(&mut ipam, container("a"), Group::default()).unwrap();
    assert_eq!(after.given[0].reason, Reason::AlreadyHeld);
    let plain = |o: &berth_core::ipam::Outcome| (o.given[0].pool.clone(), o.given[0].prefix_len, o.given[0].gateway);
    assert_eq!(plain(&after), plain(&before));
    assert_eq!(one(&mut ipam, "b"), "10.0.0.64");
}

/// kubernetes#70957, calico#3589: units of two sizes that overlap are found, even where they begin alike.
#[test]
fn overlapping_units_are_reported() {
    let mut ipam = ipam([whole("hosts", &["10.0.0.0/24"])]);
    add(&mut ipam, container("a"), exactly(&["10.0.0.0"])).unwrap();
    let nodes = Pool { unit_len: 24, ..whole("nodes", &["10.0.0.0/22"]) };
    let both = config([whole("hosts", &["10.0.0.0/24"]), nodes]);
    assert!(matches!(ipam.admits(&both), Err(Error::Invalid { .. })));
    ipam.configure(both);
    add(&mut ipam, container("b"), from(&["nodes"])).unwrap();
    let findings: Vec<String> = ipam.check(NOW).into_iter().map(|finding| finding.message).collect();
    assert!(findings.iter().any(|message| message.contains("overlaps what is given out")), "{findings:?}");
}

/// A range over many subnets would give out the gateways of all but the first.
#[test]
fn a_range_over_several_subnets_is_refused() {
    let wide = Pool { prefix_len: Some(24), ..pool("p", &["10.0.0.0/16"]) };
    let error = config([wide.clone()]).validate().unwrap_err();
    assert!(error.to_string().contains("spans several /24 subnets"), "{error}");
    let edges = Edges { network: true, broadcast: true, gateway: false };
    config([Pool { edges, gateway: Gateway::None, ..wide.clone() }]).validate().unwrap();
    config([Pool { prefix_len: Some(32), ..wide }]).validate().unwrap();
}

/// Cooling addresses are never forgotten before their time.
#[test]
fn forgetting_cold_blocks_respects_the_cool_down() {
    let mut ipam = ipam([Pool { cool_down: Duration::from_secs(60), ..pool("p", &["10.0.0.7"]) }]);
    one(&mut ipam, "a");
    del(&mut ipam, "a");
    assert_eq!(ipam.forget_cold(NOW.after(Duration::from_secs(30))), 0);
    let exhausted = add_at(&mut ipam, container("b"), Group::default(), NOW.after(Duration::from_secs(30)));
    let Err(Error::PoolExhausted { cooling: 1, next_free: Some(at), .. }) = exhausted else {
        panic!("{exhausted:?}");
    };
    assert_eq!(at.as_secs(), NOW.as_secs() + 60);
    assert_eq!(ipam.forget_cold(NOW.after(Duration::from_secs(90))), 1);
    assert_eq!(ipam.blocks().count(), 0);
    assert_sound(&ipam);
}

/// Two interfaces of one pod used one claim, and both were given its address.
#[test]
fn a_claim_has_one_user_at_a_time() {
    let mut ipam = ipam([pool("p", &["10.0.0.0/24"])]);
    let user = |id: &str, ifname: &str| {
        let mut holder = pod(id, "ns", "web", "uid");
        holder.ifname = ifname.into();
        holder.sticky = Some(berth_core::holder::Sticky { identity: "claim/ns/db".into(), keep: None });
        holder
    };
    let first = add(&mut ipam, user("c1", "eth0"), Group::default()).unwrap();
    let second = add(&mut ipam, user("c1", "net1"), Group::default());
    assert!(matches!(second, Err(Error::AddressTaken { .. })), "{second:?}");
    // The same interface of the pod in a new sandbox is the same user.
    let again = add(&mut ipam, user("c2", "eth0"), Group::default()).unwrap();
    assert_eq!(given(&first), given(&again));
    assert_sound(&ipam);
}

/// A pool that is no longer sticky went on keeping the addresses it had given out when it was.
#[test]
fn keeping_follows_the_pool() {
    let mut sticky = pool("p", &["10.0.0.0/24"]);
    sticky.sticky = Some(berth_core::model::StickyPolicy { keep: Some(Duration::from_secs(60)), ..Default::default() });
    let mut ipam = ipam([sticky]);
    add(&mut ipam, pod("c1", "ns", "web-0", "u1"), Group::default()).unwrap();
    del(&mut ipam, "c1");
    assert_eq!(ipam.pool_usage("p", NOW).unwrap().held.saturating_u64(), 1);
    ipam.configure(config([pool("p", &["10.0.0.0/24"])]));
    let back = add(&mut ipam, pod("c2", "ns", "web-0", "u2"), Group::default()).unwrap();
    assert_eq!(given(&back), ["10.0.0.2"], "it was kept until now");
    del(&mut ipam, "c2");
    assert_eq!(ipam.pool_usage("p", NOW).unwrap().held.saturating_u64(), 0);
    assert_sound(&ipam);
}

/// A lease taken over without an interface was not found by DEL, and GC freed it although its container was alive.
#[test]
fn a_record_without_an_interface_belongs_to_the_container() {
    let mut ipam = ipam([pool("p", &["10.0.0.0/24"])]);
    for id in ["old", "gone"] {
        let mut holder = container(id);
        holder.ifname.clear();
        add(&mut ipam, holder, Group::default()).unwrap();
    }
    let network = container("old").network;
    let freed = ipam.collect_garbage(&network, "", &[("old".into(), "eth0".into())], NOW, |_| false);
    assert_eq!(freed.len(), 1, "only the one that is gone");
    assert_eq!(del(&mut ipam, "old").len(), 1);
    assert_sound(&ipam);
}

/// Names of a megabyte made blocks of megabytes, and frames that could not be read back.
#[test]
fn a_holder_has_names_of_bounded_length() {
    let mut ipam = ipam([pool("p", &["10.0.0.0/24"])]);
    let error = add(&mut ipam, container(&"x".repeat(254)), Group::default()).unwrap_err();
    assert!(error.to_string().starts_with("holder.id: is 254 bytes long"), "{error}");
    assert!(add(&mut ipam, container(&"x".repeat(253)), Group::default()).is_ok());
}
