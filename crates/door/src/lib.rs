//! The CNI plugin's way in, for the daemon of one machine and for the agent of a cluster's node alike.
//!
//! | module | what it is |
//! |---|---|
//! | [`door`] | the unix socket and its threads |
//! | `connection` | one client of it |
//! | [`queue`] | deletions that were left on disk while nobody listened |
//! | [`words`] | what the plugin asks, in the words of the engine, and the engine's answers in the words of the plugin |

mod connection;
pub mod door;
pub mod queue;
pub mod words;

pub use door::Door;
pub use queue::Queue;

use berth_wire::protocol::{Request, Response};

/// Whoever answers the plugin.
pub trait Service: Send + Sync + 'static {
    /// Answers requests that arrived together, each in its place.
    fn answer_all(&self, requests: Vec<Request>) -> Vec<Response>;

    /// So many deletions were worked off that had waited on disk.
    fn drained(&self, deletions: u64) {
        let _ = deletions;
    }
}
