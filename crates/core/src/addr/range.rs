use super::{Cidr, Count, Family, ParseError, number, parse_addr};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A run of addresses of one family, both ends included. Never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    family: Family,
    first: u128,
    last: u128,
}

impl Range {
    /// The run from `first` to `last`; `None` if the families differ or it ends before it starts.
    #[must_use]
    pub fn new(first: IpAddr, last: IpAddr) -> Option<Self> {
        let family = Family::of(first);
        let (low, high) = (number(first), number(last));
        (family == Family::of(last) && low <= high).then_some(Self { family, first: low, last: high })
    }

    /// A single address.
    #[must_use]
    pub const fn single(addr: IpAddr) -> Self {
        let n = number(addr);
        Self { family: Family::of(addr), first: n, last: n }
    }

    pub(crate) const fn from_numbers(family: Family, first: u128, last: u128) -> Self {
        debug_assert!(first <= last && last <= family.max());
        Self { family, first, last }
    }

    /// The address family.
    #[must_use]
    pub const fn family(self) -> Family {
        self.family
    }

    /// The first address.
    #[must_use]
    pub const fn first(self) -> IpAddr {
        self.family.addr(self.first)
    }

    /// The last address.
    #[must_use]
    pub const fn last(self) -> IpAddr {
        self.family.addr(self.last)
    }

    /// The first address as a number.
    #[must_use]
    pub const fn first_number(self) -> u128 {
        self.first
    }

    /// The last address as a number.
    #[must_use]
    pub const fn last_number(self) -> u128 {
        self.last
    }

    /// Whether the address lies inside.
    #[must_use]
    pub fn contains(self, addr: IpAddr) -> bool {
        Family::of(addr) == self.family && (self.first..=self.last).contains(&number(addr))
    }

    /// The addresses that both have.
    #[must_use]
    pub fn intersection(self, other: Self) -> Option<Self> {
        let (first, last) = (self.first.max(other.first), self.last.min(other.last));
        (self.family == other.family && first <= last).then_some(Self { family: self.family, first, last })
    }

    /// Whether any address lies in both.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.intersection(other).is_some()
    }

    /// How many addresses there are.
    #[must_use]
    pub fn count(self) -> Count {
        Count::from(self.last - self.first) + Count::ONE
    }

    /// The CIDR that is exactly this range, if there is one.
    #[must_use]
    pub fn as_cidr(self) -> Option<Cidr> {
        let cidr = Cidr::covering(self);
        (cidr.range() == self).then_some(cidr)
    }
}

impl From<Cidr> for Range {
    fn from(cidr: Cidr) -> Self {
        cidr.range()
    }
}

/// The shortest text that reads back to the same range: an address, a CIDR, or `FIRST-LAST`.
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            return self.first().fmt(f);
        }
        match self.as_cidr() {
            Some(cidr) => cidr.fmt(f),
            None => write!(f, "{}-{}", self.first(), self.last()),
        }
    }
}

impl FromStr for Range {
    type Err = ParseError;

    /// Reads a CIDR, `FIRST-LAST`, or a single address. Spaces around the dash are allowed.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.contains('/') {
            return text.parse().map(Cidr::range);
        }
        let Some((first, last)) = text.split_once('-') else {
            return parse_addr(text).map(Self::single);
        };
        let (first, last) = (parse_addr(first.trim())?, parse_addr(last.trim())?);
        if Family::of(first) != Family::of(last) {
            return Err(ParseError::MixedFamilies(text.to_owned()));
        }
        Self::new(first, last).ok_or_else(|| ParseError::Backwards { text: text.to_owned(), first, last })
    }
}
