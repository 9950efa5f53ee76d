//! The tests, in parts.

use crate::elf::Binary;
use crate::generate;
use crate::packages::{self, NODE_PACKAGES, PACKAGES};
use crate::steps::{self, Outcome, Step};
use crate::{dist, image, lint, sh};
use anyhow::{Result, ensure};
use berth_cluster::tools;
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
    /// The real daemon: networks, a container runtime, HTTP, kill -9 under load
    Whole,
    /// A real API server: what needs no nodes
    Cluster,
    /// Three real kubelets with pods
    Nodes,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let named = if args.parts.is_empty() { Part::value_variants() } else { &args.parts };
    // First, because unit tests too are more thorough beside the reference.
    let packages = Step { name: "Debian packages", run: install };
    let steps: Vec<_> = [packages].into_iter().chain(named.iter().flat_map(|part| part.steps())).collect();
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
            Self::Whole => vec![Step { name: "end to end", run: end_to_end }],
            Self::Cluster => vec![
                Step { name: "Kubernetes, built or in the cache", run: kubernetes },
                Step { name: "control plane", run: control_plane },
            ],
            Self::Nodes => vec![
                Step { name: "Debian packages of nodes", run: install_for_nodes },
                Step { name: "Kubernetes, built or in the cache", run: kubernetes },
                Step { name: "nodes", run: nodes },
                Step { name: "Berth on nodes", run: berth_on_nodes },
            ],
        }
    }
}

fn install() -> Result<Outcome> {
    Ok(packages::ensure(&PACKAGES)?.map_or(Outcome::Passed, Outcome::Skipped))
}

fn unit() -> Result<Outcome> {
    // What has a part of its own is left out.
    let mut cargo = sh::cargo(&["test", "--workspace", "--quiet", "--no-fail-fast", "--exclude", "berth-e2e"]);
    for own in ["berth-cluster", "berth-e2e-cluster", "berth-e2e-nodes", "berth-admission"] {
        cargo.args(["--exclude", own]);
    }
    sh::run(&mut cargo)?;
    // Of admission, what needs no API server.
    sh::run(&mut sh::cargo(&["test", "--package", "berth-admission", "--quiet", "--lib", "--test", "review"]))?;
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
    if !Path::new(HOST_LOCAL).exists() {
        return Ok(Outcome::Skipped(format!("{HOST_LOCAL} is not there")));
    }
    conformance(&["--plugin", HOST_LOCAL, "--as", "host-local", "--reference", HOST_LOCAL])
}

fn conformance_of_berth() -> Result<Outcome> {
    let host_local = installed_as_host_local(&dist::plugin()?)?;
    // The one that goes into the image: a release takes minutes to build, and one is enough.
    let berth = dist::static_daemon()?;
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

fn end_to_end() -> Result<Outcome> {
    // Without root or a package, the tests themselves say what they leave out; with CI=true they fail.
    sh::run(&mut sh::cargo(&["test", "--package", "berth-e2e", "--no-fail-fast"]))?;
    Ok(Outcome::Passed)
}

fn install_for_nodes() -> Result<Outcome> {
    Ok(packages::ensure(&NODE_PACKAGES)?.map_or(Outcome::Passed, Outcome::Skipped))
}

/// Before the tests, whose output is kept back while they pass: an empty cache takes minutes, and that should be seen.
fn kubernetes() -> Result<Outcome> {
    match tools::ensure(tools::ALL) {
        Ok(paths) => {
            paths.first().and_then(|path| path.parent()).inspect(|dir| println!("in {}", dir.display()));
            Ok(Outcome::Passed)
        }
        Err(error) if error.is_missing() => Ok(Outcome::Skipped(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Tests of what a control plane alone can show. Packages that have such tests are added here.
fn control_plane() -> Result<Outcome> {
    sh::run(&mut sh::cargo(&[
        "test",
        "--package",
        "berth-cluster",
        "--no-fail-fast",
        "--lib",
        "--test",
        "control_plane",
    ]))?;
    sh::run(&mut sh::cargo(&["test", "--package", "berth-admission", "--test", "webhook"]))?;
    // Many tests have an API server of their own, which is busy while it starts and idle while the test waits.
    let agents = ["test", "--package", "berth-e2e-cluster", "--no-fail-fast"];
    sh::run(sh::cargo(&agents).args(["--", "--test-threads", "3"]))?;
    Ok(Outcome::Passed)
}

/// Tests with real nodes, one after another: each wants the whole machine.
fn nodes() -> Result<Outcome> {
    let args = ["test", "--package", "berth-cluster", "--no-fail-fast", "--test", "nodes"];
    sh::run(sh::cargo(&args).args(["--", "--nocapture", "--test-threads", "1"]))?;
    Ok(Outcome::Passed)
}

/// Berth on real nodes, from its manifests and its image.
fn berth_on_nodes() -> Result<Outcome> {
    let image = image::build()?;
    let mut cargo = sh::cargo(&["test", "--package", "berth-e2e-nodes", "--no-fail-fast"]);
    cargo.env("BERTH_IMAGE", image).env("BERTH_BIN", dist::static_daemon()?).env("BERTH_CNI_BIN", dist::plugin()?);
    sh::run(cargo.args(["--", "--nocapture", "--test-threads", "1"]))?;
    Ok(Outcome::Passed)
}
