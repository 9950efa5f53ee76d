//! The daemon as a process, asked through the real plugin.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod down;
mod lifecycle;
mod pools;
mod reboot;
mod requests;
mod socket;
mod start;
mod verbs;
