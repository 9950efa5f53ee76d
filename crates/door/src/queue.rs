//! Deletions that plugins left on disk while nobody listened, worked off in order.

use crate::{Answer, Service};
use berth_wire::cni::code;
use berth_wire::protocol::{Request, Response};
use berth_wire::queue;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tracing::{info, warn};

/// The queue beside a socket.
pub struct Queue {
    dir: PathBuf,
    /// One drain at a time: order matters.
    draining: Mutex<()>,
}

impl Queue {
    /// The queue of a socket.
    #[must_use]
    pub fn beside(socket: &Path) -> Self {
        Self { dir: queue::beside(socket), draining: Mutex::new(()) }
    }

    /// Works everything off that waits. What fails stays, and stops the rest: a later deletion must not overtake it.
    ///
    /// `booted` says that some of it may be of an earlier boot, whose stamps do not compare with today's: it is worked
    /// off as older than anything to come.
    pub fn drain(&self, service: &dyn Service, booted: bool) {
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
                    let mut answers = service.answer_all(vec![Request { stamp, ..request }]);
                    let removed = match answers.pop().map_or(Response::Done, Answer::now) {
                        // Our own trouble, which passes; everything else stays as it is however often it is tried.
                        Response::Error(error) if matches!(error.code, code::IO_FAILURE | code::TRY_AGAIN) => {
                            warn!(%error, file = %path.display(), "a queued deletion will be tried again");
                            break;
                        }
                        Response::Error(error) => {
                            warn!(%error, file = %path.display(), "a queued deletion was refused and is set aside");
                            queue::set_aside(&path)
                        }
                        Response::Ok(_) | Response::Detect { .. } | Response::Done => {
                            done += 1;
                            queue::remove(&path)
                        }
                    };
                    if let Err(error) = removed {
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
            service.drained(done);
            info!(deletions = done, "worked off deletions that were queued while nobody listened");
        }
    }
}
