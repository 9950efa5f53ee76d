//! The shapes that addresses have in the API.

use crate::objects::rfc3339;
use berth_core::block::{Plane, Slot, State};
use berth_core::holder::{Holder, Kind};
use berth_core::ipam::{Given, Outcome};
use berth_core::net::{Dns, Route};
use berth_dialects::duration::GoDuration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use utoipa::ToSchema;

/// Who has an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct HolderShape {
    /// `container` (of this machine; gone with the boot), `remote` or `named`; `named` if left out.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) kind: String,
    /// CNI network of the attachment.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) network: String,
    /// Container ID or name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) id: String,
    /// Interface.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) ifname: String,
    /// Namespace of the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) namespace: String,
    /// Name of the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) pod: String,
    /// UID of the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
    /// Node or host.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) node: String,
    /// What the address is kept for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) identity: String,
    /// For how long it is kept, or `forever`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) keep: String,
}

impl From<Holder> for HolderShape {
    fn from(holder: Holder) -> Self {
        let (identity, keep) = match holder.sticky {
            None => Default::default(),
            Some(sticky) => {
                let keep = sticky.keep.map_or_else(|| "forever".to_owned(), |keep| GoDuration(keep).to_string());
                (sticky.identity, keep)
            }
        };
        Self {
            kind: holder.kind.as_str().to_owned(),
            network: holder.network,
            id: holder.id,
            ifname: holder.ifname,
            namespace: holder.namespace,
            pod: holder.pod,
            uid: holder.uid,
            node: holder.node,
            identity,
            keep,
        }
    }
}

impl HolderShape {
    pub(crate) fn lower(self) -> Result<Holder, String> {
        let kind = match self.kind.as_str() {
            "" | "named" => Kind::Named,
            "remote" => Kind::Remote,
            "container" => Kind::Container,
            other => return Err(format!("{other:?} is not a kind of holder; use container, remote or named")),
        };
        let Self { network, id, ifname, namespace, pod, uid, node, .. } = self;
        Ok(Holder { kind, network, id, ifname, namespace, pod, uid, node, sticky: None, awaited: false })
    }
}

/// One address that was ever used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct AddressShape {
    /// The address, or the first of the prefix.
    #[schema(value_type = String)]
    pub(crate) address: IpAddr,
    /// What was given out, with its length.
    pub(crate) unit: String,
    /// The network.
    pub(crate) network: String,
    /// The pool it is in.
    pub(crate) pool: String,
    /// `Active`, `Held`, `Quarantined`, `Cooling`, `Released` or `Free`.
    pub(crate) state: &'static str,
    /// Since when.
    pub(crate) since: Option<String>,
    /// Until when it is held or quarantined.
    pub(crate) until: Option<String>,
    /// Who has it.
    pub(crate) holder: Option<HolderShape>,
}

impl AddressShape {
    pub(crate) fn new(plane: &Plane, unit: u128, pool: String, slot: Option<Slot>, cooling: bool) -> Self {
        let prefix = plane.prefix(unit);
        let state = match slot.as_ref().map(|slot| slot.state) {
            None => "Free",
            Some(state) => state_name(state, cooling),
        };
        let since = slot.as_ref().map(|slot| rfc3339(slot.since));
        let until = slot.as_ref().and_then(|slot| slot.until).map(rfc3339);
        let holder = slot.and_then(|slot| slot.holder).map(HolderShape::from);
        let network = plane.network.to_string();
        Self { address: prefix.network(), unit: prefix.to_string(), network, pool, state, since, until, holder }
    }
}

pub(crate) const fn state_name(state: State, cooling: bool) -> &'static str {
    match state {
        State::Active => "Active",
        State::Held => "Held",
        State::Quarantined => "Quarantined",
        State::Released if cooling => "Cooling",
        State::Released => "Released",
    }
}

/// Labels of those who ask.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LabelShape {
    /// Of the pod.
    pub(crate) pod: BTreeMap<String, String>,
    /// Of its namespace.
    pub(crate) namespace: BTreeMap<String, String>,
    /// Of the node.
    pub(crate) node: BTreeMap<String, String>,
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct AllocateShape {
    /// Who will hold the addresses.
    pub(crate) holder: HolderShape,
    /// Pools by name or wildcard, in order; empty means the default pools.
    pub(crate) pools: Vec<String>,
    /// Only pools of this network.
    pub(crate) network: Option<String>,
    /// Only pools of this type.
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    /// Exactly these addresses.
    #[schema(value_type = Vec<String>)]
    pub(crate) addresses: Vec<IpAddr>,
    /// `IPv4`, `IPv6`; empty means what the pools have.
    pub(crate) families: Vec<String>,
    /// How many of each family; 1 if left out.
    pub(crate) count: Option<u32>,
    /// The claim whose addresses to use, as `NAMESPACE/NAME`.
    pub(crate) claim: Option<String>,
    /// Keep the addresses for the holder after a release, for this long or `forever`.
    pub(crate) keep: Option<String>,
    /// Labels that pools' selectors are checked against.
    pub(crate) labels: LabelShape,
}

/// One address that was given out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GivenShape {
    /// The address, or the first of the prefix.
    #[schema(value_type = String)]
    address: IpAddr,
    /// What was given out, with its length.
    unit: String,
    /// The prefix length of its subnet.
    prefix_length: u8,
    /// The router of its subnet.
    #[schema(value_type = Option<String>)]
    gateway: Option<IpAddr>,
    /// The pool it came from.
    pool: String,
    /// The network it is in.
    network: String,
    /// Why this one.
    reason: &'static str,
}

impl From<Given> for GivenShape {
    fn from(given: Given) -> Self {
        Self {
            address: given.address(),
            unit: given.unit.to_string(),
            prefix_length: given.prefix_len,
            gateway: given.gateway,
            reason: given.reason.as_str(),
            pool: given.pool,
            network: given.network,
        }
    }
}

/// The answer to an allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct OutcomeShape {
    /// What was given out, in the order asked for.
    addresses: Vec<GivenShape>,
    /// Routes of the pools.
    #[schema(value_type = Vec<Object>)]
    routes: Vec<Route>,
    /// Resolver settings of the pools.
    #[schema(value_type = Object)]
    dns: Dns,
}

impl From<Outcome> for OutcomeShape {
    fn from(outcome: Outcome) -> Self {
        let addresses = outcome.given.into_iter().map(GivenShape::from).collect();
        Self { addresses, routes: outcome.routes, dns: outcome.dns }
    }
}

/// One event of an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct EventShape {
    /// When.
    pub(crate) at: String,
    /// What it became.
    pub(crate) state: &'static str,
    /// In which network.
    pub(crate) network: String,
    /// What was given out, with its length.
    pub(crate) unit: String,
    /// Who has it from then on.
    pub(crate) holder: Option<HolderShape>,
}
