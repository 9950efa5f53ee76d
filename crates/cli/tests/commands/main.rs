//! Every command as a person sees it: what it sends, what it prints and where, and how it exits.

#![expect(clippy::unwrap_used, clippy::panic, reason = "the helpers of tests fail by panicking")]

mod addresses;
mod canned;
mod errors;
mod help;
mod leases;
mod objects;
mod tools;
