//! The connection to the daemon, and what to say when there is none.

use berth_wire::cni::Error;
use berth_wire::protocol::{Request, Response, read_frame, write_frame};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often a daemon that is not there is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// How long each step may take when there is nothing to fall back on. Runtimes wait for minutes.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The daemon gave no answer; whether it got the request is not known.
#[derive(Debug)]
pub(super) struct Unreachable {
    socket: PathBuf,
    cause: io::Error,
}

/// Asks one question. No step of it, not even connecting to a daemon that accepts nobody, takes longer than `patience`.
///
/// # Errors
/// If there is no answer. An answer that is an error is an answer.
pub(super) fn ask(socket: &Path, request: &Request, patience: Duration) -> Result<Response, Unreachable> {
    let exchange = || {
        let mut stream = connect_within(socket, patience)?;
        write_frame(&mut stream, request)?;
        read_frame(&mut stream)
    };
    exchange().map_err(|cause| Unreachable { socket: socket.to_owned(), cause })
}

/// Asks, and for so long again if nobody is there: a daemon that is being restarted is no reason for a pod to fail. The
/// request is the same each time, so one that was served though no answer came is not served twice.
///
/// # Errors
/// As [`ask`].
pub(super) fn ask_patiently(
    socket: &Path,
    request: &Request,
    patience: Duration,
    wait: Duration,
) -> Result<Response, Unreachable> {
    let begun = Instant::now();
    loop {
        match ask(socket, request, patience) {
            Err(unreachable) if unreachable.is_away() && begun.elapsed() < wait => std::thread::sleep(LOOK),
            answer => return answer,
        }
    }
}

/// `UnixStream::connect` has no timeout; on a unix socket the timeout for sending bounds connecting too.
fn connect_within(socket: &Path, patience: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(socket)?;
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&fd, Timeout::Send, Some(patience))?;
    set_socket_timeout(&fd, Timeout::Recv, Some(patience))?;
    connect(&fd, &address)?;
    Ok(UnixStream::from(fd))
}

impl Unreachable {
    /// Whether the daemon has just stopped or is yet to start.
    fn is_away(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound, UnexpectedEof};
        matches!(self.cause.kind(), NotFound | ConnectionRefused | UnexpectedEof | ConnectionReset | BrokenPipe)
    }

    /// The error to report, with what to do about it.
    pub(super) fn error(&self, code: u32) -> Error {
        let socket = self.socket.display();
        let msg = match self.cause.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                format!("the Berth daemon at {socket} closed the connection without an answer")
            }
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("the Berth daemon at {socket} does not answer")
            }
            io::ErrorKind::InvalidData => {
                format!("the Berth daemon at {socket} gave an answer that makes no sense: {}", self.cause)
            }
            _ => format!("cannot reach the Berth daemon at {socket}: {}", self.cause),
        };
        Error::new(code, msg).hint(self.hint())
    }

    fn hint(&self) -> &'static str {
        match self.cause.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                "start it: in a cluster it is the berth-agent DaemonSet (`kubectl -n berth-system get pods -o wide`), elsewhere \
                 `systemctl start berth` or `berth serve`; or set ipam.socket to where it listens"
            }
            io::ErrorKind::PermissionDenied => "only root may use the socket; run the container runtime as root",
            io::ErrorKind::InvalidData => "install berth-cni and berth of the same release",
            _ => "see the daemon's log, `journalctl -u berth`",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_wire::protocol::{Op, StatusRequest};
    use std::os::unix::net::UnixListener;
    use std::time::Instant;

    fn status() -> Request {
        Request::new(1, Op::Status(StatusRequest::default()))
    }

    #[test]
    fn a_daemon_that_accepts_nobody_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let _listener = UnixListener::bind(&path).unwrap();
        let begun = Instant::now();
        let error = ask(&path, &status(), Duration::from_millis(50)).unwrap_err().error(11);
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert!(error.msg.ends_with("does not answer"), "{error:?}");
    }

    #[test]
    fn a_full_backlog_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&fd, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&fd, 0).unwrap();
        let _first = UnixStream::connect(&path).unwrap();
        let begun = Instant::now();
        let error = connect_within(&path, Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(begun.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn every_cause_has_its_hint() {
        for (kind, part, hint) in [
            (io::ErrorKind::NotFound, "cannot reach", "berth-agent DaemonSet"),
            (io::ErrorKind::ConnectionRefused, "cannot reach", "systemctl start berth"),
            (io::ErrorKind::PermissionDenied, "cannot reach", "root"),
            (io::ErrorKind::UnexpectedEof, "closed the connection", "log"),
            (io::ErrorKind::WouldBlock, "does not answer", "log"),
            (io::ErrorKind::InvalidData, "makes no sense", "same release"),
        ] {
            let error = Unreachable { socket: "/run/x.sock".into(), cause: kind.into() }.error(11);
            assert_eq!(error.code, 11);
            assert!(error.msg.contains("/run/x.sock") && error.msg.contains(part), "{error:?}");
            assert!(error.details.contains(hint), "{error:?}");
        }
    }
}
