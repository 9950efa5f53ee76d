//! What can go wrong on the command line, what to do about it, and the exit code that tells scripts.

use serde::Deserialize;
use std::io;
use std::path::{Path, PathBuf};

/// The daemon does not answer (`EX_UNAVAILABLE` of sysexits.h).
const UNAVAILABLE: u8 = 69;
/// A file cannot be read (`EX_NOINPUT`).
const NO_INPUT: u8 = 66;
/// Output cannot be written (`EX_IOERR`).
const IO_ERROR: u8 = 74;
/// Something answers, but not as Berth does (`EX_PROTOCOL`).
const PROTOCOL: u8 = 76;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The daemon refused, and said why.
    #[error("{0}")]
    Refused(Box<Problem>),
    /// Nothing answers.
    #[error("cannot reach the daemon at {server}: {reason}")]
    Unreachable {
        /// Where it was looked for.
        server: String,
        /// What the system says.
        reason: String,
    },
    /// Something answers, but not as Berth does.
    #[error("{server} does not answer as Berth does: {reason}")]
    Protocol {
        /// Who was asked.
        server: String,
        /// What is wrong with the answer.
        reason: String,
    },
    /// The command line parses but cannot be meant.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// How to mend it.
        hint: &'static str,
    },
    /// A file cannot be read or written.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// Standard output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
    /// `berth check` found something.
    #[error("the state is not consistent: {}", crate::human::counted(*.0, "finding"))]
    Inconsistent(usize),
    /// `berth import` could not take everything over.
    #[error("{} refused", crate::human::counted(*.0, "lease"))]
    LeasesRefused(usize),
    /// `berth export` could not say everything.
    #[error("{} left out", crate::human::counted(*.0, "object"))]
    NotExported(usize),
}

/// What the daemon answers when it refuses (RFC 9457).
#[derive(Debug, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{}{detail}", place(.field.as_deref(), detail))]
pub struct Problem {
    /// What happened, to which object.
    pub detail: String,
    /// The field of the request that is wrong.
    pub field: Option<String>,
    /// What to do next.
    pub hint: Option<String>,
    /// The exit code that goes with it.
    pub exit_code: Option<u8>,
}

impl Error {
    pub(crate) fn file(path: &Path, reason: &impl ToString) -> Self {
        Self::File { path: path.to_owned(), reason: reason.to_string() }
    }

    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Refused(problem) => problem.hint.as_deref(),
            Self::Unreachable { .. } => Some("start it with `berth serve`, or name another one with --server"),
            Self::Protocol { .. } => Some("check --server and BERTH_SERVER, and that both sides have the same version"),
            Self::Usage { hint, .. } => Some(hint),
            Self::Inconsistent(_) => Some("`berth show ADDRESS` and `berth history ADDRESS` tell how it came to be"),
            Self::LeasesRefused(_) => {
                Some("make room for them in a pool and import again; what is known is not touched")
            }
            Self::NotExported(_) => Some("change them so that they can be said, or move their pods to other pools"),
            Self::File { .. } | Self::Output(_) => None,
        }
    }

    /// The exit code of the command line.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            // A problem without a code, or with that of success, is still a failure.
            Self::Refused(problem) => problem.exit_code.filter(|&code| code != 0).unwrap_or(1),
            Self::Unreachable { .. } => UNAVAILABLE,
            Self::Protocol { .. } => PROTOCOL,
            Self::Usage { .. } => 2,
            Self::File { .. } => NO_INPUT,
            Self::Output(_) => IO_ERROR,
            Self::Inconsistent(_) | Self::LeasesRefused(_) | Self::NotExported(_) => 1,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// The field, unless the text names it already.
fn place(field: Option<&str>, detail: &str) -> String {
    match field {
        Some(field) if !field.is_empty() && !detail.contains(field) => format!("{field}: "),
        _ => String::new(),
    }
}
