//! Who uses an address on the wire?
//!
//! | module | what it is |
//! |---|---|
//! | [`frame`] | Ethernet frames with ARP and IPv6 neighbour discovery in them: bytes from values, values from bytes |
//! | [`schedule`] | when to send, and for how long to listen |
//! | [`wire`] | an interface of a container, up and listened to |
//!
//! A probe asks without a sender's address (ARP from 0.0.0.0 as in RFC 5227, a neighbour solicitation from `::` as in
//! RFC 4862), so that nobody's neighbour table changes because of it. Whoever uses the address has to answer, a router
//! too: a stranger and a gateway are looked for with the same question.
//!
//! The plugin stays small: two packet formats of a few dozen bytes need no packet library, and bringing a link up is one
//! netlink message.

pub mod frame;
pub mod schedule;
pub mod wire;

pub use frame::{Mac, Word};
pub use schedule::Schedule;
pub use wire::{Heard, Wire, WireError};
