//! What a call costs in things that do not depend on who else uses the machine.

use super::call::{Verb, finish};
use super::contestant::Contestant;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Calls to average over.
const CALLS: u64 = 10;

/// Per ADD; absent where the kernel or a missing tool does not tell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) syscalls: Option<u64>,
    pub(super) instructions: Option<u64>,
    pub(super) page_faults: Option<u64>,
}

/// Counts in a pass of its own, since counting slows down what it counts.
pub(super) fn count(contestant: &Contestant, scratch: &Path) -> Result<Counters> {
    let report = scratch.join("counters");
    let file = report.to_string_lossy();
    let strace = ["strace", "-f", "-c", "-o", &file];
    let perf = ["perf", "stat", "-x", ",", "-e", "instructions:u", "-o", &file];
    Ok(Counters {
        syscalls: wrapped(contestant, &strace, &report, parse_strace),
        instructions: wrapped(contestant, &perf, &report, parse_perf),
        page_faults: page_faults(contestant)?,
    })
}

/// One ADD under a tool; a tool that is not there or does not work here counts nothing.
fn wrapped(contestant: &Contestant, tool: &[&str], report: &Path, parse: fn(&str) -> Option<u64>) -> Option<u64> {
    let (target, container) = (contestant.target(), contestant.container());
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/bin");
    let mut command = target.command(tool, Verb::Add, &container);
    let added = finish(command.env("PATH", path), target.stdin);
    // Undone even if the tool failed after the plugin succeeded.
    target.call(Verb::Del, &container).ok();
    added.ok()?;
    parse(&fs::read_to_string(report).ok()?)
}

/// Minor faults of the children reaped between two looks at our own statistics.
fn page_faults(contestant: &Contestant) -> Result<Option<u64>> {
    let target = contestant.target();
    let mut total = 0;
    for _ in 0..CALLS {
        let container = contestant.container();
        let before = children_faults()?;
        target.call(Verb::Add, &container)?;
        total += children_faults()? - before;
        target.call(Verb::Del, &container)?;
    }
    Ok(Some(total / CALLS))
}

fn children_faults() -> Result<u64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    parse_stat(&stat).context("/proc/self/stat has no cminflt")
}

/// `cminflt` is the eleventh field; the second, in parentheses, may hold blanks.
fn parse_stat(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(8)?.parse().ok()
}

/// The line `100.00 0.001 2 345 6 total`: the fourth column counts calls.
fn parse_strace(report: &str) -> Option<u64> {
    let total = report.lines().find(|line| line.trim_end().ends_with(" total"))?;
    total.split_whitespace().nth(3)?.parse().ok()
}

/// The line `1234567,,instructions:u,…`; where it is not supported the number is a word.
fn parse_perf(report: &str) -> Option<u64> {
    let line = report.lines().find(|line| line.contains("instructions"))?;
    line.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read() {
        assert_eq!(parse_stat("1 (a b) c) S 4 5 6 7 8 9 10 1011 12"), Some(1011));
        assert_eq!(parse_strace("% time\n100.00    0.000000           0        52         5 total\n"), Some(52));
        assert_eq!(parse_perf("# started\n\n512345,,instructions:u,1,100.00,,\n"), Some(512_345));
        assert_eq!(parse_perf("<not supported>,,instructions:u,0,100.00,,\n"), None);
    }
}
