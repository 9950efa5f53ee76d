//! The real binary against a daemon that says what the test tells it to.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod agent_down;
mod environment;
mod harness;
mod verbs;
