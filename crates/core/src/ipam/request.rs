//! What is asked for, and what is answered.

use super::reason::Reason;
use crate::addr::{Cidr, Family, Range};
use crate::detect::Detection;
use crate::holder::Holder;
use crate::model::{DEFAULT_NETWORK, Subject};
use crate::net::{Dns, Route};
use std::net::IpAddr;

/// How many addresses one request may ask for: more than any interface has, few enough to be served in a moment.
pub const MAX_PER_REQUEST: usize = 1024;

/// One request: everything in it is given out, or nothing.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Who will hold the addresses.
    pub holder: Holder,
    /// What pools' audiences are checked against.
    pub subject: Subject,
    /// What is wanted, in order.
    pub groups: Vec<Group>,
}

/// One part of a request: so many addresses of each family, or just these addresses.
#[derive(Clone, Debug)]
pub struct Group {
    /// Names or patterns of the pools to use, in order of preference; empty means the default pools.
    pub pools: Vec<String>,
    /// Only pools of this network; `None` means the network of the pools named, or the default one if none is named.
    pub network: Option<String>,
    /// Only pools of this type.
    pub kind: Option<String>,
    /// Exactly these addresses; empty lets the pools pick.
    pub addresses: Vec<IpAddr>,
    /// The families wanted; empty means every family that the pools have.
    pub families: Vec<Family>,
    /// Pick inside these ranges only; empty means anywhere in the pool.
    pub within: Vec<Range>,
    /// How many of each family.
    pub count: u32,
}

impl Default for Group {
    fn default() -> Self {
        Self {
            pools: Vec::new(),
            network: None,
            kind: None,
            addresses: Vec::new(),
            families: Vec::new(),
            within: Vec::new(),
            count: 1,
        }
    }
}

impl Group {
    /// The network that its pools must be in.
    #[must_use]
    pub fn network(&self) -> Option<&str> {
        self.network.as_deref().or_else(|| self.pools.is_empty().then_some(DEFAULT_NETWORK))
    }
}

/// One address or prefix that was given out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The pool it came from; empty if the pool is gone.
    pub pool: String,
    /// The network it is unique in.
    pub network: String,
    /// What was given: a single address has the family's full length.
    pub unit: Cidr,
    /// The prefix length of the subnet it lives in.
    pub prefix_len: u8,
    /// The router of that subnet.
    pub gateway: Option<IpAddr>,
    /// Why this one.
    pub reason: Reason,
    /// What its pool wants to know before it is used; never of a prefix.
    pub detect: Option<Detection>,
}

impl Given {
    /// The address, or the first of the prefix.
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        self.unit.network()
    }
}

/// The answer to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What was given out, in the order asked for.
    pub given: Vec<Given>,
    /// Routes of the pools, without repeats.
    pub routes: Vec<Route>,
    /// Resolver settings: the first pool's that has any.
    pub dns: Dns,
}

/// A pool that was looked at, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Considered {
    /// The pool.
    pub pool: String,
    /// The family it was looked at for.
    pub family: Family,
    /// What ruled it out; `None` if it was used or kept in reserve.
    pub dropped: Option<String>,
}

/// How a request was, or would be, decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Every pool looked at, in order.
    pub considered: Vec<Considered>,
}
