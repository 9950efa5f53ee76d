//! The binary as a whole: the daemon and the command line find each other, and scripts can rely on what is printed.

#![expect(clippy::unwrap_used, reason = "the helpers of tests fail by panicking")]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

fn berth(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(arguments).env_remove("BERTH_SERVER").output().unwrap()
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A daemon that ends with the test.
struct Daemon {
    process: Child,
    server: String,
}

impl Daemon {
    fn start(dir: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_berth"))
            .args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json"])
            .arg("--socket")
            .arg(dir.join("run/berth.sock"))
            .arg("--state-dir")
            .arg(dir.join("state"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines();
        let ready = log.find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(&line.unwrap()).ok()?;
            line["http"].as_str().map(str::to_owned)
        });
        // Nobody reads the rest, but a full pipe would stop the daemon.
        thread::spawn(move || log.for_each(drop));
        Self { process, server: ready.unwrap() }
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        berth(&[&["--server", &self.server], arguments].concat())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_first_minutes() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path());
    assert_eq!(printed(&daemon.ask(&["get", "pools", "-o", "name"])), "ippool/example\n");
    let address = printed(&daemon.ask(&["allocate", "--holder", "my-first", "-o", "name"]));
    let again = printed(&daemon.ask(&["allocate", "--holder", "my-first", "-o", "name"]));
    assert_eq!(address, again, "the same holder gets the same address");

    let shown = printed(&daemon.ask(&["show"]));
    assert!(shown.contains("my-first"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "no colours on a pipe");
    let status = printed(&daemon.ask(&["status"]));
    assert!(status.contains('█'), "{status}");

    let taken = daemon.ask(&["allocate", "--holder", "other", "--address", address.trim()]);
    assert_eq!(taken.status.code(), Some(12));
    assert!(String::from_utf8_lossy(&taken.stderr).contains("hint: "));
    assert_eq!(printed(&daemon.ask(&["release", address.trim()])), format!("{} released\n", address.trim()));
    assert_eq!(printed(&daemon.ask(&["check", "-q"])), "");
}

#[test]
fn a_manifest_goes_in_and_out_again() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path());
    let file = dir.path().join("pool.yaml");
    let text =
        "apiVersion: berth.io/v1alpha1\nkind: IPPool\nmetadata: {name: blue}\nspec: {ranges: [\"10.5.0.0/16\"]}\n";
    std::fs::write(&file, text).unwrap();
    let apply = || printed(&daemon.ask(&["apply", "-f", file.to_str().unwrap()]));
    assert_eq!(apply(), "ippool blue created\n");
    assert_eq!(apply(), "ippool blue unchanged\n");

    std::fs::write(&file, printed(&daemon.ask(&["get", "pool", "blue", "-o", "yaml"]))).unwrap();
    assert_eq!(apply(), "ippool blue unchanged\n", "what was printed can be applied");
    assert_eq!(printed(&daemon.ask(&["delete", "-f", file.to_str().unwrap()])), "ippool blue deleted\n");
}

#[test]
fn exit_codes_tell_scripts_what_happened() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let down = berth(&["--server", &format!("http://{free}"), "check"]);
    assert_eq!(down.status.code(), Some(69));
    assert!(String::from_utf8_lossy(&down.stderr).contains("hint: start it with `berth serve`"));
    assert_eq!(berth(&["allocate", "--count", "none"]).status.code(), Some(2));
    assert_eq!(berth(&["--help"]).status.code(), Some(0));
}

#[test]
fn every_document_is_generated() {
    assert!(printed(&berth(&["generate", "cli"])).starts_with("<!-- Generated"));
    assert!(printed(&berth(&["generate", "metrics"])).contains("# Metrics"));
    for (what, field) in [("openapi", "openapi"), ("schemas", "PoolSpec")] {
        let document: serde_json::Value = serde_json::from_str(&printed(&berth(&["generate", what]))).unwrap();
        assert!(!document[field].is_null(), "{what}");
    }
}

#[test]
fn a_cluster_is_prepared_without_a_daemon() {
    let all = printed(&berth(&["crds"]));
    assert_eq!(all.matches("kind: CustomResourceDefinition\n").count(), 6);
    let one = printed(&berth(&["crds", "pool"]));
    assert!(one.contains("name: ippools.berth.io\n") && all.contains(&one), "{one}");
    for (typed, message) in [("netpool", "BCSNetPool is another system's kind"), ("pond", "there is no kind \"pond\"")]
    {
        let refused = berth(&["crds", typed]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains(message), "{refused:?}");
    }
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("plugin"), dir.path().join("bin"));
    std::fs::write(&from, "#!/bin/true\n").unwrap();
    let installed = berth(&["install-cni", "--from", from.to_str().unwrap(), "--to", to.to_str().unwrap()]);
    assert_eq!(printed(&installed), "");
    assert!(Command::new(to.join("berth-cni")).status().unwrap().success());
}
