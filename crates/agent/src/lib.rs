//! The agent of a cluster's node: the same engine as the daemon's, with the Kubernetes API as its store.
//!
//! | module | what it is |
//! |---|---|
//! | [`agent`] | who asks for what: the pod behind an ADD, and what it is to get |
//! | [`ahead`] | addresses before they are asked for |
//! | [`sticky`] | holders that come back, also on another node |
//! | [`store`] | two places for blocks: the API server for shared pools, a journal for what this node leases |
//! | [`leases`] | which blocks this node has leased |
//! | [`flush`] | what the journal has and the API server does not yet |
//! | [`scarcity`] | leases that are opened when another node is short |
//! | [`sweep`] | holders whose pods are gone |
//! | [`recover`] | pods that have what nobody holds: a lost journal, a restored backup |
//! | [`explain`] | the whole decision about a pod, for people |
//! | [`check`] | whether blocks and pods tell the same story |
//! | [`news`] | what is configured, put in force as it changes, and told to those who wait for it |
//! | [`spiderpool`] | the socket of spiderpool-agent, for those who speak to it |
//! | [`run`] | starting and stopping |

mod agent;
mod ahead;
mod attachments;
mod check;
mod explain;
mod flush;
mod leases;
mod news;
mod recover;
mod run;
mod scarcity;
mod spiderpool;
mod sticky;
mod store;
mod sweep;

pub use agent::Agent;
pub use check::check_cluster;
pub use explain::explain_pod;
pub use run::{AgentOptions, run, sample_metrics, serve};
pub use store::ClusterStore;
