//! Every fuzz target with random bytes, so that they run without cargo-fuzz too.

use berth_fuzzing::{annotations, block, cni, frames, journal, manifest, operations, ranges};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn ranges_of_any_bytes(data in proptest::collection::vec(any::<u8>(), 0..60)) {
        ranges::check_bytes(&data);
    }

    #[test]
    fn ranges_of_likely_text(text in "[0-9a-f:./ -]{0,24}") {
        ranges::check(&text);
    }

    #[test]
    fn ranges_of_numbers(a in any::<u32>(), b in any::<u32>(), len in 0u8..40, c in any::<u128>()) {
        let (a, b) = (std::net::Ipv4Addr::from_bits(a), std::net::Ipv4Addr::from_bits(b));
        ranges::check(&format!("{a}-{b}"));
        ranges::check(&format!("{a}/{len}"));
        ranges::check(&format!("{}/{len}", std::net::Ipv6Addr::from_bits(c & !0 << 100)));
    }

    #[test]
    fn frames_of_any_bytes(data in proptest::collection::vec(any::<u8>(), 0..120), kind in any::<bool>()) {
        frames::check(&data);
        let (kind, head): ([u8; 2], &[u8]) =
            if kind { ([0x08, 0x06], &[0, 1, 8, 0, 6, 4, 0]) } else { ([0x86, 0xdd], &[0x60, 0, 0, 0, 0]) };
        frames::check(&[&[0xff; 12][..], &kind, head, &data].concat());
    }

    #[test]
    fn blocks_of_any_bytes(data in proptest::collection::vec(any::<u8>(), 0..300)) {
        block::check(&data);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn operations_against_the_model(data in proptest::collection::vec(any::<u8>(), 20..700)) {
        operations::check(&data);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn what_a_runtime_hands_over(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        cni::config(&data);
        cni::args(&data);
        cni::frame(&data);
    }

    #[test]
    fn configurations_that_are_nearly_right(key in "[a-zA-Z./-]{0,12}", value in json_like()) {
        cni::config(format!(r#"{{"name":"n","ipam":{{"{key}":{value}}},"args":{{"cni":{{"ips":{value}}}}}}}"#).as_bytes());
        cni::config(format!(r#"{{"name":"n","runtimeConfig":{{"ips":{value},"ipRanges":{value}}}}}"#).as_bytes());
        cni::config(format!(r#"{{"name":"n","prevResult":{value},"cni.dev/attachments":{value}}}"#).as_bytes());
        cni::args(format!("IP={value};{key}={value}").as_bytes());
    }

    #[test]
    fn manifests_that_are_nearly_right(field in "[a-zA-Z]{0,12}", value in json_like(), text in "[ -~\n]{0,80}") {
        manifest::check(text.as_bytes());
        for kind in ["IPPool", "IPSubnet", "IPReservation", "IPClaim"] {
            let head = format!("apiVersion: berth.io/v1alpha1\nkind: {kind}\nmetadata: {{name: x}}\n");
            manifest::check(format!("{head}spec: {{ranges: [10.0.0.0/8], {field}: {value}}}").as_bytes());
            manifest::check(format!("{head}spec: {{{field}: {value}}}\n---\n{text}").as_bytes());
        }
    }

    #[test]
    fn annotations_that_are_nearly_right(
        keys in any::<u8>(), nic in any::<u8>(), field in annotation_key(), value in json_like(), text in "[ -~\n]{0,80}",
    ) {
        for text in [
            text,
            value.clone(),
            format!("[{value}]"),
            format!("[{{\"interface\": \"eth0\", {field:?}: {value}}}, {{\"interface\": \"net1\", {field:?}: [{value}]}}]"),
            format!("- {field}: [{value}]\n- {field}: [10.0.0.5]\n"),
        ] {
            annotations::check(&[&[keys, nic][..], text.as_bytes()].concat());
        }
    }

    #[test]
    fn journals_of_any_bytes(data in proptest::collection::vec(any::<u8>(), 0..300)) {
        journal::check(&data);
    }
}

/// A key of `berth.io/networks`, or something like one.
fn annotation_key() -> impl Strategy<Value = String> {
    let known = ["interface", "pools", "addresses", "claim", "families", "defaultRoute", "routes"];
    prop_oneof![4 => proptest::sample::select(known.map(str::to_owned).to_vec()), 1 => "[a-zA-Z]{0,12}"]
}

fn json_like() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i64>().prop_map(|n| n.to_string()),
        "[ -!#-\\[\\]-~]{0,20}".prop_map(|text| format!("{text:?}")),
        Just("\"10.0.0.0/24\"".to_owned()),
        Just("\"::/0\"".to_owned()),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|list| format!("[{}]", list.join(","))),
            proptest::collection::vec(("[a-z]{1,8}", inner), 0..4).prop_map(|pairs| {
                let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key:?}:{value}")).collect();
                format!("{{{}}}", pairs.join(","))
            }),
        ]
    })
}
