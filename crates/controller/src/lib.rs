//! `berth controller`: what keeps a cluster's addresses right without anyone looking.
//!
//! | module | what it is |
//! |---|---|
//! | [`world`] | all that is known: blocks in an engine, everything else in mirrors |
//! | [`facts`] | what is known of pods, nodes and claims, from a mirror or from the server itself |
//! | [`kinds`] | kinds of workloads that Kubernetes does not bring along |
//! | [`index`] | which blocks speak of a pod, a node or a claim |
//! | [`reclaim`] | addresses whose users are gone come back |
//! | [`apps`] | pools that follow applications |
//! | [`admission`] | mistakes are refused when they are made |
//! | [`claims`] | claims are bound when they are made |
//! | [`endpoints`] | records of what pods have are as the blocks say |
//! | [`guard`] | what is in use is not deleted |
//! | [`status`] | how full pools and subnets are |
//! | [`spiderpool`] | the same of Spiderpool's kinds, their labels, and an endpoint for each pod |
//! | [`effects`] | what those want to be written, as values, and who writes it |
//! | [`leader`] | which of several replicas writes |
//! | [`condition`], [`events`], [`metrics`] | what people and Prometheus are told |
//! | [`takeover`], [`export`] | what Spiderpool gave out becomes Berth's, and the way back |
//! | [`run`], [`uninstall`] | starting, stopping, and leaving for good |
//!
//! Each of the workers is a loop round a pure decision: it sleeps until a mirror rings, looks at what changed, decides,
//! and writes by compare-and-swap. Decisions know neither server nor clock: what is known goes in, what is to be done
//! comes out, object by object, so that a bad one stops no other. Every replica looks; only the leader writes.

mod admission;
mod apps;
mod claims;
mod condition;
mod effects;
mod endpoints;
mod events;
mod export;
mod facts;
mod guard;
mod index;
mod kinds;
mod leader;
mod metrics;
mod reclaim;
mod run;
mod spiderpool;
mod status;
mod takeover;
mod uninstall;
mod world;

pub use admission::WebhookOptions;
pub use berth_core::reclaim::{Class, Times};
pub use export::export_spiderpool;
pub use metrics::sample_metrics;
pub use run::{ControllerOptions, reclaim_now, run, serve};
pub use takeover::import_spiderpool;
pub use uninstall::uninstall;
