use super::{Family, ParseError, Range, number, parse_addr};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A canonical CIDR: no host bits are ever set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    family: Family,
    base: u128,
    len: u8,
}

impl Cidr {
    /// The network of this length that holds `addr`. `len` is capped at the family's width.
    #[must_use]
    pub fn containing(addr: IpAddr, len: u8) -> Self {
        let family = Family::of(addr);
        let len = len.min(family.bits());
        Self { family, base: number(addr) & !host_mask(family, len), len }
    }

    /// The smallest network that holds every address of the range.
    #[must_use]
    pub fn covering(range: Range) -> Self {
        let differing = range.first_number() ^ range.last_number();
        let host_bits = 128 - differing.leading_zeros();
        let bits = range.family().bits();
        Self::containing(range.first(), bits - u8::try_from(host_bits).unwrap_or(bits))
    }

    /// The address family.
    #[must_use]
    pub const fn family(self) -> Family {
        self.family
    }

    /// The prefix length.
    #[must_use]
    pub const fn prefix_len(self) -> u8 {
        self.len
    }

    /// The network address.
    #[must_use]
    pub const fn network(self) -> IpAddr {
        self.family.addr(self.base)
    }

    /// The last address: the broadcast address in IPv4.
    #[must_use]
    pub fn last(self) -> IpAddr {
        self.range().last()
    }

    /// Every address of the network.
    #[must_use]
    pub fn range(self) -> Range {
        Range::from_numbers(self.family, self.base, self.base | host_mask(self.family, self.len))
    }

    /// Whether the address lies inside.
    #[must_use]
    pub fn contains(self, addr: IpAddr) -> bool {
        Family::of(addr) == self.family && number(addr) & !host_mask(self.family, self.len) == self.base
    }

    /// Whether every address of `other` lies inside.
    #[must_use]
    pub fn covers(self, other: Range) -> bool {
        self.contains(other.first()) && self.contains(other.last())
    }

    /// Point-to-point and host networks (`/31`, `/32`, `/127`, `/128`) have no network or broadcast address.
    #[must_use]
    pub const fn is_usable_whole(self) -> bool {
        self.len + 1 >= self.family.bits()
    }

    /// The address most networks keep for their router: the one after the network address.
    ///
    /// `None` where the network is too small to spare one.
    #[must_use]
    pub const fn first_host(self) -> Option<IpAddr> {
        if self.is_usable_whole() { None } else { Some(self.family.addr(self.base + 1)) }
    }
}

const fn host_mask(family: Family, len: u8) -> u128 {
    let host_bits = family.bits() - len;
    if host_bits == 128 { u128::MAX } else { (1 << host_bits) - 1 }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network(), self.len)
    }
}

impl FromStr for Cidr {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (addr, len) = text.split_once('/').ok_or_else(|| ParseError::NotCidr(text.to_owned()))?;
        let addr = parse_addr(addr)?;
        let max = Family::of(addr).bits();
        let digits = !len.is_empty() && len.bytes().all(|b| b.is_ascii_digit());
        let len = len.parse().ok().filter(|&l: &u8| digits && l <= max);
        let len = len.ok_or_else(|| ParseError::PrefixLength { text: text.to_owned(), max })?;
        let canonical = Self::containing(addr, len);
        if canonical.network() == addr {
            Ok(canonical)
        } else {
            Err(ParseError::HostBits { text: text.to_owned(), canonical })
        }
    }
}
