//! The tables.

use crate::drive::{Container, Held, Round, Verb, containers, one_each, round};
use crate::world::World;
use anyhow::Result;
use berth_bench::rows::Rows;
use berth_cluster::counters::{Counters, Spent};
use serde_json::{Value, json};
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

/// After this long, whatever agents write behind their answers is written: a block at most every ten seconds.
const BEHIND: Duration = Duration::from_millis(12_500);

/// The last line.
#[derive(Default)]
pub(crate) struct Summary {
    shared: Worst,
    affine: Worst,
    /// Requests that were refused, in all tables.
    pub(crate) failed: usize,
}

/// What a pod's ADD costs in the worst table of one kind of pool, and how quick a lone request is.
#[derive(Default)]
struct Worst {
    writes: f64,
    conflicts: f64,
    p50: f64,
}

impl Worst {
    fn take(&mut self, pods: usize, writes: f64, conflicts: f64) {
        let pods = pods.max(1) as f64;
        self.writes = self.writes.max(writes / pods);
        self.conflicts = self.conflicts.max(conflicts / pods);
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shared, affine, .. } = self;
        write!(
            out,
            "cluster shared writes_per_pod {:.2} conflicts_per_pod {:.3} p50_ms {:.2} affine writes_per_pod {:.3} p50_ms {:.2}",
            shared.writes, shared.conflicts, shared.p50, affine.writes, affine.p50
        )
    }
}

const COLUMNS: [(&str, usize); 14] = [
    ("", 30),
    ("ok", 5),
    ("again", 5),
    ("failed", 6),
    ("per s", 6),
    ("p50 ms", 7),
    ("p99 ms", 7),
    ("reads", 6),
    ("writes", 6),
    ("409", 5),
    ("events", 6),
    ("watch B", 7),
    ("answer B", 8),
    ("etcd B", 7),
];

/// One row: counts but for the first five are per pod.
fn row(name: &str, seen: &Round, spent: &Spent) -> Vec<String> {
    let pods = (seen.ok() + seen.failed.len()).max(1) as f64;
    let per = |value: f64| format!("{:.3}", value.max(0.0) / pods);
    let bytes = |value: f64| format!("{:.0}", value / pods);
    vec![
        name.to_owned(),
        seen.ok().to_string(),
        seen.again.len().to_string(),
        seen.failed.len().to_string(),
        format!("{:.0}", seen.per_second()),
        format!("{:.2}", seen.millis(0.5)),
        format!("{:.2}", seen.millis(0.99)),
        per(spent.reads()),
        per(spent.writes()),
        per(spent.conflicts()),
        per(spent.watch_events),
        bytes(spent.watch_bytes),
        bytes(spent.answered),
        bytes(spent.etcd_bytes),
    ]
}

/// Rows whose requests were counted one by one, told below the table.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    fn take(&mut self, name: &str, seen: &Round, spent: &Spent) {
        self.0.push(format!("  {name}: {}", spent.in_words()));
        self.0.extend(seen.again.iter().take(1).map(|error| format!("  {name}: tried again after {error}")));
        self.0.extend(seen.failed.iter().take(3).map(|error| format!("  {name}: FAILED {error}")));
    }

    fn print(&self) {
        self.0.iter().for_each(|line| println!("{line}"));
    }
}

/// Runs a round between two readings of the counters; `behind` if agents write after they answer.
fn counted(
    world: &World,
    containers: &mut [Vec<Container>],
    at_once: usize,
    verb: Verb<'_>,
    held: &Held,
    behind: bool,
) -> Result<(Round, Spent)> {
    let before = Counters::read(&world.plane)?;
    let seen = round(&world.nodes, containers, at_once, verb, held)?;
    if behind {
        thread::sleep(BEHIND);
    }
    let spent = Counters::read(&world.plane)?.since(&before).of_agents();
    Ok((seen, spent))
}

fn affine(ranges: &str) -> Value {
    json!({"ranges": [ranges], "blockSize": 26})
}

fn shared(ranges: &str) -> Value {
    json!({"ranges": [ranges]})
}

/// Shared and affine pools, 1, 8 and 32 requests at once per agent.
pub(crate) fn matrix(world: &World, each: usize, summary: &mut Summary) -> Result<()> {
    let title = format!("{} agents, {each} pods each, a pool of 65,536; counts per pod", world.nodes.len());
    let (table, mut notes) = (Rows::begin(&title, &COLUMNS), Notes::default());
    for (kind, behind) in [("shared", false), ("affine", true)] {
        for (i, at_once) in [1, 8, 32].into_iter().enumerate() {
            let pool = format!("{kind}-{at_once}");
            let ranges = format!("10.{}.0.0/16", if behind { 20 } else { 10 } + i);
            world.pool(&pool, &if behind { affine(&ranges) } else { shared(&ranges) })?;
            let (held, mut all) = (Held::default(), containers(&world.nodes, each));
            let (seen, spent) = counted(world, &mut all, at_once, Verb::Add(&pool), &held, behind)?;
            let name = format!("{kind}, {at_once} at once: ADD");
            table.print(&row(&name, &seen, &spent));
            notes.take(&name, &seen, &spent);
            world.settled(&held.all())?;
            let worst = if behind { &mut summary.affine } else { &mut summary.shared };
            worst.take(seen.ok(), spent.writes(), spent.conflicts());
            if at_once == 1 {
                worst.p50 = seen.millis(0.5);
            }
            summary.failed += seen.failed.len();
            let (seen, spent) = counted(world, &mut all, at_once, Verb::Del, &held, behind)?;
            let name = format!("{kind}, {at_once} at once: DEL");
            summary.failed += seen.failed.len();
            table.print(&row(&name, &seen, &spent));
            notes.take(&name, &seen, &spent);
            world.settled(&held.all())?;
        }
    }
    notes.print();
    Ok(())
}

/// As many addresses as pods, from empty to full in quarters, 8 at once per agent.
pub(crate) fn full(world: &World, addresses: usize, summary: &mut Summary) -> Result<()> {
    let agents = world.nodes.len();
    let each = addresses / agents;
    let title = format!("{} addresses for as many pods, 8 at once on {agents} agents; counts per pod", each * agents);
    let (table, mut notes) = (Rows::begin(&title, &COLUMNS), Notes::default());
    let pool = format!("full-{addresses}");
    let first = u32::from_be_bytes([10, 30 + u8::try_from(addresses / 1000).unwrap_or(0), 0, 1]);
    let last = first + u32::try_from(each * agents)? - 1;
    let text = |address: u32| std::net::Ipv4Addr::from_bits(address);
    world.pool(&pool, &shared(&format!("{}-{}", text(first), text(last))))?;
    let (held, mut all) = (Held::default(), containers(&world.nodes, each));
    let (mut failed, mut writes, mut conflicts) = (0, 0.0, 0.0);
    for (quarter, name) in ["first quarter", "second", "third", "last"].into_iter().enumerate() {
        let (from, to) = (each * quarter / 4, each * (quarter + 1) / 4);
        let mut part: Vec<Vec<Container>> = all.iter().map(|own| own[from..to].to_vec()).collect();
        let (seen, spent) = counted(world, &mut part, 8, Verb::Add(&pool), &held, false)?;
        for (own, part) in all.iter_mut().zip(part) {
            own.splice(from..to, part);
        }
        failed += seen.failed.len();
        (writes, conflicts) = (writes + spent.writes(), conflicts + spent.conflicts());
        table.print(&row(name, &seen, &spent));
        notes.take(name, &seen, &spent);
    }
    summary.shared.take(each * agents, writes, conflicts);
    world.settled(&held.all())?;
    let (seen, spent) = counted(world, &mut all, 8, Verb::Del, &held, false)?;
    failed += seen.failed.len();
    table.print(&row("all of them back", &seen, &spent));
    notes.take("all of them back", &seen, &spent);
    world.settled(&held.all())?;
    // Once more, now that no address is new.
    let mut all = containers(&world.nodes, each);
    let (seen, spent) = counted(world, &mut all, 8, Verb::Add(&pool), &held, false)?;
    failed += seen.failed.len();
    summary.shared.take(each * agents, spent.writes(), spent.conflicts());
    table.print(&row("all of them at once", &seen, &spent));
    notes.take("all of them at once", &seen, &spent);
    world.settled(&held.all())?;
    let (seen, _) = counted(world, &mut all, 8, Verb::Del, &held, false)?;
    failed += seen.failed.len();
    world.settled(&held.all())?;
    notes.print();
    println!("  {failed} of {} failed", 4 * each * agents);
    summary.failed += failed;
    Ok(())
}

/// A pool of a thousand and one of a million.
pub(crate) fn size(world: &World, pods: usize, summary: &mut Summary) -> Result<()> {
    let each = pods / world.nodes.len();
    let title = format!("{} pods from pools of different size, 8 at once; counts per pod", each * world.nodes.len());
    let (table, mut notes) = (Rows::begin(&title, &COLUMNS), Notes::default());
    for (name, ranges) in [("1,000 addresses", "10.50.0.1-10.50.3.232"), ("1,048,576", "10.64.0.0/12")] {
        let pool = format!("size-{}", name.split(',').next().unwrap_or_default().len() + name.len());
        world.pool(&pool, &shared(ranges))?;
        let (held, mut all) = (Held::default(), containers(&world.nodes, each));
        let (seen, spent) = counted(world, &mut all, 8, Verb::Add(&pool), &held, false)?;
        table.print(&row(name, &seen, &spent));
        notes.take(name, &seen, &spent);
        world.settled(&held.all())?;
        summary.failed += seen.failed.len();
        summary.failed += round(&world.nodes, &mut all, 8, Verb::Del, &held)?.failed.len();
        world.settled(&held.all())?;
    }
    notes.print();
    Ok(())
}

/// Pods that come and go one after another, two a second on each node: what batches is only what the agent holds back.
pub(crate) fn paced(world: &World, lasting: Duration, summary: &mut Summary) -> Result<()> {
    let title = format!("two pods a second on each of {} nodes; counts per pod", world.nodes.len());
    let (table, mut notes) = (Rows::begin(&title, &COLUMNS), Notes::default());
    for (kind, spec) in [("shared", shared("10.51.0.0/16")), ("affine", affine("10.52.0.0/16"))] {
        let pool = format!("paced-{kind}");
        world.pool(&pool, &spec)?;
        let (held, before, began) = (Held::default(), Counters::read(&world.plane)?, Instant::now());
        let mut total = Round::default();
        let mut living: Vec<Vec<Vec<Container>>> = Vec::new();
        while began.elapsed() < lasting {
            let tick = Instant::now();
            let mut next = one_each(&world.nodes, living.len());
            total.absorb(round(&world.nodes, &mut next, 1, Verb::Add(&pool), &held)?);
            living.push(next);
            thread::sleep(Duration::from_millis(500).saturating_sub(tick.elapsed()));
        }
        thread::sleep(BEHIND);
        let spent = Counters::read(&world.plane)?.since(&before).of_agents();
        total.took = began.elapsed();
        table.print(&row(&format!("{kind}: ADD"), &total, &spent));
        notes.take(kind, &total, &spent);
        world.settled(&held.all())?;
        for mut containers in living {
            total.absorb(round(&world.nodes, &mut containers, 1, Verb::Del, &held)?);
        }
        world.settled(&held.all())?;
        summary.failed += total.failed.len();
    }
    notes.print();
    Ok(())
}
