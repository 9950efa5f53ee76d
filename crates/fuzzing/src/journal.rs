//! Journals of any bytes: opened or refused; what was opened can be written to and opened again.

use berth_core::ipam::Config;
use berth_core::time::Time;
use berth_engine::Engine;
use berth_store::{BlockStore, Durability, Journal, decode_frames};
use berth_testing::FaultyMedium;

/// Any bytes as a file, with and without a good header.
pub fn check(data: &[u8]) {
    decode_frames(data, drop);
    open(data.to_vec());
    for header in [b"BERTHJNL\x01\0\0\0\0\0\0\0", b"BERTHJNL\x02\0\0\0\0\0\0\0"] {
        open([header, data].concat());
    }
}

fn open(file: Vec<u8>) {
    let medium = FaultyMedium::with(file);
    let Ok((mut journal, _)) = Journal::open(medium.clone(), Durability::Boot, "boot") else { return };
    let before = journal.list().expect("a list");
    journal.set_boot("boot").expect("writable");
    drop(journal);
    let (mut journal, opened) = Journal::open(medium, Durability::Boot, "boot").expect("opens again");
    assert_eq!(opened.boot_id.as_deref(), Some("boot"));
    assert_eq!(opened.dropped, 0, "what was cut off was cut off for good");
    let blocks = |list: Vec<(_, _, _)>| list.into_iter().map(|(key, block, _)| (key, block)).collect::<Vec<_>>();
    assert_eq!(blocks(journal.list().expect("a list")), blocks(before));
    let engine = Engine::open(journal, Config::default(), 1, || Time(1)).expect("an engine");
    engine.read(|ipam| ipam.slots().count());
}
