//! The command line of Berth: a thin client of the daemon's HTTP API.
//!
//! Data goes to standard output, talk to standard error, and an error is followed by what to do next. The commands know
//! no pool and no block: they turn arguments into one request and its answer into a table, and `-o json` passes on what
//! the daemon said, untouched.
//!
//! | module | what it knows |
//! |---|---|
//! | [`args`] | every command, argument and help text |
//! | `commands` | what each command does, one file each |
//! | `client`, `api` | HTTP, and the shape of the answers |
//! | `columns`, `table`, `human` | which fields people see, and how |
//! | [`ui`] | the two streams, colours, errors and hints |
//! | `help`, `reference` | `berth --help`, and the same as Markdown |

mod api;
pub mod args;
mod client;
mod columns;
mod commands;
mod error;
mod help;
mod human;
mod manifest;
mod reference;
mod table;
pub mod ui;

pub use error::Error;
pub use help::command;
pub use reference::markdown;

use args::{ClientCommand, Global};
use clap::FromArgMatches;
use std::ffi::OsString;
use std::io::ErrorKind;
use ui::Ui;

/// What every command returns.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Reads a command line. One without any argument asks for help.
///
/// # Errors
/// What clap says about it: a mistake to explain, or a help text that was asked for.
pub fn parse<I, T>(line: I) -> std::result::Result<args::Cli, clap::Error>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString>,
{
    let mut line: Vec<OsString> = line.into_iter().map(Into::into).collect();
    // clap could do this, but takes a set BERTH_SERVER for an argument.
    if line.len() < 2 {
        line.push("--help".into());
    }
    args::Cli::from_arg_matches(&command().try_get_matches_from(line)?)
}

/// Runs a command and says what went wrong, if anything. Returns the exit code.
pub fn run(command: &ClientCommand, global: &Global, ui: &mut Ui) -> u8 {
    exit_code(commands::run(command, global, ui), ui)
}

/// Takes over the leases of host-local. Returns the exit code.
pub fn import_host_local(args: &args::HostLocalArgs, global: &Global, ui: &mut Ui) -> u8 {
    exit_code(commands::import::run(args, global, ui), ui)
}

/// Prints a generated document. Returns the exit code.
pub fn print(document: &str, ui: &mut Ui) -> u8 {
    exit_code(ui.line(document.trim_end()), ui)
}

/// Prints how something was decided, in the form that the daemon's API has. Returns the exit code.
pub fn explain(answer: serde_json::Value, args: &args::ExplainPodArgs, ui: &mut Ui) -> u8 {
    exit_code(commands::explain::print(answer, args.output.format, ui), ui)
}

/// Prints what a check found, in the form that the daemon's API has. Returns the exit code.
pub fn check(answer: serde_json::Value, args: &args::CheckArgs, ui: &mut Ui) -> u8 {
    exit_code(commands::check::print(answer, args, ui), ui)
}

/// Prints what came back. Returns the exit code.
pub fn reclaimed(answer: serde_json::Value, args: &args::ReclaimArgs, ui: &mut Ui) -> u8 {
    exit_code(commands::reclaim::print(answer, args, ui), ui)
}

/// Prints what was taken over from Spiderpool. Returns the exit code.
pub fn taken_over(answer: serde_json::Value, args: &args::SpiderpoolArgs, ui: &mut Ui) -> u8 {
    exit_code(commands::takeover::print(answer, args, ui), ui)
}

/// Prints a cluster in Spiderpool's words. Returns the exit code.
pub fn exported(answer: serde_json::Value, args: &args::ExportArgs, ui: &mut Ui) -> u8 {
    exit_code(commands::export::print(answer, args, ui), ui)
}

fn exit_code(result: Result<()>, ui: &mut Ui) -> u8 {
    match result {
        Ok(()) => 0,
        // The reader, `head` for one, has seen enough.
        Err(Error::Output(error)) if error.kind() == ErrorKind::BrokenPipe => 0,
        Err(error) => {
            ui.report(&error);
            error.exit_code()
        }
    }
}
