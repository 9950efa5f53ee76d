//! Writing slots into a block's buffer; [`super::record`] says how it is laid out.

use super::codec::{Reader, Writer};
use super::id::{Id, is_hex, is_uuid, uuid_pairs};
use super::record::{self, AWAITED, HEX_ID, MOVING, PACKED_UID, POD, STICKY, UID};
use super::{Slot, State};
use crate::holder::{Holder, Kind};
use crate::time::Time;

/// The buffer with the record of rank `rank` replaced, inserted (`existed` is false) or removed (`value` is absent).
pub(super) fn replace(data: &[u8], rank: u32, existed: bool, value: Option<&Slot>) -> Box<[u8]> {
    let mut input = Reader(data);
    let mut words = Words::of(input.bytes().unwrap_or_default());
    let records = input.0;
    record::skip(&mut input, rank);
    let before = &records[..records.len() - input.0.len()];
    record::skip(&mut input, u32::from(existed));
    let after = input.0;
    if value.is_none() && before.is_empty() && after.is_empty() {
        return Box::default();
    }
    let body = value.map(|slot| write_slot(slot, &mut words));
    if words.worth_cleaning()
        && let Some(cleaned) = clean(&words, before, value, after)
    {
        return cleaned;
    }
    assemble(&words, &[before], body.as_deref(), after)
}

/// Everything written anew with a dictionary of only what is used, if that halves the dictionary.
fn clean(words: &Words<'_>, before: &[u8], value: Option<&Slot>, after: &[u8]) -> Option<Box<[u8]>> {
    let slots = |records| record::read_all(words.old, records).map(|view| view.to_slot());
    let slots: Vec<Slot> = slots(before).chain(value.cloned()).chain(slots(after)).collect();
    let mut used = Words::of(&[]);
    let mut records = Writer::default();
    for slot in &slots {
        records.bytes(&write_slot(slot, &mut used));
    }
    (used.len() * 2 <= words.len()).then(|| assemble(&used, &[&records.0], None, &[]))
}

/// A buffer of exactly the size it needs: a million slots leave no room for slack.
fn assemble(words: &Words<'_>, before: &[&[u8]], body: Option<&[u8]>, after: &[u8]) -> Box<[u8]> {
    let dictionary = words.old.len() + words.new.iter().map(|w| counted(w.len())).sum::<usize>();
    let records = before.iter().map(|part| part.len()).sum::<usize>() + body.map_or(0, |b| counted(b.len()));
    let mut out = Writer(Vec::with_capacity(counted(dictionary) + records + after.len()));
    out.varint(dictionary as u128);
    out.0.extend_from_slice(words.old);
    for word in &words.new {
        out.bytes(word.as_bytes());
    }
    for part in before {
        out.0.extend_from_slice(part);
    }
    if let Some(body) = body {
        out.bytes(body);
    }
    out.0.extend_from_slice(after);
    out.0.into_boxed_slice()
}

/// What so many bytes take with their length in front.
const fn counted(len: usize) -> usize {
    let bits = (usize::BITS - len.leading_zeros()) as usize;
    len + if bits == 0 { 1 } else { bits.div_ceil(7) }
}

fn write_slot<'a>(slot: &'a Slot, words: &mut Words<'a>) -> Vec<u8> {
    let mut out = Writer(Vec::with_capacity(96));
    let source = slot.source.as_deref().filter(|_| slot.state == State::Active);
    out.u8(match slot.state {
        State::Active if source.is_some() => MOVING,
        State::Released => 0,
        State::Active => 1,
        State::Held => 2,
        State::Quarantined => 3,
    });
    out.u56(slot.since.min(Time::FOREVER).0);
    if slot.has_deadline() {
        out.u56(slot.until.unwrap_or(Time::FOREVER).min(Time::FOREVER).0);
    }
    // Who had a slot that nobody has is the history's to know; a block says who has it.
    match &slot.holder {
        _ if !slot.has_holder() => {}
        Some(holder) => write_holder(holder, words, &mut out),
        // A holder of which nothing is known.
        None => out.0.extend([0; 5]),
    }
    if let Some(source) = source {
        write_holder(source, words, &mut out);
    }
    out.0
}

fn write_holder<'a>(holder: &'a Holder, words: &mut Words<'a>, out: &mut Writer) {
    let packed_uid = is_uuid(&holder.uid);
    let has_pod = !holder.pod.is_empty() || !holder.namespace.is_empty();
    let mut flags = match holder.kind {
        Kind::Container => 0,
        Kind::Remote => 1,
        Kind::Named => 2,
    };
    for (set, flag) in [
        (holder.awaited, AWAITED),
        (has_pod, POD),
        (!holder.uid.is_empty(), UID),
        (holder.sticky.is_some(), STICKY),
        (is_hex(&holder.id), HEX_ID),
        (packed_uid, PACKED_UID),
    ] {
        flags |= if set { flag } else { 0 };
    }
    out.u8(flags);
    for text in [&holder.network, &holder.ifname, &holder.node] {
        out.varint(words.number(text));
    }
    Id::write_hex(&holder.id, out);
    if has_pod {
        out.varint(words.number(&holder.namespace));
        out.bytes(holder.pod.as_bytes());
    }
    if packed_uid {
        out.0.extend(uuid_pairs(&holder.uid).flatten());
    } else if !holder.uid.is_empty() {
        out.bytes(holder.uid.as_bytes());
    }
    if let Some(sticky) = &holder.sticky {
        out.bytes(sticky.identity.as_bytes());
        // Whole seconds, rounded up: an address is never kept for less than was asked.
        let seconds = |keep: std::time::Duration| u128::from(keep.as_secs()) + u128::from(keep.subsec_nanos() > 0);
        out.varint(sticky.keep.map_or(0, |keep| seconds(keep) + 1));
    }
}

/// The strings of a block's dictionary: those it has, and those a new record adds.
struct Words<'a> {
    old: &'a [u8],
    new: Vec<&'a str>,
}

impl<'a> Words<'a> {
    const fn of(old: &'a [u8]) -> Self {
        Self { old, new: Vec::new() }
    }

    fn number(&mut self, word: &'a str) -> u128 {
        if word.is_empty() {
            return 0;
        }
        let (mut input, mut number) = (Reader(self.old), 0);
        while let Ok(known) = input.bytes() {
            number += 1;
            if known == word.as_bytes() {
                return number;
            }
        }
        let at = self.new.iter().position(|known| *known == word).unwrap_or_else(|| {
            self.new.push(word);
            self.new.len() - 1
        });
        number + at as u128 + 1
    }

    fn len(&self) -> usize {
        let mut input = Reader(self.old);
        std::iter::from_fn(|| input.bytes().ok()).count() + self.new.len()
    }

    /// Words are never taken out one by one; whenever a dictionary has doubled, all are gathered anew.
    fn worth_cleaning(&self) -> bool {
        !self.new.is_empty() && {
            let len = self.len();
            len >= 16 && len.is_power_of_two()
        }
    }
}
