//! `berth-cni`: the CNI IPAM plugin of Berth.
//!
//! A runtime executes it once for every container it starts or stops, so it does as little as it can: read the
//! environment and stdin, ask the daemon one question over a unix socket, print the answer. Under the name
//! `host-local`, or with that type in its configuration, it needs no daemon and works on host-local's own directory.

mod agent;
mod host_local;
mod netns;
mod plugin;
mod stdio;

use plugin::Outcome;
use std::process::ExitCode;

fn main() -> ExitCode {
    let stamp = berth_wire::boot::stamp();
    let name = std::env::args_os().next().unwrap_or_default();
    let outcome = plugin::answer(stamp, name.as_ref(), |key| std::env::var_os(key), stdio::read_config);
    let (stream, text, code) = match &outcome {
        Outcome::Done(text) => (rustix::stdio::stdout(), text, ExitCode::SUCCESS),
        Outcome::About(text) => (rustix::stdio::stderr(), text, ExitCode::SUCCESS),
        Outcome::Failed(text) => (rustix::stdio::stdout(), text, ExitCode::FAILURE),
    };
    // A result that nobody could read must not pass for a success.
    stdio::write(stream, text.as_bytes()).map_or(ExitCode::FAILURE, |()| code)
}
