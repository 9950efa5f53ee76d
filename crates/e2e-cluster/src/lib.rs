//! What the tests of the agent stand on: an API server of their own, nodes and pods as real objects, an agent process
//! per node, and the real plugin called as a runtime calls it.
//!
//! | module | what it is |
//! |---|---|
//! | [`world`] | the API server with Berth's kinds, its nodes and pods |
//! | [`agent`] | `berth agent` as a process: started, stopped, killed |
//! | [`controller`] | `berth controller` likewise |
//!
//! A test fails by panicking, and so does everything here.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

pub mod agent;
pub mod controller;
pub mod world;

pub use agent::Agent;
pub use controller::Controller;
pub use world::{Pod, World};
