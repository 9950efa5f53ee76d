//! The binaries under test.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The daemon and command line: `$BERTH_BIN`, else built beside this test.
#[must_use]
pub fn berth() -> &'static Path {
    &find().0
}

/// The plugin: `$BERTH_CNI_BIN`, else built beside this test.
#[must_use]
pub fn berth_cni() -> &'static Path {
    &find().1
}

/// Where a CNI runtime finds the plugin: the directory that [`berth_cni`] is in.
///
/// # Panics
/// Never: a file is in a directory.
#[must_use]
pub fn plugin_dir() -> &'static Path {
    berth_cni().parent().unwrap()
}

fn find() -> &'static (PathBuf, PathBuf) {
    // Once, also if it fails: every test would fail in the same way, only later.
    static FOUND: OnceLock<Result<(PathBuf, PathBuf), String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let given = |name: &str| env::var_os(name).map(PathBuf::from);
        let (berth, plugin) = (given("BERTH_BIN"), given("BERTH_CNI_BIN"));
        let missing: Vec<&str> =
            [(&berth, "berth"), (&plugin, "berth-cni")].iter().filter(|(b, _)| b.is_none()).map(|(_, p)| *p).collect();
        let built = if missing.is_empty() { PathBuf::new() } else { build(&missing)? };
        Ok((berth.unwrap_or_else(|| built.join("berth")), plugin.unwrap_or_else(|| built.join("berth-cni"))))
    });
    found.as_ref().unwrap_or_else(|error| panic!("{error}"))
}

/// Builds packages into the target directory that this test is from, and returns where their binaries are.
fn build(packages: &[&str]) -> Result<PathBuf, String> {
    // TARGET/PROFILE/deps/TEST
    let test = env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap();
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.arg("build").arg("--quiet").arg("--target-dir").arg(profile.parent().unwrap());
    cargo.args(packages.iter().flat_map(|package| ["-p", package]));
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let output = crate::run(&mut cargo);
    match output.status.success() {
        true => Ok(profile.to_owned()),
        false => Err(format!("{cargo:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}
