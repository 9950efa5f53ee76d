//! Tasks that come with the cluster store.

use std::process::ExitCode;

/// Why the parts about clusters test nothing.
pub(crate) const NOTHING_YET: &str = "nothing yet: the cluster store comes with the next milestone";

/// Says that a task is known but has nothing to do. Exit code 2 keeps it apart from a failure.
pub(crate) fn not_yet(task: &str) -> ExitCode {
    eprintln!("cargo xtask {task}: comes with the cluster milestone; this release runs on one machine");
    ExitCode::from(2)
}
