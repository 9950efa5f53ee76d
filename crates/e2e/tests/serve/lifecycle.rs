//! Stopping, dying, coming back.

use berth_e2e::{Call, Daemon, Home};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const POOL: &str = "
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: mine, labels: {team: net}}
spec: {ranges: [10.5.0.0/16]}
";

fn metric(daemon: &Daemon, name: &str) -> u64 {
    let text = daemon.http.get("/metrics").body;
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| unreachable!("no {name} in {text}")).parse().unwrap()
}

#[test]
fn sigterm_and_sigint_end_it_well() {
    let home = Home::new();
    for signal in [Signal::TERM, Signal::INT] {
        let mut daemon = home.start();
        daemon.signal(signal);
        assert!(daemon.wait().success());
        assert_eq!(daemon.logged("stopped").len(), 1, "{}", daemon.log());
        assert!(!home.socket().exists(), "the socket is gone");
    }
}

#[test]
fn a_stop_under_load_loses_no_answer() {
    let home = Home::new();
    let daemon = home.start_with_manifests(POOL);
    let stop = AtomicBool::new(false);
    let (home, stop) = (&home, &stop);
    let given: Vec<(String, String)> = thread::scope(|scope| {
        let worker = |worker: u32| {
            move || {
                let mut given = Vec::new();
                for n in 0.. {
                    let container = format!("w{worker}-{n}");
                    let ran = Call::new("ADD", &container).run(&home.config("1.0.0", &json!({})));
                    if ran.code == 0 {
                        given.push((ran.addresses()[0].replace("/16", ""), container));
                    } else {
                        ran.failed(11);
                    }
                    if stop.load(Ordering::SeqCst) {
                        return given;
                    }
                }
                given
            }
        };
        let workers: Vec<_> = (0..4).map(|n| scope.spawn(worker(n))).collect();
        berth_e2e::until("some load", || (daemon.held("Active").len() > 20).then_some(()));
        assert!(daemon.stop().success());
        stop.store(true, Ordering::SeqCst);
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let daemon = home.start();
    let held = daemon.held("Active");
    for pair in &given {
        assert!(held.contains(pair), "{pair:?} was answered and is not known");
    }
    daemon.check();
}

#[test]
fn everything_is_there_again_after_a_stop_and_after_a_kill() {
    let home = Home::new();
    let mut daemon = home.start_with_manifests(POOL);
    let object = |daemon: &Daemon| {
        let mut object = daemon.http.get("/v1alpha1/objects/ippools/mine").ok();
        object["status"] = Value::Null;
        object
    };
    let (pool, c1) = (object(&daemon), home.add("c1"));
    let named = daemon.http.post("/v1alpha1/addresses", &json!({"holder": {"id": "vm-1"}, "keep": "1h"})).ok();
    for graceful in [true, false] {
        let before = daemon.http.get("/v1alpha1/addresses").ok();
        if graceful {
            assert!(daemon.stop().success());
        } else {
            daemon.kill();
        }
        daemon = home.start();
        assert_eq!(object(&daemon), pool);
        assert_eq!(daemon.http.get("/v1alpha1/addresses").ok(), before);
        assert_eq!(home.add("c1"), c1, "ADD again is the same ADD");
        let again = daemon.http.post("/v1alpha1/addresses", &json!({"holder": {"id": "vm-1"}, "keep": "1h"})).ok();
        assert_eq!(again["addresses"][0]["address"], named["addresses"][0]["address"]);
    }
}

#[test]
fn by_default_no_container_waits_for_the_disk() {
    let home = Home::new();
    let daemon = home.start_with_manifests(POOL);
    let before = metric(&daemon, "berth_journal_syncs");
    let (frames, _) = (metric(&daemon, "berth_journal_frames"), home.add("c1"));
    home.del("c1");
    assert!(metric(&daemon, "berth_journal_frames") >= frames + 2, "both are in the journal");
    assert_eq!(metric(&daemon, "berth_journal_syncs"), before, "and neither was forced to disk");
    let _ = daemon.http.post("/v1alpha1/addresses", &json!({"holder": {"id": "vm-1"}})).ok();
    assert_eq!(metric(&daemon, "berth_journal_syncs"), before + 1, "what outlives the boot was");
}

#[test]
fn with_durability_always_everything_waits_for_the_disk() {
    let home = Home::new();
    let daemon = home.start_with(home.command_with("--durability", "always"));
    let before = metric(&daemon, "berth_journal_syncs");
    let _ = home.add("c1");
    home.del("c1");
    assert_eq!(metric(&daemon, "berth_journal_syncs"), before + 2);
}
