//! Frames that come in from a wire, where anybody may have sent them.

use berth_probe::frame::{Mac, Word, announcement, overheard};

/// Whatever is understood can be said, and is then understood the same way.
pub fn check(data: &[u8]) {
    let own = Mac([2, 0, 0, 0, 0, 1]);
    if let Some(Word::Uses(address, by) | Word::Wants(address, by)) = overheard(data, own) {
        assert_ne!(by, own, "one's own words were taken for another's");
        assert_eq!(overheard(&announcement(by, address), own), Some(Word::Uses(address, by)));
    }
}
