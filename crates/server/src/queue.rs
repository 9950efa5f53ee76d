//! Deletions that plugins left on disk while nobody listened, worked off in order.

use crate::node::Node;
use crate::socket;
use berth_wire::protocol::{Request, Response};
use berth_wire::queue;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tracing::{info, warn};

/// The queue beside a socket.
pub(crate) struct Queue {
    dir: PathBuf,
    /// One drain at a time: order matters.
    draining: Mutex<()>,
}

impl Queue {
    pub(crate) fn beside(socket: &Path) -> Self {
        Self { dir: queue::beside(socket), draining: Mutex::new(()) }
    }

    /// Works everything off that waits. What fails stays, and stops the rest: a later deletion must not overtake it.
    ///
    /// `booted` says that some of it may be of an earlier boot, whose stamps do not compare with today's: it is worked
    /// off as older than anything to come.
    pub(crate) fn drain(&self, node: &Node, booted: bool) {
        let _one = self.draining.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = queue::list(&self.dir).unwrap_or_else(|error| {
            warn!(%error, dir = %self.dir.display(), "cannot read the queue of deletions");
            Vec::new()
        });
        let mut done = 0u64;
        for path in waiting {
            match queue::read(&path) {
                Ok(Some(request)) => {
                    let stamp = if booted { 0 } else { request.stamp };
                    if let Err(problem) = work_off(node, Request { stamp, ..request }) {
                        warn!(problem, file = %path.display(), "cannot work off a queued deletion; it will be tried again");
                        break;
                    }
                    done += 1;
                    if let Err(error) = queue::remove(&path) {
                        warn!(%error, file = %path.display(), "cannot remove a queued deletion");
                        break;
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    warn!(%error, file = %path.display(), "cannot read a queued deletion; it will be tried again");
                    break;
                }
            }
        }
        if done > 0 {
            node.metrics.queue_drained.inc_by(done);
            info!(deletions = done, "worked off deletions that were queued while nobody listened");
        }
    }
}

fn work_off(node: &Node, request: Request) -> Result<(), String> {
    match socket::answer(node, request) {
        Response::Error(error) => Err(error.msg),
        Response::Ok(_) | Response::Done => Ok(()),
    }
}
