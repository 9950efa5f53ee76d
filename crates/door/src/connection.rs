//! One client of the socket: bytes in, requests out, answers back. Never blocks.

use berth_wire::cni;
use berth_wire::protocol::{self, Request, Response};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// What one look at a connection gave.
#[expect(clippy::large_enum_variant, reason = "one lives at a time, and nearly all are requests")]
pub(crate) enum Turn {
    /// A whole request.
    Request(Request),
    /// Not yet: more must arrive first.
    Waiting,
    /// The other side hung up, or broke in the middle of a request.
    Closed,
    /// It is not served: it gets this answer and is hung up on.
    Refused(cni::Error),
}

/// One client.
pub(crate) struct Connection {
    pub(crate) stream: UnixStream,
    /// What it is told, whatever it asks. Its request is read all the same: closing a socket with something unread in
    /// it takes the answer along.
    refusal: Option<cni::Error>,
    /// What has arrived of the next request, maybe with some of the one behind it.
    arrived: Vec<u8>,
    /// Whether everything was read that had come when it was last looked at.
    drained: bool,
    /// When it last said something.
    pub(crate) heard: Instant,
}

impl Connection {
    pub(crate) fn new(stream: UnixStream, refusal: Option<cni::Error>) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, refusal, arrived: Vec::new(), drained: true, heard: Instant::now() })
    }

    /// The next request, if it is here.
    pub(crate) fn turn(&mut self) -> Turn {
        // More than a request can hold is never read: a client cannot make this buffer grow.
        let mut chunk = [0; 4096];
        loop {
            match self.complete() {
                Ok(Some(request)) => return self.refusal.take().map_or(Turn::Request(request), Turn::Refused),
                Ok(None) => {}
                Err(error) => {
                    let refusal = cni::Error::new(cni::code::DECODING_FAILURE, format!("not a request: {error}"));
                    return Turn::Refused(self.refusal.take().unwrap_or(refusal));
                }
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => return Turn::Closed,
                Ok(read) => {
                    self.drained = read < chunk.len();
                    self.arrived.extend_from_slice(&chunk[..read]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.drained = true;
                    return Turn::Waiting;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Turn::Closed,
            }
            self.heard = Instant::now();
        }
    }

    /// Takes a request out of what has arrived.
    fn complete(&mut self) -> io::Result<Option<Request>> {
        let Some(head) = self.arrived.first_chunk::<4>() else { return Ok(None) };
        let end = 4 + protocol::frame_len(*head)?;
        let Some(body) = self.arrived.get(4..end) else { return Ok(None) };
        let request = protocol::decode(body);
        self.arrived.drain(..end);
        request.map(Some)
    }

    /// Whether something of the next request may be here already.
    pub(crate) const fn has_more(&self) -> bool {
        !self.arrived.is_empty() || !self.drained
    }

    /// Sends an answer. A client that asks on and on without reading is hung up on: nobody waits for it.
    pub(crate) fn answer(&mut self, response: &Response) -> io::Result<()> {
        let frame = protocol::encode(response)?;
        self.stream.write_all(&frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_wire::protocol::{Op, StatusRequest};

    fn pair() -> (UnixStream, Connection) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (ours, Connection::new(theirs, None).unwrap())
    }

    fn request(stamp: u64) -> Request {
        Request::new(stamp, Op::Status(StatusRequest::default()))
    }

    #[test]
    fn a_request_may_arrive_byte_by_byte_and_with_the_next_behind_it() {
        let (mut client, mut connection) = pair();
        let bytes = protocol::encode(&request(1)).unwrap();
        for byte in &bytes[..bytes.len() - 1] {
            client.write_all(&[*byte]).unwrap();
            assert!(matches!(connection.turn(), Turn::Waiting));
        }
        let mut rest = bytes[bytes.len() - 1..].to_vec();
        rest.extend(protocol::encode(&request(2)).unwrap());
        client.write_all(&rest).unwrap();
        assert!(matches!(connection.turn(), Turn::Request(first) if first == request(1)));
        assert!(connection.has_more());
        assert!(matches!(connection.turn(), Turn::Request(second) if second == request(2)));
        assert!(matches!(connection.turn(), Turn::Waiting));
        drop(client);
        assert!(matches!(connection.turn(), Turn::Closed));
    }

    #[test]
    fn nonsense_and_overlong_claims_are_refused() {
        for bytes in [&u32::MAX.to_le_bytes()[..], b"\x02\0\0\0{}"] {
            let (mut client, mut connection) = pair();
            client.write_all(bytes).unwrap();
            assert!(matches!(connection.turn(), Turn::Refused(_)), "{bytes:?}");
        }
    }

    #[test]
    fn who_is_not_welcome_is_told_why() {
        let (mut client, theirs) = UnixStream::pair().unwrap();
        let mut connection = Connection::new(theirs, Some(cni::Error::new(4, "not you"))).unwrap();
        client.write_all(&protocol::encode(&request(1)).unwrap()).unwrap();
        assert!(matches!(connection.turn(), Turn::Refused(error) if error.msg == "not you"));
    }

    #[test]
    fn a_client_that_never_reads_is_given_up() {
        let (_client, mut connection) = pair();
        let failed = (0..1_000_000).find_map(|_| connection.answer(&Response::Done).err());
        assert_eq!(failed.unwrap().kind(), ErrorKind::WouldBlock);
    }
}
