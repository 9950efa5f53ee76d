//! Every row of the table, and that nothing else frees.

use super::*;
use crate::holder::Sticky;

const NOW: Time = Time::from_secs(1000);

fn container() -> Holder {
    Holder {
        id: "c1".into(),
        ifname: "eth0".into(),
        namespace: "a".into(),
        pod: "p".into(),
        uid: "u1".into(),
        node: "n1".into(),
        ..Holder::default()
    }
}

fn active() -> Slot {
    Slot::active(container(), Time(1))
}

fn facts(pod: Pod, node: Node) -> Facts {
    Facts { pod, node, ..Facts::default() }
}

fn life(ended: bool, deadline: Option<u64>, runs: bool) -> Pod {
    Pod::There(Life { ended, deadline: deadline.map(Time::from_secs), runs })
}

#[test]
fn a_pod_that_is_there_keeps_its_address_whatever_its_node_does() {
    for node in [Node::Unknown, Node::Ready, Node::Silent, Node::OutOfService, Node::Gone] {
        for runs in [true, false] {
            let verdict = judge(&active(), &facts(life(false, None, runs), node), NOW);
            assert!(matches!(verdict, Verdict::Keep(_)), "{node:?}: {verdict:?}");
        }
    }
}

#[test]
fn what_is_not_known_keeps() {
    for node in [Node::Unknown, Node::Ready, Node::Silent, Node::OutOfService, Node::Gone] {
        assert!(matches!(judge(&active(), &facts(Pod::Unknown, node), NOW), Verdict::Keep(_)));
    }
    for pod in [Pod::Absent, Pod::Replaced, life(true, None, false), life(false, Some(1), false)] {
        assert!(matches!(judge(&active(), &facts(pod, Node::Unknown), NOW), Verdict::Keep(_)));
    }
}

#[test]
fn the_node_decides_the_class_of_a_pod_that_is_gone() {
    for (pod, on_ready) in [
        (Pod::Absent, Class::PodGone),
        (Pod::Replaced, Class::PodReplaced),
        (life(true, None, false), Class::PodEnded),
        (life(false, Some(999), false), Class::PodStuck),
    ] {
        for (node, class) in [
            (Node::Ready, on_ready),
            (Node::Silent, Class::NodeSilent),
            (Node::OutOfService, Class::NodeOutOfService),
            (Node::Gone, Class::NodeGone),
        ] {
            assert_eq!(judge(&active(), &facts(pod.clone(), node), NOW), Verdict::Free(class), "{pod:?} on {node:?}");
        }
    }
}

#[test]
fn a_pod_that_is_being_deleted_has_its_time_and_keeps_what_still_runs() {
    let early = judge(&active(), &facts(life(false, Some(1001), false), Node::Ready), NOW);
    assert!(matches!(early, Verdict::Keep(_)));
    let running = judge(&active(), &facts(life(false, Some(999), true), Node::Ready), NOW);
    assert!(matches!(running, Verdict::Keep(_)));
}

#[test]
fn a_lease_is_its_nodes_business_until_the_node_is_gone() {
    for lessee in [Node::Unknown, Node::Ready, Node::Silent, Node::OutOfService] {
        let leased = Facts { lessee: Some(lessee), ..facts(Pod::Absent, Node::Ready) };
        assert!(matches!(judge(&active(), &leased, NOW), Verdict::Keep(_)), "{lessee:?}");
    }
    let gone = Facts { lessee: Some(Node::Gone), ..facts(Pod::Absent, Node::Gone) };
    assert_eq!(judge(&active(), &gone, NOW), Verdict::Free(Class::NodeGone));
}

#[test]
fn what_is_kept_for_a_pod_stays_until_it_is_known_not_to_come_back() {
    let held = Slot::held(container(), Time(1), None);
    let with = |keeper, pod| judge(&held, &Facts { keeper, pod, ..Facts::default() }, NOW);
    assert!(matches!(with(Keeper::Unknown, Pod::Absent), Verdict::Keep(_)));
    assert!(matches!(with(Keeper::Wanted, Pod::Absent), Verdict::Keep(_)));
    for pod in [Pod::Unknown, Pod::Replaced, life(false, None, true)] {
        assert!(matches!(with(Keeper::NotWanted, pod), Verdict::Keep(_)));
    }
    assert_eq!(with(Keeper::NotWanted, Pod::Absent), Verdict::Free(Class::NotComingBack));
    // The set has moved its pods to the host's network.
    assert_eq!(with(Keeper::Wanted, Pod::OnHost), Verdict::Free(Class::NotComingBack));
    assert!(matches!(with(Keeper::Unknown, Pod::OnHost), Verdict::Keep(_)), "a claim knows nothing of pods");
}

#[test]
fn without_its_claim_a_kept_address_is_free_and_one_in_use_is_not_kept_afterwards() {
    let keeper = Keeper::NoClaim;
    let held = Slot::held(container(), Time(1), None);
    assert_eq!(judge(&held, &Facts { keeper, ..Facts::default() }, NOW), Verdict::Free(Class::ClaimGone));
    let sticky = Some(Sticky { identity: "claim/a/c".into(), keep: None });
    let used = Slot::active(Holder { sticky, ..container() }, Time(1));
    let there = Facts { keeper, ..facts(life(false, None, true), Node::Ready) };
    assert_eq!(judge(&used, &there, NOW), Verdict::Forget(Class::ClaimGone));
    let gone = Facts { keeper, ..facts(Pod::Absent, Node::Ready) };
    assert_eq!(judge(&used, &gone, NOW), Verdict::Free(Class::PodGone));
}

#[test]
fn time_ends_what_was_kept_or_set_apart_for_a_time() {
    for slot in [
        Slot::held(container(), Time(1), Some(Time::from_secs(1000))),
        Slot::quarantined(Time(1), Some(Time::from_secs(999))),
    ] {
        assert_eq!(judge(&slot, &Facts::default(), NOW), Verdict::Free(Class::TimeOver));
        assert!(matches!(judge(&slot, &Facts::default(), Time::from_secs(998)), Verdict::Keep(_)));
    }
    assert!(matches!(judge(&Slot::quarantined(Time(1), None), &Facts::default(), NOW), Verdict::Keep(_)));
}

#[test]
fn holders_that_are_no_containers_of_a_node_stay() {
    for holder in [
        Holder { kind: Kind::Named, ..container() },
        Holder { kind: Kind::Remote, ..container() },
        Holder { node: String::new(), ..container() },
        Holder { uid: String::new(), ..container() },
    ] {
        let verdict = judge(&Slot::active(holder, Time(1)), &facts(Pod::Absent, Node::Ready), NOW);
        assert!(matches!(verdict, Verdict::Keep(_)), "{verdict:?}");
    }
    let by_hand = Slot::active(Holder { uid: String::new(), ..container() }, Time(1));
    assert_eq!(judge(&by_hand, &facts(Pod::Absent, Node::Gone), NOW), Verdict::Free(Class::NodeGone));
}

#[test]
fn every_class_has_one_name_and_a_place_in_the_table() {
    let mut times = Times::default();
    for class in Class::ALL {
        assert_eq!(Class::named(class.name()), Some(class));
        assert_eq!(times.of(class), class.usual());
        times.set(class, Some(std::time::Duration::from_secs(7)));
        assert_eq!(times.of(class), Some(std::time::Duration::from_secs(7)));
    }
    assert_eq!(Class::named("nothing"), None);
}

mod carried_out {
    use super::*;
    use crate::block::{Block, BlockKey};
    use crate::ipam::{Config, Entropy, Ipam};
    use crate::model::{Lending, Pool};

    fn ipam(pool: Pool) -> Ipam {
        let mut ipam = Ipam::new();
        ipam.configure(Config { pools: [(pool.name.clone(), pool)].into(), ..Config::default() });
        ipam
    }

    fn pool() -> Pool {
        Pool::new("p", vec!["10.0.0.0/24".parse().unwrap()])
    }

    fn with(ipam: &mut Ipam, address: &str, slot: &Slot) -> (BlockKey, u8) {
        let plane = ipam.pool("p").unwrap().plane();
        let (key, at) = BlockKey::of(&plane, plane.unit_of(address.parse().unwrap()));
        let mut block = ipam.block(&key).cloned().unwrap_or_else(Block::default);
        block.set(at, Some(slot));
        ipam.load(&key, block);
        (key, at)
    }

    #[test]
    fn only_the_very_slot_that_was_judged_is_freed() {
        let mut ipam = ipam(pool());
        let (key, at) = with(&mut ipam, "10.0.0.7", &active());
        for other in [
            Slot::active(Holder { uid: "u2".into(), ..container() }, Time(1)),
            Slot::active(container(), Time(2)),
            Slot::held(container(), Time(1), None),
        ] {
            assert_eq!(ipam.reclaim(&key, at, &other, NOW), None, "{other:?}");
        }
        assert_eq!(ipam.reclaim(&key, at, &active(), NOW), Some("10.0.0.7".parse().unwrap()));
        assert_eq!(ipam.reclaim(&key, at, &active(), NOW), None, "once");
        assert_eq!(ipam.block(&key).unwrap().taken(), 0);
    }

    #[test]
    fn what_a_sticky_holder_used_is_kept_and_what_was_kept_is_free() {
        let mut ipam = ipam(pool());
        let sticky = Some(Sticky { identity: "pod/a/p/eth0".into(), keep: None });
        let used = Slot::active(Holder { sticky, ..container() }, Time(1));
        let (key, at) = with(&mut ipam, "10.0.0.7", &used);
        assert!(ipam.reclaim(&key, at, &used, NOW).is_some());
        let held = ipam.block(&key).unwrap().slot(at).unwrap().to_slot();
        assert_eq!(held.state, State::Held);
        assert!(ipam.reclaim(&key, at, &held, NOW).is_some());
        assert_eq!(ipam.block(&key).unwrap().slot(at).unwrap().state, State::Released);
    }

    #[test]
    fn a_user_whose_claim_is_gone_goes_on_and_leaves_nothing_kept() {
        let mut ipam = ipam(pool());
        let sticky = Some(Sticky { identity: "claim/a/c".into(), keep: None });
        let used = Slot::active(Holder { sticky, ..container() }, Time(1));
        let (key, at) = with(&mut ipam, "10.0.0.7", &used);
        assert!(ipam.keep_no_longer(&key, at, &used));
        let now = ipam.block(&key).unwrap().slot(at).unwrap().to_slot();
        assert_eq!((now.state, now.holder.as_ref().unwrap().sticky.as_ref()), (State::Active, None));
        assert!(ipam.reclaim(&key, at, &now, NOW).is_some());
        assert_eq!(ipam.block(&key).unwrap().slot(at).unwrap().state, State::Released);
    }

    #[test]
    fn the_lease_of_a_node_that_is_gone_is_returned_or_opened() {
        let lending = Some(Lending { block_len: 26, strict: false, most: None });
        let mut ipam = ipam(Pool { lending, ..pool() });
        let lease = ipam.lend("p", "n1", NOW, &mut Entropy(1)).unwrap();
        let plane = ipam.pool("p").unwrap().plane();
        let (key, _) = BlockKey::of(&plane, plane.unit_of(lease.prefix.network()));
        let at = 5;
        let mut block = Block::default();
        block.set(at, Some(&active()));
        ipam.load(&key, block);
        assert_eq!(ipam.lessee_of(&key, at).as_deref(), Some("n1"));
        assert!(ipam.is_used(&lease));
        ipam.end_lease(&lease, NOW).unwrap();
        assert_eq!(ipam.lessee_of(&key, at), None, "opened: something in it is in use");
        assert_eq!(ipam.block(&key).unwrap().taken(), 1 << at);
        assert!(ipam.end_lease(&lease, NOW).is_err(), "it is nobody's any more");
        let other = ipam.lend("p", "n2", NOW, &mut Entropy(2)).unwrap();
        ipam.end_lease(&other, NOW).unwrap();
        assert!(ipam.leases("p").is_empty());
    }
}

#[test]
fn a_time_that_is_waited_for_is_looked_at_when_it_is_over() {
    let now = Time::from_secs(100);
    let mut slot = Slot::active(Holder::default(), Time::from_secs(1));
    let facts = |deadline| Facts { pod: life(false, deadline, true), ..Facts::default() };
    assert_eq!(again_at(&slot, &Facts::default(), now), None);
    assert_eq!(again_at(&slot, &facts(Some(130)), now), Some(Time::from_secs(130)));
    assert_eq!(again_at(&slot, &facts(Some(100)), now), None, "it is over");
    slot.until = Some(Time::from_secs(120));
    assert_eq!(again_at(&slot, &facts(Some(130)), now), Some(Time::from_secs(120)));
}
