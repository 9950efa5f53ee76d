use super::*;
use crate::holder::{Attachment, Kind, Sticky};
use std::time::Duration;

fn holder(n: u32) -> Holder {
    Holder {
        network: "podman".into(),
        id: format!("{:064x}", u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        ifname: "eth0".into(),
        ..Holder::default()
    }
}

#[test]
fn a_slot_reads_back_as_it_was_set() {
    let rich = Holder {
        kind: Kind::Remote,
        namespace: "prod".into(),
        pod: "web-0".into(),
        uid: "0f3c1f5e-8b7d-4c6e-9a35-1d2f3a4b5c6d".into(),
        node: "node-1".into(),
        sticky: Some(Sticky { identity: "pod/prod/web-0/eth0".into(), keep: Some(Duration::from_secs(3600)) }),
        ..holder(7)
    };
    let odd = Holder { id: "NotHex".into(), uid: "not-a-uuid".into(), pod: "p".into(), ..holder(1) };
    let awaited = Holder { awaited: true, kind: Kind::Container, ..rich.clone() };
    for slot in [
        Slot::active(awaited.clone(), Time(1)),
        Slot { source: Some(Box::new(holder(2))), ..Slot::active(awaited, Time(1)) },
        Slot { source: Some(Box::new(odd.clone())), ..Slot::active(rich.clone(), Time(1)) },
        Slot::active(holder(1), Time(12_345_678)),
        Slot::active(rich.clone(), Time(1)),
        Slot::active(odd, Time(1)),
        Slot::held(rich, Time(2), Some(Time(99))),
        Slot::quarantined(Time(3), None),
        Slot::released(Time(4)),
    ] {
        let mut block = Block::default();
        block.set(63, Some(&slot));
        assert_eq!(block.slot(63).unwrap().to_slot(), slot);
        assert_eq!(block.taken() >> 63 == 1, slot.state != State::Released);
        let mut out = Writer::default();
        block.encode(&mut out);
        assert_eq!(Block::decode(&mut Reader(&out.0)).unwrap(), block);
        block.set(63, None);
        assert_eq!(block, Block::default());
    }
}

#[test]
fn attachments_are_compared_without_unpacking() {
    let mut block = Block::default();
    for n in 0..64 {
        block.set(n as u8, Some(&Slot::active(holder(n), Time(1))));
    }
    for n in 0..64u32 {
        let own = holder(n);
        let slot = block.slot(n as u8).unwrap();
        assert!(slot.is_held_by(own.attachment()));
        assert!(!slot.is_held_by(holder(n + 1).attachment()));
        assert!(!slot.is_held_by(Attachment { ifname: "eth1", ..own.attachment() }));
    }
}

#[test]
fn a_full_block_of_containers_is_small() {
    let mut block = Block::default();
    for n in 0..64 {
        block.set(n as u8, Some(&Slot::active(holder(n), Time(1_790_000_000_000_000))));
    }
    assert!(block.heap_size() <= 64 * 47 + 16, "{} bytes", block.heap_size());
}

#[test]
fn the_dictionary_does_not_grow_with_churn() {
    let mut block = Block::default();
    for n in 0..10_000u32 {
        let holder = Holder { namespace: format!("ns-{n}"), pod: "p".into(), ..holder(n) };
        block.set((n % 64) as u8, Some(&Slot::active(holder, Time(1))));
    }
    assert_eq!(block.slots().count(), 64);
    assert!(block.heap_size() < 64 * 100, "{} bytes", block.heap_size());
    assert_eq!(block.slot(0).unwrap().namespace(), "ns-9984");
}

#[test]
fn a_kept_address_forgets_the_container_but_not_the_identity() {
    let sticky = Sticky { identity: "pod/a/b/eth0".into(), keep: Some(Duration::from_secs(60)) };
    let slot = Slot::active(Holder { sticky: Some(sticky), awaited: true, ..holder(1) }, Time::from_secs(10));
    let held = slot.after_release(Time::from_secs(20));
    assert_eq!((held.state, held.until), (State::Held, Some(Time::from_secs(80))));
    let holder_of_nothing = held.holder.unwrap();
    assert_eq!((&*holder_of_nothing.id, holder_of_nothing.awaited), ("", false));
    assert_eq!(Slot::active(holder(1), Time(1)).after_release(Time(2)), Slot::released(Time(2)));
}

proptest::proptest! {
    #[test]
    fn decoding_garbage_never_panics(data in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
        if let Ok(block) = Block::decode(&mut Reader(&data)) {
            for (slot, view) in block.slots() {
                proptest::prop_assert_eq!(view.to_slot(), block.slot(slot).unwrap().to_slot());
            }
        }
    }
}
