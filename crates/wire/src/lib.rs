//! What the CNI plugin and the daemon say to each other, and what CNI says to both.
//!
//! | module | what it knows |
//! |---|---|
//! | [`cni`] | addresses, routes, DNS and errors, independent of the CNI version |
//! | [`env`], [`args`] | the environment a runtime calls a plugin with |
//! | [`config`], [`resolv`] | the network configuration on stdin, and the file it may point to |
//! | [`version`], [`result`] | the CNI versions and what a result looks like in each |
//! | [`protocol`], [`queue`] | the daemon's socket, and the directory that stands in for it while it is down |
//! | [`detect`] | what is to be found out on the wire, and what was |
//! | [`boot`] | the clock that orders requests |
//!
//! Everything but [`queue`], [`boot`] and the framing in [`protocol`] is a function from text to values.

pub mod args;
pub mod boot;
pub mod cni;
pub mod config;
pub mod detect;
pub mod env;
pub mod protocol;
pub mod queue;
pub mod resolv;
pub mod result;
pub mod version;
