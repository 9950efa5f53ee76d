//! What durability costs: the engine over a real journal, forced to disk or not.

use crate::holders;
use anyhow::{Context, Result};
use berth_bench::rows::{Rows, quantile};
use berth_core::ipam::{Config, Group, Request};
use berth_core::model::Pool;
use berth_core::time::Time;
use berth_engine::Engine;
use berth_store::{Durability, FileMedium, Journal};
use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Allocates and releases with each choice and 1, 8 and 32 threads, in a file below `dir`.
pub(crate) fn report(dir: &Path, operations: u32) -> Result<()> {
    let columns = [
        ("durability", 10),
        ("threads", 7),
        ("ops/s", 9),
        ("p50 us", 9),
        ("p99 us", 9),
        ("ops/frame", 9),
        ("syncs", 7),
    ];
    let rows = Rows::begin(&format!("Journal in {}, allocate and release", dir.display()), &columns);
    for threads in [1, 8, 32] {
        for (name, durability) in [("boot", Durability::Boot), ("always", Durability::Always)] {
            // A sync takes milliseconds: fewer operations say the same.
            let operations = if durability == Durability::Always { operations.min(2000) } else { operations };
            let row = measure(dir, durability, threads, operations)?;
            rows.print(&[&[name.to_owned(), threads.to_string()][..], &row[..]].concat());
        }
    }
    Ok(())
}

fn measure(dir: &Path, durability: Durability, threads: u32, operations: u32) -> Result<Vec<String>> {
    let path = dir.join(format!("berth-bench-{}.journal", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let medium = FileMedium::open(&path).with_context(|| format!("open {}", path.display()))?;
    let (journal, _) = Journal::open(medium, durability, "bench")?;
    let pool = Pool::new("bench", vec!["10.0.0.0/8".parse()?]);
    let config = Config { pools: BTreeMap::from([("bench".to_owned(), pool)]), ..Config::default() };
    let engine = Engine::open(journal, config, 1, now)?;
    let started = Instant::now();
    let mut micros: Vec<u64> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                let engine = &engine;
                scope.spawn(move || {
                    let one = |i| turn(engine, u64::from(worker * 1_000_000 + i));
                    (0..operations / 2 / threads).flat_map(one).collect::<Vec<u64>>()
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    let took = started.elapsed().as_secs_f64();
    let done = micros.len();
    anyhow::ensure!(done as u32 >= operations / 2 / threads * threads * 2, "some operations failed");
    micros.sort_unstable();
    let (_, frames, syncs) = engine.with_store(|journal| journal.counters());
    drop(engine);
    std::fs::remove_file(&path)?;
    Ok(vec![
        format!("{:.0}", done as f64 / took),
        quantile(&micros, 0.5).to_string(),
        quantile(&micros, 0.99).to_string(),
        format!("{:.1}", done as f64 / frames.max(1) as f64),
        syncs.to_string(),
    ])
}

/// One container comes and goes, stamped as the plugin does; how long each took, in microseconds.
fn turn(engine: &Engine<Journal<FileMedium>>, n: u64) -> Vec<u64> {
    let holder = holders::container(n);
    let (network, id, ifname) = (holder.network.clone(), holder.id.clone(), holder.ifname.clone());
    let request = Request { holder, groups: vec![Group::default()], ..Request::default() };
    let mut times = Vec::with_capacity(2);
    let start = Instant::now();
    if engine.allocate(request, Some(2 * n + 1)).is_ok() {
        times.push(start.elapsed().as_micros() as u64);
    }
    let start = Instant::now();
    if engine.release(&network, &id, &ifname, Some(2 * n + 2)).is_ok() {
        times.push(start.elapsed().as_micros() as u64);
    }
    times
}

fn now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64))
}
