//! What the plugin and the daemon say over the unix socket.
//!
//! A connection carries [`Request`]s and a [`Response`] to each; the plugin sends one and hangs up. Each is a frame: the length of the rest as a
//! little-endian `u32`, then JSON. Unknown fields and variants are refused, so that a plugin and a daemon of different
//! releases notice instead of dropping half a request; `v` says which release's words these are.

use crate::cni::{AddResult, Error};
pub use crate::detect::{Candidate, Detect, Findings, Stranger, Timing};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::net::IpAddr;

/// The version of the protocol spoken here.
pub const VERSION: u32 = 1;

/// The longest frame, without its length.
pub const MAX_FRAME: usize = 1 << 20;

/// What the plugin asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The protocol version: [`VERSION`].
    pub v: u32,
    /// [`crate::boot::stamp`] when the plugin process began. Of two requests for one attachment the later stamp is the
    /// later wish of the runtime, in whatever order they arrive.
    pub stamp: u64,
    /// What to do.
    pub op: Op,
}

impl Request {
    /// A request in this version of the protocol.
    #[must_use]
    pub const fn new(stamp: u64, op: Op) -> Self {
        Self { v: VERSION, stamp, op }
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Op {
    /// Allocate.
    Add(AddRequest),
    /// Release all that an attachment holds.
    Del(Attachment),
    /// See whether an attachment holds these addresses.
    Check {
        /// The attachment.
        attachment: Attachment,
        /// The addresses it got from ADD, and maybe others that are not Berth's.
        addresses: Vec<IpAddr>,
    },
    /// Release what a network's attachments hold, but for these.
    Gc {
        /// The CNI network.
        network: String,
        /// The attachments that still exist.
        valid: Vec<Live>,
    },
    /// See whether ADD could be served.
    Status(StatusRequest),
    /// After an ADD that was answered with [`Response::Detect`]: what was found on the wire. Nobody is asked who did not
    /// answer so, hence no daemon hears of this that does not know it.
    Detected {
        /// The ADD.
        add: AddRequest,
        /// What was found.
        findings: Findings,
    },
}

/// One interface of one container in one CNI network: what an address is held by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attachment {
    /// The CNI network name.
    pub network: String,
    /// The container ID.
    pub container: String,
    /// The interface inside the container.
    pub ifname: String,
}

/// An attachment in a list of one network.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Live {
    /// The container ID.
    pub container: String,
    /// The interface inside the container.
    pub ifname: String,
}

/// The pod a container belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID, where the runtime tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Family {
    /// IPv4.
    #[serde(rename = "IPv4")]
    V4,
    /// IPv6.
    #[serde(rename = "IPv6")]
    V6,
}

impl From<Family> for berth_core::addr::Family {
    fn from(family: Family) -> Self {
        match family {
            Family::V4 => Self::V4,
            Family::V6 => Self::V6,
        }
    }
}

/// What an attachment wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddRequest {
    /// Who wants it.
    pub attachment: Attachment,
    /// The pod, if a Kubernetes runtime calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Pod>,
    /// Berth's address domain; `None` is the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Pools by name or wildcard, in order; empty means the default pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<String>,
    /// Addresses that must be among the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
    /// Sets of ranges, each `FIRST-LAST`; one address is wanted from each set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<Vec<String>>,
    /// One address of each; empty leaves it to the pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub families: Vec<Family>,
    /// The named fixed address to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// Only pools whose subnet the node has an address in, on one of these NICs; on any of its own, if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<Vec<String>>,
}

/// The ADD that STATUS asks about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusRequest {
    /// Berth's address domain; `None` is the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Pools by name or wildcard; empty means the default pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<String>,
    /// The families that must be there; empty leaves it to the pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub families: Vec<Family>,
    /// Sets of ranges, each `FIRST-LAST`; one address is wanted from each set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<Vec<String>>,
    /// The named fixed address to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
}

/// What the daemon answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Response {
    /// ADD: what was allocated.
    Ok(AddResult),
    /// ADD: what was allocated, and what to find out on the wire before it is used.
    Detect {
        /// What was allocated.
        result: AddResult,
        /// What to find out.
        detect: Box<Detect>,
    },
    /// Any other verb: it is done.
    Done,
    /// It could not be done.
    Error(Error),
}

/// Writes one frame with one call of `write`, so that the other side never sees half of one unless this side dies.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if it is longer than [`MAX_FRAME`]; what the writer says.
pub fn write_frame<T: Serialize>(writer: &mut impl Write, message: &T) -> io::Result<()> {
    writer.write_all(&encode(message)?)
}

/// One frame as bytes, length first.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if it is longer than [`MAX_FRAME`].
pub fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let mut frame = Vec::with_capacity(512);
    frame.extend([0; 4]);
    serde_json::to_writer(&mut frame, message)?;
    let len = frame.len() - 4;
    if len > MAX_FRAME {
        let msg = format!("message of {len} bytes; at most {MAX_FRAME} fit a frame");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, msg));
    }
    frame[..4].copy_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
    Ok(frame)
}

/// Reads one frame. The buffer grows as bytes arrive, not to the length that the other side claims.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] if the other side closed before the end, [`io::ErrorKind::InvalidData`] if the
/// frame is too long or not what was expected; what the reader says.
pub fn read_frame<T: DeserializeOwned>(reader: &mut impl Read) -> io::Result<T> {
    let mut len = [0; 4];
    reader.read_exact(&mut len)?;
    let len = frame_len(len)?;
    let mut body = Vec::with_capacity(len.min(8192));
    reader.by_ref().take(len as u64).read_to_end(&mut body)?;
    if body.len() < len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    decode(&body)
}

/// The length of the frame that these four bytes begin, for a reader that is not [`read_frame`].
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] if it is longer than [`MAX_FRAME`].
pub fn frame_len(bytes: [u8; 4]) -> io::Result<usize> {
    let len = u32::from_le_bytes(bytes) as usize;
    if len <= MAX_FRAME {
        return Ok(len);
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, format!("frame of {len} bytes; at most {MAX_FRAME} are allowed")))
}

/// The message in a frame's body.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] if it is not what was expected.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> io::Result<T> {
    serde_json::from_slice(body).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn attachment() -> Attachment {
        Attachment { network: "n".into(), container: "c".into(), ifname: "eth0".into() }
    }

    fn round_trip<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(message: &T) {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, message).unwrap();
        assert_eq!(&read_frame::<T>(&mut bytes.as_slice()).unwrap(), message);
        for cut in 0..bytes.len() {
            let error = read_frame::<T>(&mut &bytes[..cut]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "cut after {cut}");
        }
    }

    #[test]
    fn every_message_survives_the_wire() {
        let add = AddRequest {
            attachment: attachment(),
            pod: Some(Pod { namespace: "shop".into(), name: "web-0".into(), uid: Some("u".into()) }),
            domain: Some("blue".into()),
            pools: vec!["a".into()],
            addresses: vec![[10, 0, 0, 1].into()],
            ranges: vec![vec!["10.0.0.1-10.0.0.9".into()]],
            families: vec![Family::V4, Family::V6],
            claim: Some("db".into()),
            uplink: Some(vec!["ens1f0".into()]),
        };
        for op in [
            Op::Add(add.clone()),
            Op::Del(attachment()),
            Op::Check { attachment: attachment(), addresses: vec![[10, 0, 0, 1].into()] },
            Op::Gc { network: "n".into(), valid: vec![Live { container: "c".into(), ifname: "eth0".into() }] },
            Op::Status(StatusRequest::default()),
            Op::Detected { add, findings: Findings { reason: "no link".into(), ..Findings::default() } },
        ] {
            round_trip(&Request::new(7, op));
        }
        let detect = Detect { gateways: vec![[10, 0, 0, 1].into()], ..Detect::default() };
        for response in [
            Response::Ok(AddResult::default()),
            Response::Detect { result: AddResult::default(), detect: Box::new(detect) },
            Response::Done,
            Response::Error(Error::new(11, "later")),
        ] {
            round_trip(&response);
        }
    }

    #[test]
    fn the_words_are_fixed() {
        let text = serde_json::to_string(&Request::new(7, Op::Del(attachment()))).unwrap();
        assert_eq!(text, r#"{"v":1,"stamp":7,"op":{"del":{"network":"n","container":"c","ifname":"eth0"}}}"#);
        assert_eq!(serde_json::to_string(&Response::Done).unwrap(), r#""done""#);
    }

    #[test]
    fn garbage_is_refused() {
        for body in [
            "",
            "null",
            "{}",
            r#"{"v":1,"stamp":7,"op":"add"}"#,
            r#"{"v":1,"stamp":7,"op":{"steal":{}}}"#,
            r#"{"v":1,"stamp":7,"op":{"del":{"network":"n","container":"c","ifname":"e","force":true}}}"#,
            r#"{"v":1,"stamp":7,"op":{"status":{}},"extra":1}"#,
            r#"{"v":1,"stamp":-7,"op":{"status":{}}}"#,
        ] {
            let error = decode::<Request>(body.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{body}");
        }
    }

    #[test]
    fn frames_are_bounded_both_ways() {
        let long = "x".repeat(MAX_FRAME);
        assert_eq!(encode(&long).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(encode(&&long[2..]).is_ok(), "with its quotes just long enough");
        let claim = u32::MAX.to_le_bytes();
        assert_eq!(read_frame::<Request>(&mut claim.as_slice()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>()) {
            let _ = read_frame::<Request>(&mut bytes.as_slice());
            let mut framed = u32::try_from(bytes.len()).unwrap().to_le_bytes().to_vec();
            framed.extend(&bytes);
            let _ = read_frame::<Request>(&mut framed.as_slice());
        }
    }
}
