//! `last_reserved_ip.<range set>`: where the next search begins.
//!
//! It is a hint in host-local and here: if it cannot be read the search begins at the start of the range set, and if it
//! cannot be written the lease stands all the same.

use crate::sys::{self, Access};
use rustix::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

/// The longest text of an address and a little more.
const LONGEST: usize = 64;

pub(crate) struct Cursor {
    name: String,
    file: Option<OwnedFd>,
    len: usize,
    /// The address given out last, if it is known.
    pub(crate) last: Option<IpAddr>,
}

impl Cursor {
    pub(crate) fn read(dir: &OwnedFd, index: usize) -> Self {
        let name = format!("last_reserved_ip.{index}");
        let file = sys::open(dir, &name, Access::Update).ok();
        let mut buffer = [0; LONGEST];
        let content = file.as_ref().and_then(|file| sys::read_at(file, &mut buffer, 0).ok()).unwrap_or_default();
        let last = str::from_utf8(content).ok().and_then(|text| text.trim().parse().ok());
        let len = content.len();
        Self { name, file, len, last }
    }

    /// Puts the cursor on an address. A crash in between leaves some other text, which is as good as a wrong hint.
    pub(crate) fn advance(self, dir: &OwnedFd, address: IpAddr) -> io::Result<()> {
        let file = self.file.map_or_else(|| sys::open(dir, &self.name, Access::Ensure(0o600)), Ok)?;
        let text = address.to_string();
        if text.len() < self.len {
            sys::truncate(&file, text.len())?;
        }
        sys::write_at(&file, text.as_bytes(), 0)
    }
}
