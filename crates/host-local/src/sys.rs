//! The system calls this crate makes on the state, each behind a point where tests can make it fail.

use rustix::fs::{self, AtFlags, FileType, FlockOperation, Mode, OFlags, RawDir, Timespec, Timestamps};
use rustix::io::{self, Errno};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

const NANOS: i64 = 1_000_000_000;

/// What a call does to the disk, for faults that hit only some calls: a full disk lets nothing grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Look,
    Grow,
    Shrink,
}

/// What is wanted of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// Read and write a file that exists.
    Update,
    /// The same, or create it.
    Ensure(u32),
    /// Create a file that must not exist.
    Create(u32),
}

impl Access {
    fn flags(self) -> (Effect, OFlags, Mode) {
        let (effect, flags, mode) = match self {
            Self::Read => (Effect::Look, OFlags::RDONLY | OFlags::NONBLOCK, 0),
            Self::Update => (Effect::Look, OFlags::RDWR, 0),
            Self::Ensure(mode) => (Effect::Grow, OFlags::RDWR | OFlags::CREATE, mode),
            Self::Create(mode) => (Effect::Grow, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode),
        };
        (effect, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::from_raw_mode(mode))
    }
}

/// The few numbers of `stat` that matter here; times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) inode: u64,
    pub(crate) is_linked: bool,
    pub(crate) is_file: bool,
    pub(crate) size: u64,
    pub(crate) modified: i64,
    pub(crate) changed: i64,
}

pub(crate) fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    fault::point(Effect::Look)?;
    fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

pub(crate) fn make_dirs(path: &Path) -> io::Result<()> {
    fault::point(Effect::Grow)?;
    std::fs::create_dir_all(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

pub(crate) fn open(dir: &OwnedFd, name: &str, access: Access) -> io::Result<OwnedFd> {
    let (effect, flags, mode) = access.flags();
    fault::point(effect)?;
    fs::openat(dir, name, flags, mode)
}

/// Waits until the file is ours alone.
pub(crate) fn lock(file: &OwnedFd) -> io::Result<()> {
    fault::point(Effect::Look)?;
    io::retry_on_intr(|| fs::flock(file, FlockOperation::LockExclusive))
}

pub(crate) fn facts(file: &OwnedFd) -> io::Result<Facts> {
    fault::point(Effect::Look)?;
    let stat = fs::fstat(file)?;
    Ok(Facts {
        inode: stat.st_ino,
        is_linked: stat.st_nlink > 0,
        is_file: FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified: nanos(stat.st_mtime, stat.st_mtime_nsec),
        changed: nanos(stat.st_ctime, stat.st_ctime_nsec),
    })
}

/// Fills the buffer from the file at an offset; what there was is returned.
pub(crate) fn read_at<'a>(file: &OwnedFd, buffer: &'a mut [u8], offset: u64) -> io::Result<&'a [u8]> {
    fault::point(Effect::Look)?;
    let read = io::pread(file, &mut *buffer, offset)?;
    Ok(&buffer[..read])
}

/// The whole file.
pub(crate) fn read_all(file: &OwnedFd) -> io::Result<Vec<u8>> {
    const CHUNK: usize = 256 * 1024;
    let mut bytes = Vec::new();
    loop {
        let len = bytes.len();
        bytes.resize(len + CHUNK, 0);
        let read = read_at(file, &mut bytes[len..], len as u64)?.len();
        bytes.truncate(len + read);
        if read == 0 {
            return Ok(bytes);
        }
    }
}

/// Writes all of the bytes at an offset, or fails.
pub(crate) fn write_at(file: &OwnedFd, bytes: &[u8], offset: u64) -> io::Result<()> {
    fault::point(Effect::Grow)?;
    let written = io::pwrite(file, bytes, offset)?;
    if written == bytes.len() { Ok(()) } else { Err(Errno::NOSPC) }
}

pub(crate) fn truncate(file: &OwnedFd, len: usize) -> io::Result<()> {
    fault::point(Effect::Shrink)?;
    fs::ftruncate(file, len as u64)
}

pub(crate) fn remove(dir: &OwnedFd, name: &str) -> io::Result<()> {
    fault::point(Effect::Shrink)?;
    fs::unlinkat(dir, name, AtFlags::empty())
}

/// Moves a file to a name that must not be taken.
pub(crate) fn move_new(from: &OwnedFd, name: &str, to: &OwnedFd, new: &str) -> io::Result<()> {
    fault::point(Effect::Grow)?;
    fs::renameat_with(from, name, to, new, fs::RenameFlags::NOREPLACE)
}

/// Moves a file to a name, in place of the file of that name.
pub(crate) fn move_over(from: &OwnedFd, name: &str, to: &OwnedFd, new: &str) -> io::Result<()> {
    fault::point(Effect::Grow)?;
    fs::renameat(from, name, to, new)
}

pub(crate) fn set_modified(dir: &OwnedFd, at: i64) -> io::Result<()> {
    fault::point(Effect::Shrink)?;
    let time = Timespec { tv_sec: at.div_euclid(NANOS), tv_nsec: at.rem_euclid(NANOS) };
    fs::futimens(dir, &Timestamps { last_access: time, last_modification: time })
}

/// The names in a directory that are UTF-8, which all names here are.
pub(crate) fn names(dir: &OwnedFd, mut each: impl FnMut(&str)) -> io::Result<()> {
    fault::point(Effect::Look)?;
    fs::seek(dir, fs::SeekFrom::Start(0))?;
    let mut buffer = Vec::with_capacity(64 * 1024);
    let mut entries = RawDir::new(dir.as_fd(), buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        if let Ok(name) = entry?.file_name().to_str() {
            each(name);
        }
    }
    Ok(())
}

/// The addresses that have a file in the directory.
pub(crate) fn addresses<C: Default + Extend<IpAddr>>(dir: &OwnedFd) -> io::Result<C> {
    let mut addresses = C::default();
    names(dir, |name| addresses.extend(name.parse()))?;
    Ok(addresses)
}

fn nanos(seconds: i64, nanos: impl TryInto<i64>) -> i64 {
    seconds.saturating_mul(NANOS).saturating_add(nanos.try_into().unwrap_or(0))
}

/// Nanoseconds since 1970 by this clock.
pub(crate) fn now(clock: rustix::time::ClockId) -> i64 {
    let now = rustix::time::clock_gettime(clock);
    nanos(now.tv_sec, now.tv_nsec)
}

#[cfg(not(test))]
mod fault {
    /// Nothing fails on purpose outside tests.
    #[inline]
    pub(super) const fn point(_: super::Effect) -> rustix::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[path = "tests/fault.rs"]
pub(crate) mod fault;
