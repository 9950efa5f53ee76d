//! Berth over the Kubernetes API.
//!
//! | module | what it is |
//! |---|---|
//! | [`connect`] | how an agent finds and trusts the API server |
//! | [`blocks`] | IPBlock objects: read, listed, watched, written by compare-and-swap |
//! | [`store`] | the block store over them |
//! | [`endpoints`] | IPEndpoint and the status of IPClaim: where sticky holders are found again |
//! | [`objects`] | the configured objects (pools, subnets, reservations, claims), watched |
//! | [`pods`] | the pods of one node, watched; single ones read |
//! | [`definitions`] | the network attachment definitions that pods of this node select, read when needed |
//! | [`places`] | namespaces and the own node, watched |
//! | [`requests`] | what is asked of the API server, counted |
//! | [`watch`] | the mirror behind all that is watched, for any kind of object |
//!
//! The engine and its stores are synchronous; the API's client is not. [`Cluster`] is the bridge: it owns the runtime,
//! and blocks the calling thread on it.

pub mod blocks;
pub mod connect;
pub mod definitions;
pub mod endpoints;
mod fold;
pub mod objects;
pub mod places;
pub mod pods;
pub mod requests;
pub mod store;
pub mod watch;

pub use connect::{Cluster, Connect};
pub use store::KubeStore;
