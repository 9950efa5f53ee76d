//! Ethernet frames with ARP and IPv6 neighbour discovery in them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ARP: [u8; 2] = [0x08, 0x06];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// Ethernet and IPv4, with addresses of 6 and 4 bytes.
const ARP_HEAD: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ARP_REQUEST: u8 = 1;
const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// What I say of my address counts, whatever you knew before.
const OVERRIDE: u8 = 0x20;
const TARGET_HARDWARE: u8 = 2;
/// Nothing that came through a router has this many hops left.
const ALL_HOPS: u8 = 255;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// A hardware address of Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Everyone.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Where frames to a multicast address of IPv6 go.
    fn of_multicast(group: Ipv6Addr) -> Self {
        let [.., a, b, c, d] = group.octets();
        Self([0x33, 0x33, a, b, c, d])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// What somebody says about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// It is his.
    Uses(IpAddr, Mac),
    /// He is about to use it, and asks whether somebody else does.
    Wants(IpAddr, Mac),
}

/// A question whether somebody uses an address, which says nothing about who asks.
#[must_use]
pub fn probe(own: Mac, address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => arp(own, Ipv4Addr::UNSPECIFIED, address),
        IpAddr::V6(address) => {
            let [.., x, y, z] = address.octets();
            let group = Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, x, y, z]);
            neighbour(own, Ipv6Addr::UNSPECIFIED, group, SOLICITATION, address)
        }
    }
}

/// Tells all neighbours that an address is at this hardware address from now on.
#[must_use]
pub fn announcement(own: Mac, address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => arp(own, address, address),
        IpAddr::V6(address) => neighbour(own, address, ALL_NODES, ADVERTISEMENT, address),
    }
}

fn ethernet(to: Mac, from: Mac, kind: [u8; 2], payload: &[&[u8]]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(96);
    for part in [&to.0[..], &from.0, &kind].iter().chain(payload) {
        frame.extend_from_slice(part);
    }
    frame
}

fn arp(own: Mac, sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let payload: [&[u8]; 6] = [&ARP_HEAD, &[0, ARP_REQUEST], &own.0, &sender.octets(), &[0; 6], &target.octets()];
    ethernet(Mac::BROADCAST, own, ARP, &payload)
}

fn neighbour(own: Mac, from: Ipv6Addr, to: Ipv6Addr, kind: u8, target: Ipv6Addr) -> Vec<u8> {
    let flags = if kind == ADVERTISEMENT { OVERRIDE } else { 0 };
    let mut message = vec![kind, 0, 0, 0, flags, 0, 0, 0];
    message.extend(target.octets());
    if kind == ADVERTISEMENT {
        message.extend([TARGET_HARDWARE, 1]);
        message.extend(own.0);
    }
    let sum = checksum(from, to, &message).to_be_bytes();
    message[2..4].copy_from_slice(&sum);
    let len = u16::try_from(message.len()).unwrap_or(u16::MAX).to_be_bytes();
    let head = [0x60, 0, 0, 0, len[0], len[1], ICMPV6, ALL_HOPS];
    ethernet(Mac::of_multicast(to), own, IPV6, &[&head, &from.octets(), &to.octets(), &message])
}

/// The checksum that makes the sum over addresses, length, protocol and message come out as zero.
fn checksum(from: Ipv6Addr, to: Ipv6Addr, message: &[u8]) -> u16 {
    let pairs = message.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    let addresses = from.segments().into_iter().chain(to.segments());
    let sum: u64 = addresses.chain(pairs).map(u64::from).sum::<u64>() + message.len() as u64 + u64::from(ICMPV6);
    let mut folded = sum;
    while folded > 0xffff {
        folded = (folded & 0xffff) + (folded >> 16);
    }
    !u16::try_from(folded).unwrap_or(u16::MAX)
}

/// What a frame says about an address; nothing if it is ours, or about something else, or broken.
#[must_use]
pub fn overheard(frame: &[u8], own: Mac) -> Option<Word> {
    let (head, payload) = frame.split_first_chunk::<14>()?;
    let [.., a, b, c, d, e, f, kind0, kind1] = *head;
    let from = Mac([a, b, c, d, e, f]);
    let word = match [kind0, kind1] {
        ARP => overheard_arp(payload)?,
        IPV6 => overheard_neighbour(payload, from)?,
        _ => return None,
    };
    let (Word::Uses(_, said) | Word::Wants(_, said)) = word;
    (from != own && said != own).then_some(word)
}

fn overheard_arp(payload: &[u8]) -> Option<Word> {
    let (head, rest) = payload.split_first_chunk::<8>()?;
    let (hardware, rest) = rest.split_first_chunk::<6>()?;
    let (sender, rest) = rest.split_first_chunk::<4>()?;
    let target = rest.get(6..10)?.first_chunk::<4>()?;
    if head[..6] != ARP_HEAD {
        return None;
    }
    let (hardware, sender, target) = (Mac(*hardware), Ipv4Addr::from(*sender), Ipv4Addr::from(*target));
    match (sender.is_unspecified(), head[7]) {
        (false, _) => Some(Word::Uses(sender.into(), hardware)),
        (true, ARP_REQUEST) => Some(Word::Wants(target.into(), hardware)),
        (true, _) => None,
    }
}

fn overheard_neighbour(packet: &[u8], from: Mac) -> Option<Word> {
    let (head, rest) = packet.split_first_chunk::<8>()?;
    let (source, rest) = rest.split_first_chunk::<16>()?;
    let (destination, rest) = rest.split_first_chunk::<16>()?;
    let message = rest.get(..usize::from(u16::from_be_bytes([head[4], head[5]])))?;
    let target = Ipv6Addr::from(*message.get(8..)?.first_chunk::<16>()?);
    let (source, destination) = (Ipv6Addr::from(*source), Ipv6Addr::from(*destination));
    let is_sound = head[0] >> 4 == 6 && head[6] == ICMPV6 && head[7] == ALL_HOPS && message[1] == 0;
    if !is_sound || checksum(source, destination, message) != 0 {
        return None;
    }
    match message[0] {
        ADVERTISEMENT => Some(Word::Uses(target.into(), target_hardware(message).unwrap_or(from))),
        SOLICITATION if source.is_unspecified() => Some(Word::Wants(target.into(), from)),
        _ => None,
    }
}

/// The hardware address that an advertisement is about.
fn target_hardware(message: &[u8]) -> Option<Mac> {
    let mut options = message.get(24..)?;
    while let [kind, words, ..] = *options {
        let len = usize::from(words) * 8;
        let option = options.get(..len).filter(|_| len > 0)?;
        if kind == TARGET_HARDWARE {
            return option.get(2..)?.first_chunk::<6>().copied().map(Mac);
        }
        options = &options[len..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const OTHER: Mac = Mac([2, 0, 0, 0, 0, 2]);

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Byte for byte as the standards have it: what other systems make of it must not change with this code.
    #[test]
    fn frames_are_those_of_the_standards() {
        let four: IpAddr = "10.44.0.2".parse().unwrap();
        assert_eq!(
            hex(&probe(OWN, four)),
            "ffffffffffff02000000000108060001080006040001020000000001000000000000000000000a2c0002"
        );
        assert_eq!(
            hex(&announcement(OWN, four)),
            "ffffffffffff020000000001080600010800060400010200000000010a2c00020000000000000a2c0002"
        );
        let six: IpAddr = "fd44::1:2".parse().unwrap();
        let asked = hex(&probe(OWN, six));
        assert!(
            asked.starts_with("3333ff01000202000000000186dd60000000001 83aff".replace(' ', "").as_str()),
            "{asked}"
        );
        assert_eq!(asked.len(), 2 * (14 + 40 + 24), "no option: from nowhere there is no hardware address to tell");
        let told = hex(&announcement(OWN, six));
        assert!(told.starts_with("33330000000102000000000186dd600000000020 3aff".replace(' ', "").as_str()), "{told}");
        assert!(told.ends_with("0201020000000001"), "{told}");
    }

    #[test]
    fn what_one_sends_the_other_understands() {
        for text in ["10.0.0.1", "255.255.255.254", "fd00::1", "fe80::ffff:ffff"] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(overheard(&probe(OTHER, address), OWN), Some(Word::Wants(address, OTHER)));
            assert_eq!(overheard(&announcement(OTHER, address), OWN), Some(Word::Uses(address, OTHER)));
            assert_eq!(overheard(&probe(OWN, address), OWN), None, "one's own words come back from some bridges");
            assert_eq!(overheard(&announcement(OWN, address), OWN), None);
        }
    }

    #[test]
    fn an_answer_without_options_is_from_whoever_sent_it() {
        let address: Ipv6Addr = "fd00::1".parse().unwrap();
        let mut message = vec![ADVERTISEMENT, 0, 0, 0, OVERRIDE, 0, 0, 0];
        message.extend(address.octets());
        let sum = checksum(address, ALL_NODES, &message).to_be_bytes();
        message[2..4].copy_from_slice(&sum);
        let head = [0x60, 0, 0, 0, 0, 24, ICMPV6, ALL_HOPS];
        let parts: [&[u8]; 4] = [&head, &address.octets(), &ALL_NODES.octets(), &message];
        let frame = ethernet(Mac::BROADCAST, OTHER, IPV6, &parts);
        assert_eq!(overheard(&frame, OWN), Some(Word::Uses(address.into(), OTHER)));
    }

    #[test]
    fn what_came_from_afar_or_was_damaged_does_not_count() {
        let address: IpAddr = "fd00::1".parse().unwrap();
        let good = announcement(OTHER, address);
        for (at, what) in
            [(14, "version"), (20, "protocol"), (21, "hops"), (55, "code"), (56, "checksum"), (70, "target")]
        {
            let mut bad = good.clone();
            bad[at] ^= 1 << 6;
            assert_eq!(overheard(&bad, OWN), None, "{what}");
        }
        let padded = [&good[..], &[0; 20]].concat();
        assert!(overheard(&padded, OWN).is_some(), "short frames are padded on their way");
        for cut in 0..good.len() {
            assert_eq!(overheard(&good[..cut], OWN), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_understood_or_not(bytes in any::<Vec<u8>>(), arp in any::<bool>()) {
            let _ = overheard(&bytes, OWN);
            let kind = if arp { ARP } else { IPV6 };
            let _ = overheard(&ethernet(Mac::BROADCAST, OTHER, kind, &[&bytes]), OWN);
        }

        #[test]
        fn a_changed_bit_is_never_another_address(at in 0usize..80, bit in 0u8..8, six in any::<u128>()) {
            let address = IpAddr::from(Ipv6Addr::from_bits(six));
            let mut frame = probe(OTHER, address);
            if let Some(byte) = frame.get_mut(at) {
                *byte ^= 1 << bit;
            }
            match overheard(&frame, OWN) {
                Some(Word::Wants(heard, _) | Word::Uses(heard, _)) => prop_assert_eq!(heard, address),
                None => {}
            }
        }
    }
}
