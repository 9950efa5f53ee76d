//! Instructions per operation, as the processor or valgrind counts them in a process of its own.

use std::process::{Command, Output, Stdio};

const FEW: u64 = 600;

/// Instructions for one allocation and one release together, or `None` where nothing here can count them.
pub(crate) fn per_operation(row: usize, quick: bool) -> Option<u64> {
    with_perf(row).or_else(|| if quick { with_valgrind(row) } else { None })
}

fn run(tool: &str, args: &[&str], row: usize, operations: u64) -> Option<Output> {
    let own = std::env::current_exe().ok()?;
    let (row, operations) = (row.to_string(), operations.to_string());
    let mut command = Command::new(tool);
    command.args(args).arg(own).args(["run", "--row", &row, "--operations", &operations]);
    command.stdout(Stdio::null()).output().ok()
}

/// `perf stat` of two runs: what they have in common, filling the pool above all, cancels out. Virtual machines often
/// hide the counters; perf then says so in place of the number.
fn with_perf(row: usize) -> Option<u64> {
    let count = |operations| -> Option<u64> {
        let run = run("perf", &["stat", "-x,", "-e", "instructions:u", "--"], row, operations)?;
        let text = String::from_utf8(run.stderr).ok()?;
        text.lines().find(|line| line.contains("instructions"))?.split(',').next()?.parse().ok()
    };
    let many = FEW * 11;
    // One look at an empty pool tells whether there are counters; only then is filling a large one worth it.
    let _ = Command::new("perf")
        .args(["stat", "-x,", "-e", "instructions:u", "true"])
        .output()
        .ok()
        .filter(|run| String::from_utf8_lossy(&run.stderr).starts_with(|first: char| first.is_ascii_digit()))?;
    Some(count(many)?.saturating_sub(count(FEW)?) / (many - FEW))
}

/// `valgrind --tool=callgrind`, counting only inside the two functions that are also timed. It finds them by name, so
/// the symbols must not be stripped: `CARGO_PROFILE_RELEASE_STRIP=none cargo run --release -p berth-bench -- engine`.
fn with_valgrind(row: usize) -> Option<u64> {
    let args = [
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        "--toggle-collect=*allocate_all*",
        "--toggle-collect=*release_all*",
    ];
    let text = String::from_utf8(run("valgrind", &args, row, FEW)?.stderr).ok()?;
    let line = text.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(':').next()?.trim().parse::<u64>().ok().map(|total| total / FEW).filter(|&count| count > 0)
}
