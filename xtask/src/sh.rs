//! Running other programs.

use anyhow::{Context, Result, bail};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// Where cargo builds.
pub(crate) fn target_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A command that runs in the root of the workspace.
pub(crate) fn command(program: impl AsRef<Path>, args: &[&str]) -> Command {
    let mut command = Command::new(program.as_ref());
    command.args(args).current_dir(root());
    command
}

/// The cargo that runs this task.
pub(crate) fn cargo(args: &[&str]) -> Command {
    command(env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from), args)
}

/// Runs a command, showing it and its output; anything but success is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = display(command);
    println!("$ {line}");
    let status = command.status().with_context(|| format!("cannot run {line}"))?;
    if !status.success() {
        bail!("{line}: {status}");
    }
    Ok(())
}

/// Runs a command and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = display(command);
    let output = command.output().with_context(|| format!("cannot run {line}"))?;
    if !output.status.success() {
        bail!("{line}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("{line} printed something that is not text"))
}

/// Whether a program is in the path.
pub(crate) fn installed(program: &str) -> bool {
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

fn display(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
