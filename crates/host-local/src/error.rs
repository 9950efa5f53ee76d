//! What can go wrong, in host-local's words where it has some, since people match on them.

use berth_core::error::code as own;
use berth_wire::cni::{self, code};
use rustix::io::Errno;
use std::net::IpAddr;
use std::path::PathBuf;

pub(crate) type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// From what all dialects share: reading the configuration and `CNI_ARGS`.
    #[error("{0}")]
    Shared(#[from] cni::Error),
    #[error("{0}")]
    Config(String),
    #[error("{op} {}: {}", path.display(), std::io::Error::from(*errno))]
    Io { op: &'static str, path: PathBuf, errno: Errno },
    #[error("failed to allocate for range {index}: {source}")]
    Range { index: usize, source: Box<Error> },
    #[error("no IP addresses available in range set: {0}")]
    Exhausted(String),
    #[error("requested ip {0} is subnet's gateway")]
    Gateway(IpAddr),
    #[error("requested IP address {address} is not available in range set {set}")]
    Taken { address: IpAddr, set: String },
    #[error("{address} has been allocated to {container}, duplicate allocation is not allowed")]
    Duplicate { address: IpAddr, container: String },
    #[error("failed to allocate all requested IPs:{}", spaced(.0))]
    Unfulfilled(Vec<IpAddr>),
    #[error("container {0} was deleted after this ADD began")]
    Superseded(String),
    #[error("host-local: Failed to find address added by container {0}")]
    NotFound(String),
    #[error("host-local: address {address} of prevResult is not leased to container {container}")]
    NotLeased { address: IpAddr, container: String },
    #[error("{}", joined(.0))]
    Several(Vec<Error>),
    #[error("{0}")]
    Unavailable(Box<Error>),
}

impl Error {
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::Config(message.into())
    }

    /// The errors of a verb that goes on after one; nothing wrong if there are none.
    pub(crate) fn collect(errors: Vec<Self>) -> Result<()> {
        if errors.is_empty() { Ok(()) } else { Err(Self::Several(errors)) }
    }

    fn code(&self) -> u32 {
        match self {
            Self::Shared(error) => error.code,
            Self::Config(_) => code::INVALID_CONFIG,
            Self::Io { .. } => code::IO_FAILURE,
            Self::Range { source, .. } => source.code(),
            Self::Exhausted(_) => own::POOL_EXHAUSTED,
            Self::Superseded(_) => code::TRY_AGAIN,
            Self::Several(errors) => errors.first().map_or(code::INTERNAL, Self::code),
            Self::Unavailable(_) => code::UNAVAILABLE,
            Self::Gateway(_) => own::ADDRESS_RESERVED,
            Self::Taken { .. } | Self::Duplicate { .. } => own::ADDRESS_TAKEN,
            Self::Unfulfilled(_) => own::ADDRESS_OUTSIDE,
            Self::NotFound(_) | Self::NotLeased { .. } => own::NOT_HELD,
        }
    }
}

impl From<Error> for cni::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Shared(error) => error,
            error => Self::new(error.code(), error.to_string()),
        }
    }
}

fn spaced(addresses: &[IpAddr]) -> String {
    addresses.iter().map(|address| format!(" {address}")).collect()
}

fn joined(errors: &[Error]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(";")
}
