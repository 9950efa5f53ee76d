//! Pools of applications: a pool that is made, grown, shrunk and deleted along with the application that it is for.
//!
//! An application asks for addresses of a subnet, and a pool is cut from the subnet for it alone. All of that is decided
//! here, by functions of what is configured and what is in use; who carries it out is thin.
//!
//! | module | what it is |
//! |---|---|
//! | [`application`] | which application a pool is for, and which pods are its pods |
//! | [`size`] | how many addresses it is to have |
//! | [`cut`] | which ones: grown from the lowest free, shrunk from the highest, never one in use |
//! | [`name`] | what its pools are called |
//! | [`decide`] | everything that is to be done about one application now |

pub mod application;
pub mod cut;
pub mod decide;
pub mod name;
pub mod size;

pub use application::{Application, Controller, Identity};
pub use cut::{Cut, Cutting, cut};
pub use decide::{Effect, Event, Occupied, Workload, World, decide, enact, occupied};
pub use name::pool_name;
pub use size::Size;
