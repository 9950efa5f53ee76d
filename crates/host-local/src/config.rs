//! host-local's configuration as it comes on standard input.
//!
//! Each verb asks only for what it needs, so that DEL still works when the ranges have become wrong since ADD.

use crate::error::{Error, Result};
use crate::lower::{self, Set, Spec, Subnet};
use berth_wire::cni::{self, Route};
use berth_wire::config::{NetConf, Object, parse_address};
use berth_wire::protocol::Live;
use berth_wire::result::parse_prefixed;
use std::net::IpAddr;
use std::path::PathBuf;

const DEFAULT_DATA_DIR: &str = "/var/lib/cni/networks";

/// A network configuration of host-local.
pub(crate) struct Config<'a> {
    conf: NetConf<'a>,
    ipam: Object<'a>,
}

impl<'a> Config<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self> {
        let conf = NetConf::parse(bytes)?;
        let ipam = object(&conf, "ipam")?.ok_or_else(|| Error::config("IPAM config missing 'ipam' key"))?;
        Ok(Self { conf, ipam })
    }

    pub(crate) fn name(&self) -> &str {
        &self.conf.name
    }

    pub(crate) fn data_dir(&self) -> Result<PathBuf> {
        Ok(self.path("dataDir")?.unwrap_or_else(|| DEFAULT_DATA_DIR.into()))
    }

    pub(crate) fn resolv_conf(&self) -> Result<Option<PathBuf>> {
        self.path("resolvConf")
    }

    fn path(&self, key: &str) -> Result<Option<PathBuf>> {
        Ok(text(&self.ipam, key)?.map(PathBuf::from))
    }

    /// The range sets: those of the runtime first, then the old style's single one, then `ranges`.
    pub(crate) fn sets(&self) -> Result<Vec<Set>> {
        let mut specs = Vec::new();
        if let Some(runtime) = object(&self.conf, "runtimeConfig")? {
            specs.extend(range_sets(&runtime, "ipRanges", "runtimeConfig.ipRanges")?);
        }
        let single = spec(&self.ipam)?;
        specs.extend(single.subnet.map(|_| vec![single]));
        specs.extend(range_sets(&self.ipam, "ranges", "ipam.ranges")?);
        lower::lower(&specs, &self.conf.cni_version).map_err(Error::Config)
    }

    /// The addresses asked for in `args.cni.ips` and `runtimeConfig.ips`, in that order.
    pub(crate) fn requested(&self) -> Result<Vec<IpAddr>> {
        let args = match object(&self.conf, "args")? {
            Some(args) => args.read("cni", "args.cni")?,
            None => None,
        };
        let runtime = object(&self.conf, "runtimeConfig")?;
        let mut requested = Vec::new();
        for (object, path) in [(args, "args.cni.ips"), (runtime, "runtimeConfig.ips")] {
            let ips: Vec<String> = object.map_or(Ok(Vec::new()), |object| object.list("ips", path))?;
            for text in &ips {
                let cannot = |why| cni::Error::new(cni::code::INVALID_CONFIG, why).hint(format!("in {path}"));
                requested.push(parse_address(text).map_err(cannot)?.to_canonical());
            }
        }
        Ok(requested)
    }

    pub(crate) fn routes(&self) -> Result<Vec<Route>> {
        let routes: Vec<Object<'_>> = self.ipam.list("routes", "ipam.routes")?;
        routes.iter().map(route).collect()
    }

    /// The attachments that GC has to spare; `None` if the runtime does not say.
    pub(crate) fn valid_attachments(&self) -> Result<Option<Vec<Live>>> {
        Ok(self.conf.valid_attachments()?)
    }

    /// The addresses of the result that the runtime remembers.
    pub(crate) fn prev_addresses(&self) -> Result<Vec<IpAddr>> {
        let ips = self.conf.prev_result()?.map(|result| result.ips).unwrap_or_default();
        Ok(ips.iter().map(|ip| ip.address.to_canonical()).collect())
    }
}

/// An object at the top of the configuration.
fn object<'a>(conf: &NetConf<'a>, key: &str) -> Result<Option<Object<'a>>> {
    let wrong = |error| Error::config(format!("invalid network config: {key}: {error}"));
    conf.raw(key).map(|raw| serde_json::from_str(raw.get()).map_err(wrong)).transpose()
}

/// A text; as in Go an empty one is none, but for subnets, which are read below.
fn text(object: &Object<'_>, key: &str) -> Result<Option<String>> {
    Ok(object.read(key, key)?.filter(|text: &String| !text.is_empty()))
}

/// An address in the form that names its lease file: an IPv4 address written as IPv6 is an IPv4 address.
fn ip(object: &Object<'_>, key: &str) -> Result<Option<IpAddr>> {
    let parse = |text: String| match text.parse::<IpAddr>() {
        Ok(address) => Ok(address.to_canonical()),
        Err(_) => Err(Error::config(format!("invalid IP address: {text}"))),
    };
    text(object, key)?.map(parse).transpose()
}

fn subnet(object: &Object<'_>, key: &str) -> Result<Option<Subnet>> {
    let parse = |text: String| match parse_prefixed(&text) {
        Some((address, prefix_len)) => Ok(Subnet { address, prefix_len }),
        None => Err(Error::config(format!("invalid CIDR address: {text}"))),
    };
    object.read(key, key)?.map(parse).transpose()
}

fn range_sets(object: &Object<'_>, key: &str, path: &str) -> Result<Vec<Vec<Spec>>> {
    let sets: Vec<Vec<Object<'_>>> = object.list(key, path)?;
    sets.iter().map(|set| set.iter().map(spec).collect()).collect()
}

fn spec(object: &Object<'_>) -> Result<Spec> {
    Ok(Spec {
        subnet: subnet(object, "subnet")?,
        start: ip(object, "rangeStart")?,
        end: ip(object, "rangeEnd")?,
        gateway: ip(object, "gateway")?,
    })
}

fn route(object: &Object<'_>) -> Result<Route> {
    let dst = subnet(object, "dst")?.ok_or_else(|| Error::config("a route in ipam.routes has no dst"))?;
    let number = |key| object.read(key, key);
    Ok(Route {
        dst: dst.to_string(),
        gw: ip(object, "gw")?,
        mtu: number("mtu")?,
        advmss: number("advmss")?,
        priority: number("priority")?,
        table: number("table")?,
        scope: number("scope")?,
    })
}

#[cfg(test)]
#[path = "tests/config.rs"]
mod tests;
