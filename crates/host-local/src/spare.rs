//! Lease files that are not in use, kept to be used again.
//!
//! Moving a file is many times cheaper than making one: file systems take their time over inodes, and some (ext4
//! without a journal) more of it the more files were removed of late. And a lease that is moved into place is there at
//! once and whole: at no moment is there an empty file.
//!
//! They are `0`, `1`, `2` and so on in Berth's own directory, and how many there are is in the [state](crate::state).
//! If that is wrong after a kill, a missing one is made as host-local makes it, and a superfluous one is replaced.

use crate::sys::{self, Access};
use rustix::io::{self, Errno};
use std::os::fd::OwnedFd;

/// As many as a busy node has containers.
const MOST: u64 = 256;

pub(crate) struct Spares {
    dir: OwnedFd,
    count: u64,
    /// The topmost one, if its new content is already in it.
    ready: Option<(String, OwnedFd)>,
}

impl Spares {
    pub(crate) const fn new(dir: OwnedFd, count: u64) -> Self {
        Self { dir, count, ready: None }
    }

    /// Berth's own directory.
    pub(crate) const fn dir(&self) -> &OwnedFd {
        &self.dir
    }

    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// Makes a spare file the lease of this name, with this content. The error is `EXIST` if the name is taken; any
    /// other says that there is no spare to be had.
    pub(crate) fn place(&mut self, leases: &OwnedFd, name: &str, content: &str) -> io::Result<OwnedFd> {
        let Some(top) = self.count.checked_sub(1) else { return Err(Errno::NOENT) };
        let file = match self.ready.take().filter(|(ready, _)| ready == content) {
            Some((_, file)) => Ok(file),
            None => self.prepare(top, content),
        };
        let placed = file.and_then(|file| match sys::move_new(&self.dir, &top.to_string(), leases, name) {
            Ok(()) => Ok(file),
            Err(errno) => {
                self.ready = Some((content.to_owned(), file));
                Err(errno)
            }
        });
        match placed {
            Ok(_) => self.count = top,
            Err(Errno::EXIST) => {}
            // Not what the state says, or not a file system that can do this: begin anew.
            Err(_) => self.count = 0,
        }
        placed
    }

    fn prepare(&self, top: u64, content: &str) -> io::Result<OwnedFd> {
        let file = sys::open(&self.dir, &top.to_string(), Access::Update)?;
        sys::write_at(&file, content.as_bytes(), 0)?;
        if sys::facts(&file)?.size != content.len() as u64 {
            sys::truncate(&file, content.len())?;
        }
        Ok(file)
    }

    /// Ends a lease and keeps its file, or removes it if there are enough.
    pub(crate) fn keep(&mut self, leases: &OwnedFd, name: &str) -> io::Result<()> {
        self.ready = None;
        if self.count >= MOST {
            return sys::remove(leases, name);
        }
        match sys::move_over(leases, name, &self.dir, &self.count.to_string()) {
            Ok(()) => self.count += 1,
            Err(Errno::NOENT) => return Err(Errno::NOENT),
            Err(_) => return sys::remove(leases, name),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_goes_round_and_nothing_is_overwritten() {
        let root = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = root.path().join(name);
            std::fs::create_dir(&path).unwrap();
            (sys::open_dir(&path).unwrap(), path)
        };
        let ((leases, path), (own, _)) = (make("leases"), make("own"));
        let mut spares = Spares::new(own, 0);
        assert_eq!(spares.place(&leases, "a", "x").unwrap_err(), Errno::NOENT);
        std::fs::write(path.join("a"), "a long content").unwrap();
        std::fs::write(path.join("b"), "b").unwrap();
        spares.keep(&leases, "a").unwrap();
        assert_eq!(spares.place(&leases, "b", "new").unwrap_err(), Errno::EXIST);
        assert_eq!(std::fs::read_to_string(path.join("b")).unwrap(), "b");
        spares.place(&leases, "c", "new").unwrap();
        assert_eq!(std::fs::read_to_string(path.join("c")).unwrap(), "new");
        assert_eq!(spares.count(), 0);
        assert_eq!(spares.keep(&leases, "none"), Err(Errno::NOENT));
        spares.count = 7;
        assert_eq!(spares.place(&leases, "d", "x").unwrap_err(), Errno::NOENT, "the state was wrong");
        assert_eq!(spares.count(), 0);
        spares.count = MOST;
        spares.keep(&leases, "c").unwrap();
        assert!(!path.join("c").exists() && spares.count() == MOST);
    }
}
