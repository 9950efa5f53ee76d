//! Lease files: `<network directory>/<address>`, with the owner as content.

use crate::owner::Owner;
use crate::sys::{self, Access};
use rustix::io::{self, Errno};
use std::net::IpAddr;
use std::os::fd::OwnedFd;

/// Far more than a container ID and an interface name take.
const LONGEST: usize = 4096;

/// A lease as the index knows it. The time of the inode's last change tells this file from a later one of the same
/// address and owner: a container that starts again after a reboot may well get its address again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Held {
    pub(crate) address: IpAddr,
    pub(crate) changed: i64,
}

/// A lease file as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    /// `None` if the file is empty: its writer died, or the disk was full. Then it is nobody's.
    pub(crate) owner: Option<Owner>,
    pub(crate) changed: i64,
    pub(crate) modified: i64,
}

/// Reads the lease of an address; `None` if there is no such file.
pub(crate) fn read(dir: &OwnedFd, address: IpAddr) -> io::Result<Option<File>> {
    let file = match sys::open(dir, &address.to_string(), Access::Read) {
        Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
        other => other?,
    };
    let facts = sys::facts(&file)?;
    if !facts.is_file {
        return Ok(None);
    }
    let mut buffer = [0; LONGEST];
    let owner = Owner::parse(sys::read_at(&file, &mut buffer, 0)?);
    Ok(Some(File { owner, changed: facts.changed, modified: facts.modified }))
}

/// Everything in a network directory.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) files: Vec<(IpAddr, File)>,
    /// How many names are neither a lease nor host-local's own bookkeeping.
    pub(crate) strangers: usize,
    /// Leases that could not be read, so that their owners are not known.
    pub(crate) unreadable: Vec<(IpAddr, Errno)>,
}

pub(crate) fn scan(dir: &OwnedFd) -> io::Result<Scan> {
    let mut scan = Scan::default();
    let mut addresses = Vec::new();
    sys::names(dir, |name| match name.parse::<IpAddr>() {
        // A lease is found again by the text of its address, so only that text is its name.
        Ok(address) if address.to_string() == name => addresses.push(address),
        _ if matches!(name, "." | ".." | "lock") || name.starts_with("last_reserved_ip.") => {}
        _ => scan.strangers += 1,
    })?;
    for address in addresses {
        match read(dir, address) {
            Ok(Some(file)) => scan.files.push((address, file)),
            Ok(None) => scan.strangers += 1,
            Err(errno) => scan.unreadable.push((address, errno)),
        }
    }
    Ok(scan)
}
