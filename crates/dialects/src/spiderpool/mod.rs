//! Spiderpool: SpiderIPPool, SpiderSubnet, SpiderReservedIP and SpiderEndpoint of `spiderpool.spidernet.io/v2beta1`, and
//! the annotations of pods and namespaces.
//!
//! | module | what it is |
//! |---|---|
//! | `plot` | what pools and subnets share: a CIDR, addresses in it, gateway and routes |
//! | [`pool`], [`subnet`], [`reserved`] | the kinds that are configured, lowered into the one model |
//! | [`owner`] | whose a pool is that was made for an application, by its labels and its pod affinity |
//! | `rules` | what is refused of an object of these kinds, beside what the core says of all |
//! | [`defaults`] | what every object of these kinds gets, whoever made it |
//! | [`metadata`] | its labels |
//! | [`status`] | what is allocated, raised into the strings of JSON that their status has |
//! | [`endpoint`] | what one pod holds, as a SpiderEndpoint |
//! | [`takeover`] | what Spiderpool has given out, read from what it wrote |
//! | [`export`] | the way back: Berth's own objects and what is given out, as Spiderpool would have them |
//! | [`settings`] | its environment variables and its ConfigMap |
//! | [`socket`] | what is said on spiderpool-agent's socket |
//! | [`crd`] | the definitions of the kinds |
//!
//! Its pools are shared pools that pick the lowest free address. A pool goes by its name, whatever its kind: of a
//! SpiderIPPool and an IPPool of one name the older is accepted, and the other one says so. Reservations, which nobody
//! names, have a name that no other kind can have.

pub mod crd;
pub mod defaults;
pub mod endpoint;
pub mod export;
pub mod metadata;
pub mod owner;
mod plot;
pub mod pool;
pub mod reserved;
mod rules;
pub mod settings;
pub mod socket;
pub mod status;
pub mod subnet;
pub mod takeover;

pub use rules::{askew, clash, faults_without_addresses, keeps_identity, translate};
pub(crate) use rules::{cidr_of, clashes};

/// The API versions of its kinds.
pub const API_VERSIONS: &[&str] = &["spiderpool.spidernet.io/v2beta1"];
/// Their group.
pub const GROUP: &str = "spiderpool.spidernet.io";
/// What keeps a pool or a subnet that is in use.
pub const FINALIZER: &str = "spiderpool.spidernet.io";
/// What its annotations and labels begin with.
pub const PREFIX: &str = "ipam.spidernet.io/";

/// The kinds of objects.
pub const POOL: &str = "SpiderIPPool";
/// Subnets.
pub const SUBNET: &str = "SpiderSubnet";
/// Addresses that nobody gets.
pub const RESERVED: &str = "SpiderReservedIP";
/// What one pod holds.
pub const ENDPOINT: &str = "SpiderEndpoint";
