//! Containers that took up what their pods had been promised, until the API server hears of it.
//!
//! The address is the pod's already, there too. Which container has it concerns only this node, so it is in the journal,
//! in a plane of its own, and goes to the API server with the next write of its block, or after a while by itself.
//! Whatever the API server says of the block meanwhile is read with that in mind.

use berth_core::block::{Block, BlockKey, Plane};
use berth_core::ipam::took_up;
use berth_store::BlockWrite;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What stands behind the name of a network in the journal. No network's own name has a slash.
const SUFFIX: &str = "/arrivals";

/// What the API server has not heard of, by block.
#[derive(Debug, Default)]
pub(super) struct Arrivals(BTreeMap<BlockKey, Arrived>);

#[derive(Debug)]
struct Arrived {
    /// The slots concerned, and no others.
    slots: Block,
    since: Instant,
}

/// Where the journal keeps the arrivals in a block.
pub(super) fn journal_key(key: &BlockKey) -> BlockKey {
    let plane = Plane { network: format!("{}{SUFFIX}", key.plane.network).into(), ..key.plane.clone() };
    BlockKey { plane, index: key.index }
}

/// The block whose arrivals the journal keeps there, if that is what it keeps.
pub(super) fn block_of(key: &BlockKey) -> Option<BlockKey> {
    let network = key.plane.network.strip_suffix(SUFFIX)?;
    Some(BlockKey { plane: Plane { network: network.into(), ..key.plane.clone() }, index: key.index })
}

impl Arrivals {
    /// Takes in what the journal has.
    pub(super) fn restore(&mut self, key: BlockKey, slots: Block) {
        self.0.insert(key, Arrived { slots, since: Instant::now() });
    }

    /// Takes in what just arrived; all arrivals in the block are answered.
    pub(super) fn add(&mut self, write: &BlockWrite) -> &Block {
        let fresh = || Arrived { slots: Block::default(), since: Instant::now() };
        let arrived = self.0.entry(write.key.clone()).or_insert_with(fresh);
        for slot in bits(write.arrived) {
            arrived.slots.set(slot, write.block.slot(slot).map(|view| view.to_slot()).as_ref());
        }
        &arrived.slots
    }

    /// The block as this node knows it to be, from what the API server has.
    pub(super) fn apply(&self, key: &BlockKey, mut block: Block) -> Block {
        let Some(Arrived { slots, .. }) = self.0.get(key) else { return block };
        for (slot, arrived) in slots.slots() {
            let (before, arrived) = (block.slot(slot).map(|view| view.to_slot()), arrived.to_slot());
            // Nothing else counts: what is not awaited there any more was told, or has been taken from the pod.
            if before.is_some_and(|before| took_up(&before, &arrived)) {
                block.set(slot, Some(&arrived));
            }
        }
        block
    }

    /// The API server has heard of these slots; what is left of the block's arrivals, if there were any.
    pub(super) fn told(&mut self, key: &BlockKey, slots: u64) -> Option<Block> {
        let arrived = self.0.get_mut(key)?;
        for slot in bits(slots) {
            arrived.slots.set(slot, None);
        }
        let left = arrived.slots.clone();
        if left.is_empty() {
            self.0.remove(key);
        }
        Some(left)
    }

    /// What the API server has not heard of for so long.
    pub(super) fn older_than(&self, age: Duration) -> Vec<(BlockKey, Block)> {
        let old = self.0.iter().filter(|(_, arrived)| arrived.since.elapsed() >= age);
        old.map(|(key, arrived)| (key.clone(), arrived.slots.clone())).collect()
    }

    /// The slots of which it has still not heard what it had not heard of before.
    pub(super) fn unchanged(&self, key: &BlockKey, before: &Block) -> u64 {
        let Some(Arrived { slots, .. }) = self.0.get(key) else { return 0 };
        let same =
            |slot: &u8| slots.slot(*slot).map(|view| view.to_slot()) == before.slot(*slot).map(|view| view.to_slot());
        bits(before.taken()).filter(same).fold(0, |mask, slot| mask | 1 << slot)
    }
}

fn bits(mask: u64) -> impl Iterator<Item = u8> {
    (0..64).filter(move |slot| mask & (1 << slot) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::addr::Family;
    use berth_core::block::Slot;
    use berth_core::holder::Holder;
    use berth_core::time::Time;

    fn key() -> BlockKey {
        BlockKey { plane: Plane { network: "default".into(), family: Family::V4, unit_len: 32 }, index: 7 }
    }

    fn slot(id: &str, uid: &str, awaited: bool) -> Slot {
        let holder = Holder { id: id.into(), uid: uid.into(), node: "n".into(), awaited, ..Holder::default() };
        Slot::active(holder, Time(1))
    }

    fn block(slots: &[(u8, Slot)]) -> Block {
        let mut block = Block::default();
        slots.iter().for_each(|(at, slot)| block.set(*at, Some(slot)));
        block
    }

    fn arrived(slots: &[(u8, Slot)]) -> Arrivals {
        let mut arrivals = Arrivals::default();
        let arrived = slots.iter().fold(0, |bits, (at, _)| bits | 1 << at);
        arrivals.add(&BlockWrite { key: key(), expected: 1, block: block(slots), changed: arrived, arrived });
        arrivals
    }

    #[test]
    fn what_the_server_has_not_heard_of_is_put_in() {
        let arrivals = arrived(&[(3, slot("c", "u", false))]);
        let promised = block(&[(2, slot("pod-v", "v", true)), (3, slot("pod-u", "u", true))]);
        let known = block(&[(2, slot("pod-v", "v", true)), (3, slot("c", "u", false))]);
        assert_eq!(arrivals.apply(&key(), promised), known);
    }

    #[test]
    fn what_became_of_the_slot_since_counts_for_more() {
        let arrivals = arrived(&[(3, slot("c", "u", false))]);
        for now in
            [slot("pod-v", "v", true), slot("d", "u", false), Slot::released(Time(2)), Slot::quarantined(Time(2), None)]
        {
            let block = block(&[(3, now)]);
            assert_eq!(arrivals.apply(&key(), block.clone()), block);
        }
        assert_eq!(arrivals.apply(&key(), Block::default()), Block::default());
    }

    #[test]
    fn what_was_told_is_forgotten() {
        let mut arrivals = arrived(&[(3, slot("c", "u", false)), (4, slot("d", "v", false))]);
        let old: Vec<u64> = arrivals.older_than(Duration::ZERO).iter().map(|(_, slots)| slots.taken()).collect();
        assert_eq!(old, [0b11000]);
        // Another container has come in the place of one that was written about.
        let before = block(&[(3, slot("c", "u", false)), (4, slot("c", "v", false))]);
        assert_eq!(arrivals.unchanged(&key(), &before), 1 << 3);
        assert_eq!(arrivals.told(&key(), 1 << 3), Some(block(&[(4, slot("d", "v", false))])));
        assert_eq!(arrivals.told(&key(), u64::MAX), Some(Block::default()));
        assert_eq!((arrivals.told(&key(), u64::MAX), arrivals.older_than(Duration::ZERO)), (None, vec![]));
        assert_eq!(block_of(&journal_key(&key())), Some(key()));
    }
}
