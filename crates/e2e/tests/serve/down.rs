//! The daemon is down: DEL is queued, and worked off before anything else when it is back.

use berth_e2e::{Call, Home, until};
use serde_json::json;
use std::fs;
use std::path::PathBuf;

/// Three addresses and no more.
const POOL: &str = "
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: small}
spec: {ranges: [10.5.0.10-10.5.0.12], prefixLength: 24}
";

fn files(home: &Home) -> Vec<PathBuf> {
    fs::read_dir(home.queue()).map(|dir| dir.map(|file| file.unwrap().path()).collect()).unwrap_or_default()
}

#[test]
fn deletions_are_worked_off_in_order_before_the_first_add() {
    let home = Home::new();
    let daemon = home.start_with_manifests(POOL);
    let of = ["a", "b", "c"].map(|container| home.add(container)[0].clone());
    daemon.kill();
    for container in ["b", "c", "a"] {
        let ran = Call::new("DEL", container).run(&home.config("1.0.0", &json!({})));
        ran.silent();
        assert!(ran.stderr.contains("queued"), "{}", ran.stderr);
    }
    assert_eq!(files(&home).len(), 3);

    let daemon = home.start();
    assert!(files(&home).is_empty(), "ready means drained");
    // Least recently released first: the order of the deletions shows in the order of the addresses.
    assert_eq!(["d", "e", "f"].map(|container| home.add(container)[0].clone()), [1, 2, 0].map(|n| of[n].clone()));
    assert!(daemon.http.get("/metrics").body.contains("berth_queue_drained_total 3"));
    daemon.check();
}

#[test]
fn a_deletion_of_long_ago_does_not_take_a_new_container_down() {
    let home = Home::new();
    let daemon = home.start_with_manifests(POOL);
    let (_, config) = (home.add("c1"), home.config("1.0.0", &json!({})));
    daemon.kill();
    Call::new("DEL", "c1").run(&config).silent();
    let queued = files(&home).pop().unwrap();
    let deletion = fs::read(&queued).unwrap();
    let daemon = home.start();
    let again = home.add("c1");
    // The plugin that queued it was slow, or a backup brought it back.
    fs::write(&queued, deletion).unwrap();
    until("the queue to be drained", || (!queued.exists()).then_some(()));
    assert_eq!(daemon.held("Active"), [(again[0].replace("/24", ""), "c1".to_owned())]);
}

#[test]
fn garbage_in_the_queue_is_set_aside() {
    let home = Home::new();
    let daemon = home.start_with_manifests(POOL);
    let _ = home.add("c1");
    daemon.kill();
    home.del("c1");
    let (torn, foreign) = (home.queue().join("00000000000000000001-1-000"), home.queue().join("notes.txt"));
    fs::write(&torn, "{\"v\":1,\"stamp\":").unwrap();
    fs::write(&foreign, "whatever").unwrap();
    let daemon = home.start();
    assert!(daemon.held("Active").is_empty(), "what comes after the garbage was worked off");
    assert_eq!(files(&home).len(), 2);
    assert!(torn.with_extension("bad").exists() && foreign.exists());
}

#[test]
fn every_other_verb_says_that_the_daemon_is_down_and_how_to_start_it() {
    let home = Home::new();
    home.start().kill();
    let mut config = home.config("1.1.0", &json!({}));
    config["prevResult"] = json!({"cniVersion": "1.1.0", "ips": []});
    config["cni.dev/valid-attachments"] = json!([]);
    for (verb, code) in [("ADD", 11), ("CHECK", 11), ("GC", 11), ("STATUS", 50)] {
        let said = Call::new(verb, "c1").run(&config).failed(code);
        assert!(said.contains(home.socket().to_str().unwrap()) && said.contains("berth serve"), "{verb}: {said}");
    }
    let daemon = home.start();
    assert!(daemon.held("Active").is_empty(), "an ADD that failed does not happen later");
}

#[test]
fn del_works_before_the_first_daemon_ever() {
    let home = Home::new();
    home.make_run_dir();
    home.del("c1");
    assert_eq!(files(&home).len(), 1);
    let _daemon = home.start();
    assert!(files(&home).is_empty());
}
