//! The tests, in parts.

use crate::cluster::NOTHING_YET;
use crate::elf::Binary;
use crate::generate;
use crate::packages::{self, CNI_PLUGINS, NETWORK};
use crate::steps::{self, Outcome, Step};
use crate::{dist, lint, sh};
use anyhow::{Result, ensure};
use clap::ValueEnum;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The plugin is loaded once per container.
const LARGEST_PLUGIN: usize = 2 << 20;
const HOST_LOCAL: &str = "/usr/lib/cni/host-local";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to test; everything if nothing is named
    parts: Vec<Part>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Lints, generated files, unit and property tests
    Unit,
    /// The shipped plugin, and its conformance beside the reference's
    Plugin,
    /// Real namespaces, real plugins, a real container runtime
    Network,
    /// The daemon killed over and over under load
    Crash,
    /// A cluster
    Cluster,
    /// Several nodes
    Nodes,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let named = if args.parts.is_empty() { Part::value_variants() } else { &args.parts };
    let steps: Vec<_> = named.iter().flat_map(|part| part.steps()).collect();
    Ok(steps::run(&steps))
}

impl Part {
    fn steps(self) -> Vec<Step> {
        match self {
            Self::Unit => {
                let mut steps = lint::steps();
                steps.push(Step { name: "unit tests", run: unit });
                steps.push(Step { name: "generated files", run: generated });
                steps
            }
            Self::Plugin => vec![
                Step { name: "the shipped plugin is static, stripped and small", run: shipped },
                Step { name: "conformance of the reference", run: conformance_of_host_local },
                Step { name: "conformance of berth-cni", run: conformance_of_berth },
            ],
            Self::Network => vec![Step { name: "real networks", run: network }],
            Self::Crash => vec![Step { name: "kill -9 under load", run: crash }],
            Self::Cluster => vec![Step { name: "cluster", run: || Ok(Outcome::Nothing(NOTHING_YET)) }],
            Self::Nodes => vec![Step { name: "nodes", run: || Ok(Outcome::Nothing(NOTHING_YET)) }],
        }
    }
}

fn unit() -> Result<Outcome> {
    let mut cargo = sh::cargo(&["test", "--workspace", "--quiet", "--no-fail-fast"]);
    if end_to_end("Cargo.toml").exists() {
        // They have a part of their own.
        cargo.args(["--exclude", "berth-e2e"]);
    }
    sh::run(&mut cargo)?;
    Ok(Outcome::Passed)
}

fn generated() -> Result<Outcome> {
    generate::run(&generate::Args { check: true })?;
    Ok(Outcome::Passed)
}

fn shipped() -> Result<Outcome> {
    let plugin = Binary::read(&dist::plugin()?)?;
    println!("{plugin:?}");
    ensure!(plugin.is_static, "berth-cni asks for a dynamic loader");
    ensure!(plugin.is_stripped, "berth-cni carries symbols");
    ensure!(plugin.size <= LARGEST_PLUGIN, "berth-cni is {} bytes, more than {LARGEST_PLUGIN}", plugin.size);
    Ok(Outcome::Passed)
}

fn conformance_of_host_local() -> Result<Outcome> {
    if let Some(why) = packages::ensure(&[CNI_PLUGINS])? {
        return Ok(Outcome::Skipped(why));
    }
    conformance(&["--plugin", HOST_LOCAL, "--as", "host-local", "--reference", HOST_LOCAL])
}

fn conformance_of_berth() -> Result<Outcome> {
    let host_local = installed_as_host_local(&dist::plugin()?)?;
    let berth = dist::daemon()?;
    let (host_local, berth) = (host_local.to_string_lossy(), berth.to_string_lossy());
    let mut args = vec!["--plugin", &host_local, "--as", "berth", "--berth", &berth];
    if Path::new(HOST_LOCAL).exists() {
        args.extend(["--reference", HOST_LOCAL]);
    }
    conformance(&args)
}

fn conformance(args: &[&str]) -> Result<Outcome> {
    sh::run(sh::cargo(&["run", "--quiet", "--package", "berth-conformance", "--"]).args(args))?;
    Ok(Outcome::Passed)
}

/// The plugin goes by its name: as `host-local` it needs no daemon.
pub(crate) fn installed_as_host_local(plugin: &Path) -> Result<PathBuf> {
    let dir = plugin.with_file_name("as-host-local");
    fs::create_dir_all(&dir)?;
    let link = dir.join("host-local");
    if !link.is_symlink() {
        symlink("../berth-cni", &link)?;
    }
    Ok(link)
}

fn network() -> Result<Outcome> {
    if !end_to_end("Cargo.toml").exists() {
        return Ok(Outcome::Nothing("crates/e2e is not there yet"));
    }
    if let Some(why) = packages::ensure(&NETWORK)? {
        return Ok(Outcome::Skipped(why));
    }
    sh::run(&mut sh::cargo(&["test", "--package", "berth-e2e"]))?;
    Ok(Outcome::Passed)
}

fn crash() -> Result<Outcome> {
    if !end_to_end("tests/crash.rs").exists() {
        return Ok(Outcome::Nothing("crates/e2e/tests/crash.rs is not there yet"));
    }
    // It takes its time, and so is marked to be ignored where people run all tests.
    sh::run(&mut sh::cargo(&["test", "--package", "berth-e2e", "--test", "crash", "--", "--ignored"]))?;
    Ok(Outcome::Passed)
}

fn end_to_end(file: &str) -> PathBuf {
    sh::root().join("crates/e2e").join(file)
}
