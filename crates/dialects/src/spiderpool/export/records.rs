//! Who has what, in Spiderpool's words: the whole records of its pools, an endpoint for each pod, and a reservation of
//! what has no pod, which Spiderpool would give to somebody.

use super::{Remark, reservation};
use crate::object::Object;
use crate::spiderpool::endpoint::{Current, EndpointStatus, Interface, raise};
use crate::spiderpool::status::{Allocation, whole_pool_status};
use crate::spiderpool::{FINALIZER, endpoint};
use berth_core::addr::{Count, Family, Range, RangeSet};
use berth_core::ipam::{Given, Outcome};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What an address that is not free is to somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// A pod has it, or it is kept for a pod of a StatefulSet that is away.
    Pod(Owner),
    /// Somebody else has it: a claim, a machine, a stranger. Told in words.
    Other(String),
}

/// The pod that an address is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Its UID, or that of the last pod of the name; empty if nobody knows it any more.
    pub uid: String,
    /// Its node, or the last one.
    pub node: String,
    /// Its interface.
    pub interface: String,
    /// Kind and name of its controller; of the pod itself, if it has none.
    pub controller: (String, String),
    /// Whether the address stays when the pod goes.
    pub stays: bool,
}

/// An address that is not free.
#[derive(Clone, Debug)]
pub struct Held {
    /// The address and its pool.
    pub given: Given,
    /// Whose it is.
    pub by: Use,
}

/// The status of a pool with all records: how large they are is for Spiderpool to bear, which allocates by them.
#[must_use]
pub fn pool_status(total: Count, held: &[Held]) -> Value {
    let allocations: Vec<Allocation> = held
        .iter()
        .filter_map(|held| match &held.by {
            Use::Pod(owner) => Some(Allocation {
                address: held.given.address(),
                pod: format!("{}/{}", owner.namespace, owner.pod),
                uid: owner.uid.clone(),
            }),
            Use::Other(_) => None,
        })
        .collect();
    whole_pool_status(total, &allocations)
}

/// A pod, and by interface what it has.
type OfPod<'a> = (&'a Owner, BTreeMap<&'a str, Vec<Given>>);

/// The endpoints of all pods, as Spiderpool makes them: with its finalizer, and without the mark of what Berth derives.
/// `outcome` says what goes along with addresses.
#[must_use]
pub fn endpoints(held: &[Held], outcome: impl Fn(Vec<Given>) -> Outcome) -> Vec<Value> {
    let mut pods: BTreeMap<(&str, &str), OfPod<'_>> = BTreeMap::new();
    for Held { given, by } in held {
        let Use::Pod(owner) = by else { continue };
        let (_, interfaces) = pods.entry((&owner.namespace, &owner.pod)).or_insert((owner, BTreeMap::new()));
        interfaces.entry(&owner.interface).or_default().push(given.clone());
    }
    let one = |(owner, interfaces): OfPod<'_>| {
        let interface = |(name, given): (&str, Vec<Given>)| Interface::of(name.to_owned(), &outcome(given));
        let ips = interfaces.into_iter().map(interface).collect();
        let (kind, name) = owner.controller.clone();
        let status = EndpointStatus {
            current: Current { uid: owner.uid.clone(), node: owner.node.clone(), ips },
            owner_controller_type: kind,
            owner_controller_name: name,
        };
        let mut object = raise(&owner.namespace, &owner.pod, &status, !owner.stays);
        object["metadata"]["annotations"] = json!({ endpoint::DERIVED: null });
        object["metadata"]["finalizers"] = json!([FINALIZER]);
        object
    };
    pods.into_values().map(one).collect()
}

/// Reservations of what has no pod, and what is reserved for whom.
#[must_use]
pub fn reservations(held: &[Held]) -> (Vec<Object>, Vec<Remark>) {
    let others: Vec<(IpAddr, &String)> = held
        .iter()
        .filter_map(|held| match &held.by {
            Use::Other(who) => Some((held.given.address(), who)),
            Use::Pod(_) => None,
        })
        .collect();
    let of = |family: Family, name: &str| {
        let own = others.iter().map(|(address, _)| *address).filter(|address| Family::of(*address) == family);
        let ranges: RangeSet = own.map(Range::single).collect();
        (!ranges.is_empty()).then(|| reservation(name, family, ranges.ranges()))
    };
    let objects = [of(Family::V4, "berth-kept-ipv4"), of(Family::V6, "berth-kept-ipv6")];
    let remark = |(address, who): &(IpAddr, &String)| Remark {
        object: address.to_string(),
        text: format!("is reserved: {who} has it, and is no pod that Spiderpool would know"),
    };
    (objects.into_iter().flatten().collect(), others.iter().map(remark).collect())
}
