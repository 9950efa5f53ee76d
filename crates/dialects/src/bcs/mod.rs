//! BCS netservice: BCSNetPool in, BCSNetIP out, and the bodies of the allocator's three HTTP routes.
//!
//! What differs from bcs-netservice-controller, on purpose:
//! - `ipAddr` is honoured, asking twice for one container gives the same address, and nothing that is not checked there
//!   (mask, addresses outside the net, duplicates) gets past the door here.
//! - Without a cluster there is no pod to look up, so whether an address is fixed comes from the pool
//!   ([`FIXED_ANNOTATION`], [`KEEP_ANNOTATION`]) or from the request (`fixed`, `keepDuration`).
//! - Free addresses are picked least recently released first. The controller picks at random so that concurrent
//!   requests rarely meet; here they cannot.
//! - IPv6 works. A host that is in pools of both families gets IPv4.
//!
//! A pool is bound to its hosts, so nobody but they can use it, by default or by name.

mod allocator;
mod envelope;
mod net_ip;
mod net_pool;

pub use allocator::{Allocation, Failure, NETWORK, Release, host_released, is_on_host};
pub use envelope::Envelope;
pub use net_pool::{FIXED_ANNOTATION, KEEP_ANNOTATION, NetPool, NetPoolSpec};

/// The API versions accepted: the one of the controller, and the one its documentation has.
pub const API_VERSIONS: &[&str] = &["netservice.bkbcs.tencent.com/v1", "networkextension.bkbcs.tencent.com/v1"];
