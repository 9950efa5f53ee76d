//! Addresses as numbers: families, canonical CIDRs, ranges, sets of ranges, exact counts.
//!
//! Everything here is arithmetic on `u128`; an IPv4 address is its 32-bit value widened. Nothing walks a range, so a
//! `::/0` costs what a `/24` costs.

mod cidr;
mod count;
mod range;
mod set;

pub use cidr::Cidr;
pub use count::Count;
pub use range::Range;
pub(crate) use set::whole_units;
pub use set::{RangeSet, cycle_after};

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    #[must_use]
    pub const fn of(addr: IpAddr) -> Self {
        match addr {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// How many bits an address of this family has: 32 or 128.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// The highest address of the family, as a number.
    #[must_use]
    pub const fn max(self) -> u128 {
        match self {
            Self::V4 => u32::MAX as u128,
            Self::V6 => u128::MAX,
        }
    }

    /// The address with this number. Bits above the family's width are dropped.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "an IPv4 number has 32 bits by construction")]
    pub const fn addr(self, number: u128) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::from_bits(number as u32)),
            Self::V6 => IpAddr::V6(Ipv6Addr::from_bits(number)),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// The number behind an address.
#[must_use]
pub const fn number(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(v4) => v4.to_bits() as u128,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Why a piece of text is not an address, a CIDR or a range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Not an IP address at all.
    #[error("{0:?} is not an IP address")]
    Address(String),
    /// The prefix length is not a number or is too long for the family.
    #[error("{text:?}: prefix length must be a number from 0 to {max}")]
    PrefixLength {
        /// What was written.
        text: String,
        /// The longest prefix of that family.
        max: u8,
    },
    /// Neither `ADDRESS/LENGTH`, nor `FIRST-LAST`, nor a single address.
    #[error("{0:?} is not a CIDR (ADDRESS/LENGTH)")]
    NotCidr(String),
    /// The address has bits set right of the prefix.
    #[error("{text:?} has host bits set; write {canonical}")]
    HostBits {
        /// What was written.
        text: String,
        /// What to write instead.
        canonical: Cidr,
    },
    /// A range whose ends are of two families.
    #[error("{0:?}: both ends of a range must be of one address family")]
    MixedFamilies(String),
    /// A range that ends before it starts.
    #[error("{text:?} ends before it starts; write {last}-{first}")]
    Backwards {
        /// What was written.
        text: String,
        /// The end that was written first.
        first: IpAddr,
        /// The end that was written last.
        last: IpAddr,
    },
}

pub(crate) fn parse_addr(text: &str) -> Result<IpAddr, ParseError> {
    text.parse().map_err(|_| ParseError::Address(text.to_owned()))
}
