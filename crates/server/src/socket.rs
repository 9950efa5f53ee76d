//! The door for the CNI plugin: a unix socket, blocking threads, one frame in and one frame out.
//!
//! Each thread accepts, reads, allocates, answers, and accepts again: a request is never handed from one thread to
//! another, which would cost more than the allocation does. When all threads are busy another one is started, so a
//! client that dawdles holds up nobody.

use crate::node::Node;
use crate::status;
use berth_core::addr::Range;
use berth_core::error::Error;
use berth_core::holder::{Attachment, Holder, Kind};
use berth_core::ipam::{Group, Outcome, Request as CoreRequest};
use berth_core::model::Subject;
use berth_wire::cni;
use berth_wire::protocol::{self, AddRequest, Op, Request, Response};
use std::fs;
use std::io::{self, BufReader, ErrorKind};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tracing::{debug, warn};

/// A client that says nothing for this long is hung up on.
const PATIENCE: Duration = Duration::from_secs(30);
const MIN_THREADS: usize = 4;
const MAX_THREADS: usize = 256;

/// The listening socket and its threads.
pub(crate) struct Door {
    listener: UnixListener,
    node: Arc<Node>,
    idle: AtomicUsize,
    threads: AtomicUsize,
    stopping: AtomicBool,
}

/// Listens, without accepting yet: plugins that connect wait.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let mode = fs::metadata(dir)?.permissions().mode();
        if mode & 0o077 != 0 {
            warn!(dir = %dir.display(), mode = format!("{:o}", mode & 0o7777), "the socket's directory is open to others");
        }
    }
    if UnixStream::connect(path).is_ok() {
        let message = format!("another daemon listens on {}; stop it, or choose another --socket", path.display());
        return Err(io::Error::new(ErrorKind::AddrInUse, message));
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

impl Door {
    pub(crate) fn open(listener: UnixListener, node: Arc<Node>) -> Arc<Self> {
        let zero = || AtomicUsize::new(0);
        let stopping = AtomicBool::new(false);
        let door = Arc::new(Self { listener, node, idle: zero(), threads: zero(), stopping });
        for _ in 0..MIN_THREADS {
            door.add_thread();
        }
        door
    }

    fn add_thread(self: &Arc<Self>) {
        self.threads.fetch_add(1, Ordering::SeqCst);
        let door = self.clone();
        let started = thread::Builder::new().name("socket".to_owned()).spawn(move || {
            // Also if it panics: a door that counts the dead opens no more threads.
            let _counted = Counted(&door.threads);
            door.serve();
        });
        if let Err(error) = started {
            self.threads.fetch_sub(1, Ordering::SeqCst);
            warn!(%error, "cannot start another thread for the socket");
        }
    }

    /// Stops accepting and waits for the requests under way.
    pub(crate) fn close(&self, patience: Duration) {
        self.stopping.store(true, Ordering::SeqCst);
        // Shutting a listening socket down makes every accept() return.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        let deadline = Instant::now() + patience;
        while self.threads.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn serve(self: &Arc<Self>) {
        loop {
            self.idle.fetch_add(1, Ordering::SeqCst);
            let accepted = self.listener.accept();
            let others_idle = self.idle.fetch_sub(1, Ordering::SeqCst) > 1;
            if self.stopping.load(Ordering::SeqCst) {
                return;
            }
            match accepted {
                Ok((stream, _)) => {
                    if !others_idle && self.threads.load(Ordering::SeqCst) < MAX_THREADS {
                        self.add_thread();
                    }
                    if let Err(error) = self.converse(stream) {
                        debug!(%error, "a client of the socket went away");
                    }
                }
                Err(error) => {
                    warn!(%error, "cannot accept on the socket");
                    thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }

    fn converse(&self, mut stream: UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        if let Err(refusal) = admit(&stream) {
            // Closing a socket with something unread in it takes the answer along.
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            let _ = protocol::read_frame::<serde::de::IgnoredAny>(&mut stream);
            return protocol::write_frame(&mut stream, &Response::Error(refusal));
        }
        // A frame is read with one call, not one for its length and one for the rest.
        let mut reader = BufReader::with_capacity(4096, stream.try_clone()?);
        while !self.stopping.load(Ordering::SeqCst) {
            let response = match protocol::read_frame(&mut reader) {
                Ok(request) => answer(&self.node, request),
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    let refusal = cni::Error::new(cni::code::DECODING_FAILURE, format!("not a request: {error}"));
                    return protocol::write_frame(&mut stream, &Response::Error(refusal));
                }
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error),
            };
            protocol::write_frame(&mut stream, &response)?;
        }
        Ok(())
    }
}

struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Only root and the daemon's own user may ask, whatever the mode of the socket.
fn admit(stream: &UnixStream) -> Result<(), cni::Error> {
    let refuse = |msg: String| Err(cni::Error::new(cni::code::INVALID_ENVIRONMENT, msg));
    match rustix::net::sockopt::socket_peercred(stream) {
        Ok(peer) if peer.uid.is_root() || peer.uid == rustix::process::geteuid() => Ok(()),
        Ok(peer) => refuse(format!("user {} may not use this socket; CNI plugins run as root", peer.uid.as_raw())),
        Err(error) => refuse(format!("cannot tell who is asking: {error}")),
    }
}

/// Answers one request, from the socket or from the queue.
pub(crate) fn answer(node: &Node, request: Request) -> Response {
    let started = Instant::now();
    let (verb, result) = match request.op {
        _ if request.v != protocol::VERSION => {
            let msg = format!("protocol version {} is not spoken here, only {}", request.v, protocol::VERSION);
            let hint = "install the berth-cni that belongs to this daemon";
            ("unknown", Err(cni::Error::new(cni::code::INCOMPATIBLE_VERSION, msg).hint(hint)))
        }
        Op::Add(add) => ("add", self::add(node, add, request.stamp).map_err(|e| to_cni(&e))),
        Op::Del(key) => {
            let released = node.engine.release(&key.network, &key.container, &key.ifname, Some(request.stamp));
            ("del", released.map(|_| Response::Done).map_err(|e| to_cni(&e)))
        }
        Op::Check { attachment, addresses } => ("check", check(node, &attachment, &addresses).map_err(|e| to_cni(&e))),
        Op::Gc { network, valid } => {
            let valid: Vec<(String, String)> = valid.into_iter().map(|live| (live.container, live.ifname)).collect();
            let freed = node.engine.transact(move |context| {
                // The list is as old as the request: what was added since is not in it.
                let newer = |key: Attachment<'_>| context.additions.supersede(key, request.stamp);
                Ok(context.ipam.collect_garbage(&network, &valid, context.now, newer))
            });
            ("gc", freed.map(|_| Response::Done).map_err(|e| to_cni(&e)))
        }
        Op::Status(wanted) => ("status", status::answer(node, wanted)),
    };
    node.metrics.observe(verb, result.is_ok(), started.elapsed());
    match &result {
        Err(error) if error.code == cni::code::IO_FAILURE => warn!(verb, error = error.msg, "a request failed"),
        Err(error) => debug!(verb, code = error.code, error = error.msg, "a request was refused"),
        Ok(_) => {}
    }
    result.unwrap_or_else(Response::Error)
}

fn to_cni(error: &Error) -> cni::Error {
    let names = error.names();
    cni::Error::new(names.cni, error.to_string()).hint(names.hint)
}

fn add(node: &Node, add: AddRequest, stamp: u64) -> Result<Response, Error> {
    let families = add.families.iter().map(|&family| family.into()).collect();
    let base = Group { pools: add.pools, network: add.domain, families, ..Group::default() };
    let groups = groups(base, add.addresses, &add.ranges)?;
    let pod = add.pod.unwrap_or_else(|| protocol::Pod { namespace: String::new(), name: String::new(), uid: None });
    let mut request = CoreRequest {
        subject: Subject { namespace: pod.namespace.clone(), node: node.name.clone(), ..Subject::default() },
        holder: Holder {
            kind: Kind::Container,
            network: add.attachment.network,
            id: add.attachment.container,
            ifname: add.attachment.ifname,
            namespace: pod.namespace,
            pod: pod.name,
            uid: pod.uid.unwrap_or_default(),
            node: String::new(),
            sticky: None,
        },
        groups,
    };
    if let Some(claim) = &add.claim {
        node.use_claim(claim, &mut request)?;
    }
    node.engine.allocate(request, Some(stamp)).map(|outcome| Response::Ok(result(outcome)))
}

/// What an ADD asks for, in the words of the core.
pub(crate) fn groups(base: Group, addresses: Vec<IpAddr>, ranges: &[Vec<String>]) -> Result<Vec<Group>, Error> {
    if !addresses.is_empty() {
        return Ok(vec![Group { addresses, ..base }]);
    }
    if ranges.is_empty() {
        return Ok(vec![base]);
    }
    let set = |(i, set): (usize, &Vec<String>)| {
        let parse = |text: &String| {
            let reason = |error: berth_core::addr::ParseError| error.to_string();
            text.parse::<Range>().map_err(|e| Error::Invalid { field: format!("ipRanges[{i}]"), reason: reason(e) })
        };
        let within = set.iter().map(parse).collect::<Result<Vec<Range>, Error>>()?;
        Ok(Group { within, families: Vec::new(), ..base.clone() })
    };
    ranges.iter().enumerate().map(set).collect()
}

fn result(outcome: Outcome) -> cni::AddResult {
    let ip = |given: berth_core::ipam::Given| cni::Ip {
        address: given.address(),
        prefix_len: given.prefix_len,
        gateway: given.gateway,
    };
    cni::AddResult { ips: outcome.given.into_iter().map(ip).collect(), routes: outcome.routes, dns: outcome.dns }
}

fn check(node: &Node, key: &protocol::Attachment, addresses: &[IpAddr]) -> Result<Response, Error> {
    let held = node.engine.read(|ipam| {
        let (network, id, ifname) = (&key.network, &key.container, &key.ifname);
        ipam.of_attachment(Attachment { network, id, ifname })
    });
    let missing = |address: String| Error::NotHeld { container: key.container.clone(), address };
    if held.is_empty() {
        return Err(missing("any address".to_owned()));
    }
    // Another plugin of the chain may have added addresses that are none of ours.
    let ours = |address: &&IpAddr| {
        node.engine.read(|ipam| ipam.pools().any(|pool| pool.ranges.iter().any(|range| range.contains(**address))))
    };
    match addresses.iter().find(|address| !held.contains(address) && ours(address)) {
        Some(address) => Err(missing(address.to_string())),
        None if held.iter().all(|address| addresses.contains(address)) => Ok(Response::Done),
        None => Err(missing("just what ADD answered".to_owned())),
    }
}
