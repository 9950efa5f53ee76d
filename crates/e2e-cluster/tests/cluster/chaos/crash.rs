//! The agent crashes, or a write goes wrong, at every write that it makes to the API server: whatever the moment, the
//! node goes on, nothing is doubled, nothing leaks and what is to be kept is kept.
//!
//! A fixed script is run once to count the writes, and then once for each of them and each thing that can happen to it.
//! What can happen between two writes to the journal is in `crates/store/tests/crash.rs`.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use berth_e2e_cluster::{Agent, Corner, Fault, Live, Pod, World};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What happens at a write.
#[derive(Clone, Copy, Debug)]
enum Mishap {
    /// The agent dies, and the write is not made.
    DiesBefore,
    /// The agent dies, and the write is made.
    DiesAfter,
    /// The write is made, and nobody tells the agent.
    AnswerIsLost,
    /// The server says that it failed.
    Fails,
}

/// With `BERTH_EVERY_MISHAP` everything happens at every write; without, the agent dies on both sides of each, and of the
/// other two one happens at every second write.
fn mishaps(at: usize) -> Vec<Mishap> {
    let (lost, fails) = (Mishap::AnswerIsLost, Mishap::Fails);
    let more = match std::env::var_os("BERTH_EVERY_MISHAP") {
        Some(_) => vec![lost, fails],
        None if at % 4 == 1 => vec![lost],
        None if at % 4 == 3 => vec![fails],
        None => Vec::new(),
    };
    [Mishap::DiesBefore, Mishap::DiesAfter].into_iter().chain(more).collect()
}

/// How many scripts run at once: most of the time they wait for the agent's chores.
const AT_ONCE: usize = 4;

/// The part of a kubelet that matters: it starts and stops sandboxes, says DEL of what failed, and goes on trying. And the
/// part of whoever looks after the agent: it is started when it has died.
struct Kubelet<'a> {
    corner: &'a Corner<'a>,
    agent: &'a Agent,
    live: Live,
    sandboxes: usize,
}

struct Sandbox {
    pod: Pod,
    container: String,
    address: IpAddr,
}

impl Kubelet<'_> {
    fn start(&mut self, pod: &Pod, pool: &str) -> Sandbox {
        let extra = json!({"pools": [self.corner.name(pool)]});
        for _ in 0..40 {
            self.sandboxes += 1;
            let container = format!("{}-{}", pod.name, self.sandboxes);
            let ran = self.agent.add_with(pod, &container, &extra);
            if ran.code == 0 {
                let first = ran.addresses().remove(0);
                let address = first.split('/').next().and_then(|text| text.parse().ok()).expect("an address");
                self.live.takes(address, &container);
                return Sandbox { pod: pod.clone(), container, address };
            }
            self.agent.del(pod, &container).silent();
            self.agent.revive();
            // A kubelet does not try again at once either.
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("pod {} never got an address", pod.name);
    }

    fn stop(&mut self, sandbox: &Sandbox) {
        self.live.leaves(&sandbox.container);
        self.agent.del(&sandbox.pod, &sandbox.container).silent();
        self.agent.revive();
    }

    fn wait(&self, what: &str, mut done: impl FnMut() -> bool) {
        self.corner.until(what, || {
            self.agent.revive();
            done()
        });
    }
}

/// Every kind of write that an agent makes.
fn script(corner: &Corner<'_>, agent: &Agent) {
    let mut kubelet = Kubelet { corner, agent, live: Live::default(), sandboxes: 0 };
    let pod = |name: &str, annotations: Value| corner.pod(agent, name, &annotations);
    // A shared pool: one write before the answer.
    let shared: Vec<Sandbox> = (0..2).map(|i| kubelet.start(&pod(&format!("s{i}"), json!({})), "shared")).collect();
    // An affine one: two leases, four to a block, and what is behind the answers.
    let mut affine: Vec<Sandbox> = (0..6).map(|i| kubelet.start(&pod(&format!("a{i}"), json!({})), "affine")).collect();
    kubelet.wait("the API server to hear of all", || corner.used() == 8);
    // One that comes back, and a claim: a second object besides the block.
    let sticky = pod("k", json!({}));
    let first = kubelet.start(&sticky, "sticky");
    kubelet.stop(&first);
    let again = kubelet.start(&sticky, "sticky");
    assert_eq!(again.address, first.address, "what is kept is given back");
    let claimed = kubelet.start(&pod("v", json!({"berth.io/claim": corner.name("vip")})), "claimed");
    // Another node is short of addresses: a lease is opened.
    corner.want_leases();
    let wanted = || {
        let leases = corner.lease_objects();
        leases.iter().any(|block| block.metadata.annotations.as_ref().is_some_and(|all| !all.is_empty()))
    };
    kubelet.wait("a lease to be opened", || !wanted());
    // What is in an opened lease is given back through the API server, and what is free in it is given out.
    let rest = affine.split_off(3);
    affine.iter().for_each(|sandbox| kubelet.stop(sandbox));
    affine = (0..2).map(|i| kubelet.start(&pod(&format!("b{i}"), json!({})), "affine")).collect();
    kubelet.wait("the API server to hear of all", || corner.used() == 2 + 3 + 2 + 2);
    corner.check();
    for sandbox in shared.iter().chain(&rest).chain(&affine).chain([&again, &claimed]) {
        kubelet.stop(sandbox);
    }
    // Two are kept, for the sticky pod and for the claim; everything else is free, and the last lease stays.
    kubelet.wait("everything to be free", || corner.used() == 2 && agent.queued() == 0);
    let back = kubelet.start(&sticky, "sticky");
    assert_eq!(back.address, first.address, "what is kept is given back");
    kubelet.stop(&back);
    kubelet.wait("everything to be free", || corner.used() == 2 && agent.queued() == 0);
}

fn run(world: &World, mishap: Option<(usize, Mishap)>) -> (usize, bool) {
    let corner = Corner::of(world);
    corner.pool("shared", &json!({"ranges": ["10.N.0.0/26"]}));
    corner.pool("affine", &json!({"ranges": ["10.N.64.0/27"], "blockSize": 30}));
    corner.pool("sticky", &json!({"ranges": ["10.N.128.0/26"], "sticky": {}}));
    corner.pool("claimed", &json!({"ranges": ["10.N.192.0/26"]}));
    corner.claim("vip", "claimed");
    let agent = corner.quiet_agent("n", "shared", &["--idle-lease-for", "0", "--write-block-every", "0"]);
    agent.start();
    let (pid, proxy) = (agent.pid(), agent.proxy());
    if let Some((at, mishap)) = mishap {
        proxy.rule(move |seen| {
            let fault = match mishap {
                Mishap::DiesBefore => Fault::KillBefore(pid),
                Mishap::DiesAfter => Fault::KillAfter(pid),
                Mishap::AnswerIsLost => Fault::LoseAnswer,
                Mishap::Fails => Fault::Answer(500),
            };
            (seen.is_write() && seen.writes == at).then_some(fault)
        });
    }
    script(&corner, &agent);
    let writes = proxy.writes();
    (writes, mishap.is_some_and(|(at, _)| writes >= at))
}

#[test]
fn b12_calico_13858_whatever_happens_at_any_write() {
    let Some(world) = World::shared() else { return };
    let (writes, _) = run(world, None);
    eprintln!("the script writes {writes} times");
    assert!(writes > 15, "the script writes {writes} times");
    let jobs: Vec<(usize, Mishap)> =
        (1..=writes).flat_map(|at| mishaps(at).into_iter().map(move |mishap| (at, mishap))).collect();
    let (next, failed, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(&job) = jobs.get(next.fetch_add(1, Ordering::SeqCst)) {
                    match std::panic::catch_unwind(AssertUnwindSafe(|| run(world, Some(job)))) {
                        Ok((_, true)) => {}
                        Ok((_, false)) => drop(missed.fetch_add(1, Ordering::SeqCst)),
                        Err(_) => failed.lock().expect("nobody panics here").push(job),
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("nobody panics here");
    assert!(failed.is_empty(), "of {} runs these failed: {failed:?}", jobs.len());
    // Flushes that fell together make the last write of a run come one or two earlier.
    let missed = missed.into_inner();
    eprintln!("{writes} writes, {} runs, {missed} of them ended before their write", jobs.len());
    assert!(missed * 10 < jobs.len(), "{missed} of {} runs ended before their write", jobs.len());
}
