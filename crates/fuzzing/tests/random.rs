//! Every fuzz target with random bytes, so that they run without cargo-fuzz too.

use berth_fuzzing::{block, operations, ranges};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn ranges_of_any_bytes(data in proptest::collection::vec(any::<u8>(), 0..60)) {
        ranges::check_bytes(&data);
    }

    #[test]
    fn ranges_of_likely_text(text in "[0-9a-f:./ -]{0,24}") {
        ranges::check(&text);
    }

    #[test]
    fn ranges_of_numbers(a in any::<u32>(), b in any::<u32>(), len in 0u8..40, c in any::<u128>()) {
        let (a, b) = (std::net::Ipv4Addr::from_bits(a), std::net::Ipv4Addr::from_bits(b));
        ranges::check(&format!("{a}-{b}"));
        ranges::check(&format!("{a}/{len}"));
        ranges::check(&format!("{}/{len}", std::net::Ipv6Addr::from_bits(c & !0 << 100)));
    }

    #[test]
    fn blocks_of_any_bytes(data in proptest::collection::vec(any::<u8>(), 0..300)) {
        block::check(&data);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn operations_against_the_model(data in proptest::collection::vec(any::<u8>(), 20..700)) {
        operations::check(&data);
    }
}
