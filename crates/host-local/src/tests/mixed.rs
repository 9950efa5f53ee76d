//! The real host-local and Berth on one directory, in turns and at once.

use super::{Node, leases};
use crate::Command as Verb;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

const BINARY: &str = "/usr/lib/cni/host-local";

fn is_missing() -> bool {
    let missing = !std::path::Path::new(BINARY).exists();
    if missing {
        eprintln!("skipped: {BINARY} is not installed (Debian package containernetworking-plugins)");
    }
    missing
}

/// Runs the real plugin and returns the first address of its result.
fn host_local(node: &Node, verb: &str, container: &str) -> Result<Option<String>, String> {
    let mut child = Command::new(BINARY)
        .env_clear()
        .envs([("CNI_COMMAND", verb), ("CNI_CONTAINERID", container), ("CNI_IFNAME", "eth0"), ("CNI_PATH", "/x")])
        .env("CNI_NETNS", "/run/netns/none")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(node.config().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    match output.status.success() {
        true => Ok(json["ips"][0]["address"].as_str().map(str::to_owned)),
        false => Err(json["msg"].as_str().unwrap_or(&text).to_owned()),
    }
}

/// A small generator, so that a failure can be seen again.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

#[test]
fn either_goes_on_where_the_other_stopped() {
    if is_missing() {
        return;
    }
    for seed in 1..=4 {
        let mut node = Node::subnet("10.1.2.0/28");
        node.version = "1.0.0";
        let mut random = Random(seed);
        let mut model: BTreeMap<String, String> = BTreeMap::new();
        for step in 0..200 {
            let container = format!("c{}", random.below(20));
            let (ours, add) = (random.below(2) == 0, random.below(5) < 3);
            let what = format!("seed {seed} step {step}: {container} ours {ours} add {add}");
            match (ours, add) {
                (true, true) => match node.add(&container) {
                    Ok(addresses) => {
                        let old = model.insert(container.clone(), addresses[0].clone());
                        assert!(old.is_none_or(|old| old == addresses[0]), "{what}: the answer changed");
                    }
                    Err(error) => {
                        assert!(model.len() == 13 && !model.contains_key(&container), "{what}: {error}");
                    }
                },
                (false, true) => match host_local(&node, "ADD", &container) {
                    Ok(address) => {
                        assert_eq!(model.insert(container.clone(), address.unwrap()), None, "{what}");
                    }
                    Err(error) => {
                        assert!(model.len() == 13 || model.contains_key(&container), "{what}: {error}");
                    }
                },
                (true, false) => {
                    node.del(&container);
                    model.remove(&container);
                }
                (false, false) => {
                    host_local(&node, "DEL", &container).unwrap();
                    model.remove(&container);
                }
            }
            let expected: BTreeMap<String, String> = model
                .iter()
                .map(|(container, address)| (address.replace("/28", ""), format!("{container}\r\neth0")))
                .collect();
            assert_eq!(node.leases(), expected, "{what}");
            let known = node.call(Verb::Check, &container, 0).is_ok();
            assert_eq!(known, model.contains_key(&container), "{what}");
            assert_eq!(host_local(&node, "CHECK", &container).is_ok(), known, "{what}");
        }
        node.assert_sealed();
    }
}

#[test]
fn both_at_once_never_share_an_address() {
    if is_missing() {
        return;
    }
    let mut node = Node::subnet("10.1.2.0/25");
    node.version = "1.0.0";
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let node = &node;
            scope.spawn(move || {
                for round in 0..12 {
                    let container = format!("c{thread}-{round}");
                    match (thread + round) % 2 {
                        0 => drop(node.add(&container).unwrap()),
                        _ => drop(host_local(node, "ADD", &container).unwrap()),
                    }
                    // Every third stays.
                    match round % 3 {
                        0 => {}
                        1 => node.del(&container),
                        _ => drop(host_local(node, "DEL", &container).unwrap()),
                    }
                }
            });
        }
    });
    let leases = leases(&node.dir());
    assert_eq!(leases.len(), 8 * 4, "a file is an address, so none is shared; and none is lost or left over");
    assert_eq!(leases.values().collect::<std::collections::BTreeSet<_>>().len(), leases.len());
}

#[test]
fn the_order_and_the_words_are_the_same() {
    if is_missing() {
        return;
    }
    let make = || {
        let mut node =
            Node::new(r#""ranges":[[{"subnet":"10.0.0.0/30"},{"subnet":"10.0.1.0/29","gateway":"10.0.1.3"}]]"#);
        node.version = "1.0.0";
        node
    };
    let (theirs, ours) = (make(), make());
    for i in 0..7 {
        let container = format!("c{i}");
        let expected = host_local(&theirs, "ADD", &container).map(Option::into_iter).map(Vec::from_iter);
        assert_eq!(ours.add(&container), expected, "{container}");
    }
    assert_eq!(ours.leases(), theirs.leases());
    for node in [&theirs, &ours] {
        assert_eq!(host_local(node, "DEL", "c1"), Ok(None));
    }
    for ipam in [
        r#""subnet":"10.0.0.0/31""#,
        r#""subnet":"10.0.0.1/24""#,
        r#""subnet":"10.0.0.0/24","rangeStart":"10.0.1.0""#,
        r#""subnet":"10.0.0.0/24","rangeEnd":"10.0.1.0""#,
        r#""subnet":"10.0.0.0/24","rangeStart":"10.0.0.9","rangeEnd":"10.0.0.8""#,
        r#""subnet":"::ffff:10.0.0.0/104""#,
        r#""ranges":[]"#,
        r#""ranges":[[]]"#,
        r#""ranges":[[{"subnet":"10.0.0.0/24"},{"subnet":"2001:db8::/64"}]]"#,
        r#""ranges":[[{"subnet":"10.0.0.0/24"},{"subnet":"10.0.0.0/25"}]]"#,
        r#""ranges":[[{"subnet":"10.0.0.0/24"}],[{"subnet":"10.0.0.0/25"}]]"#,
        r#""subnet":"10.0.0.0/24","gateway":"x""#,
        r#""subnet":"10.0.0.0/33""#,
    ] {
        let mut node = Node::new(ipam);
        node.version = "1.0.0";
        assert_eq!(node.add("c"), host_local(&node, "ADD", "c").map(|_| Vec::new()), "{ipam}");
    }
}
