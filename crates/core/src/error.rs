//! Why a request was not served; one table says what each reason is called in CNI, in HTTP and in a shell.

use crate::holder::Holder;
use crate::time::Time;
use std::net::IpAddr;

/// Why addresses were not given out or taken back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Pools were considered and all of them ruled out.
    #[error("no pool qualifies: {reasons}")]
    NoQualifiedPool {
        /// One clause per pool: its name and what ruled it out.
        reasons: String,
    },
    /// The pools that qualify have nothing left.
    #[error("no address left in {}{}", plural("pool", pools), cooling_note(*cooling))]
    PoolExhausted {
        /// The pools, in the order tried.
        pools: Vec<String>,
        /// How many addresses rest and will be free again.
        cooling: usize,
        /// When the first of those is free.
        next_free: Option<Time>,
    },
    /// The address asked for is in use, held or quarantined.
    #[error("address {address} is taken by {by}")]
    AddressTaken {
        /// The address.
        address: IpAddr,
        /// Who has it.
        by: String,
    },
    /// The address asked for is in none of the pools that may be used.
    #[error("address {address} is in none of the pools {pools}")]
    AddressOutside {
        /// The address.
        address: IpAddr,
        /// Where it was looked for.
        pools: String,
    },
    /// The address asked for is reserved, or the pool does not give it out (network, broadcast, gateway, excluded).
    #[error("address {address} is not given out: {reason}")]
    AddressReserved {
        /// The address.
        address: IpAddr,
        /// What keeps it.
        reason: String,
    },
    /// The namespace has all the addresses it may have.
    #[error("namespace {namespace:?} has all {limit} addresses that pool {pool:?} allows it")]
    QuotaReached {
        /// The pool.
        pool: String,
        /// The namespace.
        namespace: String,
        /// The limit.
        limit: u32,
    },
    /// No pool has that name, or none matches the pattern.
    #[error("pool {0:?} does not exist")]
    UnknownPool(String),
    /// The pod's application has no pool yet; it is made when the application is seen.
    #[error("{application} has no pool of {subnets} for {interface} yet")]
    PoolPending {
        /// The application.
        application: String,
        /// The interface that the pool would be for.
        interface: String,
        /// The subnets asked for.
        subnets: String,
    },
    /// Nothing here serves pools of that type.
    #[error("pool {pool:?} has the unknown type {kind:?}")]
    UnknownPoolType {
        /// The pool.
        pool: String,
        /// The type.
        kind: String,
    },
    /// There is no such object.
    #[error("{kind} {name:?} does not exist")]
    NotFound {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// The claim is not there.
    #[error("claim {0:?} does not exist")]
    UnknownClaim(String),
    /// Other writers won every time.
    #[error("gave up: other writers changed the same blocks each time")]
    RetriesExhausted,
    /// A DEL for the same attachment came after this ADD was started.
    #[error("container {0} was deleted while this request was on its way")]
    Superseded(String),
    /// CHECK found something else than what ADD answered.
    #[error("container {container} does not hold {address}")]
    NotHeld {
        /// The container.
        container: String,
        /// The address it should hold.
        address: String,
    },
    /// An object would lose addresses that are in use.
    #[error("{object} is in use: {holders}")]
    InUse {
        /// The object.
        object: String,
        /// Who uses it.
        holders: String,
    },
    /// The request makes no sense.
    #[error("{field}: {reason}")]
    Invalid {
        /// The field.
        field: String,
        /// What is wrong with it and how to mend it.
        reason: String,
    },
    /// Another interface of the container, which is to be served along with the one asked for, cannot be.
    #[error("interface {interface}, which is to get its addresses along with this one: {error}")]
    Along {
        /// The interface.
        interface: String,
        /// Why not.
        error: Box<Self>,
    },
    /// The router of an address does not answer, and its pool asks for that.
    #[error("gateway {gateway} of pool {pool:?} does not answer")]
    GatewaySilent {
        /// The router.
        gateway: IpAddr,
        /// The pool.
        pool: String,
    },
    /// The store is on another machine, which does not answer.
    #[error("{0}")]
    Unreachable(String),
    /// The store failed; nothing was changed.
    #[error("the store failed: {0}")]
    Store(String),
}

/// The CNI error codes that are Berth's own, whichever way an address is given out.
pub mod code {
    /// No pool qualifies.
    pub const NO_QUALIFIED_POOL: u32 = 101;
    /// The pools have nothing left.
    pub const POOL_EXHAUSTED: u32 = 102;
    /// Someone has the address.
    pub const ADDRESS_TAKEN: u32 = 103;
    /// The address is in none of the pools.
    pub const ADDRESS_OUTSIDE: u32 = 104;
    /// The address is not given out.
    pub const ADDRESS_RESERVED: u32 = 105;
    /// The namespace has all it may have.
    pub const QUOTA_REACHED: u32 = 106;
    /// There is no such pool.
    pub const UNKNOWN_POOL: u32 = 107;
    /// Nothing here serves pools of that type.
    pub const UNKNOWN_POOL_TYPE: u32 = 108;
    /// There is no such claim.
    pub const UNKNOWN_CLAIM: u32 = 109;
    /// CHECK: the container does not hold what ADD answered.
    pub const NOT_HELD: u32 = 110;
    /// The object is in use.
    pub const IN_USE: u32 = 111;
    /// There is no such object.
    pub const NOT_FOUND: u32 = 112;
    /// The router of the address does not answer.
    pub const GATEWAY_SILENT: u32 = 113;
}

/// What an error is called outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// Short name, the last part of the HTTP problem type.
    pub slug: &'static str,
    /// CNI error code.
    pub cni: u32,
    /// HTTP status.
    pub http: u16,
    /// Exit code of the command line.
    pub exit: u8,
    /// What to do next.
    pub hint: &'static str,
}

impl Error {
    /// The one place that maps an error to a CNI code, an HTTP problem and an exit code.
    #[must_use]
    #[rustfmt::skip]
    pub fn names(&self) -> Names {
        let (slug, cni, http, exit, hint) = match self {
            Self::NoQualifiedPool { .. } => ("no-qualified-pool", code::NO_QUALIFIED_POOL, 403, 10, "`berth explain` shows every pool and the rule that dropped it"),
            Self::PoolExhausted { .. } => ("pool-exhausted", code::POOL_EXHAUSTED, 409, 11, "add a range to the pool, or see who holds addresses with `berth show`"),
            Self::AddressTaken { .. } => ("address-taken", code::ADDRESS_TAKEN, 409, 12, "`berth show ADDRESS` tells who has it, `berth history ADDRESS` who had it"),
            Self::AddressOutside { .. } => ("address-outside-pool", code::ADDRESS_OUTSIDE, 422, 13, "`berth get pools -o wide` lists the ranges"),
            Self::AddressReserved { .. } => ("address-reserved", code::ADDRESS_RESERVED, 422, 14, "ask for another address, or change the reservation or the pool"),
            Self::QuotaReached { .. } => ("quota-reached", code::QUOTA_REACHED, 429, 15, "raise spec.quota of the pool, or release addresses of that namespace"),
            Self::UnknownPool(_) => ("unknown-pool", code::UNKNOWN_POOL, 404, 16, "`berth get pools` lists the pools there are"),
            Self::PoolPending { .. } => ("pool-pending", 11, 503, 25, "it is tried again; the events of the application say what is in its way"),
            Self::UnknownPoolType { .. } => ("unknown-pool-type", code::UNKNOWN_POOL_TYPE, 422, 17, "use the type \"local\", or run the provider that serves this type"),
            Self::UnknownClaim(_) => ("unknown-claim", code::UNKNOWN_CLAIM, 404, 18, "`berth get claims -A` lists the claims there are"),
            Self::NotFound { .. } => ("not-found", code::NOT_FOUND, 404, 24, "`berth get KIND` lists what there is"),
            Self::RetriesExhausted => ("retries-exhausted", 11, 503, 19, "try again; many writers share these blocks"),
            Self::Superseded(_) => ("superseded", 11, 409, 20, "nothing is left behind; a new ADD works"),
            Self::NotHeld { .. } => ("not-held", code::NOT_HELD, 409, 21, "recreate the container"),
            Self::InUse { .. } => ("in-use", code::IN_USE, 409, 22, "release those addresses first"),
            Self::Invalid { .. } => ("invalid", 7, 422, 2, "mend the field and try again"),
            Self::Along { error, .. } => return error.names(),
            Self::GatewaySilent { .. } => ("gateway-silent", code::GATEWAY_SILENT, 503, 26, "see whether the router is up and on the same wire as the interface, or set detect.gateway of the pool to Warn"),
            Self::Unreachable(_) => ("unreachable", 11, 503, 24, "it is tried again; see whether the API server runs"),
            Self::Store(_) => ("store-failed", 5, 500, 23, "look at the log of the daemon; free disk space if it is full"),
        };
        Names { slug, cni, http, exit, hint }
    }

    /// What is wrong, whichever interface it concerns.
    #[must_use]
    pub fn cause(&self) -> &Self {
        if let Self::Along { error, .. } = self { error.cause() } else { self }
    }

    /// The address is taken by this holder.
    pub(crate) fn taken(address: IpAddr, holder: Option<&Holder>) -> Self {
        let by = holder.map_or_else(|| "quarantine (seen in use by a stranger)".to_owned(), ToString::to_string);
        Self::AddressTaken { address, by }
    }
}

fn plural(noun: &str, names: &[String]) -> String {
    match names {
        [one] => format!("{noun} {one:?}"),
        many => format!("{noun}s {}", many.iter().map(|n| format!("{n:?}")).collect::<Vec<_>>().join(", ")),
    }
}

fn cooling_note(cooling: usize) -> String {
    if cooling == 0 { String::new() } else { format!(" ({cooling} cooling down)") }
}
