use crate::addr::{Cidr, Family, number};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// How many units a block has. Part of the format: it never varies, so two pools that overlap meet in one block.
pub const BLOCK_UNITS: u8 = 64;

/// What is given out from which address domain: one plane of blocks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Plane {
    /// The network: addresses are unique inside it.
    pub network: Arc<str>,
    /// The address family.
    pub family: Family,
    /// The prefix length of one unit: 32 or 128 for single addresses.
    pub unit_len: u8,
}

/// The leases of a network are in a network of their own: its name with this behind it. No network's own name has a slash.
const LEASES: &str = "/leases";
/// So are the tickets of a pool's quota: this, the pool's name, a slash and the namespace.
const QUOTA: &str = "quota/";

impl Plane {
    /// The network in which the leases of a network are recorded.
    #[must_use]
    pub fn network_of_leases(network: &str) -> Arc<str> {
        format!("{network}{LEASES}").into()
    }

    /// The network whose leases this plane records, if it does.
    #[must_use]
    pub fn leases_of(&self) -> Option<&str> {
        self.network.strip_suffix(LEASES)
    }

    /// The plane of the tickets of a namespace's quota in a pool. Its units are mere numbers.
    #[must_use]
    pub fn of_quota(pool: &str, namespace: &str) -> Self {
        let family = Family::V4;
        Self { network: format!("{QUOTA}{pool}/{namespace}").into(), family, unit_len: family.bits() }
    }

    /// The pool and the namespace whose quota's tickets are in this plane, if such are.
    #[must_use]
    pub fn quota_of(&self) -> Option<(&str, &str)> {
        self.network.strip_prefix(QUOTA)?.split_once('/')
    }

    /// The unit that holds an address, counted from zero.
    #[must_use]
    pub fn unit_of(&self, addr: IpAddr) -> u128 {
        shift_right(number(addr), self.family.bits() - self.unit_len)
    }

    /// The prefix that a unit is.
    #[must_use]
    pub fn prefix(&self, unit: u128) -> Cidr {
        let first = unit.checked_shl(u32::from(self.family.bits() - self.unit_len)).unwrap_or(0);
        Cidr::containing(self.family.addr(first), self.unit_len)
    }

    /// The first address of a unit.
    #[must_use]
    pub fn addr(&self, unit: u128) -> IpAddr {
        self.prefix(unit).network()
    }

    /// The highest unit there is.
    #[must_use]
    pub const fn last_unit(&self) -> u128 {
        if self.unit_len == 0 { 0 } else { self.family.max() >> (self.family.bits() - self.unit_len) }
    }
}

fn shift_right(value: u128, by: u8) -> u128 {
    value.checked_shr(u32::from(by)).unwrap_or(0)
}

/// The name of a block: network, unit and CIDR, never a pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockKey {
    /// Which plane the block lies in.
    pub plane: Plane,
    /// Which block of it: the unit number divided by 64.
    pub index: u128,
}

impl BlockKey {
    /// Block number `index` of a plane; `None` if the plane has no such block. For readers of stored state.
    #[must_use]
    pub fn new(plane: Plane, index: u128) -> Option<Self> {
        let fits = plane.unit_len <= plane.family.bits() && index <= plane.last_unit() / u128::from(BLOCK_UNITS);
        fits.then_some(Self { plane, index })
    }

    /// The block that holds a unit, and the slot it has there.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the remainder of a division by 64")]
    pub fn of(plane: &Plane, unit: u128) -> (Self, u8) {
        let units = u128::from(BLOCK_UNITS);
        (Self { plane: plane.clone(), index: unit / units }, (unit % units) as u8)
    }

    /// The unit in a slot.
    #[must_use]
    pub fn unit(&self, slot: u8) -> u128 {
        // Wraps only for a key that no plane has; see [`Self::new`].
        self.index.wrapping_mul(u128::from(BLOCK_UNITS)) + u128::from(slot)
    }
}

impl fmt::Display for BlockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plane { network, family, unit_len } = &self.plane;
        write!(f, "{network}/{}", self.plane.addr(self.unit(0)))?;
        if *unit_len == family.bits() { Ok(()) } else { write!(f, " in /{unit_len}") }
    }
}
