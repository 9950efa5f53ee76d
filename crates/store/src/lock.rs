use crate::StoreError;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The right to use a state directory; gone when dropped, or with the process.
#[derive(Debug)]
pub struct StateLock {
    _file: File,
}

impl StateLock {
    /// Takes the lock.
    ///
    /// # Errors
    /// [`StoreError::Locked`] names the process that has it.
    pub fn take(state_dir: &Path) -> Result<Self, StoreError> {
        let path = state_dir.join("lock");
        let io = |source| StoreError::Io { action: "lock", path: path.clone(), source };
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let mut file = open.map_err(io)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            let pid = if pid.trim().is_empty() { "(unknown)" } else { pid.trim() };
            return Err(StoreError::Locked { path: state_dir.to_owned(), pid: pid.to_owned() });
        }
        file.set_len(0).map_err(io)?;
        file.rewind().map_err(io)?;
        writeln!(file, "{}", std::process::id()).map_err(io)?;
        Ok(Self { _file: file })
    }
}
