//! Which addresses a node has leased, read from the blocks of leases.

use berth_core::addr::{Cidr, Family};
use berth_core::block::{BLOCK_UNITS, Block, BlockKey, Plane, Slot, State};
use berth_store::Revision;
use std::collections::BTreeMap;

/// The leases of one node.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// Per block of leases, what of it this node has, and the revision that says so.
    blocks: BTreeMap<BlockKey, Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    revision: Revision,
    block: Block,
    own: Vec<Cidr>,
}

impl Leases {
    /// Whether a block records leases.
    pub(crate) fn records(key: &BlockKey) -> bool {
        key.plane.leases_of().is_some()
    }

    /// Takes in a block of leases, unless something newer is known: what a watch tells may be late. A block without a
    /// revision was asked for and is not there.
    pub(crate) fn see(&mut self, key: &BlockKey, block: &Block, revision: Revision, node: &str) {
        let seen = self.blocks.entry(key.clone()).or_default();
        if revision >= seen.revision || revision == 0 {
            let revision = revision.max(seen.revision);
            *seen = Seen { revision, block: block.clone(), own: own_in(key, block, node) };
        }
    }

    /// Whether these leases were given up is not known: they are not this node's until their block has been seen again.
    /// Answers with the block as it may be at worst.
    pub(crate) fn doubt(&mut self, key: &BlockKey, leases: &[Cidr]) -> Option<Block> {
        let seen = self.blocks.get_mut(key)?;
        seen.own.retain(|lease| !leases.contains(lease));
        let mut worst = seen.block.clone();
        for lease in leases {
            let (_, slot) = BlockKey::of(&key.plane, key.plane.unit_of(lease.network()));
            let since = worst.slot(slot).map(|view| view.since).unwrap_or_default();
            worst.set(slot, Some(&Slot::quarantined(since, None)));
        }
        Some(worst)
    }

    /// What would be given up if a block of leases were this.
    pub(crate) fn lost(&self, key: &BlockKey, block: &Block, node: &str) -> Vec<Cidr> {
        let next = own_in(key, block, node);
        let own = self.blocks.get(key).map(|seen| seen.own.as_slice()).unwrap_or_default();
        own.iter().filter(|lease| !next.contains(lease)).copied().collect()
    }

    /// The slots of a block that this node has leased, as bits.
    pub(crate) fn mask(&self, key: &BlockKey) -> u64 {
        let mut mask = 0;
        for (of, Seen { own: leases, .. }) in &self.blocks {
            if of.plane.leases_of() != Some(&*key.plane.network) || of.plane.family != key.plane.family {
                continue;
            }
            mask |= leases.iter().fold(0, |mask, &lease| mask | covered(key, lease));
        }
        mask
    }

    /// How many leases there are.
    pub(crate) fn count(&self) -> usize {
        self.blocks.values().map(|seen| seen.own.len()).sum()
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
            leases.see(&key, &content, 3, "n1");
            assert_eq!(leases.count(), 1);
            leases.see(&key, &Block::default(), 0, "n1");
            assert_eq!(leases.count(), 0, "somebody has deleted it");
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

    #[test]
    fn a_lease_that_may_have_been_given_up_is_not_ours_until_it_is_seen_again() {
        let mut leases = Leases::default();
        let (key, content) = lease("10.0.0.0", 26, "n1");
        leases.see(&key, &content, 7, "n1");
        let worst = leases.doubt(&key, &["10.0.0.0/26".parse().unwrap()]).unwrap();
        assert_eq!((leases.mask(&block("10.0.0.5")), leases.count()), (0, 0));
        assert!(worst.slots().all(|(_, view)| view.state == State::Quarantined), "nobody's, and not to be leased");
        leases.see(&key, &content, 7, "n1");
        assert_eq!(leases.count(), 1, "the server says that it was not given up");
    }
}
