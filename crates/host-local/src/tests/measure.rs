//! What a call costs, in system calls and in time.

use super::Node;
use crate::sys::fault::{Plan, with};
use std::time::{Duration, Instant};

#[test]
fn the_number_of_calls_does_not_grow() {
    let mut counts = Vec::new();
    for held in [0, 200] {
        let node = Node::subnet("10.1.0.0/16");
        for i in 0..=held {
            node.add(&format!("held{i}")).unwrap();
        }
        let (_, add) = with(Plan::Never, || node.add("new").unwrap());
        let (_, again) = with(Plan::Never, || node.add("new").unwrap());
        let (_, del) = with(Plan::Never, || node.del("new"));
        let (_, reused) = with(Plan::Never, || node.add("next").unwrap());
        counts.push([add, again, del, reused]);
    }
    assert_eq!(counts, [[21, 13, 18, 23]; 2], "ADD, repeated ADD, DEL, ADD with a spare file");
}

/// `cargo test --release -- --ignored --nocapture measure`
#[test]
#[ignore = "a measurement, not a test"]
fn time_per_call() {
    for held in [0, 1_000, 10_000] {
        let node = Node::subnet("10.0.0.0/8");
        for i in 0..held {
            node.add(&format!("held{i}")).unwrap();
        }
        node.add("first").unwrap();
        let (mut add, mut del) = (Vec::new(), Vec::new());
        for i in 0..1000 {
            let container = format!("{i:064x}");
            add.push(time(|| drop(node.add(&container).unwrap())));
            del.push(time(|| node.del(&container)));
        }
        std::fs::write(node.dir().join("200.0.0.1"), "stranger\r\neth0").unwrap();
        let resync = time(|| node.del("nobody"));
        std::fs::remove_dir_all(node.own()).unwrap();
        let rebuild = time(|| node.del("nobody"));
        println!(
            "{held:>6} leases: ADD {:?}, DEL {:?}; reading all {resync:?}, making the index {rebuild:?}",
            median(add),
            median(del)
        );
    }
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
