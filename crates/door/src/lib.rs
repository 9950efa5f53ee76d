//! The CNI plugin's way in, for the daemon of one machine and for the agent of a cluster's node alike.
//!
//! | module | what it is |
//! |---|---|
//! | [`detect`] | what is to be found out on the wire, and what follows |
//! | [`door`] | the unix socket and its threads |
//! | `connection` | one client of it |
//! | [`networks`] | the networks this machine is in |
//! | [`queue`] | deletions that were left on disk while nobody listened |
//! | [`words`] | what the plugin asks, in the words of the engine, and the engine's answers in the words of the plugin |

mod connection;
pub mod detect;
pub mod door;
pub mod networks;
pub mod queue;
pub mod words;

pub use detect::Quiet;
pub use door::Door;
pub use queue::Queue;

use berth_core::error::Error;
use berth_wire::protocol::{Request, Response};
use std::time::Instant;

/// What comes of a request.
pub enum Answer {
    /// This.
    Now(Response),
    /// It is refused as things are, and may be served in a moment. Nobody else is to wait for that.
    Later(Box<Later>),
}

impl Answer {
    /// The answer as things are.
    #[must_use]
    pub fn now(self) -> Response {
        match self {
            Self::Now(response) => response,
            Self::Later(later) => later.refusal,
        }
    }
}

/// A request that may be served in a moment.
pub struct Later {
    pub(crate) request: Request,
    /// What it is answered if nothing better comes.
    pub(crate) refusal: Response,
    /// Why.
    pub(crate) error: Error,
    /// The news that it was refused with.
    pub(crate) seen: u64,
    /// When it came.
    pub(crate) came: Instant,
}

/// Whoever answers the plugin.
pub trait Service: Send + Sync + 'static {
    /// Answers requests that arrived together, each in its place.
    fn answer_all(&self, requests: Vec<Request>) -> Vec<Answer>;

    /// Answers requests that were put off, each in its place. May take seconds.
    fn answer_later(&self, requests: Vec<Later>) -> Vec<Response> {
        requests.into_iter().map(|later| later.refusal).collect()
    }

    /// So many deletions were worked off that had waited on disk.
    fn drained(&self, deletions: u64) {
        let _ = deletions;
    }
}
