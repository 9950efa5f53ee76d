use super::*;
use proptest::prelude::*;

fn ip(address: &str, prefix_len: u8, gateway: Option<&str>) -> Ip {
    Ip { address: address.parse().unwrap(), prefix_len, gateway: gateway.map(|text| text.parse().unwrap()) }
}

fn route(dst: &str, gw: Option<&str>) -> Route {
    Route { dst: dst.into(), gw: gw.map(|text| text.parse().unwrap()), ..Route::default() }
}

fn dual() -> AddResult {
    AddResult {
        ips: vec![ip("10.1.2.2", 24, Some("10.1.2.1")), ip("2001:db8:1::2", 64, None)],
        routes: vec![route("::/0", Some("2001:db8:1::1")), route("0.0.0.0/0", None)],
        dns: Dns { nameservers: vec!["192.0.2.53".into()], ..Dns::default() },
    }
}

#[test]
fn the_oldest_shape() {
    let expected = r#"{
    "cniVersion": "0.2.0",
    "ip4": {
        "ip": "10.1.2.2/24",
        "gateway": "10.1.2.1",
        "routes": [
            {
                "dst": "0.0.0.0/0"
            }
        ]
    },
    "ip6": {
        "ip": "2001:db8:1::2/64",
        "routes": [
            {
                "dst": "::/0",
                "gw": "2001:db8:1::1"
            }
        ]
    },
    "dns": {
        "nameservers": [
            "192.0.2.53"
        ]
    }
}"#;
    assert_eq!(render(&dual(), Version::V0_2_0).unwrap(), expected);
    assert_eq!(render(&dual(), Version::V0_1_0).unwrap(), expected.replace("0.2.0", "0.1.0"));
}

#[test]
fn the_middle_shape_is_byte_for_byte_what_host_local_prints() {
    let result = AddResult {
        ips: vec![ip("10.1.2.2", 24, Some("10.1.2.1"))],
        routes: vec![route("0.0.0.0/0", None)],
        ..AddResult::default()
    };
    let expected = r#"{
    "cniVersion": "0.4.0",
    "ips": [
        {
            "version": "4",
            "address": "10.1.2.2/24",
            "gateway": "10.1.2.1"
        }
    ],
    "routes": [
        {
            "dst": "0.0.0.0/0"
        }
    ],
    "dns": {}
}"#;
    for version in [Version::V0_3_0, Version::V0_3_1, Version::V0_4_0] {
        assert_eq!(render(&result, version).unwrap(), expected.replace("0.4.0", version.as_str()));
    }
    assert!(render(&dual(), Version::V0_4_0).unwrap().contains(r#""version": "6""#));
}

#[test]
fn the_newest_shape_has_no_version_and_no_empty_dns() {
    let result = AddResult { ips: vec![ip("10.1.2.2", 24, None)], ..AddResult::default() };
    for version in [Version::V1_0_0, Version::V1_1_0] {
        let text = render(&result, version).unwrap();
        assert!(!text.contains("\"version\""), "{text}");
        assert!(!text.contains("\"dns\""), "{text}");
        assert!(text.contains(&format!("\"cniVersion\": {:?}", version.as_str())));
    }
}

#[test]
fn old_versions_have_room_for_one_address_per_family() {
    let mut result = dual();
    result.ips.push(ip("10.1.3.2", 24, None));
    for version in Version::ALL {
        let rendered = render(&result, version);
        assert_eq!(rendered.is_err(), version.is_legacy(), "{version:?}");
        if let Err(error) = rendered {
            let msg = format!("CNI version {} does not support more than 1 address per family", version.as_str());
            assert_eq!((error.code, error.msg), (code::INVALID_CONFIG, msg));
        }
    }
    let none = render(&AddResult::default(), Version::V0_1_0).unwrap_err();
    assert_eq!(none.msg, "cannot convert: no valid IP addresses");
}

#[test]
fn routes_of_a_family_without_address_are_dropped_in_the_oldest_shape() {
    let mut result = dual();
    result.ips.truncate(1);
    assert!(!render(&result, Version::V0_2_0).unwrap().contains("::/0"));
}

#[test]
fn errors_carry_the_version_and_no_empty_details() {
    let text = render_error(&Error::new(7, "no"), "1.0.0");
    assert_eq!(text, "{\n    \"cniVersion\": \"1.0.0\",\n    \"code\": 7,\n    \"msg\": \"no\"\n}");
    assert!(render_error(&Error::new(7, "no").hint("do"), "1.0.0").contains("\"details\": \"do\""));
}

#[test]
fn a_full_result_of_another_plugin_is_read() {
    let text = r#"{
        "cniVersion": "0.4.0",
        "interfaces": [{"name": "br0"}, {"name": "eth0", "sandbox": "/x"}],
        "ips": [{"version": "4", "interface": 1, "address": "10.1.2.2/24", "gateway": ""}],
        "routes": null, "dns": {"nameservers": null}
    }"#;
    assert_eq!(parse(text).unwrap().ips, [ip("10.1.2.2", 24, None)]);
    assert_eq!(parse(r#"{"ips": null, "dns": null}"#), Ok(AddResult::default()));
}

#[test]
fn mistakes_name_the_place() {
    for (text, part) in [
        ("5", "prevResult: invalid type"),
        (r#"{"ips": 5}"#, "prevResult: invalid type"),
        (r#"{"ips": [null]}"#, "prevResult.ips[0] is null"),
        (r#"{"ips": [{"address": "10.0.0.1"}]}"#, r#"prevResult.ips[0]: "10.0.0.1" is not an address with"#),
        (r#"{"ips": [{"address": "10.0.0.1/8", "gateway": "x"}]}"#, r#"prevResult.ips[0].gateway: "x""#),
        (r#"{"ip4": {"ip": "10.0.0.1/+8"}}"#, "prevResult.ip4"),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.code, code::INVALID_CONFIG);
        assert!(error.msg.contains(part), "{text} gave {:?}", error.msg);
    }
}

prop_compose! {
    fn any_ip()(address in any::<IpAddr>(), len in any::<u8>(), gateway in any::<Option<IpAddr>>()) -> Ip {
        let bits: u8 = if address.is_ipv4() { 32 } else { 128 };
        Ip { address, prefix_len: len % (bits + 1), gateway }
    }
}

prop_compose! {
    fn any_route()(ip in any_ip(), mtu in any::<Option<i64>>(), table in any::<Option<i64>>()) -> Route {
        Route { dst: format!("{}/{}", ip.address, ip.prefix_len), gw: ip.gateway, mtu, table, ..Route::default() }
    }
}

proptest! {
    #[test]
    fn results_round_trip_in_every_version(
        mut ips in prop::collection::vec(any_ip(), 1..5),
        mut routes in prop::collection::vec(any_route(), 0..4),
        search in prop::collection::vec(any::<String>(), 0..3),
    ) {
        for version in Version::ALL {
            if version.is_legacy() {
                // Keep what these versions have room for, in their order.
                ips.sort_by_key(|ip| ip.address.is_ipv6());
                ips.dedup_by_key(|ip| ip.address.is_ipv6());
                routes.retain(|route| ips.iter().any(|ip| ip.address.is_ipv6() == route.dst.contains(':')));
                routes.sort_by_key(|route| route.dst.contains(':'));
                for route in &mut routes {
                    *route = Route { dst: route.dst.clone(), gw: route.gw, ..Route::default() };
                }
            }
            let dns = Dns { search: search.clone(), ..Dns::default() };
            let result = AddResult { ips: ips.clone(), routes: routes.clone(), dns };
            prop_assert_eq!(parse(&render(&result, version).unwrap()).unwrap(), result);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        let _ = (parse(&text), parse_prefixed(&text));
    }
}
