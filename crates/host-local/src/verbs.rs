//! DEL, CHECK, GC and STATUS, and what all verbs share.

use crate::Call;
use crate::config::Config;
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::host::Host;
use crate::lease::Held;
use crate::lower::Set;
use crate::owner::Owner;
use std::collections::HashSet;

/// One call on one machine.
pub(crate) struct Job<'a> {
    pub(crate) call: &'a Call<'a>,
    pub(crate) config: Config<'a>,
    pub(crate) host: Host,
}

impl Job<'_> {
    /// The container's interface.
    pub(crate) fn owner(&self) -> Owner {
        Owner::attachment(self.call.container, self.call.ifname)
    }

    /// The owner in files of old versions, which did not write the interface.
    pub(crate) fn old_owner(&self) -> Owner {
        Owner::container_only(self.call.container)
    }

    /// Does something under the network's lock, and seals the directory whatever came of it.
    pub(crate) fn with_directory<T>(&self, work: impl FnOnce(&mut Directory) -> Result<T>) -> Result<T> {
        let mut directory = Directory::open(&self.config.data_dir()?, self.config.name(), self.host)?;
        let outcome = work(&mut directory);
        directory.seal();
        outcome
    }

    /// Frees everything the container's interface holds, wherever it lies: the configuration may have changed since
    /// ADD, so the ranges are not even read.
    pub(crate) fn del(&self) -> Result<()> {
        self.with_directory(|directory| {
            let mut owner = self.owner();
            directory.bury(&owner, self.call.stamp);
            let mut held = directory.held_by(&owner)?;
            if held.is_empty() {
                owner = self.old_owner();
                held = directory.held_by(&owner)?;
            }
            // A lease that cannot be read is most likely another's, and no DEL shall hang on that. But if nothing else
            // was found, it may be the one.
            let is_known = !held.is_empty();
            free(directory, &owner, held)?;
            if is_known { Ok(()) } else { directory.certain() }
        })
    }

    /// Finds out whether the container's interface still has what ADD gave it.
    pub(crate) fn check(&self) -> Result<()> {
        let sets = self.config.sets()?;
        let remembered = self.config.prev_addresses()?;
        let held = self.with_directory(|directory| {
            let mut held = directory.held_by(&self.owner())?;
            held.extend(directory.held_by(&self.old_owner())?);
            Ok(held)
        })?;
        let container = || self.call.container.to_owned();
        if held.is_empty() {
            return Err(Error::NotFound(container()));
        }
        let is_ours = |address| sets.iter().any(|set| set.contains(address));
        let is_held = |address| held.iter().any(|held| held.address == address);
        match remembered.into_iter().find(|&address| is_ours(address) && !is_held(address)) {
            Some(address) => Err(Error::NotLeased { address, container: container() }),
            None => Ok(()),
        }
    }

    /// Frees what no attachment on the runtime's list holds. Without a list nothing is known, and nothing is freed.
    pub(crate) fn gc(&self) -> Result<()> {
        let Some(valid) = self.config.valid_attachments()? else { return Ok(()) };
        let containers: HashSet<&str> = valid.iter().map(|live| live.container.as_str()).collect();
        let attachments: HashSet<Owner> =
            valid.iter().map(|live| Owner::attachment(&live.container, &live.ifname)).collect();
        let is_valid = |owner: &Owner| match owner.parts() {
            (container, None) => containers.contains(container),
            _ => attachments.contains(owner),
        };
        self.with_directory(|directory| {
            let dead = directory.all()?.into_iter().filter(|(owner, _)| !is_valid(owner));
            let mut errors: Vec<_> = dead.filter_map(|(owner, held)| free(directory, &owner, held).err()).collect();
            errors.extend(directory.certain().err());
            Error::collect(errors)
        })
    }

    /// Says whether ADD would find an address in every range set.
    pub(crate) fn status(&self) -> Result<()> {
        let sets = self.config.sets()?;
        let taken = self.with_directory(|directory| directory.taken());
        let taken = taken.map_err(|error| Error::Unavailable(error.into()))?;
        let is_full = |set: &&Set| set.candidates(None).all(|address| taken.contains(&address));
        match sets.iter().find(is_full) {
            Some(set) => Err(Error::Unavailable(Error::Exhausted(set.to_string()).into())),
            None => Ok(()),
        }
    }
}

/// Frees leases of one owner; goes on after an error, since every address that comes free counts.
fn free(directory: &mut Directory, owner: &Owner, held: Vec<Held>) -> Result<()> {
    let (before, mut kept, mut errors) = (held.len(), held, Vec::new());
    kept.retain(|held| directory.release(held.address).map_err(|error| errors.push(error)).is_err());
    if kept.len() < before {
        directory.record(owner, &kept);
    }
    Error::collect(errors)
}
