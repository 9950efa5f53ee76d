//! Reading a whole network directory: after host-local has worked in it, after a kill, and after a reboot.
//!
//! It also clears away what holds addresses for nobody:
//! - empty lease files, left by a full disk or a crash. Both programs write a lease under the lock, so under the lock
//!   nobody is about to fill one;
//! - leases of an earlier boot. What is not [known](crate::host) to be dead is kept, and taken into the index, so that
//!   it is known at the next boot.

use crate::directory::{Directory, Leases};
use crate::error::Result;
use crate::host::Ages;
use crate::index::Index;
use crate::lease::{self, Held};
use std::net::IpAddr;

impl Directory {
    /// Reads all leases, clears away the dead ones and makes the index anew.
    pub(super) fn resync(&mut self) -> Result<()> {
        let scan = lease::scan(&self.dir).map_err(|errno| self.failed("read", "", errno))?;
        let unreadable = scan.unreadable.iter();
        self.unreadable =
            unreadable.map(|(address, errno)| self.failed("read", &address.to_string(), *errno)).collect();
        self.complete = self.unreadable.is_empty();
        self.touched = true;
        self.index = self.ensure_own().and_then(|(own, boot)| Index::ensure(own, boot).ok());

        let mut leases = Leases::new();
        for (address, file) in scan.files {
            match file.owner {
                Some(owner) => leases.entry(owner).or_default().push(Held { address, changed: file.changed }),
                None => self.clear(address),
            }
        }
        self.bury_the_dead(&mut leases);
        self.complete &= self.break_seal() && self.index.as_mut().is_some_and(|index| index.rebuild(&leases).is_ok());
        self.leases = Some(leases);
        Ok(())
    }

    /// Removes the leases of earlier boots, from the disk and from `leases`.
    fn bury_the_dead(&mut self, leases: &mut Leases) {
        let indexed = self.index.as_ref().and_then(|index| index.load().ok()).unwrap_or_default();
        let ages = Ages::new(self.host, &indexed);
        leases.retain(|owner, held| {
            held.retain(|&lease| {
                let is_dead = ages.is_dead(owner, lease);
                if is_dead {
                    self.clear(lease.address);
                }
                !is_dead
            });
            !held.is_empty()
        });
    }

    /// Frees an address that is nobody's. If that fails the file stays, and the seal stays broken.
    fn clear(&mut self, address: IpAddr) {
        _ = self.release(address);
    }
}
