//! Building what is shipped.

use crate::sh;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// No loader, no relocation: the plugin is executed once per container and must be running at once.
const STATIC: &str = "-C target-feature=+crt-static -C relocation-model=static";

/// Builds everything into target/dist.
pub(crate) fn run() -> Result<()> {
    for path in [plugin()?, daemon()?] {
        println!("{} ({} KiB)", path.display(), fs::metadata(&path)?.len() / 1024);
    }
    Ok(())
}

/// Builds the CNI plugin.
pub(crate) fn plugin() -> Result<PathBuf> {
    small_and_static("berth-cni")
}

/// Builds what benchmarks put in the place of a plugin, to time it.
pub(crate) fn stand_in() -> Result<PathBuf> {
    small_and_static("timed-ipam")
}

/// Builds the program of a package as a plugin should be.
fn small_and_static(package: &str) -> Result<PathBuf> {
    let triple = host_triple()?;
    // Other flags mean other artefacts; in a directory of their own they do not throw away those of normal builds.
    let target = sh::target_dir().join("plugin");
    let mut cargo = sh::cargo(&["build", "--package", package, "--profile", "plugin"]);
    // Without an explicit target the flags would reach proc macros, which cannot be static.
    cargo.args(["--target", &triple]).arg("--target-dir").arg(&target).env("RUSTFLAGS", STATIC);
    sh::run(&mut cargo)?;
    ship(&target.join(triple).join("plugin").join(package))
}

/// Builds the daemon and command line.
pub(crate) fn daemon() -> Result<PathBuf> {
    ship(&release_daemon()?)
}

/// The daemon as `cargo run --release` builds it.
fn release_daemon() -> Result<PathBuf> {
    sh::run(&mut sh::cargo(&["build", "--package", "berth", "--release"]))?;
    Ok(sh::target_dir().join("release/berth"))
}

/// The daemon with nothing to load, for an image that holds nothing else. Not in target/dist under its name: what is
/// shipped for machines follows the machine's libc.
pub(crate) fn static_daemon() -> Result<PathBuf> {
    let triple = host_triple()?;
    let target = sh::target_dir().join("static");
    let mut cargo = sh::cargo(&["build", "--package", "berth", "--release", "--target", &triple]);
    cargo.arg("--target-dir").arg(&target).env("RUSTFLAGS", STATIC);
    sh::run(&mut cargo)?;
    Ok(target.join(triple).join("release/berth"))
}

/// A C program as small and static as it gets: the linker that Rust needs is there anyway.
pub(crate) fn compile_static_c(source: &Path, binary: &Path) -> Result<()> {
    sh::run(sh::command("cc", &["-static", "-O2", "-s", "-o"]).arg(binary).arg(source))
}

fn ship(built: &Path) -> Result<PathBuf> {
    let dist = sh::target_dir().join("dist");
    fs::create_dir_all(&dist)?;
    let shipped = dist.join(built.file_name().context("a binary has a name")?);
    // A copy beside it and a rename: the old binary may be running.
    let fresh = shipped.with_extension("new");
    fs::copy(built, &fresh).with_context(|| format!("cannot copy {}", built.display()))?;
    fs::rename(&fresh, &shipped)?;
    Ok(shipped)
}

fn host_triple() -> Result<String> {
    let version = sh::output(&mut sh::command("rustc", &["-vV"]))?;
    let triple = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(triple.context("rustc does not say what it runs on")?.to_owned())
}
