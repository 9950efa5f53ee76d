//! From what host-local's configuration says to ranges: a pure function, with every refusal in host-local's words.
//!
//! Like host-local, subnets without room for a network and a broadcast address (`/31`, `/32`, `/127`, `/128`) are
//! refused, and the gateway may lie anywhere.

use berth_core::addr::{Cidr, Family, Range, cycle_after};
use std::fmt;
use std::net::IpAddr;

/// A subnet as written: host bits and all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subnet {
    pub(crate) address: IpAddr,
    pub(crate) prefix_len: u8,
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_len)
    }
}

/// One range as written; what is absent gets host-local's defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) subnet: Option<Subnet>,
    pub(crate) start: Option<IpAddr>,
    pub(crate) end: Option<IpAddr>,
    pub(crate) gateway: Option<IpAddr>,
}

/// What a container has to know about the subnet its address came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) prefix_len: u8,
    pub(crate) gateway: IpAddr,
}

/// A range set: each container gets one address of it. The ranges are of one family, disjoint, in the order written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Set {
    ranges: Vec<Range>,
    links: Vec<Link>,
}

impl Set {
    fn lower(specs: &[Spec]) -> Result<Self, String> {
        let mut set = Self { ranges: Vec::new(), links: Vec::new() };
        for spec in specs {
            let (range, link) = lower_range(spec)?;
            if set.ranges.first().is_some_and(|first| first.family() != range.family()) {
                return Err("mixed address families".to_owned());
            }
            set.ranges.push(range);
            set.links.push(link);
        }
        if set.ranges.is_empty() {
            return Err("empty range set".to_owned());
        }
        for (i, &a) in set.ranges.iter().enumerate() {
            if let Some(&b) = set.ranges[i + 1..].iter().find(|b| b.overlaps(a)) {
                return Err(format!("subnets {} and {} overlap", Ends(a), Ends(b)));
            }
        }
        Ok(set)
    }

    fn family(&self) -> Option<Family> {
        self.ranges.first().map(|range| range.family())
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.ranges.iter().any(|a| other.ranges.iter().any(|b| a.overlaps(*b)))
    }

    /// The subnet's data for an address of the set; `None` if it is outside.
    pub(crate) fn link(&self, address: IpAddr) -> Option<Link> {
        self.ranges.iter().zip(&self.links).find(|(range, _)| range.contains(address)).map(|(_, link)| *link)
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.link(address).is_some()
    }

    /// Every address that may be given out, once, beginning after `last` and going round. Lazy, and in host-local's
    /// order, so that either program goes on where the other stopped.
    pub(crate) fn candidates(&self, last: Option<IpAddr>) -> impl Iterator<Item = IpAddr> + '_ {
        cycle_after(&self.ranges, last)
            .filter(|&address| self.link(address).is_some_and(|link| link.gateway != address))
    }
}

/// `first-last,first-last`
impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, &range) in self.ranges.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { "," }, Ends(range))?;
        }
        Ok(())
    }
}

struct Ends(Range);

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0.first(), self.0.last())
    }
}

/// Lowers all range sets of a configuration of this CNI version.
pub(crate) fn lower(specs: &[Vec<Spec>], cni_version: &str) -> Result<Vec<Set>, String> {
    if specs.is_empty() {
        return Err("no IP ranges specified".to_owned());
    }
    let sets = specs
        .iter()
        .enumerate()
        .map(|(i, specs)| Set::lower(specs).map_err(|error| format!("invalid range set {i}: {error}")))
        .collect::<Result<Vec<_>, _>>()?;
    let of = |family| sets.iter().filter(|set| set.family() == Some(family)).count();
    if (of(Family::V4) > 1 || of(Family::V6) > 1) && !several_addresses(cni_version) {
        return Err(format!("CNI version {cni_version} does not support more than 1 address per family"));
    }
    for (i, a) in sets.iter().enumerate() {
        if let Some(j) = sets[i + 1..].iter().position(|b| a.overlaps(b)) {
            return Err(format!("range set {i} overlaps with {}", i + 1 + j));
        }
    }
    Ok(sets)
}

/// Results carry several addresses of a family from CNI 0.3.0 on.
fn several_addresses(cni_version: &str) -> bool {
    let mut parts = cni_version.split('.').map(str::parse::<u32>);
    let (major, minor) = (parts.next(), parts.next());
    matches!((major, minor), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (0, 3))
}

fn lower_range(spec: &Spec) -> Result<(Range, Link), String> {
    let Some(written) = spec.subnet else { return Err("a range has no subnet".to_owned()) };
    let bits = Family::of(written.address).bits();
    if written.prefix_len > bits - 2 {
        return Err(format!("Network {written} too small to allocate from"));
    }
    if written.address != written.address.to_canonical() {
        return Err("IPNet IP and Mask version mismatch".to_owned());
    }
    let subnet = Cidr::containing(written.address, written.prefix_len);
    if subnet.network() != written.address {
        return Err(format!(
            "Network has host bits set. For a subnet mask of length {} the network address is {}",
            written.prefix_len,
            subnet.network()
        ));
    }

    // A /30 or /126 is the smallest subnet that comes this far, so both numbers stay inside it.
    let (network, last) = (subnet.range().first_number(), subnet.range().last_number());
    let first_host = subnet.family().addr(network + 1);
    let last_host = subnet.family().addr(if subnet.family() == Family::V4 { last - 1 } else { last });
    let outside = |what: &str, address: IpAddr| format!("{what} {address} not in network {subnet}");

    if let Some(start) = spec.start {
        let past_end = spec.end.is_some_and(|end| Family::of(end) == Family::of(start) && start > end);
        if !subnet.contains(start) || past_end {
            return Err(outside("RangeStart", start));
        }
    }
    let start = spec.start.unwrap_or(first_host);
    let end = spec.end.unwrap_or(last_host);
    if !subnet.contains(end) {
        return Err(outside("RangeEnd", end));
    }
    // The defaults may still cross what was written: an end below the first host, a start at the broadcast address.
    let crossed = || if spec.end.is_some() { outside("RangeEnd", end) } else { outside("RangeStart", start) };
    let range = Range::new(start, end).ok_or_else(crossed)?;
    Ok((range, Link { prefix_len: written.prefix_len, gateway: spec.gateway.unwrap_or(first_host) }))
}

#[cfg(test)]
#[path = "tests/lower.rs"]
mod tests;
