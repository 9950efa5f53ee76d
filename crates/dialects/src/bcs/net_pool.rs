//! BCSNetPool: an explicit list of addresses for a list of hosts.

use crate::duration::GoDuration;
use crate::field::{FieldError, decode};
use crate::object::Object;
use berth_core::addr::{Cidr, Family, Range};
use berth_core::block::{Slot, State};
use berth_core::error::Error;
use berth_core::ipam::Usage;
use berth_core::model::{Audience, Edges, Gateway, Pool, StickyPolicy};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::net::IpAddr;
use utoipa::ToSchema;

/// Annotation of a pool whose addresses stay with the pod that had them: `"true"`.
pub const FIXED_ANNOTATION: &str = "netservicecontroller.bkbcs.tencent.com/fixed";

/// Annotation of such a pool: for how long after the pod is gone, e.g. `10h`; for ever if absent.
pub const KEEP_ANNOTATION: &str = "netservicecontroller.bkbcs.tencent.com/keep-duration";

/// What a BCSNetPool is asked to be.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetPoolSpec {
    /// Network address.
    #[schema(example = "10.1.2.0")]
    net: String,
    /// Prefix length of the network.
    mask: i64,
    /// Router.
    gateway: String,
    /// Addresses of the hosts that may use the pool.
    #[serde(default)]
    hosts: Vec<String>,
    /// The addresses of the pool; it has no others.
    #[serde(default, rename = "availableIPs")]
    available_ips: Vec<String>,
}

/// A BCSNetPool, read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetPool {
    /// Its name.
    pub name: String,
    /// The API version it was written in, which its BCSNetIPs are shown in.
    pub api_version: String,
    /// Network address.
    pub net: IpAddr,
    /// Prefix length of the network.
    pub mask: u8,
    /// Router.
    pub gateway: IpAddr,
    /// The hosts that may use it.
    pub hosts: Vec<String>,
    /// Its addresses, in the order written.
    pub available_ips: Vec<IpAddr>,
    /// Set if its addresses are fixed.
    pub fixed: Option<StickyPolicy>,
}

impl NetPool {
    /// Reads a BCSNetPool.
    ///
    /// # Errors
    /// [`Error::Invalid`] in the words of the controller's webhook where it has any.
    pub fn read(object: &Object) -> Result<Self, Error> {
        Self::decode(object).map_err(|error| error.of(object))
    }

    pub(crate) fn decode(object: &Object) -> Result<Self, FieldError> {
        let spec: NetPoolSpec = decode(&object.spec, "spec")?;
        let name = &object.metadata.name;
        let creating = format!("when creating bcsnetpool {name}");
        let net: IpAddr = (spec.net.parse())
            .map_err(|_| FieldError::new("spec.net", format!("spec.net {} is not valid {creating}", spec.net)))?;
        let gateway: IpAddr = (spec.gateway.parse()).map_err(|_| {
            FieldError::new("spec.gateway", format!("spec.gateway is not valid {} {creating}", spec.gateway))
        })?;
        let family = Family::of(net);
        let mask = u8::try_from(spec.mask).ok().filter(|&mask| mask <= family.bits()).ok_or_else(|| {
            let reason = format!("{} is not a prefix length; use 0 to {}", spec.mask, family.bits());
            FieldError::new("spec.mask", reason)
        })?;
        if Family::of(gateway) != family {
            return Err(FieldError::new("spec.gateway", format!("{gateway} is not {family}, as spec.net {net} is")));
        }
        if let Some(i) = spec.hosts.iter().position(|host| host.is_empty() || host.contains(['*', '?', '['])) {
            let reason = format!("{:?} is not a host; write the address of each host", spec.hosts[i]);
            return Err(FieldError::new(format!("spec.hosts[{i}]"), reason));
        }
        Ok(Self {
            name: name.clone(),
            api_version: object.api_version.clone(),
            available_ips: available_ips(&spec.available_ips, Cidr::containing(net, mask), &creating)?,
            net,
            mask,
            gateway,
            hosts: spec.hosts,
            fixed: fixed(object)?,
        })
    }

    /// The pool of the core: exactly the addresses listed, for exactly the hosts listed.
    #[must_use]
    pub fn lower(&self) -> Pool {
        let singles = self.available_ips.iter().copied().map(Range::single).collect();
        Pool {
            family: Family::of(self.net),
            unit_len: Family::of(self.net).bits(),
            prefix_len: Some(self.mask),
            gateway: Gateway::At(self.gateway),
            // The list is explicit: whoever lists the broadcast address means it.
            edges: Edges { network: true, broadcast: true, gateway: true },
            // To the core, no hosts are all hosts; to BCS they are none.
            disabled: self.hosts.is_empty(),
            audience: Audience { nodes: self.hosts.clone(), ..Audience::default() },
            sticky: self.fixed,
            ..Pool::new(&self.name, singles)
        }
    }

    /// Whether the pool may be replaced by `next`, or deleted if there is none: no active address may get lost.
    ///
    /// # Errors
    /// [`Error::InUse`] in the words of the controller.
    pub fn check_change(&self, next: Option<&Self>, slot_of: impl Fn(IpAddr) -> Option<Slot>) -> Result<(), Error> {
        let kept: HashSet<&IpAddr> = next.map(|next| next.available_ips.iter().collect()).unwrap_or_default();
        for ip in self.available_ips.iter().filter(|ip| !kept.contains(ip)) {
            if let Some(holder) = slot_of(*ip).filter(|slot| slot.state == State::Active).and_then(|slot| slot.holder) {
                let name = &self.name;
                let refusal = format!("can not perform operation for pool {name}, active IP {ip} exists");
                let object = format!("{refusal}; BCSNetPool {name:?}");
                return Err(Error::InUse { object, holders: format!("{ip} by {holder}") });
            }
        }
        Ok(())
    }

    /// The status of the pool, in both spellings (the documentation's and the code's), with the counts that BCS lacks.
    #[must_use]
    pub fn status(&self, usage: &Usage) -> Value {
        json!({
            "status": "Normal",
            "phase": "Normal",
            "activeIPs": usage.in_use,
            "availableIPs": usage.free + usage.cooling,
            "reservedIPs": usage.held + usage.quarantined + usage.reserved,
        })
    }
}

fn available_ips(written: &[String], net: Cidr, creating: &str) -> Result<Vec<IpAddr>, FieldError> {
    let mut known = HashSet::with_capacity(written.len());
    let mut ips = Vec::with_capacity(written.len());
    for (i, text) in written.iter().enumerate() {
        let wrong = |reason: String| FieldError::new(format!("spec.availableIPs[{i}]"), reason);
        let ip: IpAddr =
            text.parse().map_err(|_| wrong(format!("{text} in spec.availableIPs is not valid {creating}")))?;
        if !net.contains(ip) {
            return Err(wrong(format!("{ip} is not inside {net}; mend it, or spec.net and spec.mask")));
        }
        if !known.insert(ip) {
            return Err(wrong(format!("{ip} is listed twice; list it once")));
        }
        ips.push(ip);
    }
    Ok(ips)
}

fn fixed(object: &Object) -> Result<Option<StickyPolicy>, FieldError> {
    let annotation = |key: &str| object.metadata.annotations.get(key).map(String::as_str);
    let wrong = |key: &str, reason: String| FieldError::new(format!("metadata.annotations.{key}"), reason);
    let keep = annotation(KEEP_ANNOTATION).map(str::parse::<GoDuration>).transpose();
    let keep = keep.map_err(|error| wrong(KEEP_ANNOTATION, error.to_string()))?;
    match annotation(FIXED_ANNOTATION) {
        Some("true") => Ok(Some(StickyPolicy { keep: keep.map(|keep| keep.0), ..StickyPolicy::default() })),
        None | Some("false") => Ok(None),
        Some(other) => Err(wrong(FIXED_ANNOTATION, format!("{other:?} is neither \"true\" nor \"false\""))),
    }
}
