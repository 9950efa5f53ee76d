//! Bytes that may be a stored block.

use berth_core::block::{BLOCK_UNITS, Block, Reader, Writer};

/// Whatever decodes reads the same however it is read, and encodes to bytes that decode to the same.
pub fn check(data: &[u8]) {
    let Ok(block) = Block::decode(&mut Reader(data)) else { return };
    for (slot, view) in block.slots() {
        assert_eq!(Some(view.to_slot()), block.slot(slot).map(|view| view.to_slot()));
    }
    let states: Vec<_> = block.states().collect();
    let slots: Vec<_> = block.slots().map(|(slot, view)| (slot, view.state, view.since)).collect();
    assert_eq!(states, slots);
    let mut out = Writer::default();
    block.encode(&mut out);
    assert_eq!(Block::decode(&mut Reader(&out.0)).as_ref(), Ok(&block));
    // Built anew slot by slot, and taken apart again, it is the same block.
    let mut copy = Block::default();
    for (slot, view) in block.slots() {
        copy.set(slot, Some(&view.to_slot()));
    }
    for slot in 0..BLOCK_UNITS {
        assert_eq!(copy.slot(slot).map(|view| view.to_slot()), block.slot(slot).map(|view| view.to_slot()));
    }
    assert_eq!((copy.taken(), copy.released()), (block.taken(), block.released()));
    for slot in 0..BLOCK_UNITS {
        copy.set(slot, None);
    }
    assert_eq!(copy, Block::default());
}
