//! The languages Berth speaks: its own kinds and other systems' objects, lowered into the one model and raised back.
//!
//! A dialect is thin: a row in the table of [`kinds`] with a pure function that lowers its objects, a pure function
//! that raises state into their status, and its routes. None has an allocator of its own, and none reads a clock, a
//! file or a socket, so every one of them is tested as plain functions.
//!
//! ```text
//! text ── parse_manifests ──▶ Object ── lower_all ──▶ Config (pools, subnets, reservations) ──▶ the core
//!                             Object ◀── raise ─────  slots, usage                          ◀── the core
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`object`] | the generic object: kind, metadata, spec, status |
//! | [`kinds`] | every kind there is, found by what a user types |
//! | [`native`] | `berth.io`: IPPool, IPSubnet, IPReservation, IPClaim, the derived IPEndpoint and IPBlock, and the annotations of pods |
//! | [`crd`] | the native kinds as custom resource definitions |
//! | [`bcs`] | BCS netservice: BCSNetPool, BCSNetIP and the allocator's HTTP bodies |
//! | [`spiderpool`] | Spiderpool: its pools, subnets, reservations and endpoints, and the annotations of pods |
//! | [`verdicts`] | which objects are accepted, decided by age |
//! | [`duration`] | durations as Go writes them |

pub mod bcs;
mod config;
pub mod crd;
pub mod duration;
mod field;
pub mod kinds;
mod manifest;
pub mod native;
pub mod object;
pub mod spiderpool;
#[cfg(test)]
mod tests;
mod text;
mod tree;
pub mod verdicts;

pub use config::{Lowered, lower, lower_all};
pub use field::FieldError;
pub use manifest::{MAX_MANIFEST_BYTES, ManifestError, parse_manifests};
pub use object::{Metadata, Object};
pub use verdicts::{Refusal, Verdicts, judge};
