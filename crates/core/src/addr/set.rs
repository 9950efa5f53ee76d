use super::{Count, Family, Range, number};
use std::fmt;
use std::net::IpAddr;

/// A set of addresses of both families, kept as sorted, disjoint, non-adjacent ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RangeSet {
    ranges: Vec<Range>,
}

impl RangeSet {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { ranges: Vec::new() }
    }

    /// The ranges, in order: IPv4 first, then IPv6.
    #[must_use]
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// Whether nothing is inside.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many addresses are inside.
    #[must_use]
    pub fn count(&self) -> Count {
        self.ranges.iter().map(|r| r.count()).sum()
    }

    /// The range that holds `addr`.
    #[must_use]
    pub fn find(&self, addr: IpAddr) -> Option<Range> {
        let after = self.ranges.partition_point(|r| r.first() <= addr);
        after.checked_sub(1).map(|i| self.ranges[i]).filter(|r| r.contains(addr))
    }

    /// Whether the address is inside.
    #[must_use]
    pub fn contains(&self, addr: IpAddr) -> bool {
        self.find(addr).is_some()
    }

    /// Whether every address of the range is inside.
    #[must_use]
    pub fn covers(&self, range: Range) -> bool {
        self.find(range.first()).is_some_and(|r| r.contains(range.last()))
    }

    /// The parts of the set that lie inside `window`, in order.
    pub fn within(&self, window: Range) -> impl Iterator<Item = Range> + '_ {
        let start = self.ranges.partition_point(|r| r.last() < window.first());
        self.ranges[start..].iter().map_while(move |r| r.intersection(window))
    }

    /// Adds every address of the range.
    pub fn insert(&mut self, range: Range) {
        let touches = |r: &Range| {
            r.family() == range.family()
                && r.first_number() <= range.last_number().saturating_add(1)
                && range.first_number() <= r.last_number().saturating_add(1)
        };
        let start = self.ranges.partition_point(|r| r.last() < range.first() && !touches(r));
        let len = self.ranges[start..].iter().take_while(|r| touches(r)).count();
        let merged = self.ranges[start..start + len].iter().fold(range, |whole, r| {
            let first = whole.first_number().min(r.first_number());
            let last = whole.last_number().max(r.last_number());
            Range::from_numbers(range.family(), first, last)
        });
        self.ranges.splice(start..start + len, [merged]);
    }

    /// Takes every address of the range out.
    pub fn remove(&mut self, range: Range) {
        let start = self.ranges.partition_point(|r| r.last() < range.first());
        let len = self.ranges[start..].iter().take_while(|r| r.overlaps(range)).count();
        let mut kept = Vec::with_capacity(2);
        for r in &self.ranges[start..start + len] {
            if r.first_number() < range.first_number() {
                kept.push(Range::from_numbers(r.family(), r.first_number(), range.first_number() - 1));
            }
            if r.last_number() > range.last_number() {
                kept.push(Range::from_numbers(r.family(), range.last_number() + 1, r.last_number()));
            }
        }
        self.ranges.splice(start..start + len, kept);
    }

    /// Takes one address out.
    pub fn remove_addr(&mut self, addr: IpAddr) {
        self.remove(Range::single(addr));
    }

    /// The addresses that both sets have.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        other.ranges.iter().flat_map(|&window| self.within(window)).collect()
    }

    /// The addresses of this set that the other lacks.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut left = self.clone();
        for &range in &other.ranges {
            left.remove(range);
        }
        left
    }
}

/// Every address of the ranges once, in the order given, beginning after `last` and going round; from the start if
/// `last` is absent or outside. Lazy: asking for the next one costs the same whatever the size of the ranges.
pub fn cycle_after(ranges: &[Range], last: Option<IpAddr>) -> impl Iterator<Item = IpAddr> + '_ {
    let turn = last.and_then(|addr| Some((ranges.iter().position(|r| r.contains(addr))?, number(addr))));
    let (before, rest) = ranges.split_at(turn.map_or(0, |(i, _)| i));
    let (head, tail, after) = match (turn, rest) {
        (Some((_, at)), [r, after @ ..]) => {
            let head = (at < r.last_number()).then(|| Range::from_numbers(r.family(), at + 1, r.last_number()));
            (head, Some(Range::from_numbers(r.family(), r.first_number(), at)), after)
        }
        _ => (None, None, rest),
    };
    head.into_iter().chain(after.iter().copied()).chain(before.iter().copied()).chain(tail).flat_map(addresses)
}

/// Every address of a range in order, lazily.
fn addresses(range: Range) -> impl Iterator<Item = IpAddr> {
    (range.first_number()..=range.last_number()).map(move |n| range.family().addr(n))
}

impl FromIterator<Range> for RangeSet {
    fn from_iter<I: IntoIterator<Item = Range>>(iter: I) -> Self {
        let mut set = Self::new();
        for range in iter {
            set.insert(range);
        }
        set
    }
}

impl fmt::Display for RangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.ranges.iter().enumerate() {
            write!(f, "{}{range}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// How many units of `unit_len` bits of prefix lie wholly inside the range, and the first one.
pub(crate) fn whole_units(range: Range, unit_len: u8) -> Option<(u128, u128)> {
    let shift = range.family().bits() - unit_len;
    if shift == 128 {
        return (range.first_number() == 0 && range.last_number() == u128::MAX).then_some((0, 0));
    }
    let size_less_one = (1u128 << shift) - 1;
    let first = (range.first_number() >> shift) + u128::from(range.first_number() & size_less_one != 0);
    let end = range.last_number() >> shift;
    let last = if range.last_number() & size_less_one == size_less_one { Some(end) } else { end.checked_sub(1) };
    last.filter(|&last| first <= last).map(|last| (first, last))
}

/// The widest family order the set relies on: every IPv4 address sorts before every IPv6 address.
const _: () = assert!((Family::V4 as u8) < (Family::V6 as u8));
