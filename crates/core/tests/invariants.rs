//! The invariants of the design that the core alone answers for.

mod common;

use berth_core::error::Error;
use berth_core::ipam::{Entropy, Group, Tombstones};
use berth_core::model::{Gateway, Pick, Pool};
use common::*;
use std::collections::BTreeSet;

/// Two pools over the same addresses, put in force by mistake, still give nothing twice.
#[test]
fn invariant_1_no_address_has_two_holders() {
    let mut ipam = berth_core::ipam::Ipam::new();
    let overlapping = config([whole("a", &["10.0.0.0/25"]), whole("b", &["10.0.0.64-10.0.0.200"])]);
    assert!(overlapping.validate().is_err());
    ipam.configure(overlapping);
    let mut seen = BTreeSet::new();
    for n in 0..201 {
        let pool = if n % 2 == 0 { ["a", "b"] } else { ["b", "a"] };
        let outcome = add(&mut ipam, container(&n.to_string()), from(&pool)).unwrap();
        assert!(seen.insert(given(&outcome)), "{:?} twice", given(&outcome));
    }
    assert!(matches!(add(&mut ipam, container("x"), from(&["a", "b"])), Err(Error::PoolExhausted { .. })));
    assert!(matches!(add(&mut ipam, container("x"), exactly(&["10.0.0.70"])), Err(Error::AddressTaken { .. })));
}

#[test]
fn invariant_2_add_and_del_are_idempotent() {
    let mut ipam = ipam([pool("four", &["10.0.0.0/24"]), pool("six", &["fd00::/64"])]);
    let first = add(&mut ipam, container("a"), Group { count: 2, ..Group::default() }).unwrap();
    let before = dump(&ipam);
    for group in [Group::default(), from(&["six"]), exactly(&["10.0.0.99"]), from(&["no-such-pool"])] {
        assert_eq!(given(&add(&mut ipam, container("a"), group).unwrap()), given(&first));
    }
    assert_eq!(dump(&ipam), before);
    assert_eq!(del(&mut ipam, "a").len(), 4);
    let before = dump(&ipam);
    for _ in 0..3 {
        assert!(del(&mut ipam, "a").is_empty());
        assert!(del(&mut ipam, "never-seen").is_empty());
    }
    assert_eq!(dump(&ipam), before);
}

#[test]
fn invariant_3_an_older_add_is_known_to_be_late() {
    let (holder, other) = (container("a"), container("b"));
    let mut graves = Tombstones::default();
    assert!(!graves.supersede(holder.attachment(), 5));
    graves.bury(holder.attachment(), 10);
    assert!(graves.supersede(holder.attachment(), 9), "the ADD began before the DEL");
    assert!(!graves.supersede(holder.attachment(), 10) && !graves.supersede(holder.attachment(), 11));
    assert!(!graves.supersede(other.attachment(), 9));
    // A queued DEL that comes late does not undo what a later one said.
    graves.bury(holder.attachment(), 3);
    assert!(graves.supersede(holder.attachment(), 9));
    // Buried often, it is remembered as long as the last time asks for.
    for n in 0..8_000 {
        graves.bury(container(&format!("x{n}")).attachment(), 20);
    }
    graves.bury(holder.attachment(), 30);
    for n in 0..8_000 {
        graves.bury(container(&format!("y{n}")).attachment(), 40);
    }
    assert!(graves.supersede(holder.attachment(), 29));
    for n in 0..8_192 {
        graves.bury(container(&format!("z{n}")).attachment(), 50);
    }
    assert!(!graves.supersede(holder.attachment(), 29), "and not for ever");
}

#[test]
fn invariant_6_as_many_addresses_as_pods_serve_every_pod() {
    for pick in [Pick::LeastRecentlyReleased, Pick::Sequential, Pick::Random] {
        let mut ipam = ipam([Pool { pick, ..whole("p", &["10.0.0.3-10.0.0.202", "10.0.7.0/26"]) }]);
        for round in 0..3 {
            let seen: BTreeSet<String> = (0..264).map(|n| one(&mut ipam, &format!("{round}-{n}"))).collect();
            assert_eq!(seen.len(), 264);
            assert!(add(&mut ipam, container("more"), Group::default()).is_err());
            // One leaves, one comes: there is always room for it.
            for n in 0..264 {
                del(&mut ipam, &format!("{round}-{n}"));
                one(&mut ipam, &format!("{round}-again-{n}"));
            }
            for n in 0..264 {
                del(&mut ipam, &format!("{round}-again-{n}"));
            }
        }
        assert_sound(&ipam);
    }
}

#[test]
fn invariant_9_an_edit_never_frees_an_address_in_use() {
    let mut ipam = ipam([pool("p", &["10.0.0.0/24"]), pool("q", &["10.0.1.0/24"])]);
    add(&mut ipam, container("a"), exactly(&["10.0.0.9"])).unwrap();
    let before = dump(&ipam);
    let q = || pool("q", &["10.0.1.0/24"]);
    let edits = [
        ("deleted", config([q()])),
        ("shrunk", config([pool("p", &["10.0.0.128/25"]), q()])),
        ("excluded", config([Pool { exclude: vec![range("10.0.0.8/30")], ..pool("p", &["10.0.0.0/24"]) }, q()])),
        (
            "made the gateway",
            config([Pool { gateway: Gateway::At(ip("10.0.0.9")), ..pool("p", &["10.0.0.0/24"]) }, q()]),
        ),
        ("moved", config([Pool { network: "other".into(), ..pool("p", &["10.0.0.0/24"]) }, q()])),
        ("of other units", config([Pool { unit_len: 30, ..pool("p", &["10.0.0.0/24"]) }, q()])),
    ];
    for (what, edit) in edits {
        let error = ipam.admits(&edit).unwrap_err();
        assert!(matches!(&error, Error::InUse { .. }), "{what}: {error}");
        assert!(error.to_string().contains("10.0.0.9 by container a"), "{what}: {error}");
        // Even one that is put in force all the same frees nothing, and going back finds all as it was.
        let now = ipam.config().clone();
        ipam.configure(edit);
        assert_eq!(dump(&ipam), before, "{what}");
        let again = ipam.allocate(&request(container("b"), vec![exactly(&["10.0.0.9"])]), NOW, &mut Entropy(1));
        if let Ok(outcome) = &again {
            // Another network, or units of another size: admission refuses those, and `check` reports them.
            let apart = outcome.given[0].network == "other" || !ipam.check(NOW).is_empty();
            assert!(apart, "{what}: {outcome:?}");
        }
        ipam.rollback();
        ipam.configure(now);
        assert_eq!(ipam.of_attachment(container("a").attachment()), [ip("10.0.0.9")], "{what}");
        assert_sound(&ipam);
    }
    // What does not touch it is fine.
    ipam.admits(&config([pool("p", &["10.0.0.0/28"])])).unwrap();
}
