//! Addresses and ranges that whoever starts the container asks for: `args.cni.ips`, `runtimeConfig.ips` and
//! `runtimeConfig.ipRanges`.

use super::object::{Object, invalid};
use crate::cni::Error;
use berth_core::addr::{Cidr, Family, Range, RangeSet};
use std::net::IpAddr;

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requested {
    /// Addresses, `args.cni.ips` before `runtimeConfig.ips`, each once.
    pub addresses: Vec<IpAddr>,
    /// Whether `args.cni.ips` was there: it makes `IP` in `CNI_ARGS`, its forerunner, void.
    pub args_given: bool,
    /// Sets of ranges in Berth's notation; one address is wanted from each set.
    pub ranges: Vec<Vec<String>>,
}

impl Requested {
    pub(super) fn read(conf: &Object<'_>) -> Result<Self, Error> {
        let args: Object<'_> = conf.read("args", "args")?.unwrap_or_default();
        let cni: Object<'_> = args.read("cni", "args.cni")?.unwrap_or_default();
        let runtime: Object<'_> = conf.read("runtimeConfig", "runtimeConfig")?.unwrap_or_default();
        let mut requested = Self { args_given: cni.get("ips").is_some(), ..Self::default() };
        requested.add(&cni, "args.cni.ips")?;
        requested.add(&runtime, "runtimeConfig.ips")?;
        for (index, set) in runtime.list::<Vec<Object<'_>>>("ipRanges", "runtimeConfig.ipRanges")?.iter().enumerate() {
            requested.ranges.push(range_set(set, &format!("runtimeConfig.ipRanges[{index}]"))?);
        }
        Ok(requested)
    }

    fn add(&mut self, object: &Object<'_>, path: &str) -> Result<(), Error> {
        for (index, text) in object.list::<String>("ips", path)?.iter().enumerate() {
            let address = parse_address(text).map_err(|why| invalid(&format!("{path}[{index}]"), &why))?;
            if !self.addresses.contains(&address) {
                self.addresses.push(address);
            }
        }
        Ok(())
    }
}

/// Reads `ADDRESS` or `ADDRESS/LENGTH`. The length is checked and dropped: the subnet knows it better.
///
/// # Errors
/// A sentence saying what is wrong.
pub fn parse_address(text: &str) -> Result<IpAddr, String> {
    let address = match text.contains('/') {
        true => crate::result::parse_prefixed(text).map(|(address, _)| address),
        false => text.parse().ok(),
    };
    // An IPv4 address in IPv6 clothes is that IPv4 address, as it is for Go.
    address.map(|address: IpAddr| address.to_canonical()).ok_or_else(|| format!("invalid IP address {text}"))
}

/// One set of ranges in host-local's keys, with host-local's defaults.
fn range_set(set: &[Object<'_>], path: &str) -> Result<Vec<String>, Error> {
    let mut ranges = RangeSet::default();
    for (index, entry) in set.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let part = |key: &str| {
            let path = format!("{path}.{key}");
            let text: Option<String> = entry.read(key, &path)?;
            let text = text.filter(|text| !text.is_empty());
            text.map(|text| parse_address(&text).map_err(|why| invalid(&path, &why))).transpose()
        };
        let subnet: String = entry.read("subnet", &format!("{path}.subnet"))?.unwrap_or_default();
        let subnet: Cidr = subnet.parse().map_err(|why| invalid(&format!("{path}.subnet"), &why))?;
        let usable = usable(subnet);
        let first = part("rangeStart")?.unwrap_or(usable.first());
        let last = part("rangeEnd")?.unwrap_or(usable.last());
        let range = Range::new(first, last)
            .filter(|range| subnet.covers(*range))
            .ok_or_else(|| invalid(&path, &format_args!("{first}-{last} is not a range in {subnet}")))?;
        if ranges.ranges().iter().any(|other| other.family() != range.family()) {
            return Err(invalid(&path, &"mixed address families"));
        }
        ranges.insert(range);
        if let Some(gateway) = part("gateway")? {
            ranges.remove_addr(gateway);
        }
    }
    if ranges.ranges().is_empty() {
        return Err(invalid(path, &"empty range set"));
    }
    Ok(ranges.ranges().iter().map(|range| format!("{}-{}", range.first(), range.last())).collect())
}

/// What of a subnet is given out unless the range says otherwise: all but the network address and, for IPv4, the
/// broadcast address. Subnets of one or two addresses are usable whole.
fn usable(subnet: Cidr) -> Range {
    let whole = subnet.range();
    let (family, first, last) = (whole.family(), whole.first_number(), whole.last_number());
    if last - first < 2 {
        return whole;
    }
    let last = if family == Family::V4 { last - 1 } else { last };
    Range::new(family.addr(first + 1), family.addr(last)).unwrap_or(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cni::code;

    fn read(text: &str) -> Result<Requested, Error> {
        Requested::read(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn addresses_are_merged_in_order_each_once() {
        let requested = read(
            r#"{"args": {"cni": {"ips": ["10.1.2.11/24", "2001:db8::11/64"]}},
                "RuntimeConfig": {"ips": ["192.168.0.1", "10.1.2.11", "::ffff:10.0.0.9"]}}"#,
        )
        .unwrap();
        let expected = ["10.1.2.11", "2001:db8::11", "192.168.0.1", "10.0.0.9"].map(|a| a.parse::<IpAddr>().unwrap());
        assert_eq!(requested.addresses, expected);
        assert!(requested.args_given);
    }

    #[test]
    fn ranges_get_host_locals_defaults() {
        for (entries, expected) in [
            (r#"{"subnet": "192.0.2.0/24"}"#, &["192.0.2.1-192.0.2.254"][..]),
            (r#"{"subnet": "192.0.2.0/31"}"#, &["192.0.2.0-192.0.2.1"]),
            (r#"{"subnet": "192.0.2.7/32"}"#, &["192.0.2.7-192.0.2.7"]),
            (r#"{"subnet": "2001:db8::/126"}"#, &["2001:db8::1-2001:db8::3"]),
            (r#"{"subnet": "10.0.0.0/8", "rangeStart": "10.0.0.9", "rangeEnd": "10.0.0.20"}"#, &["10.0.0.9-10.0.0.20"]),
            (r#"{"subnet": "10.0.0.0/29", "gateway": "10.0.0.3"}"#, &["10.0.0.1-10.0.0.2", "10.0.0.4-10.0.0.6"]),
            (r#"{"subnet": "10.0.0.0/30"}, {"subnet": "10.0.1.0/30"}"#, &["10.0.0.1-10.0.0.2", "10.0.1.1-10.0.1.2"]),
        ] {
            let requested = read(&format!(r#"{{"runtimeConfig": {{"ipRanges": [[{entries}]]}}}}"#)).unwrap();
            assert_eq!(requested.ranges, [expected], "{entries}");
        }
    }

    #[test]
    fn mistakes_name_the_field() {
        for (text, part) in [
            (r#"{"args": {"cni": {"ips": [null]}}}"#, "args.cni.ips[0]"),
            (r#"{"args": {"cni": {"ips": "10.0.0.1"}}}"#, "args.cni.ips"),
            (r#"{"args": {"cni": []}}"#, "args.cni: invalid type"),
            (r#"{"runtimeConfig": {"ips": ["10.0.0.1", "x"]}}"#, "runtimeConfig.ips[1]: invalid IP address x"),
            (r#"{"runtimeConfig": {"ips": ["10.0.0.1/33"]}}"#, "runtimeConfig.ips[0]"),
            (r#"{"runtimeConfig": {"ipRanges": [null]}}"#, "runtimeConfig.ipRanges[0]"),
            (r#"{"runtimeConfig": {"ipRanges": [[]]}}"#, "runtimeConfig.ipRanges[0]: empty range set"),
            (r#"{"runtimeConfig": {"ipRanges": [[null]]}}"#, "runtimeConfig.ipRanges[0]"),
            (r#"{"runtimeConfig": {"ipRanges": [[{}]]}}"#, "runtimeConfig.ipRanges[0][0].subnet"),
            (
                r#"{"runtimeConfig": {"ipRanges": [[{"subnet": "10.0.0.0/24", "rangeStart": "10.0.1.0"}]]}}"#,
                "runtimeConfig.ipRanges[0][0]: 10.0.1.0-10.0.0.254 is not a range in 10.0.0.0/24",
            ),
            (
                r#"{"runtimeConfig": {"ipRanges": [[{"subnet": "10.0.0.0/24"}, {"subnet": "2001:db8::/64"}]]}}"#,
                "runtimeConfig.ipRanges[0][1]: mixed address families",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.code, code::INVALID_CONFIG, "{text}");
            assert!(error.msg.contains(part), "{text} gave {:?}", error.msg);
        }
    }
}
