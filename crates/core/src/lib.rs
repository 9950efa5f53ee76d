//! The pure core of Berth: addresses, pools, blocks, and the rules that give them out.
//!
//! No clock, no files, no threads: time and randomness come in as arguments, so the same code serves the daemon, the
//! cluster, the simulator, the fuzzers and the benchmarks.
//!
//! | module | what it is |
//! |---|---|
//! | [`addr`] | addresses, CIDRs, ranges and counts as arithmetic |
//! | [`model`] | pools, subnets, reservations: what every dialect is lowered into |
//! | [`apps`] | pools of applications: made, grown, shrunk and deleted along with them |
//! | [`block`] | 64 aligned units: the unit of storage |
//! | [`ipam`] | the state machine over all blocks |
//! | [`reclaim`] | whether an address may come back that nobody gave back |
//! | [`error`] | why a request was refused, and what that is called in CNI, HTTP and a shell |

pub mod addr;
pub mod apps;
pub mod block;
pub mod detect;
pub mod error;
pub mod glob;
pub mod holder;
pub mod ipam;
pub mod labels;
pub mod model;
pub mod net;
pub mod reclaim;
pub mod time;
