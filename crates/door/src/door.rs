//! The socket and the threads behind it.
//!
//! One thread at a time has the *watch*: it waits for whatever clients say, and serves all of it in one go, so that
//! requests which arrive together share one write of the store. Under load it never sleeps: what came while it served
//! is there when it looks again. That is several times cheaper than a thread per client, whose every request wakes a
//! sleeper; and a lone request is still served by the thread that heard it.
//!
//! Before it waits for anything but clients (a disk, another server, another thread's batch) it hands the watch to the
//! next: see [`before_waiting`]. So a slow request holds up nobody.

use crate::connection::{Connection, Turn};
use crate::{Answer, Later, Service};
use berth_wire::cni;
use berth_wire::protocol::{Request, Response};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tracing::{debug, warn};

/// A client that says nothing for this long is hung up on.
const PATIENCE: Duration = Duration::from_secs(30);
/// Clients at a time; the next one is told to try again.
const MAX_CLIENTS: usize = 1024;
/// Threads at a time: as many requests can wait for something slow.
const MAX_THREADS: usize = 256;
/// Idle threads beyond this many end.
const SPARE_THREADS: usize = 8;
/// Threads at a time that wait for news with those who were put off.
const MAX_PATIENT: usize = 64;
/// Clients served in one go.
const TOGETHER: usize = 32;
/// The listening socket among the clients' numbers.
const LISTENER: u64 = 0;

/// The listening socket, its clients and its threads.
pub struct Door {
    listener: UnixListener,
    epoll: OwnedFd,
    service: Arc<dyn Service>,
    clients: Mutex<Clients>,
    numbers: AtomicU64,
    crew: Mutex<Crew>,
    relieved: Condvar,
    stopping: AtomicBool,
}

/// The clients.
#[derive(Default)]
struct Clients {
    /// Those whom nobody attends to just now.
    waiting: HashMap<u64, Connection>,
    /// Those whom a thread attends to, and whether they have said something meanwhile: the kernel tells of it once only.
    attended: HashMap<u64, bool>,
}

/// Who does what.
#[derive(Default)]
struct Crew {
    threads: usize,
    idle: usize,
    watched: bool,
    /// Threads that wait for news; they watch nothing.
    patient: usize,
}

thread_local! {
    /// The door this thread has the watch of.
    static WATCH: RefCell<Option<Arc<Door>>> = const { RefCell::new(None) };
}

/// To be called before waiting for something slow: another thread listens to the clients meanwhile.
pub fn before_waiting() {
    if let Some(door) = WATCH.take() {
        door.hand_over();
    }
}

/// Listens, without accepting yet: plugins that connect wait.
///
/// # Errors
/// If another daemon listens there, or the directory cannot be made.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        close_to_others(dir, path)?;
    }
    if UnixStream::connect(path).is_ok() {
        let message = format!("another daemon listens on {}; stop it, or choose another path", path.display());
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

/// Closes the socket's directory to all but its owner, if it is there for Berth alone: kubelet, which makes it before
/// an agent runs, leaves it open. One that has anything else in it is somebody else's; that it is open is said.
fn close_to_others(dir: &Path, socket: &Path) -> io::Result<()> {
    let meta = fs::metadata(dir)?;
    let mode = meta.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let own = |name: &OsStr| Some(name) == socket.file_name() || name == "queue";
    let is_own_alone = fs::read_dir(dir)?.all(|entry| entry.is_ok_and(|entry| own(&entry.file_name())));
    let may_be_written_by_others = mode & 0o1022 != 0;
    if is_own_alone && !may_be_written_by_others && meta.uid() == rustix::process::geteuid().as_raw() {
        return fs::set_permissions(dir, fs::Permissions::from_mode(0o700));
    }
    warn!(dir = %dir.display(), mode = format!("{:o}", mode & 0o7777), "the socket's directory is open to others");
    Ok(())
}

impl Door {
    /// Opens it to the plugins that wait.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn open(listener: UnixListener, service: Arc<dyn Service>) -> io::Result<Arc<Self>> {
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        let door = Arc::new(Self {
            listener,
            epoll,
            service,
            clients: Mutex::default(),
            numbers: AtomicU64::new(LISTENER + 1),
            crew: Mutex::default(),
            relieved: Condvar::new(),
            stopping: AtomicBool::new(false),
        });
        door.add_thread(&mut lock(&door.crew))?;
        Ok(door)
    }

    fn add_thread(self: &Arc<Self>, crew: &mut Crew) -> io::Result<()> {
        let door = self.clone();
        thread::Builder::new().name("socket".to_owned()).spawn(move || {
            // Also if it panics: a door that counts the dead has nobody to listen.
            let _leave = Leave(&door);
            door.serve();
        })?;
        crew.threads += 1;
        Ok(())
    }

    /// Stops accepting and waits for the requests under way.
    pub fn close(&self, patience: Duration) {
        self.stopping.store(true, Ordering::SeqCst);
        // Shutting a listening socket down wakes whoever watches it.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        let deadline = Instant::now() + patience;
        let busy = |crew: &Crew| crew.threads > 0 || crew.patient > 0;
        while busy(&lock(&self.crew)) && Instant::now() < deadline {
            self.relieved.notify_all();
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Gives the watch to another thread, to a new one if all are at work.
    fn hand_over(self: &Arc<Self>) {
        let mut crew = lock(&self.crew);
        crew.watched = false;
        if crew.idle > 0 {
            return self.relieved.notify_one();
        }
        if crew.threads < MAX_THREADS
            && !self.stopping.load(Ordering::SeqCst)
            && let Err(error) = self.add_thread(&mut crew)
        {
            warn!(%error, "cannot start another thread for the socket");
        }
    }

    /// Waits for the watch; false if this thread is one too many.
    fn take_watch(self: &Arc<Self>) -> bool {
        let mut crew = lock(&self.crew);
        if crew.watched && crew.idle >= SPARE_THREADS {
            return false;
        }
        crew.idle += 1;
        while crew.watched && !self.stopping.load(Ordering::SeqCst) {
            crew = self.relieved.wait(crew).unwrap_or_else(PoisonError::into_inner);
        }
        crew.idle -= 1;
        crew.watched = true;
        WATCH.set(Some(self.clone()));
        true
    }

    fn serve(self: &Arc<Self>) {
        let mut events: Vec<Event> = Vec::with_capacity(TOGETHER);
        // Clients whose next request came along with their last one.
        let mut eager: Vec<u64> = Vec::new();
        let mut swept = Instant::now();
        while !self.stopping.load(Ordering::SeqCst) {
            let mut watches = WATCH.with_borrow(Option::is_some);
            if eager.is_empty() && !watches {
                watches = self.take_watch();
                if !watches {
                    return;
                }
            }
            events.clear();
            if watches {
                let timeout = rustix::time::Timespec { tv_sec: if eager.is_empty() { 5 } else { 0 }, tv_nsec: 0 };
                match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => {
                        warn!(%error, "cannot wait for the clients of the socket");
                        thread::sleep(Duration::from_millis(50));
                    }
                }
            }
            if swept.elapsed() > PATIENCE / 6 {
                swept = Instant::now();
                lock(&self.clients).waiting.retain(|_, client| client.heard.elapsed() < PATIENCE);
            }
            let heard = std::mem::take(&mut eager).into_iter().chain(events.drain(..).map(|event| event.data.u64()));
            eager = self.attend(heard);
        }
    }

    /// Hears everyone who said something and answers them together; those who have said more already.
    fn attend(self: &Arc<Self>, numbers: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut asking: Vec<(u64, Connection)> = Vec::with_capacity(TOGETHER);
        let mut requests: Vec<Request> = Vec::with_capacity(TOGETHER);
        let mut eager = Vec::new();
        for number in numbers {
            if number == LISTENER {
                self.accept();
                continue;
            }
            let Some(mut client) = self.summon(number) else { continue };
            match client.turn() {
                Turn::Request(request) => {
                    asking.push((number, client));
                    requests.push(request);
                }
                Turn::Waiting => eager.extend(self.dismiss(number, client)),
                Turn::Closed => self.forget(number),
                Turn::Refused(error) => {
                    let _ = client.answer(&Response::Error(error));
                    self.forget(number);
                }
            }
        }
        let answers = self.service.answer_all(requests);
        let mut put_off: Vec<((u64, Connection), Later)> = Vec::new();
        for (client, answer) in asking.into_iter().zip(answers) {
            match answer {
                Answer::Now(response) => eager.extend(self.reply(client, &response)),
                Answer::Later(later) => put_off.push((client, *later)),
            }
        }
        if !put_off.is_empty() {
            eager.extend(self.put_off(put_off));
        }
        eager
    }

    /// Answers a client; its number if it has said more already.
    fn reply(&self, (number, mut client): (u64, Connection), response: &Response) -> Option<u64> {
        if let Err(error) = client.answer(response) {
            debug!(%error, "a client of the socket went away");
            self.forget(number);
            return None;
        }
        self.dismiss(number, client)
    }

    /// Leaves clients to a thread that has time for them; those who have said more already, if there is none.
    fn put_off(self: &Arc<Self>, clients: Vec<((u64, Connection), Later)>) -> Vec<u64> {
        let mut crew = lock(&self.crew);
        if crew.patient >= MAX_PATIENT || self.stopping.load(Ordering::SeqCst) {
            drop(crew);
            let refuse = |(client, later): ((u64, Connection), Later)| self.reply(client, &later.refusal);
            return clients.into_iter().filter_map(refuse).collect();
        }
        let (door, numbers): (_, Vec<u64>) = (self.clone(), clients.iter().map(|((number, _), _)| *number).collect());
        let spawned = thread::Builder::new().name("patient".to_owned()).spawn(move || {
            let _leave = Relieve(&door);
            let (clients, later): (Vec<_>, Vec<_>) = clients.into_iter().unzip();
            let answers = door.service.answer_later(later);
            let mut eager: Vec<u64> =
                clients.into_iter().zip(&answers).filter_map(|(client, answer)| door.reply(client, answer)).collect();
            while !eager.is_empty() && !door.stopping.load(Ordering::SeqCst) {
                eager = door.attend(eager.into_iter());
            }
        });
        match spawned {
            Ok(_) => crew.patient += 1,
            Err(error) => {
                warn!(%error, "cannot start a thread for those who wait");
                drop(crew);
                numbers.into_iter().for_each(|number| self.forget(number));
            }
        }
        Vec::new()
    }

    /// Lets new clients in.
    fn accept(&self) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) if self.stopping.load(Ordering::SeqCst) => return,
                Err(error) => {
                    warn!(%error, "cannot accept on the socket");
                    return thread::sleep(Duration::from_millis(50));
                }
            };
            let clients = lock(&self.clients).waiting.len();
            let refusal = admit(&stream).err().or_else(|| (clients >= MAX_CLIENTS).then(crowded));
            match Connection::new(stream, refusal) {
                // Even to be refused one has to wait for one's turn, and there is no room for that either.
                Ok(_) if clients >= 2 * MAX_CLIENTS => {}
                Ok(client) => self.welcome(client),
                Err(error) => warn!(%error, "cannot serve a client of the socket"),
            }
        }
    }

    /// Listens to a client from now on.
    fn welcome(&self, client: Connection) {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let mut clients = lock(&self.clients);
        let client = clients.waiting.entry(number).insert_entry(client);
        // Told once for whatever comes, and not again while it is unread: one call less for each request.
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        if let Err(error) = epoll::add(&self.epoll, &client.get().stream, EventData::new_u64(number), flags) {
            warn!(%error, "cannot wait for a client of the socket");
            client.remove();
        }
    }

    /// Attends to a client; `None` if another thread does, which will look again.
    fn summon(&self, number: u64) -> Option<Connection> {
        let mut clients = lock(&self.clients);
        let client = clients.waiting.remove(&number);
        if client.is_some() {
            clients.attended.insert(number, false);
        } else if let Some(spoke) = clients.attended.get_mut(&number) {
            *spoke = true;
        }
        client
    }

    /// Comes back to a client when it says something; at once, if it has.
    fn dismiss(&self, number: u64, client: Connection) -> Option<u64> {
        let more = client.has_more();
        let mut clients = lock(&self.clients);
        clients.waiting.insert(number, client);
        (clients.attended.remove(&number) == Some(true) || more).then_some(number)
    }

    /// A client is gone.
    fn forget(&self, number: u64) {
        lock(&self.clients).attended.remove(&number);
    }
}

/// A thread ends, for whatever reason.
struct Leave<'a>(&'a Arc<Door>);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        lock(&self.0.crew).threads -= 1;
        before_waiting();
    }
}

/// A thread that waited ends, for whatever reason.
struct Relieve<'a>(&'a Arc<Door>);

impl Drop for Relieve<'_> {
    fn drop(&mut self) {
        lock(&self.0.crew).patient -= 1;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Only root and the daemon's own user may ask, whatever the mode of the socket.
fn admit(stream: &UnixStream) -> Result<(), cni::Error> {
    let refuse = |msg: String| Err(cni::Error::new(cni::code::INVALID_ENVIRONMENT, msg));
    // Not rustix: it takes the process ID for one that is never zero, and it is zero for a peer outside of the process
    // namespace that we are in, which is every plugin if we are in a container.
    match getsockopt(stream, PeerCredentials).map(|peer| peer.uid()) {
        Ok(user) if user == 0 || user == rustix::process::geteuid().as_raw() => Ok(()),
        Ok(user) => refuse(format!("user {user} may not use this socket; CNI plugins run as root")),
        Err(error) => refuse(format!("cannot tell who is asking: {error}")),
    }
}

fn crowded() -> cni::Error {
    cni::Error::new(cni::code::TRY_AGAIN, "too many clients at once")
        .hint("a connection is for one request; close it after the answer")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn the_directory_of_the_socket_is_closed_to_others_if_it_is_berths_alone() {
        let home = tempfile::tempdir().unwrap();
        let made = |name: &str, mode: u32| {
            let dir = home.path().join(name);
            fs::create_dir(&dir).unwrap();
            fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
            dir
        };
        let (own, shared, common) = (made("own", 0o755), made("shared", 0o755), made("common", 0o1777));
        fs::create_dir(own.join("queue")).unwrap();
        fs::write(shared.join("something-else"), "").unwrap();
        for (dir, after) in [(&own, 0o700), (&shared, 0o755), (&common, 0o1777)] {
            let _first = listen(&dir.join("berth.sock")).unwrap();
            assert_eq!(mode(dir), after, "{}", dir.display());
        }
    }
}
