//! The `ipam` section, in Berth's own keys.

use super::object::{Object, invalid};
use crate::cni::{Dns, Error, Route, code};
use crate::protocol::Family;
use serde_json::value::RawValue;
use std::net::IpAddr;
use std::path::PathBuf;

/// Where the daemon listens unless told otherwise.
pub const DEFAULT_SOCKET: &str = "/run/berth/berth.sock";
/// A daemon that is restarted is back within a second or two.
const DEFAULT_WAIT_SECONDS: u8 = 5;
/// Runtimes give up after minutes, and somebody who waits wants to know why.
const LONGEST_WAIT_SECONDS: u8 = 60;

/// Berth's keys of `ipam`. All are optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ipam {
    /// `socket`: where the daemon listens.
    pub socket: PathBuf,
    /// `waitSeconds`: for how long ADD waits for a daemon that is not there.
    pub wait_seconds: u8,
    /// `pools`: pools to take from, in order. None means the default pools.
    pub pools: Vec<String>,
    /// `network`: the address domain. None means the default one.
    pub network: Option<String>,
    /// `claim`: the named fixed address to use.
    pub claim: Option<String>,
    /// `families`: one address of each. None leaves it to the pools.
    pub families: Vec<Family>,
    /// `routes`: added to those of the subnet.
    pub routes: Vec<Route>,
    /// `resolvConf`: a file whose settings replace those of the subnet.
    pub resolv_conf: Option<PathBuf>,
    /// `dns`: settings that replace those of the subnet and of `resolvConf`.
    pub dns: Option<Dns>,
    /// Neither gateway nor default route come along with the addresses; for configurations in other words than Berth's.
    pub clean_gateway: bool,
    /// Only pools of the networks of the NIC that the interface is put on; for configurations in other words than Berth's.
    pub match_uplink: bool,
}

/// The keys above, for the check of unknown keys and for its hint.
const KNOWN: [&str; 9] =
    ["socket", "waitSeconds", "pools", "network", "claim", "families", "routes", "resolvConf", "dns"];

/// Keys that are not Berth's but are found in `ipam` for good reasons: the plugin above reads `type`, and some
/// runtimes copy the three others down from the configuration around it.
pub(super) const OTHERS: [&str; 4] = ["type", "name", "cniVersion", "capabilities"];

impl Ipam {
    /// Reads the section; an unknown key is an error, since it is a typo or a setting of another plugin that the user
    /// expects to have an effect.
    pub(super) fn read(object: &Object<'_>) -> Result<Self, Error> {
        let known = |key: &str| KNOWN.iter().chain(&OTHERS).any(|name| name.eq_ignore_ascii_case(key));
        if let Some((key, value)) = object.entries().find(|(key, _)| !known(key)) {
            let hint = format!("Berth knows {}; where addresses come from is said in pools", KNOWN.join(", "));
            return Err(unsupported(key, value).hint(hint));
        }
        let routes: Vec<Route> = object.list("routes", "ipam.routes")?;
        for (index, route) in routes.iter().enumerate() {
            check_route(route).map_err(|why| invalid(&format!("ipam.routes[{index}]"), &why))?;
        }
        Ok(Self {
            socket: socket(object)?,
            wait_seconds: wait_seconds(object)?,
            pools: object.list("pools", "ipam.pools")?,
            network: object.read("network", "ipam.network")?,
            claim: object.read("claim", "ipam.claim")?,
            families: object.list("families", "ipam.families")?,
            routes,
            resolv_conf: object.read("resolvConf", "ipam.resolvConf")?,
            dns: object.read("dns", "ipam.dns")?,
            clean_gateway: false,
            match_uplink: false,
        })
    }
}

/// The error for a key that nobody here knows.
pub(super) fn unsupported(key: &str, value: &RawValue) -> Error {
    let value = abridged(value.get());
    let msg = format!("unsupported field in the ipam section of the network config: {key:?}: {value}");
    Error::new(code::UNSUPPORTED_FIELD, msg)
}

/// The longest path that fits the kernel's address of a unix socket.
const MAX_SOCKET: usize = 107;

/// `ipam.socket` alone. A relative path would mean another file in every caller's working directory.
pub(super) fn socket(object: &Object<'_>) -> Result<PathBuf, Error> {
    let path: PathBuf = object.read("socket", "ipam.socket")?.unwrap_or_else(|| DEFAULT_SOCKET.into());
    if !path.is_absolute() || path.file_name().is_none() {
        return Err(invalid("ipam.socket", &format_args!("{path:?} is not an absolute path of a file")));
    }
    if path.as_os_str().len() > MAX_SOCKET {
        return Err(invalid("ipam.socket", &format_args!("path is longer than {MAX_SOCKET} bytes")));
    }
    Ok(path)
}

pub(super) fn wait_seconds(object: &Object<'_>) -> Result<u8, Error> {
    match object.read("waitSeconds", "ipam.waitSeconds")? {
        Some(given) if given > LONGEST_WAIT_SECONDS => {
            Err(invalid("ipam.waitSeconds", &format_args!("{given} is more than {LONGEST_WAIT_SECONDS}")))
        }
        given => Ok(given.unwrap_or(DEFAULT_WAIT_SECONDS)),
    }
}

fn check_route(route: &Route) -> Result<(), String> {
    let not_cidr = || format!("dst {:?} is not a CIDR (ADDRESS/LENGTH)", route.dst);
    let (address, _) = crate::result::parse_prefixed(&route.dst).ok_or_else(not_cidr)?;
    match route.gw {
        Some(gw) if !same_family(gw, address) => Err(format!("gw {gw} is not of the family of dst {}", route.dst)),
        _ => Ok(()),
    }
}

fn same_family(a: IpAddr, b: IpAddr) -> bool {
    a.is_ipv4() == b.is_ipv4()
}

/// The start of a value: enough to recognise it, and no more of what may be a secret or a megabyte.
fn abridged(value: &str) -> String {
    const SHOWN: usize = 60;
    match value.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn read(text: &str) -> Result<Ipam, Error> {
        Ipam::read(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn every_key() {
        let ipam = read(
            r#"{"type": "berth-cni", "socket": "/tmp/b.sock", "waitSeconds": 7, "pools": ["a", "b-*"], "network": "blue", "claim": "db",
                "families": ["IPv6", "IPv4"], "routes": [{"dst": "0.0.0.0/0", "gw": "10.0.0.1", "mtu": 1400}],
                "resolvConf": "/etc/resolv.conf", "dns": {"nameservers": ["192.0.2.1"], "search": null}}"#,
        )
        .unwrap();
        assert_eq!(ipam.socket, Path::new("/tmp/b.sock"));
        assert_eq!(ipam.wait_seconds, 7);
        assert_eq!(ipam.pools, ["a", "b-*"]);
        assert_eq!((ipam.network.as_deref(), ipam.claim.as_deref()), (Some("blue"), Some("db")));
        assert_eq!(ipam.families, [Family::V6, Family::V4]);
        assert_eq!((ipam.routes[0].dst.as_str(), ipam.routes[0].mtu), ("0.0.0.0/0", Some(1400)));
        assert_eq!(ipam.resolv_conf.as_deref(), Some(Path::new("/etc/resolv.conf")));
        assert_eq!(ipam.dns.unwrap().nameservers, ["192.0.2.1"]);
    }

    #[test]
    fn no_key_is_needed() {
        let defaults = Ipam { socket: DEFAULT_SOCKET.into(), wait_seconds: 5, ..Ipam::default() };
        assert_eq!(read("{}"), Ok(defaults.clone()));
        assert_eq!(read(r#"{"type": "berth-cni", "name": "x", "pools": null, "socket": null}"#), Ok(defaults));
    }

    #[test]
    fn unknown_keys_are_named_with_their_value() {
        let error = read(r#"{"type": "berth-cni", "pool": "a"}"#).unwrap_err();
        assert_eq!(error.code, code::UNSUPPORTED_FIELD);
        assert!(error.msg.contains(r#""pool": "a""#), "{}", error.msg);
        let long = read(&format!(r#"{{"subnet": "{}"}}"#, "é".repeat(10_000))).unwrap_err();
        assert!(long.msg.len() < 300, "{}", long.msg);
    }

    #[test]
    fn mistakes_name_the_field() {
        for (text, part) in [
            (r#"{"socket": "berth.sock"}"#, "ipam.socket: \"berth.sock\" is not an absolute path"),
            (r#"{"socket": "/"}"#, "ipam.socket"),
            (r#"{"socket": ""}"#, "ipam.socket"),
            (r#"{"waitSeconds": 61}"#, "ipam.waitSeconds: 61 is more than 60"),
            (r#"{"waitSeconds": -1}"#, "ipam.waitSeconds"),
            (r#"{"waitSeconds": "5"}"#, "ipam.waitSeconds"),
            (r#"{"pools": "a"}"#, "ipam.pools: invalid type"),
            (r#"{"pools": ["a", null]}"#, "ipam.pools[1]"),
            (r#"{"families": ["ipv5"]}"#, "ipam.families[0]: unknown variant `ipv5`, expected `IPv4` or `IPv6`"),
            (r#"{"routes": [null]}"#, "ipam.routes[0]"),
            (r#"{"routes": [{"gw": "10.0.0.1"}]}"#, "ipam.routes[0]: missing field `dst`"),
            (r#"{"routes": [{"dst": "10.0.0.0/33"}]}"#, "ipam.routes[0]: dst \"10.0.0.0/33\" is not a CIDR"),
            (r#"{"routes": [{"dst": "::/0", "gw": "10.0.0.1"}]}"#, "ipam.routes[0]: gw 10.0.0.1 is not of the family"),
            (r#"{"dns": 5}"#, "ipam.dns"),
            (&format!(r#"{{"socket": "/{}"}}"#, "x".repeat(107)), "ipam.socket: path is longer than 107 bytes"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.code, code::INVALID_CONFIG, "{text}");
            assert!(error.msg.contains(part), "{text} gave {:?}", error.msg);
        }
    }
}
