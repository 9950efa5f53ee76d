//! Kill -9 of the daemon in a loop, under concurrent ADD and DEL through the real plugin.
//!
//! Every operation is recorded with its start and its end. An address is surely a container's from the end of its ADD to
//! the start of its DEL; what happens in between is anybody's guess, and nobody's fault. Afterwards a model looks at the
//! record: no address was surely two containers' at once, and nothing that was answered is lost.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use berth_e2e::{Call, Home, until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

const WORKERS: usize = 6;
const KILLS: usize = 60;
/// Each worker keeps this many containers, so the pools are nearly full and addresses are used again and again.
const LIVE: usize = 4;

/// 30 addresses of each family, for at most `WORKERS * (LIVE + 1)` containers.
const POOLS: &str = "
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: four}
spec: {ranges: [10.9.0.1-10.9.0.30], prefixLength: 24, gateway: none}
---
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: six}
spec: {ranges: ['fd00:9::1-fd00:9::1e'], prefixLength: 64, gateway: none}
";

/// One container that got its addresses.
#[derive(Clone, Debug)]
struct Held {
    container: String,
    addresses: Vec<String>,
    from: Instant,
    to: Option<Instant>,
}

/// The first two containers that surely had an address at the same time.
fn shared(record: &[Held]) -> Option<(&Held, &Held)> {
    let mut by_address: BTreeMap<&str, Vec<&Held>> = BTreeMap::new();
    for held in record {
        for address in &held.addresses {
            by_address.entry(address).or_default().push(held);
        }
    }
    by_address.into_values().find_map(|mut users| {
        users.sort_by_key(|held| held.from);
        let overlap = |pair: &[&Held]| pair[0].to.is_none_or(|to| to > pair[1].from);
        // In order of their beginnings, an overlap of any two is an overlap of two neighbours.
        users.windows(2).find(|pair| overlap(pair)).map(|pair| (pair[0], pair[1]))
    })
}

#[derive(Default)]
struct Counters {
    answered: AtomicU64,
    /// ADDs that failed and DELs that were queued.
    unanswered: AtomicU64,
}

/// Starts and stops containers until told to end; returns the record of those that got addresses.
fn work(home: &Home, worker: usize, stop: &AtomicBool, counters: &Counters) -> Vec<Held> {
    // Nobody waits for a daemon that is down: how it goes on is what is of interest.
    let config = home.config("1.0.0", &json!({"waitSeconds": 0}));
    let (mut done, mut live): (Vec<Held>, Vec<Held>) = (Vec::new(), Vec::new());
    let count = |answered: bool| {
        let counter = if answered { &counters.answered } else { &counters.unanswered };
        counter.fetch_add(1, Ordering::SeqCst);
    };
    for n in 0.. {
        let container = format!("w{worker}-{n}");
        let ran = Call::new("ADD", &container).run(&config);
        let from = Instant::now();
        count(ran.code == 0);
        if ran.code == 0 {
            live.push(Held { container, addresses: ran.addresses(), from, to: None });
        } else {
            ran.failed(11);
            // As a runtime does. Whether the daemon had decided before it died is not known.
            delete(&container, &config, &count);
        }
        if live.len() >= LIVE {
            let mut oldest = live.remove(0);
            oldest.to = Some(Instant::now());
            delete(&oldest.container, &config, &count);
            done.push(oldest);
        }
        if stop.load(Ordering::SeqCst) {
            break;
        }
    }
    done.extend(live);
    done
}

fn delete(container: &str, config: &Value, count: &impl Fn(bool)) {
    let ran = Call::new("DEL", container).run(config);
    ran.silent();
    count(!ran.stderr.contains("queued"));
}

#[test]
fn nothing_is_doubled_lost_or_leaked() {
    let home = &Home::new();
    let (stop, counters) = (&AtomicBool::new(false), &Counters::default());
    let mut daemon = home.start_with_manifests(POOLS);
    let record: Vec<Held> = thread::scope(|scope| {
        let workers: Vec<_> =
            (0..WORKERS).map(|worker| scope.spawn(move || work(home, worker, stop, counters))).collect();
        for kill in 0..KILLS as u64 {
            // From at once to well under way: the moment of death falls anywhere in a batch.
            let progress = |counter: &AtomicU64, more: u64| {
                let goal = counter.load(Ordering::SeqCst) + more;
                until("the workers to go on", || {
                    assert!(!workers.iter().any(thread::ScopedJoinHandle::is_finished), "a worker gave up");
                    (counter.load(Ordering::SeqCst) >= goal).then_some(())
                });
            };
            progress(&counters.answered, 1 + kill * 7 % 60);
            daemon.signal(rustix::process::Signal::KILL);
            daemon.wait();
            progress(&counters.unanswered, 1 + kill % 5);
            daemon = home.start();
            daemon.check();
        }
        stop.store(true, Ordering::SeqCst);
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });

    assert!(record.len() > KILLS * WORKERS, "only {} containers started: that is no load", record.len());
    if let Some((one, other)) = shared(&record) {
        unreachable!("two containers had one address at once: {one:?} and {other:?}");
    }

    // What lives has what it was told, and nothing else is there: failed ADDs left nothing after their DEL.
    let live = record.iter().filter(|held| held.to.is_none());
    let expected: BTreeMap<String, String> = live.clone().flat_map(pairs).collect();
    until("the queue to be drained", || files(home).is_empty().then_some(()));
    assert_eq!(daemon.held("Active").into_iter().collect::<BTreeMap<_, _>>(), expected);
    daemon.check();

    for held in live {
        home.del(&held.container);
    }
    assert_eq!(daemon.held("Active"), []);
    daemon.check();
    daemon.kill();
    let daemon = home.start();
    assert_eq!(daemon.held("Active"), [], "and it stays so");
    daemon.check();
}

/// Each address without its length, and its container.
fn pairs(held: &Held) -> Vec<(String, String)> {
    let bare = |address: &String| address.split('/').next().unwrap_or_default().to_owned();
    held.addresses.iter().map(|address| (bare(address), held.container.clone())).collect()
}

fn files(home: &Home) -> Vec<std::path::PathBuf> {
    berth_wire::queue::list(&home.queue()).unwrap()
}

#[test]
fn the_model_sees_what_it_looks_for() {
    let begin = Instant::now();
    let at = |millis| begin + std::time::Duration::from_millis(millis);
    let held = |container: &str, address: &str, from, to: Option<u64>| Held {
        container: container.to_owned(),
        addresses: vec![address.to_owned()],
        from: at(from),
        to: to.map(at),
    };
    let fine = [held("a", "x", 0, Some(10)), held("b", "x", 10, None), held("c", "y", 5, None)];
    assert!(shared(&fine).is_none());
    let overlap = [held("c", "x", 30, None), held("a", "x", 0, Some(10)), held("b", "x", 9, Some(20))];
    let (one, other) = shared(&overlap).unwrap();
    assert_eq!((one.container.as_str(), other.container.as_str()), ("a", "b"));
    assert!(shared(&[held("a", "x", 0, None), held("b", "x", 50, Some(60))]).is_some(), "a still lives");
}
