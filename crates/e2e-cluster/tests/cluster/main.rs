//! Agents and the controller as processes, against real API servers.
//!
//! One program, so that its tests run beside each other: they mostly wait, and the longest are among the first. Those that
//! need nothing special share [one server](berth_e2e_cluster::World::shared). By name: `cargo test -p berth-e2e-cluster
//! sticky::`.

mod agent;
mod ahead;
mod application_pools;
mod applications;
mod catalogue;
mod chaos;
mod controller;
mod definitions;
mod detect;
mod double;
mod empty;
mod interfaces;
mod leaks;
mod nodes_gone;
mod quota;
mod reclaim;
mod recovery;
mod rights;
mod spiderpool;
mod sticky;
