//! What can go wrong with a cluster.
//!
//! One distinction matters to callers: what the machine lacks ([`Error::Missing`]) makes a test skip, loudly; all else
//! makes it fail.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;
use std::{fs, io};

/// The result of everything here.
pub type Result<T> = std::result::Result<T, Error>;

/// Why there is no cluster, or why it does not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine lacks something; the text says what, and how to get it.
    #[error("{0}")]
    Missing(String),
    /// The operating system refused.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// What it said.
        error: io::Error,
    },
    /// A command was run and failed.
    #[error("{command}: {status}: {output}")]
    Command {
        /// Its command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it wrote, errors last.
        output: String,
    },
    /// A process that should stay ended.
    #[error("{name} ended with {status}; the end of {}:\n{tail}", log.display())]
    Ended {
        /// Which one.
        name: String,
        /// How.
        status: ExitStatus,
        /// Its log.
        log: PathBuf,
        /// The last lines of it: the file goes away with the cluster.
        tail: String,
    },
    /// Something did not happen in time.
    #[error("waited {} s for {what}; {state}", patience.as_secs())]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long.
        patience: Duration,
        /// How things stood in the end.
        state: String,
    },
    /// Something is not as it must be.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// Whether the machine is what is to blame: a reason to skip a test, not to fail it.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing(_))
    }

    pub(crate) fn command(command: &Command, status: ExitStatus, stdout: &[u8], stderr: &[u8]) -> Self {
        let output = format!("{}{}", String::from_utf8_lossy(stdout), String::from_utf8_lossy(stderr));
        Self::Command { command: line(command), status, output: output.trim().to_owned() }
    }

    pub(crate) fn ended(name: &str, status: ExitStatus, log: &Path) -> Self {
        Self::Ended { name: name.to_owned(), status, log: log.to_owned(), tail: tail(log, 20) }
    }
}

/// Names what was tried when the operating system refuses.
pub(crate) trait Context<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::Io { what: what(), error: error.into() })
    }
}

/// Writes a file.
pub(crate) fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    fs::write(path, contents).context(|| format!("cannot write {}", path.display()))
}

/// Makes a directory and those above it.
pub(crate) fn make_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).context(|| format!("cannot make {}", path.display()))
}

/// The command line, as a person would type it.
pub(crate) fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// The last lines of a log.
pub(crate) fn tail(log: &Path, lines: usize) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let all: Vec<_> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
