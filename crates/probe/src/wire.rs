//! An interface of a container, up and listened to.

use crate::frame::{Mac, Word, announcement, overheard, probe};
use crate::schedule::Schedule;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{LinkAddr, MsgFlags, recvfrom, sendto};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, eth, recv, send, socket_with};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Ethernet, among the kinds of hardware.
const ETHERNET: u16 = 1;
/// For how long, and how often, an interface that is brought up is looked at until the wire is there.
const LOOK: Duration = Duration::from_millis(2);
const LOOKS: u32 = 500;

/// Who is woken so late is on a machine that is too busy for what it asked to be done in time, and listens for as long again;
/// answers go through the same cores where the wire is a bridge in this machine.
const LATE: Duration = Duration::from_millis(10);
/// But not for ever.
const PATIENCE: Duration = Duration::from_secs(1);
/// So many frames at most were heard in time and are looked at later.
const MOST_QUEUED: usize = 1024;

/// Somebody who answered for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The address.
    pub address: IpAddr,
    /// Where he is.
    pub by: Mac,
}

/// Why nothing can be asked on an interface.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The network namespace cannot be entered.
    #[error("cannot enter the network namespace: {0}")]
    Namespace(io::Error),
    /// There is no such interface, or not yet: some main plugins make it after they have got its addresses.
    #[error("there is no interface {0} yet")]
    Absent(String),
    /// It is not Ethernet: nobody can be asked.
    #[error("interface {0} is not Ethernet")]
    NotEthernet(String),
    /// It does not come up.
    #[error("interface {0} has no carrier")]
    Down(String),
    /// Something failed.
    #[error("cannot listen on the interface: {0}")]
    Failed(#[from] io::Error),
}

impl From<Errno> for WireError {
    fn from(error: Errno) -> Self {
        Self::Failed(error.into())
    }
}

/// What was heard in a while.
enum Sound {
    /// Nothing.
    Silence,
    /// Something that has nothing to do with the question.
    Noise,
    Word(Word),
}

/// An interface, up and listened to.
#[derive(Debug)]
pub struct Wire {
    socket: OwnedFd,
    link: LinkAddr,
    own: Mac,
}

impl Wire {
    /// Opens an interface in a network namespace, and brings it up if it is down: nothing is heard otherwise. It stays up,
    /// as the main plugin will have it anyway.
    ///
    /// # Errors
    /// [`WireError`] says why nobody can be asked there.
    pub fn open(netns: &Path, ifname: &str) -> Result<Self, WireError> {
        let inside = || {
            let namespace = File::open(netns).map_err(WireError::Namespace)?;
            let entered = move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network));
            entered.map_err(|error| WireError::Namespace(error.into()))?;
            Self::open_here(ifname)
        };
        // A thread of its own: it never comes back from there, and a socket stays in the namespace it was made in.
        let joined = thread::scope(|scope| scope.spawn(inside).join());
        joined.unwrap_or_else(|_| Err(io::Error::other("the thread ended early").into()))
    }

    fn open_here(ifname: &str) -> Result<Self, WireError> {
        let (mut link, mut flags) = look(ifname)?;
        let own = link.addr().filter(|_| link.hatype() == ETHERNET && link.halen() == 6);
        let own = own.map(Mac).ok_or_else(|| WireError::NotEthernet(ifname.to_owned()))?;
        if !flags.contains(InterfaceFlags::IFF_UP) {
            bring_up(link.ifindex())?;
        }
        for _ in 0..LOOKS {
            // Not only the carrier: a bridge on the other side lets nothing through before it has seen it too.
            if flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING) {
                return Ok(Self { socket: listen()?, link, own });
            }
            thread::sleep(LOOK);
            (link, flags) = look(ifname)?;
        }
        Err(WireError::Down(ifname.to_owned()))
    }

    /// Asks who uses these addresses, and listens until the schedule is over or all have been answered for.
    ///
    /// # Errors
    /// If nothing can be sent or received.
    pub fn ask(&self, addresses: &[IpAddr], schedule: &Schedule) -> io::Result<Vec<Heard>> {
        let begun = Instant::now();
        let mut heard: Vec<Heard> = Vec::new();
        let mut sends = schedule.sends.iter().copied().peekable();
        let mut buffer = [0; 512];
        let (mut end, mut overtime) = (schedule.end, 0);
        while heard.len() < addresses.len() && overtime < MOST_QUEUED {
            let now = begun.elapsed();
            if sends.next_if(|&at| at <= now).is_some() {
                for &address in addresses {
                    self.send(&probe(self.own, address))?;
                }
                continue;
            }
            let next = sends.peek().copied().unwrap_or(end).min(end);
            let pause = next.saturating_sub(now);
            overtime += usize::from(pause.is_zero());
            let (address, by) = match self.listen(pause, &mut buffer)? {
                Sound::Word(Word::Uses(address, by)) => (address, by),
                Sound::Word(Word::Wants(address, by)) if schedule.heeds_wishes => (address, by),
                // The time is over only now that nothing is left to be heard: an answer may have come long before this is
                // run again.
                Sound::Silence if pause.is_zero() => break,
                Sound::Silence => {
                    let late = begun.elapsed().saturating_sub(next);
                    if next == end && late > LATE && end < schedule.end + PATIENCE {
                        end = begun.elapsed() + late;
                    }
                    continue;
                }
                Sound::Word(Word::Wants(..)) | Sound::Noise => continue,
            };
            if addresses.contains(&address) && !heard.iter().any(|known| known.address == address) {
                heard.push(Heard { address, by });
            }
        }
        Ok(heard)
    }

    /// Tells all neighbours that these addresses are here from now on, so that none goes on sending to whoever had them
    /// before.
    ///
    /// # Errors
    /// If nothing can be sent.
    pub fn announce(&self, addresses: &[IpAddr]) -> io::Result<()> {
        addresses.iter().try_for_each(|&address| self.send(&announcement(self.own, address)))
    }

    fn send(&self, frame: &[u8]) -> io::Result<()> {
        // The address that the kernel described the interface with is just what a frame is sent to.
        match sendto(self.socket.as_raw_fd(), frame, &self.link, MsgFlags::empty()) {
            Err(nix::Error::EINTR) => self.send(frame),
            sent => Ok(sent.map(drop)?),
        }
    }

    /// The next frame that comes within the pause, or is there already.
    fn listen(&self, pause: Duration, buffer: &mut [u8]) -> io::Result<Sound> {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        let pause = Timespec::try_from(pause).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
        match poll(&mut fds, Some(&pause)) {
            // A signal is no reason to fail a container: whoever calls looks at the time and listens on.
            Err(Errno::INTR) => return Ok(Sound::Noise),
            Ok(0) => return Ok(Sound::Silence),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        match recvfrom::<LinkAddr>(self.socket.as_raw_fd(), buffer) {
            Ok((len, from)) if from.is_some_and(|from| from.ifindex() == self.link.ifindex()) => {
                Ok(overheard(&buffer[..len], self.own).map_or(Sound::Noise, Sound::Word))
            }
            // Another interface of the container, where the same addresses may mean something else.
            Ok(_) | Err(nix::Error::EAGAIN | nix::Error::EINTR) => Ok(Sound::Noise),
            Err(error) => Err(error.into()),
        }
    }
}

/// The hardware address of an interface, and how it is.
fn look(ifname: &str) -> Result<(LinkAddr, InterfaceFlags), WireError> {
    let interfaces = getifaddrs().map_err(io::Error::from)?;
    let own = interfaces.filter(|interface| interface.interface_name == ifname);
    let mut links = own.filter_map(|own| Some((*own.address?.as_link_addr()?, own.flags)));
    links.next().ok_or_else(|| WireError::Absent(ifname.to_owned()))
}

/// A socket that hears all frames. It is not bound to its interface: that takes the kernel some ten milliseconds, for which
/// it waits until nobody looks at the unbound socket any more.
fn listen() -> Result<OwnedFd, WireError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::PACKET, SocketType::RAW, flags, Some(eth::ALL))?)
}

/// Brings an interface up: one netlink message, and the kernel's answer.
fn bring_up(index: usize) -> Result<(), WireError> {
    const NEW_LINK: u16 = 16;
    const REQUEST_AND_ACKNOWLEDGE: u16 = 1 | 4;
    const UP: u32 = 1;
    let index = u32::try_from(index).unwrap_or_default();
    let mut message = Vec::with_capacity(32);
    message.extend(32u32.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_AND_ACKNOWLEDGE.to_ne_bytes());
    // Sequence and sender, then family and kind of the interface: none of them matters.
    message.extend([0; 12]);
    message.extend(index.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    // The protocol for links and addresses is number zero.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    send(&socket, &message, SendFlags::empty())?;
    let mut answer = [0; 256];
    rustix::io::retry_on_intr(|| recv(&socket, &mut answer[..], RecvFlags::empty()))?;
    // After the header comes what is wrong, as a negative number, or zero.
    let [.., a, b, c, d] = *answer.first_chunk::<20>().unwrap_or(&[0; 20]);
    match i32::from_ne_bytes([a, b, c, d]) {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error.saturating_neg()).into()),
    }
}
