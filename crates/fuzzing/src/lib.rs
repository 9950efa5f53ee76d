//! Bodies of the fuzz targets: functions of bytes that panic when something is wrong.
//!
//! `fuzz/` wraps each for cargo-fuzz, which needs a nightly compiler; `tests/` here calls each with random bytes, so
//! that they run wherever `cargo test` does.
#![expect(clippy::panic, clippy::expect_used, reason = "a fuzz target speaks by panicking")]

pub mod annotations;
pub mod block;
pub mod bytes;
pub mod cni;
pub mod frames;
pub mod journal;
pub mod manifest;
pub mod model;
pub mod operations;
pub mod ranges;
pub mod world;
