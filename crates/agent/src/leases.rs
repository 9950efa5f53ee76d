//! Which addresses a node has leased, read from the blocks of leases.

use berth_core::addr::{Cidr, Family};
use berth_core::block::{BLOCK_UNITS, Block, BlockKey, Plane, State};
use berth_store::Revision;
use std::collections::BTreeMap;

/// The leases of one node.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// Per block of leases, what of it this node has, and the revision that says so.
    blocks: BTreeMap<BlockKey, (Revision, Vec<Cidr>)>,
}

impl Leases {
    /// Whether a block records leases.
    pub(crate) fn records(key: &BlockKey) -> bool {
        key.plane.leases_of().is_some()
    }

    /// Takes in a block of leases, unless something newer is known: what a watch tells may be late.
    pub(crate) fn see(&mut self, key: &BlockKey, block: &Block, revision: Revision, node: &str) {
        let (known, own) = self.blocks.entry(key.clone()).or_default();
        if revision >= *known {
            (*known, *own) = (revision, own_in(key, block, node));
        }
    }

    /// What would be given up if a block of leases were this.
    pub(crate) fn lost(&self, key: &BlockKey, block: &Block, node: &str) -> Vec<Cidr> {
        let next = own_in(key, block, node);
        let own = self.blocks.get(key).map(|(_, own)| own.as_slice()).unwrap_or_default();
        own.iter().filter(|lease| !next.contains(lease)).copied().collect()
    }

    /// The slots of a block that this node has leased, as bits.
    pub(crate) fn mask(&self, key: &BlockKey) -> u64 {
        let mut mask = 0;
        for (of, (_, leases)) in &self.blocks {
            if of.plane.leases_of() != Some(&*key.plane.network) || of.plane.family != key.plane.family {
                continue;
            }
            mask |= leases.iter().fold(0, |mask, &lease| mask | covered(key, lease));
        }
        mask
    }

    /// How many leases there are.
    pub(crate) fn count(&self) -> usize {
        self.blocks.values().map(|(_, own)| own.len()).sum()
    }
}

/// The leases of a node that a block records.
fn own_in(key: &BlockKey, block: &Block, node: &str) -> Vec<Cidr> {
    let active = block.slots().filter(|(_, view)| view.state == State::Active);
    let own = active.filter(|(_, view)| view.holder().is_some_and(|holder| holder.id == node));
    own.map(|(slot, _)| key.plane.prefix(key.unit(slot))).collect()
}

/// The slots of a block that lie in a lease, as bits.
pub(crate) fn covered(key: &BlockKey, lease: Cidr) -> u64 {
    let Plane { family, unit_len, .. } = key.plane;
    if Family::of(lease.network()) != family || unit_len < lease.prefix_len() {
        return 0;
    }
    let range = lease.range();
    let (first, last) = (key.plane.unit_of(range.first()), key.plane.unit_of(range.last()));
    let (low, high) = (key.unit(0), key.unit(BLOCK_UNITS - 1));
    if last < low || first > high {
        return 0;
    }
    let (from, to) = (first.max(low) - low, last.min(high) - low);
    (u64::MAX >> (63 - (to - from))) << from
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::block::Slot;
    use berth_core::holder::{Holder, Kind};
    use berth_core::time::Time;

    fn plane(network: &str, unit_len: u8) -> Plane {
        Plane { network: network.into(), family: Family::V4, unit_len }
    }

    fn lease(address: &str, len: u8, node: &str) -> (BlockKey, Block) {
        let plane = plane("default/leases", len);
        let (key, slot) = BlockKey::of(&plane, plane.unit_of(address.parse().unwrap()));
        let holder = Holder { kind: Kind::Named, id: node.into(), ifname: "p".into(), ..Holder::default() };
        let mut block = Block::default();
        block.set(slot, Some(&Slot::active(holder, Time(1))));
        (key, block)
    }

    fn block(address: &str) -> BlockKey {
        let plane = plane("default", 32);
        BlockKey::of(&plane, plane.unit_of(address.parse().unwrap())).0
    }

    #[test]
    fn a_lease_covers_its_addresses_and_no_others() {
        for (len, own, beside) in [(26, u64::MAX, 0), (29, 0xff, 0), (24, u64::MAX, u64::MAX)] {
            let mut leases = Leases::default();
            let (key, content) = lease("10.0.0.0", len, "n1");
            leases.see(&key, &content, 1, "n1");
            assert_eq!(leases.mask(&block("10.0.0.5")), own, "/{len}");
            assert_eq!(leases.mask(&block("10.0.0.64")), beside, "/{len}");
            assert_eq!(leases.mask(&block("10.1.0.0")), 0);
            leases.see(&key, &Block::default(), 2, "n1");
            assert_eq!((leases.mask(&block("10.0.0.5")), leases.count()), (0, 0));
            leases.see(&key, &content, 1, "n1");
            assert_eq!(leases.count(), 0, "what is told late changes nothing");
        }
    }

    #[test]
    fn another_nodes_lease_is_not_ours() {
        let mut leases = Leases::default();
        let (key, content) = lease("10.0.0.0", 26, "n2");
        leases.see(&key, &content, 1, "n1");
        assert_eq!(leases.mask(&block("10.0.0.5")), 0);
        leases.see(&key, &content, 1, "n2");
        assert_eq!(leases.lost(&key, &Block::default(), "n2").len(), 1);
    }
}
