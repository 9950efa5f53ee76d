//! Load while the API server stands still: connections stay, answers do not come.

use crate::drive::{Container, Held, Verb, lock, round};
use crate::world::{Node, Pod, World};
use anyhow::{Result, anyhow};
use berth_bench::rows::{Rows, quantile};
use serde_json::json;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Requests at once on each node, and how many containers each keeps.
const LANES: usize = 2;
const KEPT: usize = 8;
/// How long a lane rests between two requests.
const REST: Duration = Duration::from_millis(25);

/// An ADD: when it began, how long it took, whether it succeeded.
struct Seen {
    began: Instant,
    took: Duration,
    ok: bool,
}

/// Prints a row for each kind of pool.
pub(crate) fn report(world: &World, lasting: Duration) -> Result<()> {
    let title = format!("the API server stands still for {} s; ADD and DEL in turn", lasting.as_secs());
    let columns = [
        ("ADDs that began in that time", 30),
        ("ADDs", 6),
        ("ok %", 6),
        ("ok p50 ms", 9),
        ("ok p99 ms", 9),
        ("ok max ms", 9),
        ("failed p50 ms", 13),
        ("in step after s", 15),
    ];
    let table = Rows::begin(&title, &columns);
    for (kind, spec) in [
        ("affine", json!({"ranges": ["10.53.0.0/16"], "blockSize": 26})),
        ("shared", json!({"ranges": ["10.54.0.0/16"]})),
    ] {
        let pool = format!("outage-{kind}");
        world.pool(&pool, &spec)?;
        let (held, stop, seen) = (Held::default(), AtomicBool::new(false), Mutex::new(Vec::new()));
        let (from, to, mut kept) = thread::scope(|scope| -> Result<(Instant, Instant, Vec<Vec<Container>>)> {
            let lanes: Vec<_> = world
                .nodes
                .iter()
                .flat_map(|node| (0..LANES).map(move |number| (node, number)))
                .map(|(node, number)| {
                    let lane = Lane { node, number, pool: &pool, held: &held, stop: &stop, seen: &seen };
                    scope.spawn(move || lane.run())
                })
                .collect();
            thread::sleep(Duration::from_secs(3));
            let from = Instant::now();
            world.plane.pause()?;
            thread::sleep(lasting);
            let to = Instant::now();
            world.plane.resume()?;
            thread::sleep(Duration::from_secs(3));
            stop.store(true, Ordering::SeqCst);
            let kept = lanes.into_iter().map(|lane| lane.join().map_err(|_| anyhow!("a client panicked"))?);
            Ok((from, to, kept.collect::<Result<_>>()?))
        })?;
        let in_step = to.elapsed() + world.settled(&held.all())?;
        // The lanes of a node lie beside each other.
        let mut kept: Vec<Vec<Container>> = kept.chunks_mut(LANES).map(|own| own.concat()).collect();
        round(&world.nodes, &mut kept, 1, Verb::Del, &held)?;
        world.settled(&held.all())?;
        let seen = lock(&seen);
        let within: Vec<&Seen> = seen.iter().filter(|seen| seen.began >= from && seen.began < to).collect();
        let sorted = |ok: bool| {
            let nanos = within.iter().filter(|seen| seen.ok == ok).map(|seen| seen.took.as_nanos());
            let mut nanos: Vec<u64> = nanos.map(|nanos| u64::try_from(nanos).unwrap_or(u64::MAX)).collect();
            nanos.sort_unstable();
            nanos
        };
        let (ok, failed) = (sorted(true), sorted(false));
        let millis = |nanos: &[u64], share: f64| format!("{:.2}", quantile(nanos, share) as f64 / 1e6);
        table.print(&[
            kind.to_owned(),
            within.len().to_string(),
            format!("{:.1}", 100.0 * ok.len() as f64 / within.len().max(1) as f64),
            millis(&ok, 0.5),
            millis(&ok, 0.99),
            millis(&ok, 1.0),
            millis(&failed, 0.5),
            format!("{:.1}", in_step.as_secs_f64()),
        ]);
    }
    Ok(())
}

/// One of a node's pods after another.
struct Lane<'a> {
    node: &'a Node,
    number: usize,
    pool: &'a str,
    held: &'a Held,
    stop: &'a AtomicBool,
    seen: &'a Mutex<Vec<Seen>>,
}

impl Lane<'_> {
    /// The containers that still have their address in the end.
    fn run(&self) -> Result<Vec<Container>> {
        let (mut stream, mut kept, mut doomed) = (self.node.connect()?, VecDeque::new(), VecDeque::new());
        // A pod that has a container gets no second one: that would be a new sandbox, which takes over from the first.
        let mut idle: VecDeque<&Pod> = self.node.pods.iter().skip(self.number).step_by(LANES).collect();
        while !self.stop.load(Ordering::SeqCst) {
            if let Some(pod) = idle.pop_front() {
                let (mut container, began) = (Container::new(pod), Instant::now());
                let ok = self.held.add(&mut stream, self.pool, &mut container)?.is_ok();
                lock(self.seen).push(Seen { began, took: began.elapsed(), ok });
                if ok {
                    kept.push_back((container, pod));
                } else {
                    // A runtime deletes what it could not add, and tries anew.
                    doomed.push_back((container, None));
                    idle.push_back(pod);
                }
            }
            if kept.len() > KEPT {
                doomed.extend(kept.pop_front().map(|(container, pod)| (container, Some(pod))));
            }
            if let Some((mut container, pod)) = doomed.pop_front() {
                match self.held.del(&mut stream, &mut container)? {
                    Ok(()) => idle.extend(pod),
                    Err(_) => doomed.push_back((container, pod)),
                }
            }
            thread::sleep(REST);
        }
        while let Some((mut container, pod)) = doomed.pop_front() {
            if self.held.del(&mut stream, &mut container)?.is_err() {
                doomed.push_back((container, pod));
                thread::sleep(Duration::from_millis(100));
            }
        }
        Ok(kept.into_iter().map(|(container, _)| container).collect())
    }
}
