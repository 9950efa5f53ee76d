//! The network that nodes are in: a bridge in the host, with a subnet that nobody else has.
//!
//! The bridge is also the claim on the subnet: two interfaces cannot have one name, so whoever makes `berthN` has
//! 10.N.0.0/16. The host, where the API server is, has the first address; nodes follow; pods have the rest.

use crate::error::{Error, Result};
use crate::process::run;
use crate::scratch::orphaned;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

/// Second bytes of the subnets tried. Services have another (10.96), and so have most networks that people make.
const NUMBERS: std::ops::RangeInclusive<u8> = 200..=250;
/// Begins the alias of a bridge; the process ID of its owner follows.
const OWNER: &str = "a Berth test cluster of process ";

/// A bridge with a subnet; removed when dropped.
#[derive(Debug)]
pub struct Underlay {
    number: u8,
}

impl Underlay {
    /// Claims a free subnet.
    ///
    /// # Errors
    /// [`Error::Missing`] without the rights to make interfaces.
    pub(crate) fn new() -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::Missing("nodes need namespaces and a bridge: run as root".to_owned()));
        }
        // All of them first, not only until one is free: an orphan should not wait for its number's turn.
        NUMBERS.for_each(remove_if_orphaned);
        for number in NUMBERS {
            if let Some(underlay) = Self::claim(number)? {
                return Ok(underlay);
            }
        }
        let (first, last) = (NUMBERS.start(), NUMBERS.end());
        Err(Error::Invalid(format!("all of 10.{first}.0.0/16 to 10.{last}.0.0/16 are in use: see `ip route`")))
    }

    fn claim(number: u8) -> Result<Option<Self>> {
        let subnet = format!("10.{number}.0.0/16");
        if !ip(&format!("-4 route show root {subnet}"))?.is_empty() {
            return Ok(None);
        }
        let name = bridge(number);
        if ip(&format!("link add {name} type bridge")).is_err() {
            return Ok(None);
        }
        let underlay = Self { number };
        remove_cables(number);
        let alias = format!("{OWNER}{}", std::process::id());
        run(Command::new("ip").args(["link", "set", "dev", &name, "alias", &alias]))?;
        ip(&format!("addr add {}/16 dev {name}", underlay.gateway()))?;
        ip(&format!("-6 addr add {}/64 dev {name} nodad", underlay.gateway_v6()))?;
        ip(&format!("link set {name} up"))?;
        Ok(Some(underlay))
    }

    /// Its name in the host.
    #[must_use]
    pub fn bridge(&self) -> String {
        bridge(self.number)
    }

    /// A number that no other cluster on this machine has.
    #[must_use]
    pub fn number(&self) -> u8 {
        self.number
    }

    /// The subnet of nodes and pods: 65534 addresses. Those that begin like [`Self::gateway`] in three bytes are taken.
    #[must_use]
    pub fn subnet(&self) -> String {
        format!("10.{}.0.0/16", self.number)
    }

    /// The subnet of nodes and pods in IPv6. Those below `::1:0` are taken.
    #[must_use]
    pub fn subnet_v6(&self) -> String {
        format!("fdbe:7400:{:x}::/64", self.number)
    }

    /// The host's address, where the API server is.
    #[must_use]
    pub fn gateway(&self) -> IpAddr {
        self.node_address(0)
    }

    /// The host's IPv6 address.
    #[must_use]
    pub fn gateway_v6(&self) -> String {
        self.node_address_v6(0)
    }

    pub(crate) fn node_address(&self, node: u8) -> IpAddr {
        Ipv4Addr::new(10, self.number, 0, node + 1).into()
    }

    pub(crate) fn node_address_v6(&self, node: u8) -> String {
        format!("fdbe:7400:{:x}::{:x}", self.number, u16::from(node) + 1)
    }

    /// A cable from the bridge to an interface of a node, whose network namespace is that of a process.
    pub(crate) fn plug(&self, node: u8, interface: &str, pid: u32) -> Result<()> {
        self.cable(&format!("{node}{interface}"), interface, pid)
    }

    /// The same to anybody's interface. The host's end is told from others by a few letters.
    pub(crate) fn cable(&self, letters: &str, interface: &str, pid: u32) -> Result<()> {
        let end = format!("{}{letters}", cables(self.number));
        ip(&format!("link add {end} type veth peer name {interface} netns {pid}"))?;
        ip(&format!("link set {end} master {} up", self.bridge()))?;
        Ok(())
    }
}

impl Drop for Underlay {
    fn drop(&mut self) {
        remove_cables(self.number);
        let _ = ip(&format!("link delete {}", self.bridge()));
    }
}

/// `ip` in the host, with arguments between blanks.
pub(crate) fn ip(arguments: &str) -> Result<String> {
    run(Command::new("ip").args(arguments.split(' ')))
}

fn bridge(number: u8) -> String {
    format!("berth{number}")
}

/// How the names of the host's ends of cables begin.
fn cables(number: u8) -> String {
    format!("b{number}-")
}

/// Removes the cables of nodes that are gone. The kernel removes a cable with the node's network, but
/// that lives on for a minute if a connection was not closed properly, and none is when the power goes.
fn remove_cables(number: u8) {
    let links = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let names = links.map(|link| link.file_name().to_string_lossy().into_owned());
    for name in names.filter(|name| name.starts_with(&cables(number))) {
        // The kernel may be faster.
        let _ = ip(&format!("link delete {name}"));
    }
}

fn remove_if_orphaned(number: u8) {
    let alias = fs::read_to_string(format!("/sys/class/net/{}/ifalias", bridge(number))).unwrap_or_default();
    let owner = alias.trim().strip_prefix(OWNER).and_then(|pid| pid.parse().ok());
    if owner.is_some_and(orphaned) {
        remove_cables(number);
        // If it stays, its number is taken, and that is all.
        let _ = ip(&format!("link delete {}", bridge(number)));
    }
}
