//! How slots are packed into a block's buffer.
//!
//! ```text
//! buffer  = bytes(dictionary) record*
//! dictionary = text*                        strings that slots refer to by number, from 1; 0 is the empty string
//! record  = bytes(state:u8 since:u56 [until:u56] [holder [source:holder]])
//! holder  = flags:u8 network:ref ifname:ref node:ref id [namespace:ref pod:text] [uid] [identity:text keep:varint]
//! ```
//! The source is that of a holder who is moving, which is a state of its own here ([`MOVING`]).
//! The lowest two bits of `flags` are the kind of holder; the rest say what follows, and whether its ADD is awaited.
//! `id` and `uid` are packed to half their length when they are lower-case hexadecimal (a UID: with its four dashes).

use super::codec::{Corrupt, Reader};
use super::id::Id;
use super::{Slot, State};
use crate::holder::{Attachment, Holder, Kind, Sticky};
use crate::time::Time;
use std::time::Duration;

/// The state of a slot that is active and has two holders.
pub(super) const MOVING: u8 = 4;
pub(super) const AWAITED: u8 = 1 << 2;
pub(super) const POD: u8 = 1 << 3;
pub(super) const UID: u8 = 1 << 4;
pub(super) const STICKY: u8 = 1 << 5;
pub(super) const HEX_ID: u8 = 1 << 6;
pub(super) const PACKED_UID: u8 = 1 << 7;

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
    source: Option<HolderRef<'a>>,
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
    awaited: bool,
}

impl HolderRef<'_> {
    fn to_holder(self) -> Holder {
        Holder {
            kind: self.kind,
            network: self.network.to_owned(),
            id: self.id.to_text(),
            ifname: self.ifname.to_owned(),
            namespace: self.namespace.to_owned(),
            pod: self.pod.to_owned(),
            uid: self.uid.map(Id::to_text).unwrap_or_default(),
            node: self.node.to_owned(),
            sticky: self.identity.map(|(identity, keep)| Sticky { identity: identity.to_owned(), keep }),
            awaited: self.awaited,
        }
    }

    fn is(&self, key: Attachment<'_>) -> bool {
        self.ifname == key.ifname && self.network == key.network && self.id.is(key.id)
    }
}

impl SlotRef<'_> {
    /// The slot as a value of its own.
    #[must_use]
    pub fn to_slot(&self) -> Slot {
        let source = self.source().map(Box::new);
        Slot { state: self.state, since: self.since, until: self.until, holder: self.holder(), source }
    }

    /// Who has it.
    #[must_use]
    pub fn holder(&self) -> Option<Holder> {
        self.holder.map(HolderRef::to_holder)
    }

    /// Where its holder is moving from, if it is: see [`Slot::source`].
    #[must_use]
    pub fn source(&self) -> Option<Holder> {
        self.source.map(HolderRef::to_holder)
    }

    /// Everybody who has it: its holder, and where that is moving from.
    pub fn holders(&self) -> impl Iterator<Item = Holder> + use<> {
        self.holder().into_iter().chain(self.source())
    }

    /// The attachment that its holder is moving from; a packed ID is unpacked into `buffer`.
    pub(crate) fn moves_from<'b>(&'b self, buffer: &'b mut String) -> Option<Attachment<'b>> {
        self.source.as_ref().map(|h| Attachment { network: h.network, id: h.id.text(buffer), ifname: h.ifname })
    }

    /// Whether its holder is moving, and this attachment is where from.
    #[must_use]
    pub fn is_left_by(&self, key: Attachment<'_>) -> bool {
        self.source.is_some_and(|h| h.is(key))
    }

    /// Whether its holder is moving.
    #[must_use]
    pub const fn is_moving(&self) -> bool {
        self.source.is_some()
    }

    /// The attachment that has it; a packed ID is unpacked into `buffer`.
    pub(crate) fn attachment<'b>(&'b self, buffer: &'b mut String) -> Option<Attachment<'b>> {
        self.holder.as_ref().map(|h| Attachment { network: h.network, id: h.id.text(buffer), ifname: h.ifname })
    }

    /// The UID of the pod that has it, with the network and interface; a packed UID is unpacked into `buffer`.
    pub(crate) fn pod<'b>(&'b self, buffer: &'b mut String) -> Option<(&'b str, &'b str, &'b str)> {
        self.holder.as_ref().and_then(|h| Some((h.uid?.text(buffer), h.network, h.ifname)))
    }

    /// The container whose ADD it awaits; a packed ID is unpacked into `buffer`.
    pub(crate) fn awaits<'b>(&'b self, buffer: &'b mut String) -> Option<&'b str> {
        self.holder.as_ref().filter(|h| h.awaited).map(|h| h.id.text(buffer))
    }

    /// Whether it awaits the ADD of its holder.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.holder.is_some_and(|h| h.awaited)
    }

    /// Whether this container, or named holder, has it.
    pub(crate) fn is_container(&self, id: &str) -> bool {
        self.holder.is_some_and(|h| h.id.is(id))
    }

    /// What kind of holder has it.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        self.holder.map(|h| h.kind)
    }

    /// Whether this attachment has it.
    #[must_use]
    pub fn is_held_by(&self, key: Attachment<'_>) -> bool {
        self.holder.is_some_and(|h| h.is(key))
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
        skip(&mut input, rank);
        parse(dictionary, input.bytes()?)
    }
    read(data, rank).unwrap_or(BROKEN)
}

const BROKEN: SlotRef<'static> =
    SlotRef { state: State::Quarantined, since: Time(0), until: None, holder: None, source: None };

/// Moves past so many records.
pub(super) fn skip(input: &mut Reader<'_>, records: u32) {
    for _ in 0..records {
        // All but the longest records have a length of one byte; most of a look-up is spent right here.
        if let [len @ 0..0x80, rest @ ..] = input.0
            && let Some(rest) = rest.get(usize::from(*len)..)
        {
            input.0 = rest;
        } else if input.bytes().is_err() {
            return;
        }
    }
}

/// Every record in order.
pub(super) fn all(data: &[u8]) -> impl Iterator<Item = SlotRef<'_>> {
    let mut input = Reader(data);
    let dictionary = input.bytes().unwrap_or_default();
    read_all(dictionary, input.0)
}

/// Every record of `records`, which refer to `dictionary`.
pub(super) fn read_all<'a>(dictionary: &'a [u8], records: &'a [u8]) -> impl Iterator<Item = SlotRef<'a>> {
    let mut input = Reader(records);
    std::iter::from_fn(move || {
        (!input.0.is_empty()).then(|| input.bytes().and_then(|body| parse(dictionary, body)).unwrap_or(BROKEN))
    })
}

/// The state of every record and since when, in order; its holder is left unread.
pub(super) fn states(data: &[u8]) -> impl Iterator<Item = (State, Time)> {
    let mut input = Reader(data);
    let _ = input.bytes();
    std::iter::from_fn(move || {
        let read = |body| parse_state(&mut Reader(body)).unwrap_or((State::Quarantined, Time(0)));
        (!input.0.is_empty()).then(|| input.bytes().map_or((State::Quarantined, Time(0)), read))
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
    let is_moving = body.first() == Some(&MOVING);
    let (state, since) = parse_state(&mut input)?;
    let until = match state {
        State::Held | State::Quarantined => Some(Time(input.u56()?)).filter(|&t| t != Time::FOREVER),
        State::Released | State::Active => None,
    };
    // A slot that someone has names them, and one that nobody has names nobody: no index then counts a ghost.
    let holder = match state {
        State::Active | State::Held => Some(parse_holder(dictionary, &mut input)?),
        State::Released | State::Quarantined => None,
    };
    let source = if is_moving { Some(parse_holder(dictionary, &mut input)?) } else { None };
    if input.0.is_empty() {
        Ok(SlotRef { state, since, until, holder, source })
    } else {
        Err(Corrupt("trailing bytes"))
    }
}

fn parse_state(input: &mut Reader<'_>) -> Result<(State, Time), Corrupt> {
    let state = match input.u8()? {
        0 => State::Released,
        1 | MOVING => State::Active,
        2 => State::Held,
        3 => State::Quarantined,
        _ => return Err(Corrupt("unknown state")),
    };
    Ok((state, Time(input.u56()?)))
}

fn parse_holder<'a>(dictionary: &'a [u8], input: &mut Reader<'a>) -> Result<HolderRef<'a>, Corrupt> {
    let flags = input.u8()?;
    let kind = match flags & 3 {
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
    let awaited = flags & AWAITED != 0;
    Ok(HolderRef { kind, network, ifname, node, id, namespace, pod, uid, identity, awaited })
}
