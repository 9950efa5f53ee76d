//! The journal's format.
//!
//! ```text
//! file    = header frame*
//! header  = "BERTHJNL" version:u32 0:u32
//! frame   = length:u32 crc32c:u32 flags:u8 entry*      the checksum covers length, flags and entries
//! entry   = 1 key changed:u64 block                    the slots named by `changed` become those of `block`
//!         | 2 kind namespace name json                 an object was put
//!         | 3 kind namespace name                      an object was deleted
//!         | 4 boot-id                                  from here on, this boot
//!         | 5 attachment:u64 stamp:u64                 an ADD of this attachment, started then      (since version 2)
//!         | 6 attachment:u64 stamp:u64                 a DEL                                        (since version 2)
//! key     = network family:u8 unit:u8 index:varint
//! ```
//! A frame is one transaction: it is there as a whole or not at all. A frame with the flag `SYNCED` was forced to disk
//! before anyone was answered, and so was everything before it; that tells damage from a write that power loss cut off.

use berth_core::addr::Family;
use berth_core::block::{Block, BlockKey, Corrupt, Plane, Reader, Writer};
use berth_core::ipam::{Mark, Stamp, Wish};

pub(crate) const MAGIC: &[u8; 8] = b"BERTHJNL";
pub(crate) const VERSION: u32 = 2;
/// The first version whose readers know stamps.
pub(crate) const STAMPS_SINCE: u32 = 2;
/// The tags of entries.
pub(crate) const TAGS: std::ops::RangeInclusive<u8> = 1..=6;
pub(crate) const HEADER_LEN: usize = 16;
const FRAME_HEAD: usize = 9;
/// Larger frames are never written, so a larger length is garbage.
pub(crate) const MAX_FRAME: usize = 64 << 20;
pub(crate) const SYNCED: u8 = 1;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Slots of a block changed.
    Slots {
        /// The block.
        key: BlockKey,
        /// Which slots, as bits.
        changed: u64,
        /// Their new content; a slot that is absent here was forgotten.
        block: Block,
    },
    /// An object was put.
    Put {
        /// Its kind.
        kind: String,
        /// Its namespace; empty if it has none.
        namespace: String,
        /// Its name.
        name: String,
        /// The whole object.
        json: Vec<u8>,
    },
    /// An object was deleted.
    Delete {
        /// Its kind.
        kind: String,
        /// Its namespace; empty if it has none.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A new boot of the machine began.
    Boot(String),
    /// An ADD or a DEL was seen.
    Stamp(Stamp),
}

impl Entry {
    fn encode(&self, out: &mut Writer) {
        match self {
            Self::Slots { key, changed, block } => {
                out.u8(1);
                out.bytes(key.plane.network.as_bytes());
                out.u8(if key.plane.family == Family::V4 { 4 } else { 6 });
                out.u8(key.plane.unit_len);
                out.varint(key.index);
                out.u64(*changed);
                block.encode(out);
            }
            Self::Put { kind, namespace, name, json } => {
                out.u8(2);
                for text in [kind, namespace, name] {
                    out.bytes(text.as_bytes());
                }
                out.bytes(json);
            }
            Self::Delete { kind, namespace, name } => {
                out.u8(3);
                for text in [kind, namespace, name] {
                    out.bytes(text.as_bytes());
                }
            }
            Self::Boot(id) => {
                out.u8(4);
                out.bytes(id.as_bytes());
            }
            Self::Stamp(stamp) => {
                out.u8(if stamp.wish == Wish::Add { 5 } else { 6 });
                out.u64(stamp.mark.0);
                out.u64(stamp.at);
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Corrupt> {
        let text = |input: &mut Reader<'_>| input.text().map(str::to_owned);
        Ok(match input.u8()? {
            1 => {
                let network = input.text()?.into();
                let family = match input.u8()? {
                    4 => Family::V4,
                    6 => Family::V6,
                    _ => return Err(Corrupt("unknown address family")),
                };
                let plane = Plane { network, family, unit_len: input.u8()? };
                let key = BlockKey::new(plane, input.varint()?).ok_or(Corrupt("block outside of the address space"))?;
                let changed = input.u64()?;
                Self::Slots { key, changed, block: Block::decode(input)? }
            }
            2 => Self::Put {
                kind: text(input)?,
                namespace: text(input)?,
                name: text(input)?,
                json: input.bytes()?.to_owned(),
            },
            3 => Self::Delete { kind: text(input)?, namespace: text(input)?, name: text(input)? },
            4 => Self::Boot(text(input)?),
            tag @ (5 | 6) => {
                let wish = if tag == 5 { Wish::Add } else { Wish::Del };
                Self::Stamp(Stamp { wish, mark: Mark(input.u64()?), at: input.u64()? })
            }
            _ => return Err(Corrupt("unknown entry")),
        })
    }
}

pub(crate) fn header() -> [u8; HEADER_LEN] {
    let mut out = [0; HEADER_LEN];
    out[..8].copy_from_slice(MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    out
}

/// A frame of these entries.
pub(crate) fn encode_frame(entries: &[Entry], synced: bool) -> Vec<u8> {
    let mut out = Writer(Vec::with_capacity(256));
    out.0.resize(8, 0);
    out.u8(if synced { SYNCED } else { 0 });
    for entry in entries {
        entry.encode(&mut out);
    }
    let mut out = out.0;
    let body = u32::try_from(out.len() - 8).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&body.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&out[..4]), &out[8..]);
    out[4..8].copy_from_slice(&crc.to_le_bytes());
    out
}

/// One frame at the start of `data`: its length, whether it was synced, and its content still packed.
pub(crate) fn read_frame(data: &[u8]) -> Result<(usize, bool, &[u8]), Corrupt> {
    let word = |at: usize| data.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let (Some(len), Some(crc)) = (word(0), word(4)) else { return Err(Corrupt("cut short")) };
    let len = len as usize;
    if !(FRAME_HEAD - 8..=MAX_FRAME).contains(&len) {
        return Err(Corrupt("impossible length"));
    }
    let body = data.get(8..8 + len).ok_or(Corrupt("cut short"))?;
    if crc32c::crc32c_append(crc32c::crc32c(&data[..4]), body) != crc {
        return Err(Corrupt("checksum"));
    }
    Ok((8 + len, body[0] & SYNCED != 0, &body[1..]))
}

pub(crate) fn decode_entries(mut body: &[u8]) -> Result<Vec<Entry>, Corrupt> {
    let mut entries = Vec::new();
    while !body.is_empty() {
        let mut input = Reader(body);
        entries.push(Entry::decode(&mut input)?);
        body = input.0;
    }
    Ok(entries)
}

/// The entries of every whole frame after the header, and where the first one that is not whole begins.
pub fn decode_frames(data: &[u8], mut each: impl FnMut(Entry)) -> usize {
    let mut at = HEADER_LEN.min(data.len());
    while let Ok((len, _, body)) = read_frame(&data[at..]) {
        match decode_entries(body) {
            Ok(entries) => entries.into_iter().for_each(&mut each),
            Err(_) => break,
        }
        at += len;
    }
    at
}
