//! What a run prints, and the raw times it keeps.

use super::call::Verb;
use super::contestant::{FLOOR, REFERENCE};
use super::counters::Counters;
use super::host_local::Times;
use super::stats::{Samples, ratio};
use crate::sh;
use anyhow::Result;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// One number of leases held and one number of calls at a time.
pub(super) struct Cell {
    held: u32,
    parallel: usize,
    /// By contestant.
    pub(super) samples: Vec<Times>,
}

impl Cell {
    pub(super) fn new(held: u32, parallel: usize, contestants: usize) -> Self {
        Self { held, parallel, samples: vec![Times::default(); contestants] }
    }

    fn of(&self, verb: Verb, contestant: usize) -> &Samples {
        let (adds, dels) = &self.samples[contestant];
        match verb {
            Verb::Add => adds,
            Verb::Del => dels,
        }
    }

    /// What is left of the ratio to the reference once the cost of starting any program is taken from both.
    fn above_floor(&self, verb: Verb, contestant: usize) -> f64 {
        let median = |contestant| self.of(verb, contestant).median().as_secs_f64();
        // Below zero is noise, or a floor that is none: shown as it is, so that somebody sees it.
        (median(contestant) - median(FLOOR)) / (median(REFERENCE) - median(FLOOR))
    }
}

/// The rows of a run.
pub(super) struct Report {
    names: Vec<&'static str>,
    cells: Vec<Cell>,
}

impl Report {
    pub(super) fn new(names: Vec<&'static str>) -> Self {
        Self { names, cells: Vec::new() }
    }

    pub(super) fn header(&self, dir: &Path) {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let mut stat = sh::command("stat", &["--file-system", "--format=%T"]);
        let file_system = sh::output(stat.arg(dir)).unwrap_or_default();
        println!("states in {} ({}), load {}", dir.display(), file_system.trim(), load.trim());
        let busy = load.split(' ').next().and_then(|load| load.parse::<f64>().ok()).unwrap_or_default();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        if busy > cores as f64 {
            // Then a call waits for a turn of the scheduler, which is longer than the call.
            println!("WARNING: load {busy} on {cores} cores: the times below are not to be trusted, the counters are");
        }
        println!(
            "ratio: to host-local, of the medians, with the 95 % interval over rounds; floor: a program that does nothing"
        );
        println!(
            "\n{:>6} {:>3} {:<4} {:<11} {:>6} {:>10} {:>10} {:>8} {:>17} {:>12}",
            "held", "par", "verb", "contestant", "calls", "p50 us", "p99 us", "ratio", "95 %", "above floor"
        );
    }

    /// Prints a cell and keeps it.
    pub(super) fn cell(&mut self, cell: Cell) {
        for verb in [Verb::Add, Verb::Del] {
            for (index, name) in self.names.iter().enumerate() {
                let samples = cell.of(verb, index);
                let ratio = samples.ratio_to(cell.of(verb, REFERENCE));
                println!(
                    "{:>6} {:>3} {:<4} {name:<11} {:>6} {:>10} {:>10} {:>8.3} {:>17} {:>12.3}",
                    cell.held,
                    cell.parallel,
                    verb.name(),
                    samples.len(),
                    samples.median().as_micros(),
                    samples.percentile(99).as_micros(),
                    ratio.value,
                    format!("{:.3}-{:.3}", ratio.low, ratio.high),
                    cell.above_floor(verb, index),
                );
            }
        }
        self.cells.push(cell);
    }

    pub(super) fn counters(&self, held: u32, name: &str, counters: Counters) {
        let text = |count: Option<u64>| count.map_or_else(|| "not available".to_owned(), |count| count.to_string());
        println!(
            "{held:>6}     ADD  {name:<11} system calls {}, instructions {}, page faults {}",
            text(counters.syscalls),
            text(counters.instructions),
            text(counters.page_faults),
        );
    }

    /// Keeps the raw times and prints the lines that goals are set for; the last is the worse of both ways.
    pub(super) fn finish(&self) -> Result<()> {
        let csv = sh::target_dir().join("bench/host-local.csv");
        fs::create_dir_all(csv.parent().unwrap_or(sh::root()))?;
        fs::write(&csv, self.csv())?;
        println!("\nduplicates 0, failed calls 0, leaks 0 in the directories; raw times in {}", csv.display());
        let ours: Vec<usize> = (FLOOR + 1..self.names.len()).collect();
        for &index in &ours {
            println!("{}: {}", self.names[index], self.summary(&[index]));
        }
        println!("{}", self.summary(&ours));
        Ok(())
    }

    /// The ratios of ADD, one call at a time, of the worst of the contestants given.
    fn summary(&self, contestants: &[usize]) -> String {
        let alone: Vec<_> = self.cells.iter().filter(|cell| cell.parallel == 1).collect();
        let worst = |cell: &Cell, value: &dyn Fn(usize) -> f64| {
            let worst = contestants.iter().map(|&index| value(index)).fold(f64::NEG_INFINITY, f64::max);
            format!(" n={} {worst:.3}", cell.held)
        };
        let reference = |cell: &Cell| cell.of(Verb::Add, REFERENCE).median();
        let ratios =
            alone.iter().map(|cell| worst(cell, &|index| ratio(cell.of(Verb::Add, index).median(), reference(cell))));
        let above = alone.iter().map(|cell| worst(cell, &|index| cell.above_floor(Verb::Add, index)));
        format!("add_p50_ratio{}  above_floor{}", ratios.collect::<String>(), above.collect::<String>())
    }

    fn csv(&self) -> String {
        let mut csv = "held,parallel,contestant,verb,round,microseconds\n".to_owned();
        for cell in &self.cells {
            for (index, name) in self.names.iter().enumerate() {
                for verb in [Verb::Add, Verb::Del] {
                    for (round, times) in cell.of(verb, index).rounds().enumerate() {
                        for time in times {
                            let micros = time.as_micros();
                            // Writing to a string cannot fail.
                            writeln!(csv, "{},{},{name},{},{round},{micros}", cell.held, cell.parallel, verb.name())
                                .ok();
                        }
                    }
                }
            }
        }
        csv
    }
}
