//! The daemon: one engine behind a unix socket for the CNI plugin and an HTTP API for everyone else.
//!
//! | module | what it is |
//! |---|---|
//! | [`node`] | what both doors share: engine, objects, audit trail |
//! | `objects` | manifests: applied, listed, deleted |
//! | `claims` | named addresses: bound, used, let go |
//! | `socket` | what the plugin asks for, in the words of the core |
//! | `status` | whether an ADD could be served, found out by trying |
//! | `http` | the door for people and programs |
//! | `probes` | health and metrics of processes that serve no other HTTP |
//! | `stop` | told to stop |
//! | `chores` | what time does: expiry, compaction, pruning |

mod chores;
mod claims;
mod http;
mod logging;
mod metrics;
mod node;
mod objects;
mod probes;
mod run;
mod socket;
mod status;
mod stop;
#[cfg(test)]
mod tests;

pub use http::{explanation, openapi_json};
pub use logging::{LogFormat, init as init_logging};
pub use metrics::{Metrics, metrics_table, sample_metrics};
pub use node::{Node, now, seed};
pub use probes::serve_probes;
pub use run::{ServeOptions, serve};
pub use stop::stop_on_signal;
