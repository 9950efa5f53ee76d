//! Virtual machines: pods of ever new names, one address; and a machine that moves while it runs.

mod common;

use berth_core::detect::{Conflicts, Detection, GatewayCheck};
use berth_core::error::Error;
use berth_core::holder::Holder;
use berth_core::ipam::{Entropy, Group, Ipam, Outcome, Request};
use berth_core::model::{Machine, Pool, StickyPolicy, Whom};
use common::*;

fn sticky(whom: Whom) -> Ipam {
    let policy = Some(StickyPolicy { keep: Some(std::time::Duration::from_secs(60)), whom });
    ipam([Pool { sticky: policy, ..pool("p", &["10.0.0.0/28"]) }])
}

/// The pod `launcher-ID` of a machine, which may be moving there.
fn launcher(id: &str, machine: &str, from: Option<&str>) -> Request {
    let holder = Holder { node: format!("node-{id}"), ..pod(id, "ns", &format!("launcher-{id}"), id) };
    let mut wanted = request(holder, vec![Group::default()]);
    wanted.subject.machine = Some(Machine { name: machine.into(), moves_from: from.map(str::to_owned) });
    wanted
}

fn add(ipam: &mut Ipam, wanted: &Request) -> Result<Outcome, Error> {
    let outcome = ipam.allocate(wanted, NOW, &mut Entropy(7));
    ipam.commit();
    assert_sound(ipam);
    outcome
}

fn del(ipam: &mut Ipam, id: &str) {
    ipam.release(container(id).attachment(), NOW);
    ipam.commit();
    assert_sound(ipam);
}

/// Who uses the addresses of the machine `vm`, newest first.
fn users(ipam: &Ipam) -> Vec<String> {
    ipam.active_of_identity("machine/ns/vm/eth0").into_iter().map(|(_, holder)| holder.uid).collect()
}

#[test]
fn a_machine_has_one_address_in_whatever_pod_it_runs() {
    for (whom, stays) in [(Whom::Everyone, true), (Whom::SetsAndMachines, true), (Whom::Sets, false)] {
        let mut ipam = sticky(whom);
        let first = given(&add(&mut ipam, &launcher("a", "vm", None)).unwrap());
        del(&mut ipam, "a");
        assert_eq!(ipam.of_identity("machine/ns/vm/eth0").len(), usize::from(stays), "{whom:?}");
        let other = given(&add(&mut ipam, &launcher("x", "other", None)).unwrap());
        assert!(other != first || !stays, "{whom:?}: another machine has another one");
        let again = given(&add(&mut ipam, &launcher("b", "vm", None)).unwrap());
        assert_eq!(again == first, stays, "{whom:?}");
    }
}

#[test]
fn a_pod_that_is_called_like_the_machine_is_somebody_else() {
    let mut ipam = sticky(Whom::Everyone);
    let machine = given(&add(&mut ipam, &launcher("a", "vm", None)).unwrap());
    let named = given(&add(&mut ipam, &request(pod("b", "ns", "vm", "b"), vec![Group::default()])).unwrap());
    assert_ne!(machine, named);
}

#[test]
fn while_a_machine_moves_both_ends_have_its_address_and_then_the_other() {
    for arrives in [true, false] {
        let mut ipam = sticky(Whom::Everyone);
        let source = launcher("a", "vm", None);
        let address = given(&add(&mut ipam, &source).unwrap());
        let target = launcher("b", "vm", Some("a"));
        assert_eq!(given(&add(&mut ipam, &target).unwrap()), address);
        assert_eq!(users(&ipam), ["b", "a"]);
        // Both get the same answer again, and nothing changes.
        assert_eq!(given(&add(&mut ipam, &target).unwrap()), address);
        assert_eq!(given(&add(&mut ipam, &source).unwrap()), address);
        assert_eq!(users(&ipam), ["b", "a"]);
        let (goes, stays) = if arrives { ("a", "b") } else { ("b", "a") };
        for _ in 0..2 {
            del(&mut ipam, goes);
            assert_eq!(users(&ipam), [stays], "DEL of {goes}");
        }
        del(&mut ipam, stays);
        assert_eq!((users(&ipam).len(), ipam.of_identity("machine/ns/vm/eth0").len()), (0, 1), "kept");
        assert_eq!(given(&add(&mut ipam, &launcher("c", "vm", None)).unwrap()), address);
    }
}

#[test]
fn who_does_not_move_from_there_gets_nothing_of_a_machine_that_runs() {
    let mut ipam = sticky(Whom::Everyone);
    let address = given(&add(&mut ipam, &launcher("a", "vm", None)).unwrap());
    for wanted in [launcher("b", "vm", None), launcher("b", "vm", Some("z")), launcher("b", "vm", Some(""))] {
        assert!(matches!(add(&mut ipam, &wanted), Err(Error::AddressTaken { .. })), "{wanted:?}");
        assert_eq!(users(&ipam), ["a"]);
    }
    assert_ne!(given(&add(&mut ipam, &launcher("b", "other", Some("a"))).unwrap()), address, "another machine");
    assert_eq!(users(&ipam), ["a"]);
    // One move at a time: three containers never have it.
    add(&mut ipam, &launcher("c", "vm", Some("a"))).unwrap();
    for from in ["a", "c"] {
        assert!(matches!(add(&mut ipam, &launcher("d", "vm", Some(from))), Err(Error::AddressTaken { .. })), "{from}");
    }
    assert_eq!(users(&ipam), ["c", "a"]);
    del(&mut ipam, "a");
    assert_eq!(given(&add(&mut ipam, &launcher("d", "vm", Some("c"))).unwrap()), address, "and on from there");
    assert_eq!(users(&ipam), ["d", "c"]);
}

#[test]
fn another_sandbox_on_the_way_is_still_on_the_way() {
    let mut ipam = sticky(Whom::Everyone);
    let address = given(&add(&mut ipam, &launcher("a", "vm", None)).unwrap());
    add(&mut ipam, &launcher("b", "vm", Some("a"))).unwrap();
    let mut second = launcher("b", "vm", None);
    second.holder.id = "b2".into();
    assert_eq!(given(&add(&mut ipam, &second).unwrap()), address);
    assert_eq!(users(&ipam), ["b", "a"]);
    del(&mut ipam, "b");
    assert_eq!(users(&ipam), ["b", "a"], "the sandbox before was replaced");
    del(&mut ipam, "b2");
    assert_eq!(users(&ipam), ["a"]);
    // The target failed and tries again.
    assert_eq!(given(&add(&mut ipam, &launcher("b", "vm", Some("a"))).unwrap()), address);
    assert_eq!(users(&ipam), ["b", "a"]);
}

#[test]
fn who_is_gone_leaves_it_to_the_other_end() {
    let moving = || {
        let mut ipam = sticky(Whom::Everyone);
        add(&mut ipam, &launcher("a", "vm", None)).unwrap();
        add(&mut ipam, &launcher("b", "vm", Some("a"))).unwrap();
        ipam
    };
    for (gone, stays) in [("a", "b"), ("b", "a")] {
        let mut ipam = moving();
        ipam.release_gone("machine/ns/vm/eth0", gone, "n1", NOW);
        ipam.commit();
        assert_eq!(users(&ipam), [stays]);
        ipam.release_gone("machine/ns/vm/eth0", gone, "n1", NOW);
        ipam.release_gone("machine/ns/vm/eth0", stays, "n1", NOW);
        ipam.commit();
        assert_eq!((users(&ipam).len(), ipam.of_identity("machine/ns/vm/eth0").len()), (0, 1));
        assert_sound(&ipam);
    }
    // What the node of the target lost, and what reclaim takes from it, goes back to the source, not to the pool.
    let mut ipam = moving();
    ipam.release_dead_boot("node-b", NOW);
    ipam.commit();
    assert_eq!(users(&ipam), ["a"]);
    let mut ipam = moving();
    let (key, slot, judged) = {
        let (key, block) = ipam.blocks().next().unwrap();
        let (slot, view) = block.slots().next().unwrap();
        (key.clone(), slot, view.to_slot())
    };
    assert!(ipam.reclaim(&key, slot, &judged, NOW).is_some());
    ipam.commit();
    assert_eq!(users(&ipam), ["a"]);
    assert_sound(&ipam);
}

#[test]
fn a_machine_that_moves_is_no_stranger_to_itself() {
    let mut ipam = sticky(Whom::Everyone);
    let detect = Some(Detection { conflicts: Conflicts::Fast, gateway: GatewayCheck::Ignore });
    let mut config = ipam.config().clone();
    config.pools.get_mut("p").unwrap().detect = detect;
    ipam.configure(config);
    let source = add(&mut ipam, &launcher("a", "vm", None)).unwrap();
    assert_eq!(source.given[0].detect, detect);
    let target = launcher("b", "vm", Some("a"));
    let moving = add(&mut ipam, &target).unwrap();
    assert_eq!(moving.given[0].detect, None);
    let address = moving.given[0].address();
    let replaced = ipam.replace(&target, &[address], NOW, NOW, &mut Entropy(7));
    ipam.commit();
    assert!(replaced.quarantined.is_empty(), "{replaced:?}");
    assert_eq!(users(&ipam), ["b", "a"]);
    del(&mut ipam, "a");
    assert_eq!(add(&mut ipam, &target).unwrap().given[0].detect, detect, "it is there");
}
