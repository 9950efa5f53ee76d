//! A medium that breaks: at the n-th operation, in one of the ways that disks do, and that can lose its power.

use berth_store::Medium;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The operation fails and does nothing.
    Fails,
    /// An append writes this many bytes, then fails.
    Torn(usize),
    /// The operation is done, but reported as failed.
    DoneButFails,
}

#[derive(Debug, Default)]
struct Disk {
    /// What a process reads.
    cache: Vec<u8>,
    /// What survives a loss of power.
    platter: Vec<u8>,
    operations: usize,
    fault: Option<(usize, Fault)>,
}

/// A disk in memory. Clones share it, so a test can "reopen the file" after a crash.
#[derive(Clone, Debug, Default)]
pub struct FaultyMedium {
    disk: Arc<Mutex<Disk>>,
    path: PathBuf,
}

impl FaultyMedium {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self { disk: Arc::default(), path: PathBuf::from("state.journal") }
    }

    /// A disk with this on it.
    #[must_use]
    pub fn with(data: Vec<u8>) -> Self {
        let medium = Self::new();
        {
            let mut disk = medium.disk();
            disk.platter.clone_from(&data);
            disk.cache = data;
        }
        medium
    }

    /// The n-th operation from now on (0 is the next) goes wrong like this.
    pub fn break_at(&self, operation: usize, fault: Fault) {
        let mut disk = self.disk();
        disk.fault = Some((disk.operations + operation, fault));
    }

    /// How many operations there have been.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.disk().operations
    }

    /// The power goes: of what was not synced, only `survivors` bytes reached the disk.
    pub fn lose_power(&self, survivors: usize) {
        let mut disk = self.disk();
        let synced = disk.platter.len();
        let end = (synced + survivors).min(disk.cache.len());
        if disk.cache.len() >= synced && disk.cache[..synced] == disk.platter[..] {
            disk.platter = disk.cache[..end].to_vec();
        }
        disk.cache = disk.platter.clone();
    }

    /// What a process would read.
    #[must_use]
    pub fn content(&self) -> Vec<u8> {
        self.disk().cache.clone()
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn operate(&self, partial: impl FnOnce(&mut Disk, usize), work: impl FnOnce(&mut Disk)) -> io::Result<()> {
        let mut disk = self.disk();
        let now = disk.operations;
        disk.operations += 1;
        let fault = disk.fault.filter(|(at, _)| *at == now).map(|(_, fault)| fault);
        match fault {
            None => work(&mut disk),
            Some(Fault::Fails) => {}
            Some(Fault::Torn(bytes)) => partial(&mut disk, bytes),
            Some(Fault::DoneButFails) => work(&mut disk),
        }
        if fault.is_some() { Err(io::Error::other("injected fault")) } else { Ok(()) }
    }
}

impl Medium for FaultyMedium {
    fn read_all(&mut self) -> io::Result<Vec<u8>> {
        Ok(self.disk().cache.clone())
    }

    fn append(&mut self, data: &[u8]) -> io::Result<()> {
        let torn = |disk: &mut Disk, bytes: usize| disk.cache.extend_from_slice(&data[..bytes.min(data.len())]);
        self.operate(torn, |disk| disk.cache.extend_from_slice(data))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.operate(|_, _| {}, |disk| disk.platter.clone_from(&disk.cache))
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.operate(|_, _| {}, |disk| disk.cache.truncate(len))
    }

    fn replace(&mut self, data: &[u8], _archive: Option<&Path>) -> io::Result<()> {
        self.operate(
            |_, _| {},
            |disk| {
                disk.cache = data.to_vec();
                disk.platter = data.to_vec();
            },
        )
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
