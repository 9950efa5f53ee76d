//! What is wrong with records, and what becomes of them: pure.

use crate::index::blocks_at;
use berth_core::block::{BlockKey, Plane, State};
use berth_core::holder::Holder;
use berth_core::ipam::Ipam;
use berth_core::reclaim::Pod;
use berth_dialects::native::endpoint::{EndpointInterface, EndpointOwner, EndpointSpec};
use berth_kube::watch::Key;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// No block knows of anything that it speaks of, and its pod is gone.
    NoAddress,
    /// A pod's addresses have no record, though they should.
    NoRecord,
}

/// What a pod has, by the blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    slots: Vec<(Plane, u128, State, Holder)>,
    /// Whether any of it is to have a record.
    recorded: bool,
}

impl Held {
    /// The blocks that it is in.
    pub(super) fn blocks(&self) -> Vec<BlockKey> {
        self.slots.iter().map(|(plane, unit, ..)| BlockKey::of(plane, *unit).0).collect()
    }

    /// The newest pod of the name, if there are traces of several.
    pub(super) fn newest(&self) -> Option<&Holder> {
        let active = self.slots.iter().find(|(.., state, _)| *state == State::Active);
        active.or(self.slots.first()).map(|(.., holder)| holder)
    }
}

/// What the server says, once it was asked because of a fault. Blocks are as it has them by then.
pub(super) enum Said<'a> {
    /// Of a record that nothing seems to stand behind: whether its pod is there.
    Stray { spec: &'a EndpointSpec, pod: Pod },
    /// Of a record that is missing: who made the pod, or will make it again.
    Missing { owner: Option<EndpointOwner> },
}

/// What is to be done about a record.
#[derive(Debug, PartialEq)]
pub(super) enum Effect {
    /// It goes, if it is of the pod with this UID.
    Remove { uid: String },
    /// It is written anew.
    Record(EndpointSpec),
}

/// What is wrong, by the watches; `pod` tells of the pod of a namespace, name and UID.
pub(super) fn faults(
    held: &BTreeMap<Key, Held>,
    records: &BTreeMap<Key, Arc<EndpointSpec>>,
    pod: impl Fn(&str, &str, &str) -> Pod,
) -> BTreeMap<Key, Fault> {
    let stray = records.iter().filter(|(key, spec)| {
        !held.contains_key(*key) && matches!(pod(&key.namespace, &key.name, &spec.uid), Pod::Absent | Pod::Replaced)
    });
    // Somebody would look for it: the pod lives, or an address is kept for it.
    let expected = |(key, held): &(&Key, &Held)| {
        held.slots.iter().any(|(.., state, holder)| {
            let lives = || matches!(pod(&key.namespace, &holder.pod, &holder.uid), Pod::There(_));
            *state == State::Held || lives()
        })
    };
    let missing = held.iter().filter(|(key, held)| held.recorded && !records.contains_key(*key)).filter(expected);
    let stray = stray.map(|(key, _)| (key.clone(), Fault::NoAddress));
    missing.map(|(key, _)| (key.clone(), Fault::NoRecord)).chain(stray).collect()
}

/// The faults that were there at the last look already: an agent commits an address before it writes the record.
pub(super) fn confirmed(before: &BTreeMap<Key, Fault>, now: &BTreeMap<Key, Fault>) -> Vec<(Key, Fault)> {
    let twice = now.iter().filter(|(key, fault)| before.get(*key) == Some(*fault));
    twice.map(|(key, fault)| (key.clone(), *fault)).collect()
}

/// What is to be done, now that the server was asked; nothing if it knows better than the watches did.
pub(super) fn decide(ipam: &Ipam, key: &Key, said: Said<'_>) -> Option<Effect> {
    let held = held_by(ipam, key);
    match said {
        Said::Stray { spec, pod: Pod::Absent | Pod::Replaced } if held.is_none() => {
            Some(Effect::Remove { uid: spec.uid.clone() })
        }
        Said::Stray { .. } => None,
        Said::Missing { owner } => {
            let held = held.filter(|held| held.recorded)?;
            spec_of(ipam, &held, owner).map(Effect::Record)
        }
    }
}

/// What the pods of one name have.
pub(super) fn held_by(ipam: &Ipam, key: &Key) -> Option<Held> {
    let own = |holder: &Holder| holder.namespace == key.namespace && holder.lasting_name() == key.name;
    held(ipam, own).remove(key)
}

/// What pods have, by pod.
pub(super) fn held(ipam: &Ipam, of: impl Fn(&Holder) -> bool) -> BTreeMap<Key, Held> {
    let mut all: BTreeMap<Key, Held> = BTreeMap::new();
    for (key, block) in ipam.blocks().filter(|(key, _)| key.plane.leases_of().is_none()) {
        let recorded = ipam.pools_at(key).iter().any(|pool| pool.endpoint_objects);
        let taken = block.slots().filter(|(_, view)| matches!(view.state, State::Active | State::Held));
        for (slot, view) in taken {
            let Some(holder) = view.holder().filter(|holder| !holder.pod.is_empty() && of(holder)) else { continue };
            let pod = Key::new(&holder.namespace, holder.lasting_name());
            let kept = holder.sticky.as_ref().is_some_and(|sticky| !sticky.identity.starts_with("claim/"));
            let held = all.entry(pod).or_default();
            held.recorded |= kept || (recorded && view.state == State::Active);
            held.slots.push((key.plane.clone(), key.unit(slot), view.state, holder));
        }
    }
    all
}

/// The record of what a pod has: of the newest pod of the name, if there are traces of several.
fn spec_of(ipam: &Ipam, held: &Held, owner: Option<EndpointOwner>) -> Option<EndpointSpec> {
    let newest = held.newest()?;
    let own = held.slots.iter().filter(|(.., holder)| holder.uid == newest.uid);
    let mut by_interface: BTreeMap<(&str, &str), Vec<(Plane, u128)>> = BTreeMap::new();
    for (plane, unit, _, holder) in own {
        // What is kept while its pod is away has the interface in its identity alone.
        let identity = holder.sticky.as_ref().and_then(|sticky| sticky.identity.rsplit('/').next());
        let name = Some(holder.ifname.as_str()).filter(|name| !name.is_empty()).or(identity).unwrap_or_default();
        by_interface.entry((name, &holder.network)).or_default().push((plane.clone(), *unit));
    }
    let interface = |((name, network), addresses): ((&str, &str), Vec<(Plane, u128)>)| {
        EndpointInterface::of(name.to_owned(), network.to_owned(), &ipam.tell(&addresses))
    };
    let interfaces = by_interface.into_iter().map(interface).collect();
    Some(EndpointSpec { uid: newest.uid.clone(), node: newest.node.clone(), owner, interfaces })
}

/// The blocks that a record speaks of.
pub(super) fn blocks_of(ipam: &Ipam, spec: &EndpointSpec) -> BTreeSet<BlockKey> {
    let addresses = spec.interfaces.iter().flat_map(|interface| &interface.addresses);
    blocks_at(ipam, addresses.map(|known| known.address.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::holder::Sticky;
    use berth_core::reclaim::Life;
    use berth_core::time::Time;
    use berth_dialects::{Object, lower_all};
    use serde_json::json;

    const NOW: Time = Time::from_secs(1_800_000_000);

    fn ipam() -> Ipam {
        let object: Object = serde_json::from_value(json!({
            "apiVersion": "berth.io/v1alpha1", "kind": "IPPool", "metadata": {"name": "p"},
            "spec": {"ranges": ["10.0.0.0/24"], "endpointObjects": "Always"},
        }))
        .unwrap();
        let mut ipam = Ipam::new();
        ipam.configure(lower_all([&object]).unwrap());
        ipam
    }

    fn holder(uid: &str, identity: Option<String>) -> Holder {
        let [id, ifname, namespace, pod] = ["c1", "eth0", "web", "db-0"].map(str::to_owned);
        let sticky = identity.map(|identity| Sticky { identity, keep: None });
        Holder { id, ifname, namespace, pod, uid: uid.to_owned(), node: "n1".to_owned(), sticky, ..Holder::default() }
    }

    fn in_use() -> Ipam {
        let mut ipam = ipam();
        let plane = ipam.pool("p").unwrap().plane();
        ipam.recognise(&plane, "10.0.0.5".parse().unwrap(), holder("u1", None), NOW).unwrap();
        ipam
    }

    fn key() -> Key {
        Key::new("web", "db-0")
    }

    fn there() -> Pod {
        Pod::There(Life::default())
    }

    fn record() -> EndpointSpec {
        let Some(Effect::Record(spec)) = decide(&in_use(), &key(), Said::Missing { owner: None }) else {
            panic!("nothing is recorded")
        };
        spec
    }

    fn found(ipam: &Ipam, record: Option<EndpointSpec>, pod: &Pod) -> Vec<Fault> {
        let records = record.map(|spec| (key(), Arc::new(spec))).into_iter().collect();
        faults(&held(ipam, |_| true), &records, |_, _, _| pod.clone()).into_values().collect()
    }

    #[test]
    fn a_record_is_missed_if_its_pod_lives_or_comes_back() {
        assert_eq!(found(&in_use(), None, &there()), [Fault::NoRecord]);
        assert_eq!(found(&in_use(), Some(record()), &there()), []);
        for away in [Pod::Absent, Pod::Replaced, Pod::Unknown] {
            assert_eq!(found(&in_use(), None, &away), [], "{away:?}");
        }
        let mut kept = ipam();
        let plane = kept.pool("p").unwrap().plane();
        let identity = Sticky::of_pod("web", "db-0", "eth0");
        kept.hold(&plane, "10.0.0.5".parse().unwrap(), holder("", Some(identity)), NOW).unwrap();
        assert_eq!(found(&kept, None, &Pod::Absent), [Fault::NoRecord]);
    }

    #[test]
    fn a_record_is_stray_if_neither_a_block_nor_a_pod_stands_behind_it() {
        for (pod, stray) in [(Pod::Absent, true), (Pod::Replaced, true), (there(), false), (Pod::Unknown, false)] {
            let faults = found(&ipam(), Some(record()), &pod);
            assert_eq!(faults, [Fault::NoAddress][..usize::from(stray)], "{pod:?}");
            assert_eq!(found(&in_use(), Some(record()), &pod), [], "{pod:?}");
        }
    }

    #[test]
    fn it_takes_the_same_fault_at_two_looks() {
        let of = |fault| BTreeMap::from([(key(), fault)]);
        let (missing, stray) = (of(Fault::NoRecord), of(Fault::NoAddress));
        assert_eq!(confirmed(&BTreeMap::new(), &missing), []);
        assert_eq!(confirmed(&stray, &missing), []);
        assert_eq!(confirmed(&missing, &BTreeMap::new()), []);
        assert_eq!(confirmed(&missing, &missing), [(key(), Fault::NoRecord)]);
    }

    #[test]
    fn a_record_goes_only_if_the_server_says_too_that_pod_and_address_are_gone() {
        let spec = record();
        let decided = |ipam: &Ipam, pod: Pod| decide(ipam, &key(), Said::Stray { spec: &spec, pod });
        for gone in [Pod::Absent, Pod::Replaced] {
            assert_eq!(decided(&ipam(), gone.clone()), Some(Effect::Remove { uid: "u1".to_owned() }));
            assert_eq!(decided(&in_use(), gone), None, "a block speaks of it after all");
        }
        assert_eq!((decided(&ipam(), there()), decided(&ipam(), Pod::Unknown)), (None, None));
    }

    #[test]
    fn a_record_is_written_anew_from_what_the_blocks_say_by_then() {
        let owner = EndpointOwner { api_version: "apps/v1".into(), kind: "StatefulSet".into(), name: "db".into() };
        let decided = |ipam: &Ipam| decide(ipam, &key(), Said::Missing { owner: Some(owner.clone()) });
        let Some(Effect::Record(spec)) = decided(&in_use()) else { panic!("nothing is recorded") };
        assert_eq!((spec.uid.as_str(), spec.node.as_str(), spec.owner.as_ref()), ("u1", "n1", Some(&owner)));
        let addresses: Vec<&str> = spec.interfaces[0].addresses.iter().map(|own| own.address.as_str()).collect();
        assert_eq!((spec.interfaces.len(), addresses), (1, vec!["10.0.0.5/24"]));
        assert_eq!(blocks_of(&in_use(), &spec).len(), 1);
        assert_eq!(decided(&ipam()), None, "the address is back");
    }
}
