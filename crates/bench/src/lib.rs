//! What the benchmarks share.

pub mod rows;
