//! What one rule asks for.

use crate::field::FieldError;
use crate::object::check_name;
use berth_core::addr::{Family, Range};
use berth_core::ipam::Group;
use std::fmt;
use std::net::IpAddr;

/// A claim by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRef {
    /// Its namespace, which is the pod's.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ClaimRef {
    /// Reads `NAME` or `NAMESPACE/NAME` at `path`, as a pod of `namespace` writes it.
    pub(super) fn read(text: &str, path: &str, namespace: &str) -> Result<Self, FieldError> {
        if text.len() > 320 {
            let reason = format!("is {} bytes long; write NAME or NAMESPACE/NAME of an IPClaim", text.len());
            return Err(FieldError::new(path, reason));
        }
        let (own, name) = text.split_once('/').unwrap_or((namespace, text));
        if own != namespace {
            let reason = format!("{text:?} belongs to another namespace; a pod of {namespace:?} uses its own claims");
            return Err(FieldError::new(path, reason));
        }
        check_name(path, name, 253, true)?;
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

/// What one rule asks for; nothing at all means the default pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) pools: Vec<String>,
    /// Pools of one family each, in place of the former: one address of each family.
    pub(super) by_family: Vec<(Family, Vec<String>)>,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) ranges: Vec<Vec<Range>>,
    pub(super) families: Vec<Family>,
    pub(super) claim: Option<ClaimRef>,
    /// Subnets that the pools, then those of the pod's application, are to be of.
    pub(super) subnets: Vec<String>,
}

impl Wish {
    /// The same in the words of the core; nothing for a claim, which the caller has to find first.
    pub(super) fn groups(&self, domain: Option<&String>) -> Vec<Group> {
        if self.claim.is_some() {
            return Vec::new();
        }
        if !self.by_family.is_empty() {
            let group = |(family, pools): &(Family, Vec<String>)| Group {
                pools: pools.clone(),
                network: domain.cloned(),
                families: vec![*family],
                ..Group::default()
            };
            return self.by_family.iter().map(group).collect();
        }
        let base = Group { pools: self.pools.clone(), network: domain.cloned(), ..Group::default() };
        if !self.addresses.is_empty() {
            return vec![Group { addresses: self.addresses.clone(), ..base }];
        }
        if self.ranges.is_empty() {
            return vec![Group { families: self.families.clone(), ..base }];
        }
        self.ranges.iter().map(|within| Group { within: within.clone(), ..base.clone() }).collect()
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(ClaimRef { namespace, name }) = &self.claim {
            return write!(f, "claim {namespace}/{name}");
        }
        if !self.by_family.is_empty() {
            let one = |(family, pools): &(Family, Vec<String>)| format!("{family} of {}", pools.join(", then "));
            return f.write_str(&self.by_family.iter().map(one).collect::<Vec<_>>().join(" and "));
        }
        let pools = match &self.pools[..] {
            [] => "the default pools".to_owned(),
            own if !self.subnets.is_empty() => {
                format!("pool {} of its application in subnet {}", own.join(", "), self.subnets.join(", "))
            }
            [one] => format!("pool {one}"),
            many => format!("pools {} in this order", many.join(", ")),
        };
        if !self.addresses.is_empty() {
            let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
            // An address is looked for in every pool, default or not.
            let place = if self.pools.is_empty() { "whichever pool has it" } else { &pools };
            return write!(f, "address {} of {place}", addresses.join(", "));
        }
        f.write_str(&pools)?;
        if !self.ranges.is_empty() {
            f.write_str(", inside the ranges asked for")?;
        } else if !self.families.is_empty() {
            let families: Vec<String> = self.families.iter().map(ToString::to_string).collect();
            write!(f, ", {} only", families.join(" and "))?;
        }
        Ok(())
    }
}
