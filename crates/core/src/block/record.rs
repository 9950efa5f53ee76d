//! How slots are packed into a block's buffer.
//!
//! ```text
//! buffer  = bytes(dictionary) record*
//! dictionary = text*                        strings that slots refer to by number, from 1; 0 is the empty string
//! record  = bytes(state:u8 since:u56 [until:u56] [holder])
//! holder  = flags:u8 network:ref ifname:ref node:ref id [namespace:ref pod:text] [uid] [identity:text keep:varint]
//! ```
//! `id` and `uid` are packed to half their length when they are lower-case hexadecimal (a UID: with its four dashes).

use super::codec::{Corrupt, Reader, Writer};
use super::{Slot, State};
use crate::holder::{Attachment, Holder, Kind, Sticky};
use crate::time::Time;
use std::time::Duration;

const FOREVER: u64 = (1 << 56) - 1;
const POD: u8 = 1 << 3;
const UID: u8 = 1 << 4;
const STICKY: u8 = 1 << 5;
const HEX_ID: u8 = 1 << 6;
const PACKED_UID: u8 = 1 << 7;

/// An identifier as it is stored.
#[derive(Clone, Copy, Debug)]
pub enum Id<'a> {
    /// Lower-case hexadecimal, packed.
    Hex(&'a [u8]),
    /// A UUID with its dashes, packed.
    Uuid(&'a [u8]),
    /// Anything else.
    Text(&'a str),
}

impl Id<'_> {
    /// Appends the identifier as text.
    fn push_to(self, out: &mut String) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let (raw, dashes) = match self {
            Self::Text(text) => return out.push_str(text),
            Self::Hex(raw) => (raw, false),
            Self::Uuid(raw) => (raw, true),
        };
        for (i, byte) in raw.iter().enumerate() {
            if dashes && matches!(i, 4 | 6 | 8 | 10) {
                out.push('-');
            }
            out.push(char::from(DIGITS[usize::from(byte >> 4)]));
            out.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }

    fn to_text(self) -> String {
        let mut out = String::with_capacity(64);
        self.push_to(&mut out);
        out
    }

    /// Whether this is `text`, without unpacking.
    fn is(self, text: &str) -> bool {
        match self {
            Self::Text(own) => own == text,
            Self::Hex(raw) => {
                let bytes = text.as_bytes();
                let equal = |(&byte, pair): (&u8, &[u8])| pack_pair(pair[0], pair[1]) == Some(byte);
                bytes.len() == raw.len() * 2 && raw.iter().zip(bytes.chunks_exact(2)).all(equal)
            }
            Self::Uuid(_) => self.to_text() == text,
        }
    }
}

/// A slot read in place.
#[derive(Clone, Copy, Debug)]
pub struct SlotRef<'a> {
    /// What it is.
    pub state: State,
    /// Since when.
    pub since: Time,
    /// Until when it is held or quarantined.
    pub until: Option<Time>,
    holder: Option<HolderRef<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct HolderRef<'a> {
    kind: Kind,
    network: &'a str,
    ifname: &'a str,
    node: &'a str,
    id: Id<'a>,
    namespace: &'a str,
    pod: &'a str,
    uid: Option<Id<'a>>,
    identity: Option<(&'a str, Option<Duration>)>,
}

impl SlotRef<'_> {
    /// The slot as a value of its own.
    #[must_use]
    pub fn to_slot(&self) -> Slot {
        Slot { state: self.state, since: self.since, until: self.until, holder: self.holder() }
    }

    /// Who has it.
    #[must_use]
    pub fn holder(&self) -> Option<Holder> {
        self.holder.map(|h| Holder {
            kind: h.kind,
            network: h.network.to_owned(),
            id: h.id.to_text(),
            ifname: h.ifname.to_owned(),
            namespace: h.namespace.to_owned(),
            pod: h.pod.to_owned(),
            uid: h.uid.map(Id::to_text).unwrap_or_default(),
            node: h.node.to_owned(),
            sticky: h.identity.map(|(identity, keep)| Sticky { identity: identity.to_owned(), keep }),
        })
    }

    /// What kind of holder has it.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        self.holder.map(|h| h.kind)
    }

    /// Whether this attachment has it.
    #[must_use]
    pub fn is_held_by(&self, key: Attachment<'_>) -> bool {
        self.holder.is_some_and(|h| h.ifname == key.ifname && h.network == key.network && h.id.is(key.id))
    }

    /// The namespace of the pod that has it; empty if none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.holder.map_or("", |h| h.namespace)
    }

    /// The node that has it; empty if none.
    #[must_use]
    pub fn node(&self) -> &str {
        self.holder.map_or("", |h| h.node)
    }

    /// The CNI network of the attachment that has it; empty if none.
    #[must_use]
    pub fn network(&self) -> &str {
        self.holder.map_or("", |h| h.network)
    }

    /// The identity it is kept for.
    #[must_use]
    pub fn identity(&self) -> Option<&str> {
        self.holder?.identity.map(|(identity, _)| identity)
    }

    /// Whether a pod with this UID has it, on this interface of this network.
    #[must_use]
    pub fn is_of_pod(&self, uid: &str, network: &str, ifname: &str) -> bool {
        self.holder.is_some_and(|h| h.ifname == ifname && h.network == network && h.uid.is_some_and(|own| own.is(uid)))
    }
}

/// The record of rank `rank`. The buffer has been validated; a broken one yields a quarantined slot, which nobody gets.
pub(super) fn nth(data: &[u8], rank: u32) -> SlotRef<'_> {
    fn read(data: &[u8], rank: u32) -> Result<SlotRef<'_>, Corrupt> {
        let mut input = Reader(data);
        let dictionary = input.bytes()?;
        for _ in 0..rank {
            input.bytes()?;
        }
        parse(dictionary, input.bytes()?)
    }
    read(data, rank).unwrap_or(BROKEN)
}

const BROKEN: SlotRef<'static> = SlotRef { state: State::Quarantined, since: Time(0), until: None, holder: None };

/// Every record in order.
pub(super) fn all(data: &[u8]) -> impl Iterator<Item = SlotRef<'_>> {
    let mut input = Reader(data);
    let dictionary = input.bytes().unwrap_or_default();
    std::iter::from_fn(move || {
        (!input.0.is_empty()).then(|| input.bytes().and_then(|body| parse(dictionary, body)).unwrap_or(BROKEN))
    })
}

/// Reads every record once, so that later reads cannot fail; the states, in order.
pub(super) fn validate(data: &[u8], count: u32) -> Result<Vec<State>, Corrupt> {
    if data.is_empty() && count == 0 {
        return Ok(Vec::new());
    }
    let mut input = Reader(data);
    let dictionary = input.bytes()?;
    let mut words = Reader(dictionary);
    while !words.0.is_empty() {
        words.text()?;
    }
    let mut states = Vec::with_capacity(count as usize);
    while !input.0.is_empty() {
        states.push(parse(dictionary, input.bytes()?)?.state);
    }
    if states.len() == count as usize { Ok(states) } else { Err(Corrupt("number of records")) }
}

fn parse<'a>(dictionary: &'a [u8], body: &'a [u8]) -> Result<SlotRef<'a>, Corrupt> {
    let mut input = Reader(body);
    let state = match input.u8()? {
        0 => State::Released,
        1 => State::Active,
        2 => State::Held,
        3 => State::Quarantined,
        _ => return Err(Corrupt("unknown state")),
    };
    let since = Time(input.u56()?);
    let until = match state {
        State::Held | State::Quarantined => Some(input.u56()?).filter(|&t| t != FOREVER).map(Time),
        State::Released | State::Active => None,
    };
    let holder = if input.0.is_empty() { None } else { Some(parse_holder(dictionary, &mut input)?) };
    if input.0.is_empty() { Ok(SlotRef { state, since, until, holder }) } else { Err(Corrupt("trailing bytes")) }
}

fn parse_holder<'a>(dictionary: &'a [u8], input: &mut Reader<'a>) -> Result<HolderRef<'a>, Corrupt> {
    let flags = input.u8()?;
    let kind = match flags & 7 {
        0 => Kind::Container,
        1 => Kind::Remote,
        2 => Kind::Named,
        _ => return Err(Corrupt("unknown kind of holder")),
    };
    let word = |input: &mut Reader<'a>| -> Result<&'a str, Corrupt> {
        let number = input.varint()?;
        if number == 0 {
            return Ok("");
        }
        let mut words = Reader(dictionary);
        for _ in 1..number {
            words.bytes()?;
        }
        words.text()
    };
    let (network, ifname, node) = (word(input)?, word(input)?, word(input)?);
    let id = if flags & HEX_ID != 0 { Id::Hex(input.bytes()?) } else { Id::Text(input.text()?) };
    let (namespace, pod) = if flags & POD != 0 { (word(input)?, input.text()?) } else { ("", "") };
    let uid = match (flags & UID != 0, flags & PACKED_UID != 0) {
        (false, _) => None,
        (true, true) => Some(Id::Uuid(input.take(16)?)),
        (true, false) => Some(Id::Text(input.text()?)),
    };
    let identity = if flags & STICKY != 0 {
        let identity = input.text()?;
        let keep = input.varint()?.checked_sub(1);
        Some((identity, keep.map(|secs| Duration::from_secs(u64::try_from(secs).unwrap_or(u64::MAX)))))
    } else {
        None
    };
    Ok(HolderRef { kind, network, ifname, node, id, namespace, pod, uid, identity })
}

/// The buffer with the record of rank `rank` replaced, inserted (`existed` is false) or removed (`value` is absent).
pub(super) fn replace(data: &[u8], rank: u32, existed: bool, value: Option<&Slot>) -> Box<[u8]> {
    let mut input = Reader(data);
    let mut words = Words::read(input.bytes().unwrap_or_default());
    let records = input.0;
    for _ in 0..rank {
        let _ = input.bytes();
    }
    let before = &records[..records.len() - input.0.len()];
    if existed {
        let _ = input.bytes();
    }
    let after = input.0;
    let body = value.map(|slot| write_slot(slot, &mut words)).unwrap_or_default();

    if words.worth_cleaning() {
        return rewrite(&words.list, before, value, after);
    }
    let dictionary = words.write();
    let mut out = Writer(Vec::with_capacity(dictionary.len() + before.len() + body.len() + after.len() + 8));
    out.bytes(&dictionary);
    out.0.extend_from_slice(before);
    if value.is_some() {
        out.bytes(&body);
    }
    out.0.extend_from_slice(after);
    if value.is_none() && before.is_empty() && after.is_empty() { Box::default() } else { out.0.into_boxed_slice() }
}

/// Everything written anew with a dictionary of only what is used.
fn rewrite(old_words: &[&str], before: &[u8], value: Option<&Slot>, after: &[u8]) -> Box<[u8]> {
    let mut old = Writer::default();
    for word in old_words {
        old.bytes(word.as_bytes());
    }
    let slots = |records| {
        let mut input = Reader(records);
        let mut out = Vec::new();
        while let Ok(body) = input.bytes() {
            out.push(parse(&old.0, body).unwrap_or(BROKEN).to_slot());
        }
        out
    };
    let slots: Vec<Slot> = slots(before).into_iter().chain(value.cloned()).chain(slots(after)).collect();
    let mut words = Words { list: Vec::new(), grew: false };
    let bodies: Vec<Vec<u8>> = slots.iter().map(|slot| write_slot(slot, &mut words)).collect();
    let mut out = Writer::default();
    out.bytes(&words.write());
    for body in &bodies {
        out.bytes(body);
    }
    out.0.into_boxed_slice()
}

fn write_slot<'a>(slot: &'a Slot, words: &mut Words<'a>) -> Vec<u8> {
    let mut out = Writer(Vec::with_capacity(96));
    out.u8(match slot.state {
        State::Released => 0,
        State::Active => 1,
        State::Held => 2,
        State::Quarantined => 3,
    });
    out.u56(slot.since.0.min(FOREVER));
    if matches!(slot.state, State::Held | State::Quarantined) {
        out.u56(slot.until.map_or(FOREVER, |t| t.0.min(FOREVER)));
    }
    if let Some(holder) = &slot.holder {
        write_holder(holder, words, &mut out);
    }
    out.0
}

fn write_holder<'a>(holder: &'a Holder, words: &mut Words<'a>, out: &mut Writer) {
    let id = pack_hex(&holder.id);
    let uid = pack_uuid(&holder.uid);
    let has_pod = !holder.pod.is_empty() || !holder.namespace.is_empty();
    let mut flags = match holder.kind {
        Kind::Container => 0,
        Kind::Remote => 1,
        Kind::Named => 2,
    };
    for (set, flag) in [
        (has_pod, POD),
        (!holder.uid.is_empty(), UID),
        (holder.sticky.is_some(), STICKY),
        (id.is_some(), HEX_ID),
        (uid.is_some(), PACKED_UID),
    ] {
        flags |= if set { flag } else { 0 };
    }
    out.u8(flags);
    for text in [&holder.network, &holder.ifname, &holder.node] {
        out.varint(words.number(text));
    }
    out.bytes(id.as_deref().unwrap_or(holder.id.as_bytes()));
    if has_pod {
        out.varint(words.number(&holder.namespace));
        out.bytes(holder.pod.as_bytes());
    }
    match &uid {
        Some(raw) => out.0.extend_from_slice(raw),
        None if holder.uid.is_empty() => {}
        None => out.bytes(holder.uid.as_bytes()),
    }
    if let Some(sticky) = &holder.sticky {
        out.bytes(sticky.identity.as_bytes());
        out.varint(sticky.keep.map_or(0, |keep| u128::from(keep.as_secs()) + 1));
    }
}

/// The strings of a block's dictionary.
struct Words<'a> {
    list: Vec<&'a str>,
    grew: bool,
}

impl<'a> Words<'a> {
    fn read(dictionary: &'a [u8]) -> Self {
        let mut input = Reader(dictionary);
        let mut list = Vec::with_capacity(8);
        while let Ok(word) = input.text() {
            list.push(word);
        }
        Self { list, grew: false }
    }

    fn number(&mut self, word: &'a str) -> u128 {
        if word.is_empty() {
            return 0;
        }
        let known = self.list.iter().position(|w| *w == word);
        let at = known.unwrap_or_else(|| {
            self.list.push(word);
            self.grew = true;
            self.list.len() - 1
        });
        at as u128 + 1
    }

    /// Words are never taken out one by one; now and then, when a dictionary has grown, all are gathered anew.
    const fn worth_cleaning(&self) -> bool {
        self.grew && self.list.len() >= 16 && self.list.len().is_power_of_two()
    }

    fn write(&self) -> Vec<u8> {
        let mut out = Writer::default();
        for word in &self.list {
            out.bytes(word.as_bytes());
        }
        out.0
    }
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

fn pack_pair(high: u8, low: u8) -> Option<u8> {
    Some(nibble(high)? << 4 | nibble(low)?)
}

fn pack_hex(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    if bytes.is_empty() || !bytes.len().is_multiple_of(2) {
        return None;
    }
    bytes.chunks_exact(2).map(|pair| pack_pair(pair[0], pair[1])).collect()
}

fn pack_uuid(text: &str) -> Option<Vec<u8>> {
    let dashes = text.len() == 36 && [8, 13, 18, 23].iter().all(|&i| text.as_bytes()[i] == b'-');
    let raw = dashes.then(|| pack_hex(&text.replace('-', "")))??;
    (raw.len() == 16).then_some(raw)
}
