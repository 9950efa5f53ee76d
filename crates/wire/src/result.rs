//! Results and errors as text, in the shape of each CNI version.
//!
//! | versions | shape |
//! |---|---|
//! | 0.1.0, 0.2.0 | `ip4` and `ip6`, one address each, with the routes of that family inside |
//! | 0.3.0, 0.3.1, 0.4.0 | `ips` with the family in `version`, `routes` beside it |
//! | 1.0.0, 1.1.0 | the same without `version`; an empty `dns` is left out |
//!
//! An IPAM plugin's result is the short form: it has no `interfaces`. The text is indented as the Go library does it.

use crate::cni::{AddResult, Dns, Error, Ip, Route, code};
use crate::version::Version;
use serde::{Deserialize, Serialize};
use serde_json::ser::{PrettyFormatter, Serializer};
use std::net::IpAddr;

/// An address with its prefix length, `10.1.2.3/24`.
#[must_use]
pub fn parse_prefixed(text: &str) -> Option<(IpAddr, u8)> {
    let (address, len) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let digits = !len.is_empty() && len.bytes().all(|byte| byte.is_ascii_digit());
    let len: u8 = if digits { len.parse().ok()? } else { return None };
    let bits = if address.is_ipv4() { 32 } else { 128 };
    (len <= bits).then_some((address, len))
}

/// Writes a result in the shape of a version.
///
/// # Errors
/// [`code::INVALID_CONFIG`] if the version has no place for all of its addresses.
pub fn render(result: &AddResult, version: Version) -> Result<String, Error> {
    if version.is_legacy() {
        return Ok(pretty(&Legacy::new(result, version)?));
    }
    let tagged = version < Version::V1_0_0;
    let ips = result.ips.iter().map(|ip| ModernIp {
        version: tagged.then_some(if ip.address.is_ipv4() { "4" } else { "6" }),
        address: format!("{}/{}", ip.address, ip.prefix_len),
        gateway: ip.gateway,
    });
    Ok(pretty(&Modern {
        cni_version: version.as_str(),
        ips: ips.collect(),
        // The keys that 1.1.0 added stay in for older versions too: libraries that do not know them pass over them,
        // and those that do honour a metric that the user has asked for.
        routes: &result.routes,
        dns: (tagged || !result.dns.is_empty()).then_some(&result.dns),
    }))
}

/// Writes an error object.
#[must_use]
pub fn render_error(error: &Error, cni_version: &str) -> String {
    #[derive(Serialize)]
    struct Versioned<'a> {
        #[serde(rename = "cniVersion")]
        cni_version: &'a str,
        #[serde(flatten)]
        error: &'a Error,
    }
    pretty(&Versioned { cni_version, error })
}

/// Four spaces, as Go programs do it. Serialising these types cannot fail: no map keys, no I/O.
fn pretty(value: &impl Serialize) -> String {
    let mut text = Vec::with_capacity(1024);
    let formatter = PrettyFormatter::with_indent(b"    ");
    let written = value.serialize(&mut Serializer::with_formatter(&mut text, formatter));
    debug_assert!(written.is_ok());
    String::from_utf8(text).unwrap_or_default()
}

#[derive(Serialize)]
struct Modern<'a> {
    #[serde(rename = "cniVersion")]
    cni_version: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ips: Vec<ModernIp>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    routes: &'a [Route],
    #[serde(skip_serializing_if = "Option::is_none")]
    dns: Option<&'a Dns>,
}

#[derive(Serialize)]
struct ModernIp {
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
    address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<IpAddr>,
}

#[derive(Serialize)]
struct Legacy<'a> {
    #[serde(rename = "cniVersion")]
    cni_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip4: Option<LegacyIp<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip6: Option<LegacyIp<'a>>,
    dns: &'a Dns,
}

#[derive(Serialize)]
struct LegacyIp<'a> {
    ip: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<IpAddr>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    routes: Vec<LegacyRoute<'a>>,
}

#[derive(Serialize)]
struct LegacyRoute<'a> {
    dst: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    gw: Option<IpAddr>,
}

impl<'a> Legacy<'a> {
    fn new(result: &'a AddResult, version: Version) -> Result<Self, Error> {
        let (ip4, ip6) = (Self::family(result, true), Self::family(result, false));
        let kept = usize::from(ip4.is_some()) + usize::from(ip6.is_some());
        if kept == 0 {
            return Err(Error::new(code::INVALID_CONFIG, "cannot convert: no valid IP addresses"));
        }
        if kept < result.ips.len() {
            let msg = format!("CNI version {} does not support more than 1 address per family", version.as_str());
            return Err(Error::new(code::INVALID_CONFIG, msg).hint("set cniVersion to 0.3.1 or later"));
        }
        Ok(Self { cni_version: version.as_str(), ip4, ip6, dns: &result.dns })
    }

    fn family(result: &'a AddResult, v4: bool) -> Option<LegacyIp<'a>> {
        let ip = result.ips.iter().find(|ip| ip.address.is_ipv4() == v4)?;
        let of_family = |route: &&Route| parse_prefixed(&route.dst).is_some_and(|(dst, _)| dst.is_ipv4() == v4);
        let routes = result.routes.iter().filter(of_family);
        Some(LegacyIp {
            ip: format!("{}/{}", ip.address, ip.prefix_len),
            gateway: ip.gateway,
            routes: routes.map(|route| LegacyRoute { dst: &route.dst, gw: route.gw }).collect(),
        })
    }
}

/// Any result, of any version. Plugins other than Berth write these, so lists may be null and texts empty.
#[derive(Deserialize)]
struct Prev {
    ip4: Option<PrevIp>,
    ip6: Option<PrevIp>,
    ips: Option<Vec<Option<PrevIp>>>,
    routes: Option<Vec<Option<Route>>>,
    dns: Option<Dns>,
}

#[derive(Deserialize)]
struct PrevIp {
    #[serde(alias = "ip")]
    address: String,
    gateway: Option<String>,
    routes: Option<Vec<Option<Route>>>,
}

/// Reads `prevResult`, in the shape of any version.
///
/// # Errors
/// [`code::INVALID_CONFIG`] naming the part that is wrong.
pub fn parse(text: &str) -> Result<AddResult, Error> {
    let bad = |why: String| Error::new(code::INVALID_CONFIG, format!("invalid network config: prevResult{why}"));
    let prev: Prev = serde_json::from_str(text).map_err(|error| bad(format!(": {error}")))?;
    let mut ips: Vec<(String, PrevIp)> = Vec::new();
    ips.extend(prev.ip4.map(|ip| ("ip4".to_owned(), ip)));
    ips.extend(prev.ip6.map(|ip| ("ip6".to_owned(), ip)));
    for (index, ip) in prev.ips.into_iter().flatten().enumerate() {
        ips.push((format!("ips[{index}]"), ip.ok_or_else(|| bad(format!(".ips[{index}] is null")))?));
    }
    let mut result = AddResult { dns: prev.dns.unwrap_or_default(), ..AddResult::default() };
    for (path, ip) in ips {
        let not_cidr = || bad(format!(".{path}: {:?} is not an address with its prefix length", ip.address));
        let (address, prefix_len) = parse_prefixed(&ip.address).ok_or_else(not_cidr)?;
        let gateway = ip
            .gateway
            .filter(|text| !text.is_empty())
            .map(|text| text.parse().map_err(|_| bad(format!(".{path}.gateway: {text:?} is not an IP address"))));
        result.ips.push(Ip { address, prefix_len, gateway: gateway.transpose()? });
        result.routes.extend(ip.routes.into_iter().flatten().flatten());
    }
    result.routes.extend(prev.routes.into_iter().flatten().flatten());
    Ok(result)
}

#[cfg(test)]
mod tests;
