//! A network's directory, locked: host-local's state, and the store of this crate.
//!
//! ```text
//! <data directory>/<network>/<address>              a lease, created with O_EXCL: the truth
//! <data directory>/<network>/last_reserved_ip.<i>   the cursor of range set i
//! <data directory>/<network>/lock                   flock of both programs; its content is Berth's state
//! <data directory>/.berth/<network>/                Berth's own: the index and spare lease files
//! ```
//!
//! host-local finds a container's leases by reading every file. Berth asks its index, and knows by the
//! [seal](crate::state) whether the index is complete: the directory's modification time changes with every lease that
//! anybody adds or removes, so if it is still what Berth set it to, nobody has. If it is not, because host-local worked
//! here, or because Berth was killed between two system calls, the directory is read once and the index made anew.
//!
//! The time that Berth sets is odd in its last digit, so a file system that rounds times never keeps it and is never
//! believed, and it differs from the time the kernel had set, so a second change within one tick of the kernel's clock
//! shows too.
//!
//! Nothing is synced to disk: a lease dies with the boot, and after a crash of the machine another boot begins.

use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::host::Host;
use crate::index::Index;
use crate::lease::{self, Held};
use crate::owner::Owner;
use crate::spare::Spares;
use crate::state::{self, Seal, State};
use crate::sys::{self, Access, Facts};
use rustix::io::{self, Errno};
use rustix::time::ClockId;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Everything that is leased, by owner.
pub(crate) type Leases = HashMap<Owner, Vec<Held>>;

/// A network's directory. Locked against every other plugin process until it is dropped.
pub(crate) struct Directory {
    pub(super) path: PathBuf,
    pub(super) dir: OwnedFd,
    lock: OwnedFd,
    pub(super) host: Host,
    own_path: PathBuf,
    spares: Option<Spares>,
    pub(super) index: Option<Index>,
    /// All leases, if they had to be read; otherwise the index answers.
    pub(super) leases: Option<Leases>,
    /// Why the owners of some leases are not known.
    pub(super) unreadable: Vec<Error>,
    state: State,
    /// Whether the index holds every lease.
    pub(super) complete: bool,
    /// Whether the seal has to be set anew.
    pub(super) touched: bool,
    /// Whether the state has something to write besides.
    buried: bool,
}

impl Directory {
    /// Opens and locks the directory of a network, making it if there is none. Leases of an earlier boot are gone when
    /// this returns.
    pub(crate) fn open(data_dir: &Path, network: &str, host: Host) -> Result<Self> {
        let path = data_dir.join(network);
        let (dir, lock) = open_locked(&path)?;
        let facts = sys::facts(&dir).map_err(|errno| Error::Io { op: "stat", path: path.clone(), errno })?;
        let mut state =
            host.boot.and_then(|boot| read_state(&lock, boot)).unwrap_or(State::new(host.boot.unwrap_or(0)));
        let own_path = own_path(data_dir, network);
        let spares = sys::open_dir(&own_path).ok().map(|own| Spares::new(own, state.spares));
        let index = match state.seal == Seal::of(facts) {
            true => open_index(spares.as_ref(), host, &state),
            false => {
                state.seal = Seal::BROKEN;
                None
            }
        };
        let mut directory = Self {
            path,
            dir,
            lock,
            host,
            own_path,
            spares,
            index,
            leases: None,
            unreadable: Vec::new(),
            state,
            complete: true,
            touched: false,
            buried: false,
        };
        if directory.index.is_none() {
            directory.resync()?;
        }
        Ok(directory)
    }

    /// The leases of an owner.
    pub(crate) fn held_by(&mut self, owner: &Owner) -> Result<Vec<Held>> {
        if self.leases.is_none() {
            if let Some(held) = self.indexed(owner) {
                return Ok(held);
            }
            self.resync()?;
        }
        Ok(self.leases.as_ref().and_then(|leases| leases.get(owner)).cloned().unwrap_or_default())
    }

    /// What the index says about an owner; `None` if the lease files say otherwise.
    fn indexed(&self, owner: &Owner) -> Option<Vec<Held>> {
        let leases = self.index.as_ref()?.get(owner).ok()?;
        let is_owned = |held: &Held| {
            lease::read(&self.dir, held.address).is_ok_and(|file| file.is_some_and(|f| f.owner.as_ref() == Some(owner)))
        };
        leases.iter().all(is_owned).then_some(leases)
    }

    /// All leases.
    pub(crate) fn all(&mut self) -> Result<Leases> {
        if self.leases.is_none() {
            self.resync()?;
        }
        Ok(self.leases.clone().unwrap_or_default())
    }

    /// Whether every lease could be read, without which nobody is known to have none.
    pub(crate) fn certain(&mut self) -> Result<()> {
        Error::collect(std::mem::take(&mut self.unreadable))
    }

    /// The addresses that are leased, or at least not free.
    pub(crate) fn taken(&self) -> Result<HashSet<IpAddr>> {
        sys::addresses(&self.dir).map_err(|errno| self.failed("read", "", errno))
    }

    /// Leases an address if it is free.
    pub(crate) fn lease(&mut self, address: IpAddr, owner: &Owner) -> Result<Option<Held>> {
        let name = address.to_string();
        let place = |spares: &mut Spares| spares.place(&self.dir, &name, owner.content());
        let made = match self.spares.as_mut().map_or(Err(Errno::NOENT), place) {
            Ok(file) => Ok(file),
            Err(Errno::EXIST) => return Ok(None),
            Err(_) => match sys::open(&self.dir, &name, Access::Create(0o600)) {
                Ok(file) => sys::write_at(&file, owner.content().as_bytes(), 0).map(|()| file),
                Err(Errno::EXIST) => return Ok(None),
                Err(errno) => return Err(self.failed("create", &name, errno)),
            },
        };
        self.touched = true;
        match made.and_then(|file| sys::facts(&file)) {
            Ok(Facts { changed, .. }) => Ok(Some(Held { address, changed })),
            Err(errno) => {
                // The first error is the one to tell; if this fails too, the next scan finds what is left.
                _ = self.release(address);
                Err(self.failed("write", &name, errno))
            }
        }
    }

    /// Frees an address.
    pub(crate) fn release(&mut self, address: IpAddr) -> Result<()> {
        let name = address.to_string();
        self.touched = true;
        let ended = match &mut self.spares {
            Some(spares) => spares.keep(&self.dir, &name),
            None => sys::remove(&self.dir, &name),
        };
        match ended {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => {
                self.complete = false;
                Err(self.failed("remove", &name, errno))
            }
        }
    }

    /// Notes in the index which leases an owner now has. The leases stand whether or not this works.
    pub(crate) fn record(&mut self, owner: &Owner, leases: &[Held]) {
        self.complete &= self.index.as_ref().is_some_and(|index| index.put(owner, leases).is_ok());
    }

    pub(crate) fn cursor(&self, set: usize) -> Cursor {
        Cursor::read(&self.dir, set)
    }

    pub(crate) fn advance(&mut self, cursor: Cursor, address: IpAddr) {
        self.touched = true;
        _ = cursor.advance(&self.dir, address);
    }

    /// Remembers that the owner is gone, deleted by a call that began at `stamp`.
    pub(crate) fn bury(&mut self, owner: &Owner, stamp: u64) {
        self.state.bury(owner.hash(), stamp);
        self.buried = true;
    }

    /// Whether the owner was deleted by a call that began after `stamp`.
    pub(crate) fn is_buried_since(&self, owner: &Owner, stamp: u64) -> bool {
        self.state.is_buried_since(owner.hash(), stamp)
    }

    /// Ends an operation: from here on the index is believed, if it is complete.
    ///
    /// Without this, or if any step of it fails, the old seal stays, which does not fit the changed directory.
    pub(crate) fn seal(mut self) {
        if self.host.boot.is_none() || !(self.touched || self.buried) {
            return;
        }
        self.state.spares = self.spares.as_ref().map_or(0, Spares::count);
        self.state.buckets = self.index.as_ref().map_or(0, Index::buckets);
        if !self.complete {
            self.state.seal = Seal::BROKEN;
        } else if self.touched {
            self.state.seal = self.mark().unwrap_or(Seal::BROKEN);
        }
        _ = sys::write_at(&self.lock, &self.state.encode(), 0);
    }

    /// Berth's own directory, made if there is none, and the boot that goes into what is written there.
    pub(super) fn ensure_own(&mut self) -> Option<(&OwnedFd, u64)> {
        if self.spares.is_none() {
            sys::make_dirs(&self.own_path).ok()?;
            self.spares = sys::open_dir(&self.own_path).ok().map(|own| Spares::new(own, 0));
        }
        Some((self.spares.as_ref()?.dir(), self.host.boot?))
    }

    /// Breaks the seal on disk too, which comes before any change to the index that no change to the leases goes with:
    /// then only the state can tell that it was under way. Says whether the index may be changed.
    pub(super) fn break_seal(&mut self) -> bool {
        if self.state.seal == Seal::BROKEN {
            return true;
        }
        self.state.seal = Seal::BROKEN;
        sys::write_at(&self.lock, &self.state.encode(), 0).is_ok()
    }

    fn mark(&self) -> io::Result<Seal> {
        let facts = sys::facts(&self.dir)?;
        // In the past, so that no later tick of the kernel's clock can show the same time.
        let now = (sys::now(ClockId::Realtime) - 2) | 1;
        let modified = if now == facts.modified { now - 2 } else { now };
        sys::set_modified(&self.dir, modified)?;
        Ok(Seal { modified, ..Seal::of(facts) })
    }

    pub(super) fn failed(&self, op: &'static str, name: &str, errno: Errno) -> Error {
        Error::Io { op, path: if name.is_empty() { self.path.clone() } else { self.path.join(name) }, errno }
    }
}

/// Where Berth keeps its own things about a network.
pub(crate) fn own_path(data_dir: &Path, network: impl AsRef<Path>) -> PathBuf {
    data_dir.join(".berth").join(network)
}

/// Opens the directory and waits for its lock, until the lock that was waited for is still the one in the directory:
/// people clear these directories by hand.
fn open_locked(path: &Path) -> Result<(OwnedFd, OwnedFd)> {
    let failed = |op, path: PathBuf| move |errno| Error::Io { op, path, errno };
    loop {
        let dir = match sys::open_dir(path) {
            Err(Errno::NOENT) => {
                sys::make_dirs(path).map_err(failed("mkdir", path.to_owned()))?;
                continue;
            }
            other => other.map_err(failed("open", path.to_owned()))?,
        };
        let lock = match sys::open(&dir, "lock", Access::Ensure(0o750)) {
            Err(Errno::NOENT) => continue,
            other => other.map_err(failed("open", path.join("lock")))?,
        };
        sys::lock(&lock).map_err(failed("flock", path.join("lock")))?;
        if sys::facts(&lock).map_err(failed("stat", path.join("lock")))?.is_linked {
            return Ok((dir, lock));
        }
    }
}

fn open_index(spares: Option<&Spares>, host: Host, state: &State) -> Option<Index> {
    Index::open(spares?.dir(), host.boot?, state.buckets).ok()
}

fn read_state(lock: &OwnedFd, boot: u64) -> Option<State> {
    let mut buffer = [0; state::SIZE];
    let content = sys::read_at(lock, &mut buffer, 0).ok()?;
    State::decode(content.try_into().ok()?, boot)
}

impl Seal {
    const fn of(facts: Facts) -> Self {
        Self { inode: facts.inode, modified: facts.modified }
    }
}
