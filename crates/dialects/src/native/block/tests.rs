use super::*;
use berth_core::block::Slot;
use berth_core::holder::{Holder, Kind, Sticky};
use berth_core::time::Time;
use proptest::prelude::*;
use std::time::Duration;

fn key(network: &str, unit_len: u8, address: &str) -> BlockKey {
    let address: IpAddr = address.parse().expect("an address");
    let plane = Plane { network: network.into(), family: Family::of(address), unit_len };
    BlockKey::of(&plane, plane.unit_of(address)).0
}

#[test]
fn names_are_readable() {
    for (network, unit_len, address, name) in [
        ("default", 32, "10.77.0.9", "default.10-77-0-0-26"),
        ("default", 128, "fd00::1", "default.fd00-0-0-0-0-0-0-0-122"),
        ("blue", 24, "10.0.63.0", "blue.10-0-0-0-18-in-24"),
        ("default/leases", 26, "10.77.0.0", "default--2fleases.10-77-0-0-20-in-26"),
        ("rack-1", 32, "10.0.0.64", "rack-1.10-0-0-64-26"),
        ("a.b", 32, "10.0.0.0", "a--2eb.10-0-0-0-26"),
        ("Blue", 32, "10.0.0.0", "0---42lue.10-0-0-0-26"),
        ("-", 32, "10.0.0.0", "0---2d.10-0-0-0-26"),
        ("a--2eb", 32, "10.0.0.0", "a--2d--2d2eb.10-0-0-0-26"),
        ("", 4, "128.0.0.0", "0---none.0-0-0-0-0-in-4"),
    ] {
        assert_eq!(block_name(&key(network, unit_len, address)), name);
    }
    let long = format!("{}-{}", "a".repeat(149), "b".repeat(103));
    let name = block_name(&key(&long, 120, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"));
    assert!(name.starts_with(&format!("{}----", "a".repeat(149))), "{name}");
    assert!(is_valid(&name), "{name}");
}

#[test]
fn a_block_of_the_longest_holders_is_a_small_object() {
    let mut block = Block::default();
    for slot in 0..BLOCK_UNITS {
        let text = |longest: usize| format!("{slot:02}{}", "\u{e4}x".repeat(longest))[..longest].to_owned();
        let holder = Holder {
            kind: Kind::Remote,
            network: "n".repeat(251) + &format!("{slot:02}"),
            id: "i".repeat(251) + &format!("{slot:02}"),
            ifname: text(64),
            namespace: "s".repeat(251) + &format!("{slot:02}"),
            pod: "p".repeat(251) + &format!("{slot:02}"),
            uid: text(128),
            node: "o".repeat(251) + &format!("{slot:02}"),
            sticky: Some(Sticky { identity: text(640), keep: Some(Duration::from_secs(1 << 40)) }),
            awaited: true,
        };
        holder.validate().expect("as long as may be");
        block.set(slot, Some(&Slot::held(holder, Time(u64::MAX >> 9), Some(Time(u64::MAX >> 9)))));
    }
    let spec = to_spec(&key("default", 32, "10.0.0.0"), &block);
    assert!(spec.slots.len() <= crate::crd::MAX_SLOTS, "{}", spec.slots.len());
    assert!(from_spec(&spec).is_ok_and(|(_, read)| read == block));
}

#[test]
fn what_is_no_block_is_refused_with_the_field() {
    let good = to_spec(&key("default", 32, "10.0.0.0"), &Block::default());
    let mut narrow = Block::default();
    narrow.set(9, Some(&Slot::released(Time(1))));
    let narrow = BlockSpec { slots: to_spec(&key("a", 32, "0.0.0.0"), &narrow).slots, ..good.clone() };
    for (spec, message) in [
        (
            BlockSpec { cidr: "10.0.0.0".into(), ..good.clone() },
            r#"spec.cidr: "10.0.0.0" is not a CIDR (ADDRESS/LENGTH)"#,
        ),
        (
            BlockSpec { cidr: "10.0.0.0/24".into(), ..good.clone() },
            "spec.cidr: 10.0.0.0/24 is not a block of /32; that would be 10.0.0.0/26",
        ),
        (
            BlockSpec { cidr: "10.0.0.32/27".into(), ..good.clone() },
            "spec.cidr: 10.0.0.32/27 is not a block of /32; that would be 10.0.0.0/26",
        ),
        (BlockSpec { unit: 33, ..good.clone() }, "spec.unit: 33 is longer than an IPv4 address (32)"),
        (BlockSpec { slots: "?".into(), ..good.clone() }, "spec.slots: not base64: Invalid symbol 63, offset 0."),
        (BlockSpec { slots: "AAAA".into(), ..good.clone() }, "spec.slots: corrupt record: cut short"),
        (BlockSpec { slots: STANDARD.encode([0; 12]), ..good.clone() }, "spec.slots: 3 bytes too many"),
        (
            BlockSpec { unit: 3, cidr: "0.0.0.0/0".into(), ..narrow },
            "spec.slots: slot 9 is past the last unit of 0.0.0.0/0",
        ),
    ] {
        assert_eq!(from_spec(&spec).expect_err(message).to_string(), message);
    }
}

/// As Kubernetes checks the names of most objects.
fn is_valid(name: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let label =
        |label: &str| label.starts_with(edge) && label.ends_with(edge) && label.chars().all(|c| edge(c) || c == '-');
    name.len() <= 253 && name.split('.').all(label)
}

/// The label of the network, the family, the unit and the first address that a name says.
fn read_name(name: &str) -> Option<(String, Family, u8, IpAddr)> {
    let (label, rest) = name.split_once('.')?;
    let (block, unit) = rest.split_once("-in-").map_or((rest, None), |(block, unit)| (block, Some(unit)));
    let (address, _) = block.rsplit_once('-')?;
    let mark = if address.matches('-').count() == 3 { "." } else { ":" };
    let address: IpAddr = address.replace('-', mark).parse().ok()?;
    let family = Family::of(address);
    let unit = unit.map_or(Some(family.bits()), |unit| unit.parse().ok())?;
    Some((label.to_owned(), family, unit, address))
}

enum Label {
    Network(String),
    Hashed(String),
}

fn read_label(label: &str) -> Label {
    if let Some((_, hash)) = label.split_once("----") {
        return Label::Hashed(hash.to_owned());
    }
    if label == "0---none" {
        return Label::Network(String::new());
    }
    let mut rest = label.strip_prefix("0---").map_or(label.to_owned(), |rest| format!("--{rest}"));
    let mut bytes = Vec::new();
    while !rest.is_empty() {
        let taken = if rest.starts_with("--") {
            bytes.push(u8::from_str_radix(&rest[2..4], 16).expect("two digits"));
            4
        } else {
            bytes.push(rest.as_bytes()[0]);
            1
        };
        rest.drain(..taken);
    }
    Label::Network(String::from_utf8(bytes).expect("text"))
}

fn networks() -> impl Strategy<Value = String> {
    // Few different characters, those of the encoding among them, so that two draws are nearly the same.
    prop_oneof![
        "[a0/.-]{0,6}",
        "(a|-|--|---|2d|2f|/|0|0-|none|\\.){0,5}",
        "[a-z0-9-]{1,253}",
        "\\PC{0,30}",
        "[a]{148,152}[-a/]{0,3}[ab]{90,98}",
    ]
}

fn keys() -> impl Strategy<Value = BlockKey> {
    let families = prop_oneof![Just(Family::V4), Just(Family::V6)];
    (networks(), families, any::<u8>(), any::<u128>(), any::<bool>()).prop_map(
        |(network, family, len, number, whole)| {
            let unit_len = if whole { family.bits() } else { len % (family.bits() + 1) };
            let plane = Plane { network: network.into(), family, unit_len };
            let unit = plane.unit_of(family.addr(number));
            BlockKey::of(&plane, unit).0
        },
    )
}

fn holders() -> impl Strategy<Value = Holder> {
    let names = ("[a-z/]{0,9}", "[0-9a-f]{0,64}|\\PC{0,12}", "(eth0|net1|)", "[a-z-]{0,9}", "[a-z0-9-]{0,9}");
    let sticky = proptest::option::of(("[a-z/]{0,20}", 0u64..1 << 40));
    (names, "[0-9a-f-]{0,36}", "[a-z0-9-]{0,9}", sticky, any::<bool>()).prop_map(
        |((network, id, ifname, namespace, pod), uid, node, sticky, awaited)| Holder {
            kind: Kind::Remote,
            network,
            id,
            ifname,
            namespace,
            pod,
            uid,
            node,
            sticky: sticky.map(|(identity, keep)| Sticky { identity, keep: Some(Duration::from_secs(keep)) }),
            awaited,
        },
    )
}

proptest! {
    #[test]
    fn names_are_valid(key in keys()) {
        let name = block_name(&key);
        prop_assert!(is_valid(&name), "{:?} {}", key, name);
    }

    /// What can be read back from its name alone has that name alone.
    #[test]
    fn names_are_different_for_different_blocks(key in keys()) {
        let (label, family, unit_len, address) = read_name(&block_name(&key)).expect("a name");
        let (block, slot) = BlockKey::of(&key.plane, key.plane.unit_of(address));
        prop_assert_eq!((family, unit_len, &block, slot), (key.plane.family, key.plane.unit_len, &key, 0));
        match read_label(&label) {
            Label::Network(network) => prop_assert_eq!(&network, &*key.plane.network),
            Label::Hashed(hash) => {
                let digest = Sha256::digest(key.plane.network.as_bytes());
                prop_assert_eq!(hash, digest[..16].iter().map(|byte| format!("{byte:02x}")).collect::<String>());
            }
        }
    }

    #[test]
    fn networks_are_told_apart(a in networks(), b in networks()) {
        prop_assert_eq!(a == b, network_label(&a) == network_label(&b), "{:?} {:?}", a, b);
        prop_assert!(network_label(&a).len() <= MOST_OF_NETWORK && !network_label(&a).contains('.'));
    }

    #[test]
    fn a_block_survives_the_round_trip(
        key in keys(), slots in proptest::collection::btree_map(0..BLOCK_UNITS, (holders(), 0..4, 0u64..1 << 50), 0..64),
    ) {
        let mut block = Block::default();
        for (slot, (holder, state, at)) in slots {
            if key.unit(slot) <= key.plane.last_unit() {
                let (now, until) = (Time(at), Some(Time(at + 1)));
                block.set(slot, Some(&match state {
                    0 => Slot::active(holder, now),
                    1 => Slot::held(holder, now, until),
                    2 => Slot::quarantined(now, until),
                    _ => Slot::released(now),
                }));
            }
        }
        let spec = to_spec(&key, &block);
        prop_assert_eq!(u32::from(spec.used), block.taken().count_ones());
        let json = serde_json::to_string(&spec).expect("JSON");
        let spec = serde_json::from_str(&json).expect("a spec");
        prop_assert_eq!(from_spec(&spec), Ok((key, block)));
    }

    #[test]
    fn reading_never_panics(unit in any::<u8>(), cidr in "[0-9a-f.:]{0,12}/[0-9]{0,3}", bytes in any::<Vec<u8>>()) {
        let slots = STANDARD.encode(bytes);
        let _ = from_spec(&BlockSpec { unit, cidr, slots, ..BlockSpec::default() });
    }
}
