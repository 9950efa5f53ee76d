//! host-local without host-local: its configuration, its directory, its words, and none of its leaks.
//!
//! The plugin needs no daemon. It reads and writes the state of the CNI project's `host-local`, so that either program
//! can take over from the other on a live node between any two calls.
//!
//! | module | what it knows |
//! |---|---|
//! | `config`, `lower` | the configuration, and how it becomes ranges: pure |
//! | `directory` | the state on disk, and why it can be trusted |
//! | `lease`, `owner`, `cursor` | host-local's files |
//! | `index`, `state`, `resync` | Berth's own: leases by owner, when that is believed, how it is made anew |
//! | `spare` | lease files to use again |
//! | `host` | which leases are of an earlier boot |
//! | `add`, `verbs` | the verbs |
//! | `sys` | the system calls, which tests make fail one by one |

mod add;
mod config;
mod cursor;
mod directory;
mod error;
mod host;
mod import;
mod index;
mod lease;
mod lower;
mod owner;
mod resync;
mod spare;
mod state;
mod sys;
mod verbs;

pub use import::{Lease, Leases, read_leases};

use berth_wire::cni;
use config::Config;
use host::Host;
use verbs::Job;

/// What CNI asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Lease addresses.
    Add,
    /// Give them back.
    Del,
    /// Say whether they are still leased.
    Check,
    /// Give back everything but the attachments listed.
    Gc,
    /// Say whether ADD can be served.
    Status,
}

/// One call of the plugin, as the runtime made it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The network configuration from standard input, as it came.
    pub config: &'a [u8],
    /// `CNI_CONTAINERID`; empty for GC and STATUS.
    pub container: &'a str,
    /// `CNI_IFNAME`; empty for GC and STATUS.
    pub ifname: &'a str,
    /// `CNI_ARGS`, as it came.
    pub args: &'a str,
    /// `CLOCK_BOOTTIME` in nanoseconds when the process started.
    pub stamp: u64,
}

/// Serves one call. Only ADD has a result.
///
/// # Guarantees
/// ADD of a known attachment returns its addresses again. DEL of an unknown one succeeds. An ADD that began before the
/// DEL of the same attachment but comes after it is refused and leaves nothing behind. A call that is killed at any
/// point leaves a state from which the next one goes on.
///
/// # Errors
/// With host-local's messages, and the codes of the CNI specification.
pub fn run(command: Command, call: &Call<'_>) -> Result<Option<cni::AddResult>, cni::Error> {
    run_on(Host::this(), command, call)
}

fn run_on(host: Host, command: Command, call: &Call<'_>) -> Result<Option<cni::AddResult>, cni::Error> {
    let job = Job { call, config: Config::parse(call.config)?, host };
    match command {
        Command::Add => return Ok(Some(job.add()?)),
        Command::Del => job.del()?,
        Command::Check => job.check()?,
        Command::Gc => job.gc()?,
        Command::Status => job.status()?,
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
