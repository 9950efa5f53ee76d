//! Whether blocks, endpoints, pods and the network tell one story of a [case](Case).

use crate::case::{BERTH, Case};
use berth_core::block::{Block, BlockKey, Slot, State};
use berth_core::holder::Holder;
use berth_dialects::native::block::{BlockSpec, block_name, from_spec, to_spec};
use kube::api::{DynamicObject, ListParams, PostParams};
use serde_json::json;
use std::collections::BTreeMap;
use std::net::IpAddr;

impl Case<'_> {
    /// The blocks of this corner as values.
    ///
    /// # Panics
    /// If one is none.
    #[must_use]
    pub fn decoded_blocks(&self) -> Vec<(BlockKey, Block)> {
        let decode = |object: DynamicObject| {
            let spec: BlockSpec = serde_json::from_value(object.data["spec"].clone()).unwrap();
            from_spec(&spec).unwrap()
        };
        self.block_objects().into_iter().map(decode).collect()
    }

    /// Writes a record into a block behind everybody's back.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn write_slot(&self, key: &BlockKey, slot: u8, record: &Slot) {
        let (api, name) = (self.api(BERTH, "IPBlock", None), block_name(key));
        self.until("the block to be written", || {
            let there = self.wait(api.get_opt(&name));
            let spec = there.as_ref().map(|object| serde_json::from_value(object.data["spec"].clone()).unwrap());
            let mut block = spec.map_or_else(Block::default, |spec| from_spec(&spec).unwrap().1);
            block.set(slot, Some(record));
            let written = json!({"apiVersion": BERTH, "kind": "IPBlock", "metadata": {"name": name}, "spec": to_spec(key, &block)});
            let mut object: DynamicObject = serde_json::from_value(written).unwrap();
            let call = match there {
                None => self.runtime.block_on(api.create(&PostParams::default(), &object)),
                Some(there) => {
                    object.metadata = there.metadata;
                    self.runtime.block_on(api.replace(&name, &PostParams::default(), &object))
                }
            };
            call.is_ok()
        });
    }

    /// Who has or keeps which address of this corner.
    ///
    /// # Panics
    /// If blocks cannot be read.
    #[must_use]
    pub fn holders(&self) -> BTreeMap<IpAddr, (State, Holder)> {
        let mut holders = BTreeMap::new();
        for (key, block) in self.decoded_blocks() {
            for (slot, record) in block.slots() {
                if let Some(holder) = record.holder() {
                    holders.insert(key.plane.addr(key.unit(slot)), (record.to_slot().state, holder));
                }
            }
        }
        holders
    }

    /// Checks that all tell one story: no address is in use twice; what a running pod of these namespaces has is recorded
    /// under its UID, and nothing else is in use; what endpoint objects say is so; `berth check` finds nothing.
    ///
    /// Nothing may be on its way meanwhile.
    ///
    /// # Panics
    /// With what does not fit.
    #[track_caller]
    pub fn sane(&self, namespaces: &[&str]) {
        assert_eq!(self.stage.kubelets.conflicts(), Vec::<String>::new());
        let holders = self.holders();
        let mut told: BTreeMap<IpAddr, String> = BTreeMap::new();
        for namespace in namespaces {
            for seen in self.pods_of(namespace, None).into_iter().filter(|seen| seen.phase == "Running") {
                for address in &seen.addresses {
                    let other = told.insert(*address, seen.pod.uid.clone());
                    assert_eq!(other, None, "{address} of {} is in the status of another pod", seen.pod.name);
                    // Of other families there are no blocks in this corner.
                    if address.is_ipv4() {
                        let (_, holder) = &holders.get(address).unwrap_or_else(|| panic!("nobody holds {address}"));
                        assert_eq!(*holder.uid, seen.pod.uid, "{address} of {}", seen.pod.name);
                    }
                }
            }
            let endpoints = self.wait(self.api(BERTH, "IPEndpoint", Some(namespace)).list(&ListParams::default()));
            for endpoint in endpoints {
                let name = endpoint.metadata.name.unwrap_or_default();
                let pod = self.pods_of(namespace, None).into_iter().find(|seen| seen.pod.name == name);
                if let Some(pod) = pod.filter(|seen| seen.phase == "Running") {
                    assert_eq!(endpoint.data["spec"]["uid"], pod.pod.uid.as_str(), "the endpoint of {name}");
                }
            }
        }
        for (address, (state, holder)) in &holders {
            if *state == State::Active {
                assert!(told.contains_key(address), "{address} is in use by {holder:?}, and no pod has it");
            }
        }
        self.check();
    }
}
