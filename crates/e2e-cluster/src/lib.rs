//! What the tests of the agent stand on: an API server of their own, nodes and pods as real objects, an agent process
//! per node, and the real plugin called as a runtime calls it.
//!
//! | module | what it is |
//! |---|---|
//! | [`world`] | the API server with Berth's kinds, its nodes and pods |
//! | [`corner`] | a part of a shared world, for one test: its own nodes, pools and addresses |
//! | [`proxy`] | a way to the API server that fails when it is told to |
//! | [`agent`] | `berth agent` as a process: started, stopped, killed |
//! | [`controller`] | `berth controller` likewise |
//!
//! A test fails by panicking, and so does everything here.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

pub mod agent;
pub mod controller;
pub mod corner;
pub mod proxy;
pub mod world;

pub use agent::Agent;
pub use controller::Controller;
pub use corner::{Corner, Live};
pub use proxy::{Fault, Proxy, Seen};
pub use world::{Pod, World};
