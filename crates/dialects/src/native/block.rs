//! IPBlock: a block of the core as one object of the API server, which is then the truth about its 64 slots.
//!
//! The slots are one opaque string on purpose. As a list of objects, the server would keep a managed field for each
//! member of each slot, several times the size of the slots themselves, and merge where only compare-and-swap is right.
//! The rest of the spec repeats what the name says, for people, selectors and admission.

use crate::field::FieldError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_core::addr::{Cidr, Family};
use berth_core::block::{BLOCK_UNITS, Block, BlockKey, Plane, Reader, Writer};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use utoipa::ToSchema;

/// How many characters of a name the network may take: a Kubernetes name has 253, the rest of ours at most 51.
const MOST_OF_NETWORK: usize = 200;
/// How much of a longer one is left readable before its hash.
const READABLE: usize = 150;

/// 64 units of one network, and who has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockSpec {
    /// The network that its addresses are unique in.
    pub network: String,
    /// The prefix length of one unit: 32 or 128 for single addresses.
    pub unit: u8,
    /// The addresses of all its units.
    #[schema(example = "10.77.0.0/26")]
    pub cidr: String,
    /// How many units are in use, held or quarantined; for people, `slots` decides.
    pub used: u8,
    /// The packed slots, in base64. Opaque on purpose, so that the API server keeps one managed field for all of them
    /// and nobody merges them; `berth show` reads them.
    pub slots: String,
    /// The node whose agent wrote this revision; absent if no agent did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
    /// The node that the whole block is leased to, and whose agent alone may then write it; absent if it is shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lessee: Option<String>,
}

/// The name of a block's object: valid in Kubernetes, different for different blocks, and readable.
///
/// `default.10-77-0-0-26` is the block of single addresses that starts at 10.77.0.0 in the network `default`,
/// `blue.10-0-0-0-18-in-24` one of /24s. A network is escaped so that its part has no dot: any byte but a lower-case
/// letter, a digit or a dash between two of those becomes `--` and its two hexadecimal digits (`default/leases` is
/// `default--2fleases`). What would begin with a dash gets `0-` in front, and a network that is too long is cut and gets
/// `----` and a hash; neither sequence of dashes comes about otherwise.
#[must_use]
pub fn block_name(key: &BlockKey) -> String {
    let Plane { network, family, unit_len } = &key.plane;
    let cidr = cidr_of(key);
    let address = match cidr.network() {
        IpAddr::V4(address) => address.octets().map(|part| part.to_string()).join("-"),
        IpAddr::V6(address) => address.segments().map(|part| format!("{part:x}")).join("-"),
    };
    let name = format!("{}.{address}-{}", network_label(network), cidr.prefix_len());
    if *unit_len == family.bits() { name } else { format!("{name}-in-{unit_len}") }
}

/// The network as a part of a name.
fn network_label(network: &str) -> String {
    let bytes = network.as_bytes();
    let plain = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let mut label = String::with_capacity(network.len());
    for (i, &byte) in bytes.iter().enumerate() {
        let between = byte == b'-' && i > 0 && plain(bytes.get(i - 1)) && plain(bytes.get(i + 1));
        if between || plain(Some(&byte)) {
            label.push(char::from(byte));
        } else {
            label.push_str(&format!("--{byte:02x}"));
        }
    }
    if label.is_empty() {
        return "0---none".to_owned();
    }
    if label.starts_with('-') {
        label.insert_str(0, "0-");
    }
    if label.len() <= MOST_OF_NETWORK {
        return label;
    }
    label.truncate(READABLE);
    let hash: String = Sha256::digest(bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{}----{hash}", label.trim_end_matches('-'))
}

/// All addresses of a block. A plane with fewer than 64 units has one block, which is everything.
fn cidr_of(key: &BlockKey) -> Cidr {
    let len = key.plane.unit_len.saturating_sub(BLOCK_UNITS.ilog2() as u8);
    Cidr::containing(key.plane.addr(key.unit(0)), len)
}

/// The spec of a block's object. Who wrote it and who leases it is for the caller to add.
#[must_use]
pub fn to_spec(key: &BlockKey, block: &Block) -> BlockSpec {
    let mut bytes = Writer::default();
    block.encode(&mut bytes);
    BlockSpec {
        network: key.plane.network.to_string(),
        unit: key.plane.unit_len,
        cidr: cidr_of(key).to_string(),
        used: block.taken().count_ones() as u8,
        slots: STANDARD.encode(bytes.0),
        writer: None,
        lessee: None,
    }
}

/// Which block a spec is about, whatever is in it.
///
/// # Errors
/// The field that is not what [`to_spec`] writes.
pub fn key_of(spec: &BlockSpec) -> Result<BlockKey, FieldError> {
    let wrong = |field: &str, reason: String| Err(FieldError::new(format!("spec.{field}"), reason));
    let cidr: Cidr = match spec.cidr.parse() {
        Ok(cidr) => cidr,
        Err(error) => return wrong("cidr", format!("{error}")),
    };
    let family: Family = cidr.family();
    if spec.unit > family.bits() {
        return wrong("unit", format!("{} is longer than an {family} address ({})", spec.unit, family.bits()));
    }
    let plane = Plane { network: spec.network.as_str().into(), family, unit_len: spec.unit };
    let (key, slot) = BlockKey::of(&plane, plane.unit_of(cidr.network()));
    if slot != 0 || cidr_of(&key) != cidr {
        return wrong("cidr", format!("{cidr} is not a block of /{}; that would be {}", spec.unit, cidr_of(&key)));
    }
    Ok(key)
}

/// The block behind a spec.
///
/// # Errors
/// The field that is not what [`to_spec`] writes. `used` is not looked at: it is for people.
pub fn from_spec(spec: &BlockSpec) -> Result<(BlockKey, Block), FieldError> {
    let wrong = |field: &str, reason: String| Err(FieldError::new(format!("spec.{field}"), reason));
    let key = key_of(spec)?;
    let bytes = match STANDARD.decode(&spec.slots) {
        Ok(bytes) => bytes,
        Err(error) => return wrong("slots", format!("not base64: {error}")),
    };
    let mut reader = Reader(&bytes);
    let block = match Block::decode(&mut reader) {
        Ok(block) if reader.0.is_empty() => block,
        Ok(_) => return wrong("slots", format!("{} bytes too many", reader.0.len())),
        Err(error) => return wrong("slots", error.to_string()),
    };
    if let Some((slot, ..)) = block.states().find(|&(slot, ..)| key.unit(slot) > key.plane.last_unit()) {
        return wrong("slots", format!("slot {slot} is past the last unit of {}", cidr_of(&key)));
    }
    Ok((key, block))
}

#[cfg(test)]
mod tests;
