//! IPClaim: addresses kept for whoever uses the claim.

use crate::duration::GoDuration;
use crate::field::{FieldError, decode};
use crate::object::{DEFAULT_NAMESPACE, Object};
use crate::text::{Address, Text};
use berth_core::addr::Family;
use berth_core::holder::{Holder, Kind, Sticky};
use berth_core::ipam::{Group, Request};
use berth_core::model::Subject;
use serde::Deserialize;
use std::time::Duration;
use utoipa::ToSchema;

/// What an IPClaim asks for.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimSpec {
    /// Only pools of this network.
    network: Option<String>,
    /// Names or patterns of the pools to use, in order of preference; empty means the default pools.
    #[serde(default)]
    pools: Vec<String>,
    /// Exactly these addresses; empty lets the pools pick.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    addresses: Vec<Text<Address>>,
    /// The families wanted; empty means every family that the pools have.
    #[serde(default)]
    families: Vec<WrittenFamily>,
    /// How many of each family; 1 if absent.
    count: Option<u32>,
    /// For how long the addresses are kept after their user is gone, e.g. `24h`; for ever if absent.
    #[schema(value_type = Option<String>)]
    keep: Option<Text<GoDuration>>,
}

/// An address family.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
pub enum WrittenFamily {
    /// IPv4.
    IPv4,
    /// IPv6.
    IPv6,
}

/// An IPClaim in the terms of the core.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What its addresses are kept for: `claim/NAMESPACE/NAME`.
    pub identity: String,
    /// For how long after a release; `None` is for ever.
    pub keep: Option<Duration>,
    /// What it asks for.
    pub group: Group,
}

impl Claim {
    /// Who has the claim's addresses while nothing uses them.
    #[must_use]
    pub fn holder(&self) -> Holder {
        Holder {
            kind: Kind::Named,
            id: self.identity.clone(),
            namespace: self.namespace.clone(),
            sticky: Some(Sticky { identity: self.identity.clone(), keep: self.keep }),
            ..Holder::default()
        }
    }

    /// Makes a request one for the claim's addresses, whatever it asked for before.
    pub fn fill(&self, request: &mut Request) {
        request.holder.sticky = Some(Sticky { identity: self.identity.clone(), keep: self.keep });
        request.groups = vec![self.group.clone()];
    }

    /// The request that finds addresses for the claim.
    #[must_use]
    pub fn request(&self) -> Request {
        let subject = Subject { namespace: self.namespace.clone(), ..Subject::default() };
        Request { holder: self.holder(), subject, groups: vec![self.group.clone()] }
    }
}

pub(crate) fn lower(object: &Object) -> Result<Claim, FieldError> {
    let spec: ClaimSpec = decode(&object.spec, "spec")?;
    if spec.count == Some(0) {
        return Err(FieldError::new("spec.count", "must be at least 1"));
    }
    let twice = |i: &usize| spec.addresses[..*i].contains(&spec.addresses[*i]);
    if let Some(i) = (0..spec.addresses.len()).find(twice) {
        return Err(FieldError::new(format!("spec.addresses[{i}]"), "is there twice; leave one out"));
    }
    if !spec.addresses.is_empty() {
        for (field, given) in [("spec.count", spec.count.is_some()), ("spec.families", !spec.families.is_empty())] {
            if given {
                return Err(FieldError::new(field, "leave it out: spec.addresses says which addresses are wanted"));
            }
        }
    }
    let namespace = object.metadata.namespace.clone().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
    let name = object.metadata.name.clone();
    Ok(Claim {
        identity: format!("claim/{namespace}/{name}"),
        namespace,
        name,
        keep: spec.keep.map(|Text(keep)| keep.0),
        group: Group {
            pools: spec.pools,
            network: spec.network,
            addresses: spec.addresses.into_iter().map(|Text(Address(address))| address).collect(),
            families: spec.families.into_iter().map(Into::into).collect(),
            count: spec.count.unwrap_or(1),
            ..Group::default()
        },
    })
}

impl From<WrittenFamily> for Family {
    fn from(family: WrittenFamily) -> Self {
        match family {
            WrittenFamily::IPv4 => Self::V4,
            WrittenFamily::IPv6 => Self::V6,
        }
    }
}
