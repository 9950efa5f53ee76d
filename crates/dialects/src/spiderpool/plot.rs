//! What pools and subnets share: a CIDR, addresses in it, gateway and routes.

use crate::field::FieldError;
use crate::text::{Address, Text};
use berth_core::addr::{Cidr, Family, Range, RangeSet};
use berth_core::net::Route;
use serde::Deserialize;
use std::net::IpAddr;
use std::str::FromStr;
use utoipa::ToSchema;

/// An address or `FIRST-LAST`; CIDRs are not taken, as their edges would be in doubt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed(pub(super) Range);

impl FromStr for Listed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return Err(format!("{text:?} is a CIDR; write the addresses as FIRST-LAST, or one by one"));
        }
        text.parse().map(Self).map_err(|error: berth_core::addr::ParseError| error.to_string())
    }
}

/// A route that comes along with an address.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct RouteSpec {
    /// Destination, as a CIDR.
    #[schema(value_type = String)]
    dst: Text<Cidr>,
    /// Next hop, in the subnet.
    #[schema(value_type = String)]
    gw: Text<Address>,
}

impl From<RouteSpec> for Route {
    fn from(route: RouteSpec) -> Self {
        let Text(Address(gw)) = route.gw;
        Self { dst: route.dst.0.to_string(), gw: Some(gw), ..Self::default() }
    }
}

/// The fields as they are written.
pub(super) struct Written {
    pub(super) ip_version: Option<i64>,
    pub(super) subnet: Text<Cidr>,
    pub(super) ips: Option<Vec<Text<Listed>>>,
    pub(super) exclude_ips: Option<Vec<Text<Listed>>>,
    pub(super) gateway: Option<Text<Address>>,
    pub(super) routes: Option<Vec<RouteSpec>>,
}

/// The same, read.
pub(super) struct Plot {
    pub(super) cidr: Cidr,
    /// Addresses, in order and without repeats.
    pub(super) ips: RangeSet,
    pub(super) exclude: RangeSet,
    pub(super) gateway: Option<IpAddr>,
    /// `None` if nothing is written, which is not the same as an empty list.
    pub(super) routes: Option<Vec<Route>>,
}

impl Written {
    /// Checks what the model cannot know, since it has no CIDR beside the addresses. The rest is for the core to say.
    pub(super) fn read(self) -> Result<Plot, FieldError> {
        let Text(cidr) = self.subnet;
        version(self.ip_version, cidr.family(), &format!("spec.subnet {cidr}"))?;
        let set = |field: &str, list: Option<Vec<Text<Listed>>>| {
            let mut set = RangeSet::new();
            for (i, Text(Listed(range))) in list.into_iter().flatten().enumerate() {
                if !cidr.covers(range) {
                    return Err(FieldError::new(format!("spec.{field}[{i}]"), format!("{range} is not inside {cidr}")));
                }
                set.insert(range);
            }
            Ok(set)
        };
        let (ips, exclude) = (set("ips", self.ips)?, set("excludeIPs", self.exclude_ips)?);
        let gateway = self.gateway.map(|Text(Address(gateway))| gateway);
        if let Some(gateway) = gateway.filter(|gateway| ips.contains(*gateway) && !exclude.contains(*gateway)) {
            let reason = format!("{gateway} is also in spec.ips; put it into spec.excludeIPs");
            return Err(FieldError::new("spec.gateway", reason));
        }
        let routes: Option<Vec<Route>> = self.routes.map(|all| all.into_iter().map(Into::into).collect());
        for (i, route) in routes.iter().flatten().enumerate() {
            let all = |cidr: Cidr| cidr.prefix_len() == 0;
            let path = format!("spec.routes[{i}].dst");
            let dst: Option<Cidr> = route.dst.parse().ok();
            if dst.is_some_and(all) {
                return Err(FieldError::new(path, format!("{} is the default route; write spec.gateway", route.dst)));
            }
            if let Some(other) = dst.filter(|dst| dst.family() != cidr.family()) {
                return Err(FieldError::new(path, format!("{other} is not {}", cidr.family())));
            }
        }
        Ok(Plot { cidr, ips, exclude, gateway, routes })
    }
}

/// The number that stands for a family.
pub(super) const fn number(family: Family) -> i64 {
    match family {
        Family::V4 => 4,
        Family::V6 => 6,
    }
}

/// Whether the version that is written, if any, is that of `what`.
pub(super) fn version(written: Option<i64>, family: Family, what: &str) -> Result<(), FieldError> {
    match written {
        Some(version) if version != number(family) => {
            let reason = format!("is {version}, and {what} is {family}; leave it out, it is filled in");
            Err(FieldError::new("spec.ipVersion", reason))
        }
        _ => Ok(()),
    }
}

/// Ranges as these kinds write them: `a` or `a-b`, never a CIDR.
#[must_use]
pub(super) fn written(ranges: &[Range]) -> Vec<String> {
    let one = |range: &Range| match (range.first(), range.last()) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    };
    ranges.iter().map(one).collect()
}
