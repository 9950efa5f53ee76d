//! Runs the conformance suite against a plugin binary.

use anyhow::{Result, bail};
use berth_conformance::case::Implementation;
use berth_conformance::load;
use berth_conformance::plugin::Plugin;
use berth_conformance::run::{Bench, Verdict};
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run the conformance suite for CNI IPAM plugins against a binary.
#[derive(Parser)]
struct Args {
    /// The plugin to test.
    #[arg(long)]
    plugin: PathBuf,
    /// Whose behaviour to expect where implementations differ on purpose.
    #[arg(long = "as", value_enum)]
    implementation: Implementation,
    /// Run only the cases whose name holds this text.
    #[arg(long)]
    filter: Option<String>,
    /// The reference plugin, for the cases that hand over from one plugin to the other.
    #[arg(long)]
    reference: Option<PathBuf>,
    /// The `berth` binary, for the cases that need a daemon.
    #[arg(long)]
    berth: Option<PathBuf>,
    /// Where the cases are.
    #[arg(long, default_value_os_t = load::default_dir())]
    cases: PathBuf,
    /// Count a skipped case as a failure.
    #[arg(long, env = "CI", value_parser = clap::builder::FalseyValueParser::new())]
    strict: bool,
}

fn main() -> ExitCode {
    run(Args::parse()).unwrap_or_else(|err| {
        eprintln!("error: {err:#}");
        ExitCode::FAILURE
    })
}

fn run(args: Args) -> Result<ExitCode> {
    let plugin = Plugin::new(&args.plugin);
    let versions = plugin.versions()?;
    println!("{} supports CNI {}", args.plugin.display(), versions.join(" "));
    let bench = Bench {
        plugin,
        implementation: args.implementation,
        versions,
        reference: args.reference.as_deref().map(Plugin::new),
        berth: args.berth,
    };

    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for case in load::load_dir(&args.cases)? {
        if args.filter.as_ref().is_some_and(|filter| !case.name.contains(filter.as_str())) {
            continue;
        }
        match bench.run(&case)? {
            Verdict::Passed(versions) => {
                passed += 1;
                println!("ok    {} ({versions} versions)", case.name);
            }
            Verdict::Failed(failures) => {
                failed += 1;
                println!("FAIL  {}", case.name);
                failures.iter().for_each(|failure| println!("      {failure}"));
            }
            Verdict::Skipped(why) => {
                skipped += 1;
                println!("SKIP  {} ({why})", case.name);
            }
            Verdict::NotApplicable => {}
        }
    }
    if passed + failed + skipped == 0 {
        bail!("no case was selected");
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(ExitCode::from(u8::from(failed > 0 || (args.strict && skipped > 0))))
}
