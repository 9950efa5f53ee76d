//! What annotations may look like, and what is said to those that may not.

use super::pod::{World, nic};
use crate::native::pod::{MAX_ANNOTATION_BYTES, MAX_INTERFACES, MAX_LIST};
use proptest::prelude::*;

#[test]
fn lists_may_be_written_in_several_ways() {
    for (text, expected) in [
        ("a", &["a"][..]),
        ("a,b*", &["a", "b*"]),
        (" a , b* \n", &["a", "b*"]),
        (r#"["a","b*"]"#, &["a", "b*"]),
        ("[a, b*]", &["a", "b*"]),
        ("- a\n- 'b*'\n", &["a", "b*"]),
        ("*-v4,rack[0-9]", &["*-v4", "rack[0-9]"]),
        (r#"["[ab]*"]"#, &["[ab]*"]),
        // Overlaps are harmless: a pool is tried once, at its first place.
        ("a,a*,a", &["a", "a*", "a"]),
    ] {
        for world in [
            World::new().pod(&[("berth.io/pools", text)]),
            World::new().namespace(&[("berth.io/pools", text)]),
            World::new().at(nic("net1")).namespace(&[("berth.io/pools.net1", text)]),
        ] {
            let plan = world.plan().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(plan.interfaces[0].request.groups[0].pools, expected, "{text}");
        }
    }
}

#[test]
fn a_list_of_networks_may_be_json_or_yaml() {
    for text in [
        r#"[{"interface":"eth0","pools":["a"]},{"interface":"net1","addresses":["10.0.0.5"]}]"#,
        "- interface: eth0\n  pools: [a]\n- interface: net1\n  addresses: [10.0.0.5]\n",
        "[{pools: [a]}, {addresses: [10.0.0.5]}]",
        // To Kubernetes, a field without a value is absent.
        r#"[{"pools":["a"],"claim":null},{"addresses":["10.0.0.5"],"routes":null}]"#,
    ] {
        let mut world = World::new().pod(&[("berth.io/networks", text)]);
        world.others = vec![nic("net1")];
        let plan = world.plan().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(plan.interfaces[0].request.groups[0].pools, ["a"]);
        assert_eq!(plan.interfaces[1].request.groups[0].addresses.len(), 1);
    }
}

#[test]
fn mistakes_in_networks_are_named_with_the_fix() {
    for (text, expected) in [
        ("", ": is empty; fill it in, or remove the annotation"),
        ("x", r#": is not a list; write e.g. [{"interface":"eth0","pools":["blue"]}]"#),
        ("{}", r#": is not a list; write e.g. [{"interface":"eth0","pools":["blue"]}]"#),
        ("[]", ": lists 0 interfaces; list 1 to 16"),
        ("[3]", r#"[0]: is not an object; write e.g. {"interface":"eth0","pools":["blue"]}"#),
        (r#"[{"pool":["a"]}]"#, r#"[0].pool: unknown field; did you mean "pools"?"#),
        (r#"[{"pools":"a"}]"#, "[0].pools: invalid type: string \"a\", expected a sequence"),
        (r#"[{"pools":[]}]"#, "[0].pools: is empty; name at least one pool, or leave it out"),
        (r#"[{"pools":[""]}]"#, "[0].pools[0]: is empty; name a pool, or remove the extra comma"),
        (
            r#"[{"pools":["Blue"]}]"#,
            "[0].pools[0]: \"Blue\" is not the name of a pool; use lower-case letters, digits, '-' and '.', and the \
             wildcards *, ? and [..]",
        ),
        (r#"[{"addresses":["10.0.0"]}]"#, "[0].addresses[0]: \"10.0.0\" is not an IP address"),
        (r#"[{"claim":""}]"#, "[0].claim: \"\" is not a valid name"),
        (r#"[{"addresses":["10.0.0.1","::ffff:10.0.0.1"]}]"#, "[0].addresses[1]: 10.0.0.1 is there twice; remove one"),
        (r#"[{"families":["ipv4"]}]"#, r#"[0].families[0]: unknown value "ipv4"; did you mean "IPv4"?"#),
        (r#"[{"families":["IPv4","IPv4"]}]"#, "[0].families: has a family twice; one address of each is given"),
        (
            r#"[{"interface":"eth0"},{"pools":["a"]}]"#,
            "[1].interface: has none, and berth.io/networks[0] has one; name all interfaces, or none, and they are \
             taken in order: eth0, net1, net2 …",
        ),
        (
            r#"[{"pools":["a"]},{"interface":"net1"}]"#,
            "[1].interface: has one, and berth.io/networks[0] has none; name all interfaces, or none, and they are \
             taken in order: eth0, net1, net2 …",
        ),
        (
            r#"[{"interface":"eth0"},{"interface":"net1"},{"interface":"eth0"}]"#,
            "[2].interface: \"eth0\" is listed already, at berth.io/networks[0]; put both into one",
        ),
        (
            r#"[{"interface":"a/b"}]"#,
            "[0].interface: \"a/b\" is not the name of an interface; write e.g. \"eth0\" or \"net1\"",
        ),
        (r#"[{"claim":"x","pools":["a"]}]"#, "[0].pools: leave it out: claim says which addresses are wanted"),
        (
            r#"[{"addresses":["10.0.0.1"],"families":["IPv4"]}]"#,
            "[0].families: leave it out: addresses says which addresses are wanted",
        ),
        (
            r#"[{"claim":"other/x"}]"#,
            "[0].claim: \"other/x\" belongs to another namespace; a pod of \"shop\" uses its own claims",
        ),
        (r#"[{"routes":[{"dst":"10.0.0.1/8"}]}]"#, "[0].routes[0].dst: "),
        (r#"[{"routes":[{"dst":"10.0.0.0/8","gw":"fd00::1"}]}]"#, "[0].routes[0].gw: fd00::1 is not of the family of"),
        (r#"[{"routes":[]}]"#, "[0].routes: is empty; name at least one route, or leave it out"),
        (
            r#"[{"defaultRoute":true},{"routes":[{"dst":"::/0"}]}]"#,
            "[1].defaultRoute: eth0 has the default route already; only one interface can",
        ),
        (
            r#"[{"defaultRoute":false,"routes":[{"dst":"::/0"}]}]"#,
            "[0].defaultRoute: is false, and its routes have a default route; remove one of the two",
        ),
        (r#"[{"pools":["a"],"pools":["b"]}]"#, ": duplicate mapping key"),
        ("[{}]\n---\n[{}]", ": line 3: begins a second document; write one; it is to be JSON or YAML"),
    ] {
        let error = World::new().pod(&[("berth.io/networks", text)]).plan().expect_err(text).to_string();
        let expected = format!("Pod \"shop/web-0\", annotation berth.io/networks{expected}");
        assert!(error.starts_with(&expected), "{text}\n   {error}\nis not\n   {expected}");
    }
}

#[test]
fn mistakes_in_short_annotations_are_named_with_the_fix() {
    for (annotations, expected) in [
        (&[("berth.io/pools", " ")][..], "pools: is empty; fill it in, or remove the annotation"),
        (&[("berth.io/pools", "a,,b")], "pools[1]: is empty; name a pool, or remove the extra comma"),
        (&[("berth.io/pools", "a b")], "pools[0]: \"a b\" is not the name of a pool"),
        (&[("berth.io/pools", "[a")], "pools: "),
        (&[("berth.io/pools", "[]")], "pools: is empty; name at least one pool"),
        (&[("berth.io/pools", r#"[{"a":1}]"#)], "pools[0]: invalid type: map, expected a string"),
        (&[("berth.io/addresses", "10.0.0.5,x")], "addresses[1]: \"x\" is not an IP address"),
        (&[("berth.io/claim", "A")], "claim: \"A\" is not a valid name"),
        (&[("berth.io/claim", "other/db")], "claim: \"other/db\" belongs to another namespace"),
        (
            &[("berth.io/claim", "db"), ("berth.io/pools", "a")],
            "pools: remove it, or berth.io/claim: a claim says itself which addresses are wanted",
        ),
        (&[("berth.io/claim", "db"), ("berth.io/addresses", "10.0.0.5")], "addresses: remove it, or berth.io/claim"),
        (&[("berth.io/pool", "a")], "pool: is not known; did you mean berth.io/pools?"),
        (&[("berth.io/network", "[]")], "network: is not known; did you mean berth.io/networks?"),
        (&[("berth.io/pools.net1", "a")], "pools.net1: is for namespaces; a pod lists its interfaces in berth.io/net"),
    ] {
        let error = World::new().pod(annotations).plan().expect_err("refused").to_string();
        let expected = format!("Pod \"shop/web-0\", annotation berth.io/{expected}");
        assert!(error.starts_with(&expected), "{annotations:?}\n   {error}\nis not\n   {expected}");
    }
    for (key, value, expected) in [
        ("berth.io/pools", "A", "pools[0]: \"A\" is not the name of a pool"),
        ("berth.io/pool", "a", "pool: is not known; did you mean berth.io/pools?"),
        ("berth.io/claim", "a", "claim: is for pods; a namespace has berth.io/pools and berth.io/pools.IFNAME"),
    ] {
        let error = World::new().namespace(&[(key, value)]).plan().expect_err("refused").to_string();
        assert!(error.starts_with(&format!("Namespace \"shop\", annotation berth.io/{expected}")), "{error}");
    }
    let others = [("berth.io/made-by", "x"), ("example.com/pool", "y"), ("poo", "z")];
    World::new().pod(&others).namespace(&others).plan().expect("what is not ours is left alone");
}

#[test]
fn what_has_no_effect_is_not_in_the_way() {
    let wrong = ("berth.io/pools", "NOT A POOL");
    World::new().at(nic("net1")).pod(&[wrong]).namespace(&[wrong]).plan().expect("it is for eth0");
    World::new().pod(&[("berth.io/networks", "[{pools: [a]}]"), wrong]).plan().expect("it is overruled");
    World::new().pod(&[("berth.io/pools", "a")]).namespace(&[wrong]).plan().expect("it is overruled");
}

#[test]
fn sizes_are_bounded() {
    let entries = |n: usize| format!("[{}]", vec!["{}"; n].join(","));
    let list = |n: usize| vec!["a"; n].join(",");
    let padded = |len: usize| format!("a{}", " ".repeat(len - 1));
    for (key, fits, too_long, expected) in [
        ("networks", entries(MAX_INTERFACES), entries(MAX_INTERFACES + 1), "lists 17 interfaces; list 1 to 16"),
        ("pools", list(MAX_LIST), list(MAX_LIST + 1), "has 65 items; at most 64 are read"),
        (
            "pools",
            padded(MAX_ANNOTATION_BYTES),
            padded(MAX_ANNOTATION_BYTES + 1),
            "is 65537 bytes long; at most 65536 are read",
        ),
    ] {
        let key = format!("berth.io/{key}");
        World::new().pod(&[(&key, &fits)]).plan().expect("fits");
        let error = World::new().pod(&[(&key, &too_long)]).plan().expect_err("too long").to_string();
        assert_eq!(error, format!("Pod \"shop/web-0\", annotation {key}: {expected}"));
    }
    for key in ["addresses", "claim"] {
        let long = "x".repeat(MAX_ANNOTATION_BYTES);
        let error = World::new().pod(&[(&format!("berth.io/{key}"), &long)]).plan().expect_err("refused").to_string();
        assert!(error.len() < 300, "what is refused is not repeated at length: {} bytes", error.len());
    }
    let routes = format!("[{{routes: [{}]}}]", vec!["{dst: 10.0.0.0/8}"; MAX_LIST + 1].join(","));
    let error = World::new().pod(&[("berth.io/networks", &routes)]).plan().expect_err("too many").to_string();
    assert!(error.ends_with("[0].routes: has 65 items; at most 64 are read"), "{error}");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_by_name(text in "\\PC{0,60}", yaml in "[\\[\\]{}a-z0-9:, \"*&!?|>%@#\n-]{0,60}") {
        for text in [text, yaml] {
            for key in ["berth.io/networks", "berth.io/pools", "berth.io/addresses", "berth.io/claim"] {
                if let Err(error) = World::new().pod(&[(key, &text)]).plan() {
                    let error = error.to_string();
                    prop_assert!(error.starts_with(&format!("Pod \"shop/web-0\", annotation {key}")), "{error}");
                }
            }
            if let Err(error) = World::new().namespace(&[("berth.io/pools", &text)]).plan() {
                prop_assert!(error.to_string().starts_with("Namespace \"shop\", annotation berth.io/pools"));
            }
        }
    }

    /// The same list means the same, however it is written and wherever it stands.
    #[test]
    fn the_notation_makes_no_difference(names in proptest::collection::vec("[a-z][a-z0-9-]{0,8}[*?]?", 1..8)) {
        let json = serde_json::to_string(&names).expect("JSON");
        let networks = format!("[{{\"pools\":{json}}}]");
        let yaml: String = names.iter().map(|name| format!("- {name:?}\n")).collect();
        for (key, text) in [
            ("berth.io/pools", &names.join(",")),
            ("berth.io/pools", &json),
            ("berth.io/pools", &yaml),
            ("berth.io/networks", &networks),
        ] {
            let plan = World::new().pod(&[(key, text)]).plan().expect("plans");
            prop_assert_eq!(&plan.interfaces[0].request.groups[0].pools, &names, "{}", text);
        }
    }

    /// Whatever is listed and attached, each interface is served once, the one asked about first.
    #[test]
    fn plans_have_each_interface_once(
        listed in proptest::collection::btree_set(0..6u8, 1..6),
        attached in proptest::collection::vec(0..6u8, 0..8),
        asked in 0..6u8,
    ) {
        let name = |n: u8| if n == 0 { "eth0".to_owned() } else { format!("net{n}") };
        let entries: Vec<String> =
            listed.iter().map(|n| format!("{{interface: {}, pools: [p{n}]}}", name(*n))).collect();
        let mut world = World::new().at(nic(&name(asked))).pod(&[("berth.io/networks", &format!("[{}]", entries.join(",")))]);
        world.others = attached.iter().map(|n| nic(&name(*n))).collect();
        let plan = world.plan().expect("plans");
        let got: Vec<&str> = plan.interfaces.iter().map(|i| i.request.holder.ifname.as_str()).collect();
        prop_assert_eq!(got[0], name(asked));
        let mut expected: Vec<String> = vec![name(asked)];
        for n in &attached {
            if !expected.contains(&name(*n)) {
                expected.push(name(*n));
            }
        }
        prop_assert_eq!(got, expected);
    }
}
