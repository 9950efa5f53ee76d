//! Who is accepted: by age, the same for everybody, and mended by mending the older one.

use crate::verdicts::{Verdicts, condition, judge};
use crate::{Object, lower_all};
use proptest::prelude::*;
use serde_json::{Value, json};

fn object(kind: &str, name: &str, second: u8, uid: &str, spec: &Value) -> Object {
    let stamp = format!("2026-01-01T00:00:{second:02}Z");
    let whole = json!({
        "apiVersion": "berth.io/v1alpha1", "kind": kind, "spec": spec,
        "metadata": { "name": name, "uid": uid, "creationTimestamp": stamp, "finalizers": ["x"], "managedFields": [] },
    });
    Object::of_cluster(&whole).expect("an object")
}

fn pool(name: &str, second: u8, ranges: &[&str]) -> Object {
    object("IPPool", name, second, name, &json!({ "ranges": ranges }))
}

fn refused<'a>(verdicts: &'a Verdicts<'_>) -> Vec<(&'a str, &'static str)> {
    verdicts.refused().map(|(object, refusal)| (object.metadata.name.as_str(), refusal.reason)).collect()
}

/// Spiderpool's I00009 and I00010: a hundred at once, of which one may live.
#[test]
fn of_a_hundred_alike_exactly_one_is_accepted() {
    for kind in ["IPPool", "IPSubnet"] {
        let spec = if kind == "IPPool" { json!({"ranges": ["10.0.0.0/24"]}) } else { json!({"cidr": "10.0.0.0/24"}) };
        let all: Vec<Object> =
            (0..100).map(|i| object(kind, &format!("p{i}"), 7, &format!("{:02}", (i * 37) % 100), &spec)).collect();
        let verdicts = judge(&all);
        let accepted: Vec<_> = verdicts.objects.iter().filter(|(_, refusal)| refusal.is_none()).collect();
        assert_eq!(accepted.len(), 1, "{kind}");
        assert_eq!(accepted[0].0.metadata.uid.as_deref(), Some("00"));
        assert!(verdicts.refused().all(|(_, refusal)| refusal.reason == "Overlaps"));
        let giving = verdicts.config.pools.values().filter(|pool| pool.refused.is_none()).count();
        assert_eq!(giving, usize::from(kind == "IPPool"));
    }
}

#[test]
fn the_younger_one_waits_until_the_older_one_makes_room() {
    let (old, young) = (pool("z", 1, &["10.0.0.0/24"]), pool("a", 2, &["10.0.0.128-10.0.1.9"]));
    let both = [young.clone(), old.clone()];
    let verdicts = judge(&both);
    assert_eq!(refused(&verdicts), [("a", "Overlaps")]);
    let (_, refusal) = verdicts.refused().next().expect("one");
    assert!(refusal.message.contains("10.0.0.128-10.0.1.9 overlaps IPPool \"z\" (10.0.0.0/24)"), "{}", refusal.message);
    assert_eq!(condition(&young, Some(refusal), "now")["status"], "False");
    assert!(verdicts.config.pools["a"].refused.is_some(), "it is there, for the sake of what is in use");
    let mended = [young.clone(), pool("z", 1, &["10.0.0.0/25"])];
    assert_eq!(refused(&judge(&mended)), []);
    // One that only overlaps what is not accepted is accepted.
    let third = [old, young, pool("c", 3, &["10.0.1.0/24"])];
    assert_eq!(refused(&judge(&third)), [("a", "Overlaps")]);
}

#[test]
fn a_pool_needs_its_subnet_whichever_is_older() {
    let cut = || object("IPPool", "p", 1, "p", &json!({"ranges": ["10.0.0.0/24"], "subnet": "s"}));
    let subnet = |name: &str, second: u8| object("IPSubnet", name, second, name, &json!({"cidr": "10.0.0.0/16"}));
    assert_eq!(refused(&judge(&[cut()])), [("p", "SubnetNotFound")]);
    assert_eq!(refused(&judge(&[cut(), subnet("s", 2)])), []);
    let twice = [cut(), subnet("s", 3), subnet("t", 2)];
    assert_eq!(refused(&judge(&twice)), [("p", "SubnetNotAccepted"), ("s", "Overlaps")]);
}

#[test]
fn what_makes_no_sense_is_in_nobodys_way() {
    let broken = object("IPPool", "b", 1, "b", &json!({"ranges": ["10.0.0.9/24"]}));
    let odd =
        object("IPPool", "o", 1, "o", &json!({"ranges": ["10.0.0.0/24"], "blockSize": 64, "unitPrefixLength": 33}));
    let all = [broken, odd, pool("p", 2, &["10.0.0.0/24"])];
    let verdicts = judge(&all);
    assert_eq!(refused(&verdicts), [("b", "Invalid"), ("o", "Invalid")]);
    assert_eq!(verdicts.config.pools.keys().collect::<Vec<_>>(), ["p"]);
    // What is judged can be put in force.
    berth_core::ipam::Ipam::new().configure(verdicts.config);
}

proptest! {
    #[test]
    fn the_accepted_go_together_and_the_refused_do_not(
        pools in prop::collection::vec((0u8..5, 0u8..8, prop::collection::vec((0u16..400, 0u16..90), 1..3)), 1..12),
        rotated in 0usize..12,
    ) {
        let at = |n: u16| format!("10.0.{}.{}", n / 256, n % 256);
        let all: Vec<Object> = pools.iter().enumerate().map(|(i, (second, uid, ranges))| {
            let ranges: Vec<String> =
                ranges.iter().map(|&(first, more)| format!("{}-{}", at(first), at(first + more))).collect();
            object("IPPool", &format!("p{i}"), *second, &format!("{uid}-{i}"), &json!({"ranges": ranges}))
        }).collect();
        let verdicts = judge(&all);
        let accepted = |verdicts: &Verdicts<'_>| -> Vec<String> {
            let own = verdicts.objects.iter().filter(|(_, refusal)| refusal.is_none());
            own.map(|(object, _)| object.metadata.name.clone()).collect()
        };
        let names = accepted(&verdicts);
        let good: Vec<&Object> = all.iter().filter(|object| names.contains(&object.metadata.name)).collect();
        prop_assert_eq!(lower_all(good.iter().copied()).unwrap().validate(), Ok(()));
        // Each refused one would not go with the older ones that are accepted.
        for (object, _) in verdicts.refused() {
            let older = verdicts.objects.iter().take_while(|(other, _)| other.metadata.name != object.metadata.name);
            let with_it = older.filter(|(_, refusal)| refusal.is_none()).map(|(other, _)| *other).chain([object]);
            prop_assert!(lower_all(with_it).unwrap().validate().is_err());
        }
        // In whatever order they are read.
        let mut turned = all.clone();
        turned.rotate_left(rotated % all.len());
        prop_assert_eq!(accepted(&judge(&turned)), names);
    }
}
