use super::{native, object};
use crate::{MAX_MANIFEST_BYTES, lower_all, parse_manifests};
use proptest::prelude::*;
use serde_json::json;

const LEAST: &str = r#"
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: blue}
spec: {ranges: ["10.77.0.0/16"]}
"#;

#[test]
fn the_least_pool() {
    let pool = object(LEAST);
    assert_eq!(pool.title(), r#"IPPool "blue""#);
    assert_eq!(pool.spec, json!({"ranges": ["10.77.0.0/16"]}));
    assert_eq!(pool.metadata.namespace, None);
    assert!(pool.info().is_some_and(|info| info.plural == "ippools"));
}

#[test]
fn documents_lists_and_json_are_all_objects() {
    let list = format!(
        "kind: List\napiVersion: v1\nitems:\n- {}- {}",
        native("IPPool", "c", "{ranges: [10.3.0.0/16]}").replace('\n', "\n  ").trim_end_matches(' '),
        native("IPClaim", "d", "{}").replace('\n', "\n  ")
    );
    let json = r#"{
	"apiVersion": "berth.io/v1alpha1",
	"kind": "IPSubnet",
	"metadata": {
		"name": "e"
	},
	"spec": {"cidr": "10.5.0.0/16"}
}
"#;
    let text = format!("# a comment\n---\n{LEAST}---\n# nothing\n---\n{list}\n---\n{json}");
    let objects = parse_manifests(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let titles: Vec<String> = objects.iter().map(crate::Object::title).collect();
    assert_eq!(titles, [r#"IPPool "blue""#, r#"IPPool "c""#, r#"IPClaim "default/d""#, r#"IPSubnet "e""#]);
    let config = lower_all(&objects).expect("lowers");
    assert_eq!(config.pools.keys().collect::<Vec<_>>(), ["blue", "c"]);
    assert_eq!(config.subnets.keys().collect::<Vec<_>>(), ["e"]);
}

#[test]
fn anchors_work_and_what_a_cluster_adds_is_left_out() {
    let pool = object(
        r#"
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata:
  name: blue
  uid: 6e7c1e0a-3d7a-4e5b-9a58-0d9b3c9f5d11
  resourceVersion: "12"
  generation: 3
  creationTimestamp: "2026-01-01T00:00:00Z"
  managedFields: [{manager: kubectl}]
  finalizers: [example.com/x]
  annotations:
  labels: &labels {team: net}
spec:
  ranges: [10.0.0.0/24]
  allow: {podSelector: {matchLabels: *labels}}
status: {free: "1"}
"#,
    );
    assert_eq!(pool.metadata.generation, Some(3));
    assert_eq!(pool.spec["allow"]["podSelector"]["matchLabels"], json!({"team": "net"}));
    let text = serde_json::to_string(&pool).expect("JSON");
    assert_eq!(object(&text), pool);
    assert!(text.contains(r#""resourceVersion":"12""#) && !text.contains("managedFields"), "{text}");
}

#[test]
fn a_bad_manifest_is_refused_with_the_place_and_the_fix() {
    let pool = |spec: &str| native("IPPool", "blue", spec);
    let claim = |spec: &str| native("IPClaim", "vip", spec);
    for (manifest, line, message) in [
        ("- a\n".into(), 1, "is not an object; write apiVersion, kind, metadata and spec"),
        ("kind: IPPool\nmetadata: {name: a}\n".into(), 1, "IPPool \"a\", apiVersion: is required"),
        (
            "apiVersion: v1\nkind: IPPol\nmetadata: {name: a}\n".into(),
            2,
            "IPPol \"a\", kind: unknown kind \"IPPol\"; did you mean \"IPPool\"?",
        ),
        (
            "apiVersion: v1\nkind: Deployment\nmetadata: {name: a}\n".into(),
            2,
            "Deployment \"a\", kind: unknown kind \"Deployment\"; use one of IPPool, IPSubnet, IPReservation, \
             IPClaim, IPEndpoint, IPBlock, BCSNetPool, BCSNetIP, SpiderIPPool, SpiderSubnet, SpiderReservedIP, \
             SpiderEndpoint",
        ),
        (
            "apiVersion: v1\nkind: IPPool\nmetadata: {name: a}\n".into(),
            1,
            "IPPool \"a\", apiVersion: IPPool has no version \"v1\"; write berth.io/v1alpha1",
        ),
        (
            pool("{ranges: [10.0.0.0/24]}").replace("blue", "Blue_1"),
            4,
            "IPPool \"Blue_1\", metadata.name: \"Blue_1\" is not a valid name; use lower-case letters, digits, '-' \
             and '.', begin and end with a letter or digit, at most 253 characters; e.g. \"blue-1\"",
        ),
        (
            pool("{ranges: [10.0.0.0/24]}").replace("blue", "10"),
            4,
            "IPPool, metadata.name: invalid type: integer `10`, expected a string; put it in quotes",
        ),
        (
            pool("{ranges: [10.0.0.0/24]}").replace("name: blue", "name: blue\n  namespace: web"),
            5,
            "IPPool \"blue\", metadata.namespace: IPPool objects have no namespace; leave it out",
        ),
        (
            pool("{ranges: [10.0.0.0/24]}").replace("name: blue", "name: blue\n  lables: {}"),
            5,
            "IPPool \"blue\", metadata.lables: unknown field; did you mean \"labels\"?",
        ),
        (
            claim("{}").replace("name: vip", "name: vip\n  namespace: a.b"),
            5,
            "IPClaim \"vip\", metadata.namespace: \"a.b\" is not a valid name; use lower-case letters, digits and \
             '-', begin and end with a letter or digit, at most 63 characters",
        ),
        (pool("{}"), 5, "IPPool \"blue\", spec.ranges: is required"),
        (pool(""), 5, "IPPool \"blue\", spec.ranges: is required"),
        (pool("\n  rangs: [10.0.0.0/24]"), 6, "IPPool \"blue\", spec.rangs: unknown field; did you mean \"ranges\"?"),
        (
            pool("\n  ranges:\n  - 10.0.0.0/24\n  - 10.0.1.0-10.0.0.0"),
            8,
            "IPPool \"blue\", spec.ranges[1]: \"10.0.1.0-10.0.0.0\" ends before it starts; write 10.0.0.0-10.0.1.0",
        ),
        (
            pool("{ranges: [7]}"),
            5,
            "IPPool \"blue\", spec.ranges[0]: invalid type: integer `7`, expected a string; put it in quotes",
        ),
        (
            pool("{ranges: [10.0.0.5/24]}"),
            5,
            "IPPool \"blue\", spec.ranges[0]: \"10.0.0.5/24\" has host bits set; write 10.0.0.0/24",
        ),
        (
            pool("{ranges: 10.0.0.0/24}"),
            5,
            "IPPool \"blue\", spec.ranges: invalid type: string \"10.0.0.0/24\", expected a sequence",
        ),
        (
            pool("{ranges: [10.0.0.0/24], coolDown: 30}"),
            5,
            "IPPool \"blue\", spec.coolDown: invalid type: integer `30`, expected a string; put it in quotes",
        ),
        (
            pool("{ranges: [10.0.0.0/24], coolDown: 1d}"),
            5,
            "IPPool \"blue\", spec.coolDown: \"1d\" has the unknown unit \"d\"; use h, m, s, ms, us or ns (a day is \
             24h)",
        ),
        (
            pool("{ranges: [10.0.0.0/24], prefixLength: 300}"),
            5,
            "IPPool \"blue\", spec.prefixLength: invalid value: integer `300`, expected a number from 0 to 255",
        ),
        (
            pool("{ranges: [10.0.0.0/24], default: yes}"),
            5,
            "IPPool \"blue\", spec.default: invalid type: string \"yes\", expected true or false",
        ),
        (
            pool("{ranges: [10.0.0.0/24], quota: {perNamespace: -1}}"),
            5,
            "IPPool \"blue\", spec.quota.perNamespace: invalid value: integer `-1`, expected a whole number",
        ),
        (
            pool("{ranges: [10.0.0.0/24], gateway: auto}"),
            5,
            "IPPool \"blue\", spec.gateway: \"auto\" is not an IP address; write one, or \"none\"",
        ),
        (
            pool("{ranges: [10.0.0.0/24], network: default/leases}"),
            5,
            "IPPool \"blue\", spec.network: \"default/leases\" is not the name of a network; leave it out, or write a \
             word without slashes",
        ),
        (
            pool("{ranges: [10.0.0.0/24], pick: sequential}"),
            5,
            "IPPool \"blue\", spec.pick: unknown value \"sequential\"; did you mean \"Sequential\"?",
        ),
        (
            pool("{ranges: [10.0.0.0/24], routes: [{dst: default}]}"),
            5,
            "IPPool \"blue\", spec.routes[0].dst: \"default\" is not a CIDR (ADDRESS/LENGTH)",
        ),
        (
            pool("{ranges: [10.0.0.0/24], dns: {servers: []}}"),
            5,
            "IPPool \"blue\", spec.dns.servers: unknown field; use one of nameservers, domain, search, options",
        ),
        (
            pool("{ranges: [10.0.0.0/24], allow: {podSelector: {matchExpressions: [{key: a, operator: In}]}}}"),
            5,
            "IPPool \"blue\", spec.allow.podSelector.matchExpressions[0].values: must name at least one value with \
             the operator In",
        ),
        (
            claim("{addresses: [10.0.0.300]}"),
            5,
            "IPClaim \"vip\", spec.addresses[0]: \"10.0.0.300\" is not an IP address",
        ),
        (
            claim("{addresses: [10.0.0.3], count: 2}"),
            5,
            "IPClaim \"vip\", spec.count: leave it out: spec.addresses says which addresses are wanted",
        ),
        (claim("{count: 0}"), 5, "IPClaim \"vip\", spec.count: must be at least 1"),
        ("apiVersion: v1\nkind: List\nitems:\n- kind: IPPool\n".into(), 4, "IPPool, items[0].apiVersion: is required"),
        (
            "apiVersion: networkextension.bkbcs.tencent.com/v1\nkind: BCSNetIP\nmetadata: {name: 10.1.2.20}\n".into(),
            2,
            "BCSNetIP \"10.1.2.20\", kind: BCSNetIP objects are made from BCSNetPools; apply the BCSNetPool",
        ),
        (
            native("IPEndpoint", "web-0", "{uid: u, node: n}"),
            2,
            "IPEndpoint \"web-0\", kind: IPEndpoint objects are made from what pods hold; leave it out",
        ),
        (
            native("IPBlock", "default.10-0-0-0-26", "{}"),
            2,
            "IPBlock \"default.10-0-0-0-26\", kind: IPBlock objects are Berth's own record; leave it out",
        ),
    ] {
        let error = parse_manifests(&manifest).expect_err(&manifest);
        assert_eq!(error.to_string(), format!("document 1, line {line}: {message}"), "\n{manifest}");
    }
    let second = format!("{LEAST}---\n{}", native("IPSubnet", "s", "\n  cidr: 10.0.0.0"));
    for (manifest, message) in [
        ("", "the manifest is empty; write at least one object with apiVersion, kind and metadata"),
        (&second, "document 2, line 12: IPSubnet \"s\", spec.cidr: \"10.0.0.0\" is not a CIDR (ADDRESS/LENGTH)"),
    ] {
        assert_eq!(parse_manifests(manifest).expect_err(manifest).to_string(), message);
    }
}

#[test]
fn broken_yaml_names_document_and_line() {
    for (tail, message) in [
        ("a: [1, 2\n", "document 2, line 7: unclosed bracket '['"),
        ("a: b\n a: b\n", "document 2, line 8: mapping values are not allowed in this context"),
        ("a: 1\na: 2\n", "document 2, line 8: duplicate mapping key: a not allowed here"),
        ("# empty\n---\na: .nan\n", "document 2, line 9: value `.nan` is not a finite number"),
    ] {
        let error = parse_manifests(&format!("{LEAST}---\n{tail}")).expect_err(tail);
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn bombs_are_refused() {
    let depth = format!("a: {}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let blocks: String = (0..200).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
    let mut aliases = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let refs = vec![format!("*a{}", i - 1); 10].join(", ");
        aliases.push_str(&format!("a{i}: &a{i} [{refs}]\n"));
    }
    let scalar = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), ["*a"; 900].join(", "));
    let long = "#".repeat(MAX_MANIFEST_BYTES + 1);
    for bomb in [depth, blocks, aliases, scalar, long] {
        let error = parse_manifests(&bomb).expect_err("a bomb");
        assert!(error.to_string().len() < 300, "{error}");
        assert!(!error.reason.contains("is required"), "{error}");
    }
}

proptest! {
    #[test]
    fn the_parser_never_panics(
        text in r#"(?s)(.{0,200}|([a-zA-Z]{1,10}|[ \n:\[\]{},&*#"'|>!%-]|kind: List\n|spec:\n|---\n){0,60})"#
    ) {
        let _ = parse_manifests(&text);
    }

    #[test]
    fn a_damaged_manifest_never_panics(at in 0..LEAST.len(), junk in "(?s).{0,4}") {
        let mut text = LEAST.to_owned();
        text.replace_range(at..=at, &junk);
        let _ = parse_manifests(&text);
    }
}
