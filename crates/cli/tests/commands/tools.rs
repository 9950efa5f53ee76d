//! status, check, import, completions, man, version.

use crate::canned::{Answer, problem, run, transcript};
use berth_host_local::{Call, Command};
use insta::assert_snapshot;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn usage(counts: [&str; 7]) -> Value {
    let names = ["capacity", "inUse", "held", "cooling", "quarantined", "reserved", "free"];
    names.into_iter().zip(counts).map(|(name, count)| (name.to_owned(), json!(count))).collect()
}

#[test]
fn status_draws_bars() {
    let blue = usage(["65534", "27594", "12", "3", "1", "10", "37914"]);
    let six = usage(["18446744073709551616", "1", "0", "0", "0", "0", "18446744073709551615"]);
    let full = usage(["254", "250", "4", "0", "0", "0", "0"]);
    let answer: Answer = (
        200,
        json!({
            "pools": [
                { "name": "blue", "network": "default", "family": "IPv4", "unit": 32, "usage": blue },
                { "name": "prefixes", "network": "default", "family": "IPv6", "unit": 64, "usage": six },
                { "name": "full", "network": "lab", "family": "IPv4", "unit": 32, "usage": full },
            ],
            "subnets": [],
            "networks": [{ "name": "default", "family": "IPv4", "usage": blue }],
        }),
    );
    let one = std::slice::from_ref(&answer);
    assert_snapshot!(
        [transcript("status", one), transcript("top -o wide -q", one), transcript("status --color always", one)]
            .join("\n\n")
    );
}

#[test]
fn status_of_a_new_daemon_says_what_to_do() {
    assert_snapshot!(transcript("status", &[(200, json!({ "pools": [], "subnets": [], "networks": [] }))]));
}

#[test]
fn a_watch_ends_when_the_daemon_does() {
    let gone = problem(503, "retries-exhausted", "the daemon is stopping", "try again", 19);
    assert_snapshot!(transcript("status --watch 1", &[gone]));
}

#[test]
fn check_exits_with_1_and_a_list() {
    let first = transcript("check", &[(200, json!({ "findings": [] }))]);
    let finding = json!({ "object": "pool blue", "message": "overlaps pool red, which has another unit" });
    assert_snapshot!([first, transcript("check", &[(200, json!({ "findings": [finding] }))])].join("\n\n"));
}

/// A data directory of host-local with two networks.
fn host_local() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (network, address) in [("podman", "10.88.0.2"), ("podman", "10.88.0.3"), ("lab", "10.9.0.2")] {
        let network = dir.path().join(network);
        fs::create_dir_all(&network).unwrap();
        fs::write(network.join(address), format!("container-{address}\r\neth0")).unwrap();
    }
    fs::write(dir.path().join("podman/stray"), "").unwrap();
    dir
}

/// When a lease was written depends on when the test runs.
fn without_times(text: &str) -> String {
    let mut parts = text.split("\"since\":\"");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str("\"since\":\"TIME");
        shown.push_str(&part[part.find('"').unwrap()..]);
    }
    shown
}

#[test]
fn import_shows_first_and_then_does() {
    let dir = host_local();
    let path = dir.path().display().to_string();
    let show = |line: &str, answers: &[Answer]| without_times(&transcript(line, answers).replace(&path, "DIR"));
    let answer = |imported: Value, known: Value, refused: Value| {
        (200, json!({ "imported": imported, "known": known, "refused": refused }))
    };
    let refused = json!([{ "address": "10.9.0.2", "reason": "address 10.9.0.2 is in none of the pools blue" }]);
    let lab = answer(json!([]), json!([]), refused);
    let podman = answer(json!(["10.88.0.2"]), json!(["10.88.0.3"]), json!([]));
    assert_snapshot!(
        [
            show(&format!("import host-local {path}"), &[lab, podman.clone()]),
            show(
                &format!("import host-local {path} --network podman --pool blue --apply"),
                std::slice::from_ref(&podman)
            ),
            show(&format!("import host-local {path}/podman -o json -q"), &[podman])
        ]
        .join("\n\n")
    );
}

/// Leases addresses as the plugin does, then makes all that it noted the notes of an earlier boot.
fn lease_before_the_boot(data_dir: &Path, network: &str, containers: &[&str]) {
    let config = json!({
        "cniVersion": "1.0.0",
        "name": network,
        "ipam": { "type": "host-local", "dataDir": data_dir, "subnet": "10.88.0.0/24" },
    });
    for container in containers {
        let config = config.to_string();
        let call = Call { config: config.as_bytes(), container, ifname: "eth0", args: "", stamp: 1 };
        berth_host_local::run(Command::Add, &call).unwrap();
    }
    let index = data_dir.join(".berth").join(network).join("index");
    let mut bytes = fs::read(&index).unwrap();
    for slot in bytes.chunks_exact_mut(4096).flat_map(|bucket| bucket.chunks_exact_mut(48)) {
        if slot.iter().any(|&byte| byte != 0) {
            slot[40] ^= 1;
        }
    }
    fs::write(&index, bytes).unwrap();
}

#[test]
fn import_leaves_out_what_an_earlier_boot_left_behind() {
    let dir = tempfile::tempdir().unwrap();
    lease_before_the_boot(dir.path(), "podman", &["dead1", "dead2", "dead3"]);
    fs::write(dir.path().join("podman/10.88.0.9"), "live\r\neth0").unwrap();
    fs::write(dir.path().join("podman/10.88.0.10"), "old").unwrap();
    let path = dir.path().display().to_string();
    let answer: Answer = (200, json!({ "imported": ["10.88.0.9", "10.88.0.10"], "known": [], "refused": [] }));
    let show = |line: &str| {
        let shown = transcript(&format!("import host-local {path} {line}"), std::slice::from_ref(&answer));
        without_times(&shown.replace(&path, "DIR"))
    };
    assert_snapshot!([show("--apply"), show("-o json -q")].join("\n\n"));
}

#[test]
fn import_sends_a_thousand_leases_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let network = dir.path().join("big");
    fs::create_dir(&network).unwrap();
    for i in 0..1001 {
        fs::write(network.join(format!("10.88.{}.{}", i / 250, i % 250)), format!("c{i}\r\neth0")).unwrap();
    }
    let answer = (200, json!({ "imported": [], "known": [], "refused": [] }));
    let shown = transcript(&format!("import host-local {}", dir.path().display()), &[answer.clone(), answer]);
    assert_eq!(shown.matches("\"container\"").count(), 1001);
    assert_eq!(shown.matches("> POST /v1alpha1/import").count(), 2);
}

#[test]
fn import_of_a_missing_directory_names_it() {
    assert_snapshot!(transcript("import host-local /nonexistent", &[]));
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(run(&format!("berth completions {shell}")).contains("quarantine"), "{shell}");
    }
}

#[test]
fn manual_pages_for_every_command() {
    assert!(run("berth man").contains(".TH berth 1"));
    let dir = tempfile::tempdir().unwrap();
    assert!(run(&format!("berth man --out {}", dir.path().display())).ends_with("--- exit 0"));
    for page in ["berth.1", "berth-serve.1", "berth-import-host-local.1"] {
        assert!(dir.path().join(page).exists(), "{page}");
    }
}

#[test]
fn version_is_one_line() {
    assert_eq!(run("berth version"), format!("berth {}\n--- exit 0", env!("CARGO_PKG_VERSION")));
}
