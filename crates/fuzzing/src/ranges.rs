//! Text that may be a range or a CIDR.

use berth_core::addr::{Cidr, Range, RangeSet};

/// Whatever parses is printed as something that parses to the same, and is covered by what claims to cover it.
pub fn check(text: &str) {
    if let Ok(range) = text.parse::<Range>() {
        assert!(range.first() <= range.last(), "{text:?} ends before it starts");
        assert_eq!(range.to_string().parse(), Ok(range), "{text:?} does not survive printing");
        let cover = Cidr::covering(range);
        assert!(cover.covers(range), "{cover} does not cover {range}");
        let set: RangeSet = [range].into_iter().collect();
        assert_eq!(set.count(), range.count());
        assert!(set.covers(range) && set.contains(range.last()));
    }
    if let Ok(cidr) = text.parse::<Cidr>() {
        assert_eq!(cidr.to_string().parse(), Ok(cidr));
        assert_eq!(cidr.range().as_cidr(), Some(cidr));
    }
}

/// The same for arbitrary bytes.
pub fn check_bytes(data: &[u8]) {
    check(&String::from_utf8_lossy(data));
}
