//! A black-box conformance suite for CNI IPAM plugins.
//!
//! Cases are data (`cases/*.yaml`): a configuration, the calls made with it, and what each call must answer and leave
//! on disk. The runner executes any plugin binary as a container runtime would, once per CNI version that the binary
//! says it supports. The suite is true to the reference, host-local, because it is run against it first; a step where
//! Berth means to behave otherwise carries Berth's own expectation beside the reference's, with the reason.
//!
//! What holds for every call needs no case and is checked on each: a result has the shape of the version asked for, an
//! error is a JSON object with a code on stdout, and every other verb is silent (see [`check`]).

pub mod answer;
pub mod case;
pub mod check;
pub mod daemon;
pub mod load;
pub mod plugin;
pub mod run;
pub mod template;
pub mod version;
