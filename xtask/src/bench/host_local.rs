//! The plugin beside the real host-local.
//!
//! Contestants take turns in the order A B C D D C B A, so that whatever else the machine does falls on all of them
//! alike. Each turn makes some ADDs and then their DELs. An oracle stays on throughout: an address given twice, a call
//! that fails or a lease left behind ends the run, since a fast wrong answer is worth nothing.
//!
//! The file system matters. On ext4, making a file was seen to cost under 0.1 ms when a run began and up to 1 ms after
//! it had removed tens of thousands of them (perhaps because ext4 passes over inodes that were freed of late), against
//! 5 us on tmpfs. `--dir /dev/shm` shows the plugins alone.

use super::call::{Verb, addresses};
use super::contestant::{self, Contestant};
use super::counters;
use super::report::{Cell, Report};
use super::stats::Samples;
use crate::packages::{self, CNI_PLUGINS, STRACE};
use anyhow::{Context, Result, anyhow, bail};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

const HELD: [u32; 4] = [0, 110, 1_000, 10_000];
const PARALLEL: [usize; 3] = [1, 8, 32];

#[derive(clap::Args)]
pub(super) struct Args {
    /// Rounds per row; each contestant has two turns in a round
    #[arg(long, default_value_t = 30)]
    rounds: usize,
    /// A short run: fewer rounds, one call at a time
    #[arg(long)]
    quick: bool,
    /// Where the states live; the file system matters
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<()> {
    if let Some(why) = packages::ensure(&[CNI_PLUGINS])? {
        bail!("there is nothing to compare with: {why}");
    }
    if let Some(why) = packages::ensure(&[STRACE])? {
        println!("SKIPPED: counting system calls: {why}");
    }
    let scratch = tempfile::tempdir_in(&args.dir).with_context(|| format!("cannot use {}", args.dir.display()))?;
    let mut contestants = contestant::all(scratch.path())?;
    let mut report = Report::new(contestants.iter().map(|contestant| contestant.name).collect());
    report.header(&args.dir);
    let parallel = if args.quick { &PARALLEL[..1] } else { &PARALLEL };
    for held in HELD {
        for &parallel in parallel {
            for contestant in &mut contestants {
                contestant.prepare(held).with_context(|| format!("preparing {} with {held}", contestant.name))?;
            }
            let plan = Plan::new(args, held, parallel);
            report.cell(measure(&contestants, &plan)?);
        }
        for contestant in &contestants {
            report.counters(held, contestant.name, counters::count(contestant, scratch.path())?);
        }
    }
    report.finish()
}

/// How much is measured in one cell.
struct Plan {
    held: u32,
    parallel: usize,
    rounds: usize,
    /// Calls of one contestant in one turn.
    calls: usize,
}

impl Plan {
    /// host-local reads every lease at every call: with ten thousand, rounds are dear.
    fn new(args: &Args, held: u32, parallel: usize) -> Self {
        let rounds = if args.quick { 5 } else { args.rounds };
        let (rounds, calls) = match (held, parallel) {
            (10_000.., 1) => (rounds.div_ceil(3), 4),
            (10_000.., _) => (rounds.div_ceil(15), parallel),
            (_, 1) => (rounds, 16),
            _ => (rounds.div_ceil(3), parallel),
        };
        Self { held, parallel, rounds, calls }
    }
}

fn measure(contestants: &[Contestant], plan: &Plan) -> Result<Cell> {
    let mut cell = Cell::new(plan.held, plan.parallel, contestants.len());
    let order: Vec<usize> = (0..contestants.len()).chain((0..contestants.len()).rev()).collect();
    for _ in 0..plan.rounds {
        let mut rounds = vec![(Vec::new(), Vec::new()); contestants.len()];
        for &index in &order {
            let contestant = &contestants[index];
            let (adds, dels) = turn(contestant, plan).with_context(|| contestant.name)?;
            rounds[index].0.extend(adds);
            rounds[index].1.extend(dels);
        }
        for ((adds, dels), (add_samples, del_samples)) in rounds.into_iter().zip(&mut cell.samples) {
            add_samples.add_round(adds);
            del_samples.add_round(dels);
        }
    }
    contestants.iter().try_for_each(|contestant| contestant.check_leaks(plan.held))?;
    Ok(cell)
}

/// Some ADDs and then their DELs, with the time of each.
fn turn(contestant: &Contestant, plan: &Plan) -> Result<(Vec<Duration>, Vec<Duration>)> {
    let containers: Vec<String> = (0..plan.calls).map(|_| contestant.container()).collect();
    let adds = batch(contestant, plan, Verb::Add, &containers)?;
    let mut live = contestant.held();
    if contestant.allocates() {
        for (_, result) in &adds {
            if let Some(twice) = addresses(result)?.into_iter().find(|ip| !live.insert(*ip)) {
                bail!("{twice} was given twice");
            }
        }
    }
    let dels = batch(contestant, plan, Verb::Del, &containers)?;
    let times = |calls: Vec<(Duration, Vec<u8>)>| calls.into_iter().map(|(time, _)| time).collect();
    Ok((times(adds), times(dels)))
}

/// One call per container, `parallel` of them at a time.
fn batch(contestant: &Contestant, plan: &Plan, verb: Verb, containers: &[String]) -> Result<Vec<(Duration, Vec<u8>)>> {
    let target = contestant.target();
    if plan.parallel == 1 {
        return containers.iter().map(|container| target.call(verb, container)).collect();
    }
    thread::scope(|scope| {
        let workers: Vec<_> = containers
            .chunks(containers.len().div_ceil(plan.parallel))
            .map(|chunk| {
                let target = target.clone();
                scope.spawn(move || {
                    chunk.iter().map(|container| target.call(verb, container)).collect::<Result<Vec<_>>>()
                })
            })
            .collect();
        let results = workers.into_iter().map(|worker| worker.join().map_err(|_| anyhow!("a worker panicked"))?);
        Ok(results.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    })
}

/// Times of ADD and of DEL.
pub(super) type Times = (Samples, Samples);
