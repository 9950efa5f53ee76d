//! Steps with progress: each is numbered and timed, all run whatever happens to one, and a summary ends them.

use anyhow::Result;
use std::env;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How a step ended, if not by failing.
pub(crate) enum Outcome {
    /// It did what it is for.
    Passed,
    /// It could not be done here. In CI that is a failure, or a green run would mean nothing.
    Skipped(String),
    /// There is nothing to do yet.
    Nothing(&'static str),
}

/// Something to do, with a name.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) run: fn() -> Result<Outcome>,
}

/// Runs steps in order and says how they went.
pub(crate) fn run(steps: &[Step]) -> ExitCode {
    let strict = env::var("CI").is_ok_and(|value| value == "true");
    let began = Instant::now();
    let mut summary = Vec::new();
    let mut failed = false;
    for (index, step) in steps.iter().enumerate() {
        println!("\n[{}/{}] {}", index + 1, steps.len(), step.name);
        let start = Instant::now();
        let (verdict, note) = match (step.run)() {
            Ok(Outcome::Passed) => ("PASS", String::new()),
            Ok(Outcome::Nothing(why)) => ("----", why.to_owned()),
            Ok(Outcome::Skipped(why)) if strict => ("FAIL", format!("skipped, which CI does not allow: {why}")),
            Ok(Outcome::Skipped(why)) => ("SKIP", why),
            Err(err) => ("FAIL", format!("{err:#}")),
        };
        failed |= verdict == "FAIL";
        let line = line(verdict, step.name, start.elapsed(), &note);
        println!("{line}");
        summary.push(line);
    }
    println!("\nSummary ({:.1} s)", began.elapsed().as_secs_f64());
    summary.iter().for_each(|line| println!("  {line}"));
    println!("{}", if failed { "FAILED" } else { "passed" });
    ExitCode::from(u8::from(failed))
}

fn line(verdict: &str, name: &str, elapsed: Duration, note: &str) -> String {
    let separator = if note.is_empty() { "" } else { ": " };
    format!("{verdict} {:>7.1} s  {name}{separator}{note}", elapsed.as_secs_f64())
}
