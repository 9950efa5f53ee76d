//! DEL: succeeds whatever state the daemon is in, and loses nothing.

use super::connection::ask;
use super::{attachment, done};
use crate::stdio;
use berth_wire::cni::{Error, code};
use berth_wire::config::NetConf;
use berth_wire::env::Invocation;
use berth_wire::protocol::{Op, Request, Response};
use berth_wire::queue;
use std::time::Duration;

/// There is the queue to fall back on, and a runtime that wants to be rid of a container.
const PATIENCE: Duration = Duration::from_secs(10);

/// Releases all that the attachment holds, now or when the daemon can. Of the configuration only the name and the
/// socket are looked at: a lease must be found however the rest has changed since ADD.
pub(crate) fn del(stamp: u64, invocation: &Invocation, conf: &NetConf<'_>) -> Result<(), Error> {
    let socket = conf.socket()?;
    let request = Request::new(stamp, Op::Del(attachment(invocation, conf)));
    let trouble = match ask(&socket, &request, PATIENCE) {
        Ok(Response::Error(error)) if passes(&error) => error,
        Ok(response) => return done(response),
        Err(unreachable) => unreachable.error(code::TRY_AGAIN),
    };
    let dir = queue::beside(&socket);
    let file = queue::enqueue(&dir, &request).map_err(|error| {
        let msg = format!("cannot queue DEL in {}: {error}; and {trouble}", dir.display());
        Error::new(code::IO_FAILURE, msg).hint(trouble.details.clone())
    })?;
    // A daemon that came up in between has listened before it drained the queue, so it either finds the file or can be
    // asked now. If it does both, the second DEL changes nothing.
    match ask(&socket, &request, PATIENCE) {
        Ok(Response::Done) => {
            let _ = queue::remove(&file);
        }
        _ => {
            let (container, file) = (&invocation.container, file.display());
            let note = format!("berth-cni: {trouble}; DEL of {container} is queued in {file}\n");
            let _ = stdio::write(rustix::stdio::stderr(), note.as_bytes());
        }
    }
    Ok(())
}

/// Whether the daemon only cannot do it now: its disk is full, say, and it works the queue off when there is room. A
/// container must not hang in termination for that.
const fn passes(error: &Error) -> bool {
    matches!(error.code, code::IO_FAILURE | code::TRY_AGAIN)
}
