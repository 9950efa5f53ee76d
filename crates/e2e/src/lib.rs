//! What the end-to-end tests stand on: the real binaries as processes, and namespaces of their own.
//!
//! | module | what it is |
//! |---|---|
//! | [`binaries`] | finds `berth` and `berth-cni`, or builds them |
//! | [`daemon`] | `berth serve` in a directory of its own: started, stopped, killed, booted anew |
//! | [`http`] | a client that sees every header, and can misbehave |
//! | [`plugin`] | one call of a CNI plugin, as a runtime makes it |
//! | [`netns`] | network namespaces that go away with the test |
//! | [`segment`] | a bridge, and whoever is plugged in |
//! | [`needs`] | what a test needs of the machine, and what happens if it is not there |
//!
//! A test fails by panicking, and so does everything here: there is nobody to hand an error to. What must happen in the
//! end is waited for with [`until`], which asks again and gives up; nothing sleeps and hopes.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

pub mod binaries;
pub mod daemon;
pub mod http;
pub mod needs;
pub mod netns;
pub mod plugin;
pub mod segment;

pub use daemon::{Daemon, Home};
pub use http::{Http, Reply};
pub use netns::Netns;
pub use plugin::{Call, Ran};
pub use segment::Segment;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Everything waited for takes milliseconds, on a loaded machine a second or two; a few things wait on purpose, and say for
/// how long. Only a test that fails waits to the end.
const PATIENCE: Duration = Duration::from_secs(240);

/// Asks until the answer is `Some`, and returns it.
///
/// # Panics
/// With `what` was waited for, if it does not happen.
#[track_caller]
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A file, and which one a program sees it in the place of.
pub type Instead = (PathBuf, PathBuf);

/// The words of a command that runs a program which sees files in the place of others, as nobody else does. The program
/// has the process ID of the command. Needs root and `unshare` if there are any files.
#[must_use]
pub fn seeing(program: &Path, files: &[Instead]) -> Vec<OsString> {
    if files.is_empty() {
        return vec![program.into()];
    }
    let script = "while [ \"$1\" != -- ]; do mount --bind \"$1\" \"$2\" || exit 1; shift 2; done; shift; exec \"$@\"";
    let mut words: Vec<OsString> = ["unshare", "--mount", "sh", "-c", script, "sh"].map(OsString::from).into();
    for (file, over) in files {
        words.extend([file.into(), over.into()]);
    }
    words.extend(["--".into(), program.into()]);
    words
}

/// Runs a command to its end, whatever that is.
///
/// # Panics
/// If it cannot be run.
#[track_caller]
pub fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs a command that must succeed, and returns what it printed.
///
/// # Panics
/// With what it said, if it fails.
#[track_caller]
pub fn succeed(command: &mut Command) -> String {
    let output = run(command);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}
