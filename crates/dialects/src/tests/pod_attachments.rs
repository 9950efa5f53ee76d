//! Which definitions a pod selects, and what the plugin will be told by them.

use crate::native::pod::{Attached, Pod, SELECTED, SELECTED_FIRST, Selected, selected};
use berth_core::addr::Family;
use berth_wire::config::NetConf;
use proptest::prelude::*;

fn pod(annotations: &[(&str, &str)]) -> Pod {
    let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Pod { namespace: "shop".into(), name: "web".into(), annotations, ..Pod::default() }
}

/// `INTERFACE=NAMESPACE/NAME` of each.
fn names(annotations: &[(&str, &str)]) -> Result<Vec<String>, String> {
    let all = selected(&pod(annotations))?;
    Ok(all.iter().map(|one| format!("{}={}", one.interface, one.definition())).collect())
}

fn one(item: &str) -> Selected {
    selected(&pod(&[(SELECTED, &format!("[{item}]"))])).expect("reads").remove(0)
}

#[test]
fn both_notations_say_the_same() {
    let expected = ["net1=shop/a", "net2=infra/b", "x=infra/c", "net4=shop/a"];
    let short = "a, infra/b ,infra/c@x,a";
    let long = r#"[{"name": "a", "mac": "02:00:00:00:00:01"}, {"name": "b", "namespace": "infra"},
                   {"name": "c", "namespace": "infra", "interface": "x", "default-route": ["10.0.0.1"]},
                   {"name": "a", "namespace": "", "ips": ["10.0.0.9"]}]"#;
    assert_eq!(names(&[(SELECTED, short)]).expect("reads"), expected);
    assert_eq!(names(&[(SELECTED, long)]).expect("reads"), expected);
    assert!(names(&[]).expect("reads").is_empty() && names(&[(SELECTED, " ")]).expect("reads").is_empty());
}

#[test]
fn the_first_interface_may_have_a_definition_too() {
    assert_eq!(
        names(&[(SELECTED_FIRST, "vlan"), (SELECTED, "a")]).expect("reads"),
        ["eth0=kube-system/vlan", "net1=shop/a"]
    );
    assert_eq!(names(&[(SELECTED_FIRST, r#"[{"name": "v", "namespace": "x"}]"#)]).expect("reads"), ["eth0=x/v"]);
    names(&[(SELECTED_FIRST, "a,b")]).expect_err("one first interface");
    // A name that is taken is not given twice.
    assert_eq!(names(&[(SELECTED, "a@net2,b,c@net2")]).expect("reads"), ["net2=shop/a"]);
}

#[test]
fn what_makes_no_sense_is_said() {
    for text in ["[", "{}", r#"[{"namespace": "x"}]"#, "a/b/c", "a@b@c", "a,,b", "/", "@x", r#"["a"]"#] {
        let why = names(&[(SELECTED, text)]).expect_err(text);
        assert!(why.starts_with("annotation k8s.v1.cni.cncf.io/networks"), "{why}");
    }
    names(&[(SELECTED, &vec!["a"; 16].join(","))]).expect_err("too many");
    names(&[(SELECTED, &"a".repeat(70_000))]).expect_err("too long");
}

#[test]
fn an_attachment_is_what_the_plugin_will_say() {
    let plain = r#"{"cniVersion": "1.0.0", "name": "vlan-10", "type": "macvlan", "ipam": {"type": "berth-cni", "network": "blue",
        "pools": ["a", "b*"], "families": ["IPv6"], "claim": "db", "socket": "/run/x.sock", "routes": [{"dst": "10.0.0.0/8"}]}}"#;
    let attached = one(r#"{"name": "v", "interface": "x"}"#).attached(plain).expect("ours");
    let Attached { network, ifname, attachment, domain, pools, families, claim, .. } = attached;
    assert_eq!((&*network, &*ifname, &*attachment), ("vlan-10", "x", "shop/v"));
    assert_eq!((domain.as_deref(), claim.as_deref()), (Some("blue"), Some("db")));
    assert_eq!((pools, families), (vec!["a".to_owned(), "b*".to_owned()], vec![Family::V6]));
    // In a list, the plugin gets the list's name; a configuration without one gets the definition's.
    let list = r#"{"name": "chain", "plugins": [{"type": "tuning"}, {"type": "bridge", "name": "no", "ipam": {"type": "berth-cni"}}]}"#;
    assert_eq!(one(r#"{"name": "v"}"#).attached(list).expect("ours").network, "chain");
    for nameless in [
        r#"{"type": "x", "ipam": {"type": "berth-cni"}}"#,
        r#"{"name": "", "type": "x", "ipam": {"type": "berth-cni"}}"#,
    ] {
        assert_eq!(one(r#"{"name": "v"}"#).attached(nameless).expect("ours").network, "v");
    }
}

#[test]
fn addresses_are_asked_for_where_the_configuration_lets_people_ask() {
    let config = |more: &str| format!(r#"{{"name": "n", "type": "x", "ipam": {{"type": "berth-cni"}}{more}}}"#);
    let asks = one(r#"{"name": "v", "ips": ["10.0.0.9/24", "fd00::9"]}"#);
    assert!(asks.attached(&config("")).expect("ours").addresses.is_empty(), "the runtime does not hand them on");
    let addresses = asks.attached(&config(r#", "capabilities": {"ips": true}"#)).expect("ours").addresses;
    assert_eq!(addresses, ["10.0.0.9", "fd00::9"].map(|text| text.parse::<std::net::IpAddr>().expect("an address")));
    let args = one(r#"{"name": "v", "cni-args": {"ips": ["10.0.0.7"]}}"#);
    for more in ["", r#", "args": {}"#, r#", "args": {"cni": {"other": 1}}"#] {
        assert_eq!(args.attached(&config(more)).expect("ours").addresses.len(), 1, "{more}");
    }
}

#[test]
fn what_is_not_known_is_left_to_its_own_add() {
    let any = one(r#"{"name": "v"}"#);
    for (config, words) in [
        ("", "in a file on the node"),
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        (r#"{"name": "n", "type": "sriov"}"#, "not berth-cni's"),
        (r#"{"name": "n", "type": "x", "ipam": {"type": "whereabouts"}}"#, "not berth-cni's"),
        (r#"{"name": "n", "plugins": [{"type": "x", "ipam": {}}]}"#, "not berth-cni's"),
        (r#"{"name": "n", "plugins": 7}"#, "not berth-cni's"),
        (r#"{"name": "n", "type": "x", "ipam": {"type": "berth-cni", "pool": "a"}}"#, "unsupported field"),
        (r#"{"name": "-n", "type": "x", "ipam": {"type": "berth-cni"}}"#, "invalid characters"),
    ] {
        let why = any.attached(config).expect_err(config);
        assert!(why.contains(words), "{config}: {why}");
    }
}

proptest! {
    #[test]
    fn any_annotation_is_read_or_refused(text in "[\\[\\]{}\",:/@a-c0 ]{0,40}|\\PC{0,40}") {
        let _ = selected(&pod(&[(SELECTED, &text), (SELECTED_FIRST, &text)]));
    }

    /// The network recorded is the one that the plugin reads from what it is handed.
    #[test]
    fn the_network_is_the_plugins(name in "[a-zA-Z0-9][a-zA-Z0-9_.-]{0,20}", chain in any::<bool>()) {
        let plugin = r#"{"type": "x", "ipam": {"type": "berth-cni"}}"#;
        let conf = format!(r#"{{"name": "{name}", "type": "x", "ipam": {{"type": "berth-cni"}}}}"#);
        let config = if chain { format!(r#"{{"name": "{name}", "plugins": [{plugin}]}}"#) } else { conf.clone() };
        let attached = one(r#"{"name": "v"}"#).attached(&config).expect("ours");
        prop_assert_eq!(attached.network, NetConf::parse(conf.as_bytes()).expect("reads").name);
    }
}

#[test]
fn who_is_to_match_its_nic_is_served_along_only_if_that_is_known() {
    let config = |main: &str| {
        format!(r#"{{"name": "v", {main}, "ipam": {{"type": "spiderpool", "match_master_subnet": true}}}}"#)
    };
    let attached = |main: &str| one(r#"{"name": "a"}"#).attached(&config(main));
    let uplink = attached(r#""type": "macvlan", "master": "ens1""#).expect("known").uplink.expect("an uplink");
    assert_eq!((uplink.nics, uplink.cidrs), (vec!["ens1".to_owned()], vec![]), "where it is, is for the node to say");
    for main in [r#""type": "sriov""#, r#""type": "sriov", "deviceID": "0000:3b:00.2""#] {
        let why = attached(main).expect_err("not known");
        assert!(why.contains("which NIC it is put on"), "{why}");
    }
}
