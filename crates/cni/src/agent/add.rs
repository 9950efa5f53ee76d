//! ADD: everything that can be refused is refused before the daemon is asked to allocate.

use super::connection::{PATIENCE, ask_patiently};
use super::{attachment, detect, unexpected, uplink};
use berth_wire::args::Args;
use berth_wire::cni::{AddResult, Dns, Error, code};
use berth_wire::config::{Ipam, NetConf};
use berth_wire::env::Invocation;
use berth_wire::protocol::{AddRequest, Family, Op, Pod, Request, Response};
use berth_wire::resolv;
use berth_wire::version::Version;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// Allocates, and completes the daemon's answer with what the configuration adds.
pub(crate) fn add(
    stamp: u64,
    invocation: &Invocation,
    conf: &NetConf<'_>,
    version: Version,
) -> Result<AddResult, Error> {
    let ipam = conf.ipam()?;
    let dns = own_dns(&ipam)?;
    let add = wanted(invocation, conf, &ipam, version)?;
    let wait = Duration::from_secs(ipam.wait_seconds.into());
    let ask = |op: Op| {
        let answer = ask_patiently(&ipam.socket, &Request::new(stamp, op), PATIENCE, wait);
        answer.map_err(|gone| gone.error(code::TRY_AGAIN))
    };
    let mut result = match ask(Op::Add(add.clone()))? {
        Response::Ok(result) => result,
        Response::Detect { result, detect } => {
            detect::settle(result, detect, &add, &detect::wire(invocation, conf), stamp, ask)?
        }
        Response::Error(error) => return Err(error),
        Response::Done => return Err(unexpected()),
    };
    if ipam.clean_gateway {
        result.ips.iter_mut().for_each(|ip| ip.gateway = None);
        result.routes.retain(|route| !matches!(route.dst.as_str(), "0.0.0.0/0" | "::/0"));
    }
    for route in ipam.routes {
        if !result.routes.contains(&route) {
            result.routes.push(route);
        }
    }
    if let Some(dns) = dns {
        result.dns = dns;
    }
    Ok(result)
}

fn wanted(invocation: &Invocation, conf: &NetConf<'_>, ipam: &Ipam, version: Version) -> Result<AddRequest, Error> {
    let args = Args::parse(&invocation.args)?;
    let requested = conf.requested()?;
    let mut addresses = requested.addresses;
    if !requested.args_given {
        // The forerunner of args.cni.ips comes first, as with host-local, but does not ask for an address twice.
        let older = args.addresses.into_iter().filter(|address| !addresses.contains(address)).collect::<Vec<_>>();
        addresses.splice(0..0, older);
    }
    let request = AddRequest {
        attachment: attachment(invocation, conf),
        pod: args.namespace.zip(args.pod).map(|(namespace, name)| Pod { namespace, name, uid: args.uid }),
        domain: ipam.network.clone(),
        pools: ipam.pools.clone(),
        addresses,
        ranges: requested.ranges,
        families: ipam.families.clone(),
        claim: ipam.claim.clone(),
        uplink: if ipam.match_uplink { Some(uplink::nics(conf.uplink()?, Path::new(uplink::SYSFS))?) } else { None },
    };
    if version.is_legacy() && asks_for_two_of_a_family(&request) {
        let msg = format!("CNI version {} does not support more than 1 address per family", version.as_str());
        return Err(Error::new(code::INVALID_CONFIG, msg).hint("set cniVersion to 0.3.1 or later"));
    }
    Ok(request)
}

fn asks_for_two_of_a_family(request: &AddRequest) -> bool {
    let count = |v6: bool| {
        let addresses = request.addresses.iter().filter(|address| address.is_ipv6() == v6).count();
        let sets = request.ranges.iter().filter(|set| set.iter().any(|range| range.contains(':')) == v6).count();
        let families = request.families.iter().filter(|family| (**family == Family::V6) == v6).count();
        addresses.max(sets).max(families)
    };
    count(false) > 1 || count(true) > 1
}

/// The resolver settings that the configuration itself gives; they replace those of the subnet.
fn own_dns(ipam: &Ipam) -> Result<Option<Dns>, Error> {
    match (&ipam.dns, &ipam.resolv_conf) {
        (Some(dns), _) => Ok(Some(dns.clone())),
        (None, Some(path)) => read_resolv_conf(path).map(Some),
        (None, None) => Ok(None),
    }
}

fn read_resolv_conf(path: &Path) -> Result<Dns, Error> {
    const LONGEST: u64 = 64 << 10;
    let mut text = String::new();
    File::open(path).and_then(|file| file.take(LONGEST).read_to_string(&mut text)).map_err(|error| {
        Error::new(code::IO_FAILURE, format!("cannot read ipam.resolvConf {}: {error}", path.display()))
    })?;
    Ok(resolv::parse(&text))
}
