//! Identifiers as they are stored: hexadecimal takes half its length.

use super::codec::Writer;

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

/// Where the dashes of a UUID stand in its text.
const DASHES: [usize; 4] = [8, 13, 18, 23];

impl<'a> Id<'a> {
    /// The identifier as text: its own, or unpacked into `buffer`.
    pub(crate) fn text<'b>(self, buffer: &'b mut String) -> &'b str
    where
        'a: 'b,
    {
        buffer.clear();
        match self {
            Self::Text(text) => return text,
            Self::Hex(raw) => push_hex(buffer, raw),
            Self::Uuid(raw) => {
                for (i, group) in [0..4, 4..6, 6..8, 8..10, 10..16].into_iter().enumerate() {
                    buffer.push_str(if i == 0 { "" } else { "-" });
                    push_hex(buffer, raw.get(group).unwrap_or_default());
                }
            }
        }
        buffer
    }

    /// The identifier as text of its own.
    pub(crate) fn to_text(self) -> String {
        let mut buffer = String::new();
        match self {
            Self::Text(text) => text.to_owned(),
            Self::Hex(_) | Self::Uuid(_) => {
                self.text(&mut buffer);
                buffer
            }
        }
    }

    /// Whether this is `text`, without unpacking.
    pub(crate) fn is(self, text: &str) -> bool {
        match self {
            Self::Text(own) => own == text,
            Self::Hex(raw) => {
                let digits = text.as_bytes();
                let mut pairs = raw.iter().zip(digits.chunks_exact(2));
                digits.len() == raw.len() * 2
                    && pairs.all(|(byte, pair)| {
                        pair[0] == DIGITS[usize::from(byte >> 4)] && pair[1] == DIGITS[usize::from(byte & 15)]
                    })
            }
            Self::Uuid(raw) => has_dashes(text) && uuid_pairs(text).eq(raw.iter().map(|&byte| Some(byte))),
        }
    }

    /// How `text` is stored, and whether that is packed.
    pub(super) fn write_hex(text: &str, out: &mut Writer) -> bool {
        let packed = is_hex(text);
        if packed {
            out.varint(text.len() as u128 / 2);
            push_packed(text, &mut out.0);
        } else {
            out.bytes(text.as_bytes());
        }
        packed
    }
}

/// Whether the text is lower-case hexadecimal of even length, and not empty.
pub(super) fn is_hex(text: &str) -> bool {
    !text.is_empty()
        && text.len().is_multiple_of(2)
        && text.bytes().fold(0, |any, b| any | NIBBLES[usize::from(b)]) < 16
}

/// Whether the text is a UUID in lower case.
pub(super) fn is_uuid(text: &str) -> bool {
    has_dashes(text) && uuid_pairs(text).all(|byte| byte.is_some())
}

/// The bytes of a UUID's text.
pub(super) fn uuid_pairs(text: &str) -> impl Iterator<Item = Option<u8>> + '_ {
    const GROUPS: [(usize, usize); 5] = [(0, 8), (9, 13), (14, 18), (19, 23), (24, 36)];
    GROUPS.into_iter().flat_map(move |(from, to)| hex_pairs(text.get(from..to).unwrap_or_default()))
}

fn hex_pairs(text: &str) -> impl Iterator<Item = Option<u8>> + '_ {
    text.as_bytes().chunks_exact(2).map(|pair| {
        let (high, low) = (NIBBLES[usize::from(pair[0])], NIBBLES[usize::from(pair[1])]);
        (high | low < 16).then_some(high << 4 | low)
    })
}

/// Appends what hexadecimal text stands for, a stretch at a time: a container's ID is packed on every ADD.
fn push_packed(text: &str, out: &mut Vec<u8>) {
    for digits in text.as_bytes().chunks(64) {
        let mut raw = [0; 32];
        for (byte, pair) in raw.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = NIBBLES[usize::from(pair[0])] << 4 | NIBBLES[usize::from(pair[1])];
        }
        out.extend_from_slice(&raw[..digits.len() / 2]);
    }
}

/// The other way round.
fn push_hex(out: &mut String, raw: &[u8]) {
    for bytes in raw.chunks(32) {
        let mut digits = [b'0'; 64];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        out.push_str(std::str::from_utf8(&digits[..bytes.len() * 2]).unwrap_or_default());
    }
}

fn has_dashes(text: &str) -> bool {
    text.len() == 36 && DASHES.iter().all(|&i| text.as_bytes()[i] == b'-')
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The value of every byte that is a lower-case digit; 16 and more for the others.
const NIBBLES: [u8; 256] = {
    let mut table = [0xff; 256];
    let mut i = 0;
    while i < DIGITS.len() {
        table[DIGITS[i] as usize] = i as u8;
        i += 1;
    }
    table
};
