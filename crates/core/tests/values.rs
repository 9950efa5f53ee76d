//! Addresses, ranges, counts, selectors and errors as values.

mod common;

use berth_core::addr::{Cidr, Count, Range, RangeSet};
use berth_core::error::Error;
use berth_core::labels::{Labels, Operator, Selector};
use common::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

#[test]
fn ranges_that_parse() {
    for (text, first, last, printed) in [
        ("10.0.0.0/24", "10.0.0.0", "10.0.0.255", "10.0.0.0/24"),
        ("10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1"),
        ("10.0.0.1-10.0.0.9", "10.0.0.1", "10.0.0.9", "10.0.0.1-10.0.0.9"),
        ("10.0.0.1 - 10.0.0.9", "10.0.0.1", "10.0.0.9", "10.0.0.1-10.0.0.9"),
        ("10.0.0.0-10.0.0.255", "10.0.0.0", "10.0.0.255", "10.0.0.0/24"),
        ("10.0.0.4-10.0.0.4", "10.0.0.4", "10.0.0.4", "10.0.0.4"),
        ("0.0.0.0/0", "0.0.0.0", "255.255.255.255", "0.0.0.0/0"),
        ("::/0", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::/0"),
        ("fd00::1-fd00::f", "fd00::1", "fd00::f", "fd00::1-fd00::f"),
        ("fd00::1/128", "fd00::1", "fd00::1", "fd00::1"),
    ] {
        let range: Range = text.parse().unwrap();
        assert_eq!((range.first(), range.last()), (ip(first), ip(last)), "{text}");
        assert_eq!(range.to_string(), printed);
    }
}

#[test]
fn ranges_that_do_not_parse_say_why() {
    for (text, message) in [
        ("", "\"\" is not an IP address"),
        ("10.0.0", "\"10.0.0\" is not an IP address"),
        ("10.0.0.256", "\"10.0.0.256\" is not an IP address"),
        ("010.0.0.1", "\"010.0.0.1\" is not an IP address"),
        ("10.0.0.1/24", "\"10.0.0.1/24\" has host bits set; write 10.0.0.0/24"),
        ("10.0.0.0/33", "\"10.0.0.0/33\": prefix length must be a number from 0 to 32"),
        ("10.0.0.0/", "\"10.0.0.0/\": prefix length must be a number from 0 to 32"),
        ("10.0.0.0/+8", "\"10.0.0.0/+8\": prefix length must be a number from 0 to 32"),
        ("fd00::/129", "\"fd00::/129\": prefix length must be a number from 0 to 128"),
        ("10.0.0.9-10.0.0.1", "\"10.0.0.9-10.0.0.1\" ends before it starts; write 10.0.0.1-10.0.0.9"),
        ("10.0.0.1-fd00::1", "\"10.0.0.1-fd00::1\": both ends of a range must be of one address family"),
        ("10.0.0.1-", "\"\" is not an IP address"),
        ("fe80::1%eth0", "\"fe80::1%eth0\" is not an IP address"),
    ] {
        assert_eq!(text.parse::<Range>().unwrap_err().to_string(), message);
    }
    assert_eq!("10.0.0.1".parse::<Cidr>().unwrap_err().to_string(), "\"10.0.0.1\" is not a CIDR (ADDRESS/LENGTH)");
}

/// Decimal digits, lowest first: a second way to count.
fn decimal(high: u64, low: u128) -> String {
    let mut digits = vec![0u8];
    for bit in (0..192).rev() {
        let mut carry = if bit >= 128 { (high >> (bit - 128)) & 1 } else { (low >> bit) as u64 & 1 } as u8;
        for digit in &mut digits {
            carry += *digit * 2;
            *digit = carry % 10;
            carry /= 10;
        }
        digits.extend((carry > 0).then_some(carry));
    }
    digits.iter().rev().map(|digit| char::from(b'0' + digit)).collect()
}

fn count(high: u64, low: u128) -> Count {
    let bits = (0u8..64).filter(|bit| high >> bit & 1 == 1).map(|bit| Count::power_of_two(128 + bit));
    bits.sum::<Count>() + Count::from(low)
}

proptest! {
    #[test]
    fn counts_add_subtract_and_print_exactly(a in any::<(u32, u128)>(), b in any::<(u32, u128)>()) {
        let (high, low) = (u64::from(a.0), a.1);
        let (ours, theirs) = (count(high, low), count(u64::from(b.0), b.1));
        prop_assert_eq!(ours.to_string(), decimal(high, low));
        let (sum, carry) = low.overflowing_add(b.1);
        prop_assert_eq!((ours + theirs).to_string(), decimal(high + u64::from(b.0) + u64::from(carry), sum));
        prop_assert_eq!(ours + theirs - theirs, ours);
        prop_assert_eq!(ours - (ours + theirs), Count::ZERO);
        prop_assert_eq!(ours.cmp(&theirs), (high, low).cmp(&(u64::from(b.0), b.1)));
    }

    #[test]
    fn range_sets_behave_like_sets(ops in proptest::collection::vec((0u8..2, any::<u8>(), 0u8..20), 0..60)) {
        let (mut set, mut model) = (RangeSet::new(), BTreeSet::new());
        let addr = |n: u8| IpAddr::V4(Ipv4Addr::from_bits(u32::from(n)));
        for (op, first, len) in ops {
            let last = first.saturating_add(len);
            let range = Range::new(addr(first), addr(last)).unwrap();
            if op == 0 {
                set.insert(range);
                model.extend(first..=last);
            } else {
                set.remove(range);
                (first..=last).for_each(|n| { model.remove(&n); });
            }
            prop_assert_eq!(set.count(), Count::from(model.len()));
            for n in 0..=255 {
                prop_assert_eq!(set.contains(addr(n)), model.contains(&n));
            }
            for pair in set.ranges().windows(2) {
                prop_assert!(pair[0].last_number() + 1 < pair[1].first_number(), "neighbours are one range");
            }
        }
        let half: RangeSet = [range("0.0.0.64-0.0.0.191")].into_iter().collect();
        let (inside, outside) = (set.intersection(&half), set.difference(&half));
        prop_assert_eq!(inside.count(), Count::from(model.range(64..192).count()));
        prop_assert_eq!(inside.count() + outside.count(), set.count());
    }
}

#[test]
fn sums_saturate() {
    let most = Count::power_of_two(255);
    assert_eq!(most + Count::ONE, most);
    assert_eq!(Count::ZERO - Count::ONE, Count::ZERO);
    assert_eq!(range("::/0").count().to_string(), "340282366920938463463374607431768211456");
}

#[test]
fn selectors() {
    let labels: Labels = [("tier", "web"), ("zone", "a")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let words = |words: &[&str]| words.iter().map(|&w| w.to_owned()).collect::<Vec<_>>();
    for (key, operator, expected, text) in [
        ("tier", Operator::In(words(&["web"])), true, "tier=web"),
        ("tier", Operator::In(words(&["db", "cache"])), false, "tier in (db,cache)"),
        ("tier", Operator::NotIn(words(&["db"])), true, "tier notin (db)"),
        ("tier", Operator::NotIn(words(&["web"])), false, "tier notin (web)"),
        ("other", Operator::NotIn(words(&["web"])), true, "other notin (web)"),
        ("zone", Operator::Exists, true, "zone"),
        ("other", Operator::Exists, false, "other"),
        ("zone", Operator::DoesNotExist, false, "!zone"),
        ("other", Operator::DoesNotExist, true, "!other"),
    ] {
        let selector = Selector { expressions: vec![(key.to_owned(), operator)] };
        assert_eq!(selector.matches(&labels), expected, "{text}");
        assert_eq!(selector.to_string(), text);
    }
    assert!(Selector::default().matches(&Labels::new()), "an empty selector selects everything");
}

#[test]
fn every_error_has_names_of_its_own() {
    let text = || "x".to_owned();
    let errors = [
        Error::NoQualifiedPool { reasons: text() },
        Error::PoolExhausted { pools: vec![text()], cooling: 0, next_free: None },
        Error::AddressTaken { address: ip("10.0.0.1"), by: text() },
        Error::AddressOutside { address: ip("10.0.0.1"), pools: text() },
        Error::AddressReserved { address: ip("10.0.0.1"), reason: text() },
        Error::QuotaReached { pool: text(), namespace: text(), limit: 1 },
        Error::UnknownPool(text()),
        Error::UnknownPoolType { pool: text(), kind: text() },
        Error::NotFound { kind: text(), name: text() },
        Error::UnknownClaim(text()),
        Error::RetriesExhausted,
        Error::Superseded(text()),
        Error::NotHeld { container: text(), address: text() },
        Error::InUse { object: text(), holders: text() },
        Error::Invalid { field: text(), reason: text() },
        Error::Store(text()),
    ];
    let names: Vec<_> = errors.iter().map(Error::names).collect();
    let slugs: BTreeSet<_> = names.iter().map(|n| n.slug).collect();
    let exits: BTreeSet<_> = names.iter().map(|n| n.exit).collect();
    assert_eq!((slugs.len(), exits.len()), (errors.len(), errors.len()), "slugs and exit codes tell errors apart");
    for (error, names) in errors.iter().zip(&names) {
        // 1 to 99 are the specification's: only those that it gives this meaning. 100 and up are ours.
        assert!(matches!(names.cni, 5 | 7 | 11 | 100..), "{error}: CNI code {}", names.cni);
        assert!((400..600).contains(&names.http), "{error}");
        assert!(names.exit > 1 && !names.hint.is_empty(), "{error}");
    }
}
