//! Bad environments, bad stdin, and everything that needs no daemon.

use crate::harness::{Host, Plugin};
use std::fmt::Write;

const VERSIONS: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];
const VERBS: [&str; 5] = ["ADD", "DEL", "CHECK", "GC", "STATUS"];

#[test]
fn a_person_is_told_about_it() {
    let ran = Plugin::new("").env("CNI_COMMAND", "").run("");
    ran.silent();
    assert!(ran.stderr.contains("CNI protocol versions supported: 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0\n"));
}

#[test]
fn version_needs_neither_environment_nor_stdin() {
    let mut plugin = Plugin::new("VERSION");
    for name in ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"] {
        plugin = plugin.env(name, "");
    }
    let ran = plugin.run("not json");
    assert_eq!(ran.code, 0);
    assert_eq!(ran.json()["cniVersion"], "1.1.0");
    assert_eq!(ran.json()["supportedVersions"], serde_json::json!(VERSIONS));
}

#[test]
fn missing_variables_are_listed_in_order() {
    for (verb, missing) in [
        ("ADD", "CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH"),
        ("CHECK", "CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH"),
        ("DEL", "CNI_CONTAINERID,CNI_IFNAME,CNI_PATH"),
        ("GC", "CNI_PATH"),
        ("STATUS", "CNI_PATH"),
    ] {
        let mut plugin = Plugin::new(verb);
        for name in ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"] {
            plugin = plugin.env(name, "");
        }
        let (msg, _) = plugin.run("").failed(4);
        assert_eq!(msg, format!("required env variables [{missing}] missing"), "{verb}");
    }
}

#[test]
fn bad_values_are_refused() {
    let config = Host::new().config("1.1.0", "", "");
    for verb in ["ADD", "DEL", "CHECK"] {
        assert_eq!(
            Plugin::new(verb).env("CNI_CONTAINERID", "../x").run(&config).failed(4).0,
            "invalid characters in containerID"
        );
        assert_eq!(
            Plugin::new(verb).env("CNI_IFNAME", "a b").run(&config).failed(4).0,
            "interface name contains / or : or whitespace characters"
        );
    }
    assert_eq!(Plugin::new("NOPE").run(&config).failed(4).0, "unknown CNI_COMMAND: NOPE");
}

#[test]
fn versions_gate_verbs() {
    let host = Host::new();
    for version in VERSIONS {
        let config = host.config(version, "", "");
        let without = config.replace(&format!(r#""cniVersion":"{version}","#), "");
        for (verb, since) in [("CHECK", "0.4.0"), ("GC", "1.1.0"), ("STATUS", "1.1.0")] {
            if version < since {
                let ran = Plugin::new(verb).run(&config);
                assert_eq!(ran.failed(1).0, format!("config version does not allow {verb}"));
                assert_eq!(ran.json()["cniVersion"], version);
            }
            assert_eq!(Plugin::new(verb).run(&without).failed(1).0, format!("config version does not allow {verb}"));
        }
    }
    for verb in VERBS {
        let (msg, details) = Plugin::new(verb).run(host.config("2.0.0", "", "")).failed(1);
        assert_eq!(msg, "incompatible CNI versions");
        assert!(details.contains("config is \"2.0.0\""));
    }
}

#[test]
fn bad_stdin_is_refused_whatever_the_verb() {
    let deep = "[".repeat(500_000);
    let mut deep_ipam = String::from(r#"{"cniVersion":"1.1.0","name":"n","ipam":{"dns":"#);
    write!(deep_ipam, "{}{}}}}}", "[".repeat(200_000), "]".repeat(200_000)).unwrap();
    for verb in VERBS {
        assert_eq!(Plugin::new(verb).run("").failed(6).0.find("error unmarshall network config"), Some(0));
        Plugin::new(verb).run("{").failed(6);
        Plugin::new(verb).run(&deep).failed(6);
        Plugin::new(verb).run(b"{\"name\":\"\xff\"}").failed(6);
        assert_eq!(Plugin::new(verb).run("{}").failed(7).0, "missing network name");
        assert_eq!(Plugin::new(verb).run(r#"{"name":"a b"}"#).failed(7).0, "invalid characters found in network name");
    }
    for verb in ["ADD", "STATUS"] {
        let (msg, _) = Plugin::new(verb).run(&deep_ipam).failed(7);
        assert!(msg.contains("ipam.dns"), "{msg}");
    }
}

#[test]
fn stdin_is_bounded() {
    let host = Host::new();
    let padded = |len: usize| {
        let config = host.config("1.1.0", "", "");
        format!("{config}{}", " ".repeat(len - config.len()))
    };
    Plugin::new("GC").run(padded(1 << 20)).silent();
    let (msg, _) = Plugin::new("GC").run(padded((1 << 20) + 1)).failed(7);
    assert!(msg.contains("longer than 1048576 bytes"), "{msg}");
    Plugin::new("GC").run(vec![b' '; 8 << 20]).failed(7);
}

#[test]
fn wrong_settings_are_named_before_the_daemon_is_asked() {
    let host = Host::new();
    for (ipam, more, code, part) in [
        (r#","pool":"a""#, "", 2, r#""pool": "a""#),
        (r#","pools":[null]"#, "", 7, "ipam.pools[0]"),
        ("", r#","runtimeConfig":{"ips":["10.0.0.1",null]}"#, 7, "runtimeConfig.ips[1]"),
        ("", r#","args":{"cni":{"ips":[null]}}"#, 7, "args.cni.ips[0]"),
        (r#","resolvConf":"/does/not/exist""#, "", 5, "ipam.resolvConf /does/not/exist"),
    ] {
        let (msg, _) = Plugin::new("ADD").run(host.config("1.1.0", ipam, more)).failed(code);
        assert!(msg.contains(part), "{msg}");
    }
    let (msg, _) = Plugin::new("ADD").env("CNI_ARGS", "X=1").run(host.config("1.1.0", "", "")).failed(4);
    assert_eq!(msg, r#"ARGS: unknown args ["X=1"]"#);
    let two = r#","runtimeConfig":{"ips":["10.0.0.1","10.0.0.2"]}"#;
    let (msg, _) = Plugin::new("ADD").run(host.config("0.2.0", "", two)).failed(7);
    assert_eq!(msg, "CNI version 0.2.0 does not support more than 1 address per family");
}

#[test]
fn the_own_namespace_is_refused_before_anything_is_allocated() {
    let host = Host::new();
    let config = host.config("1.0.0", "", "");
    let own = |verb: &str| Plugin::new(verb).env("CNI_NETNS", "/proc/self/ns/net");
    own("ADD").run(&config).failed(8);
    own("ADD").env("CNI_NETNS_OVERRIDE", "true").run(host.config("1.0.0", r#","waitSeconds":0"#, "")).failed(11);
    own("DEL").run(&config).silent();
}
