//! What a journal is written on. A trait, so that tests can break it at every step.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that is appended to, and now and then replaced as a whole.
pub trait Medium: Send {
    /// Everything that is there.
    ///
    /// # Errors
    /// As the system says.
    fn read_all(&mut self) -> io::Result<Vec<u8>>;

    /// Writes at the end; after an error, any part of `data` may be there.
    ///
    /// # Errors
    /// As the system says.
    fn append(&mut self, data: &[u8]) -> io::Result<()>;

    /// Forces what was appended to disk.
    ///
    /// # Errors
    /// As the system says; after one, what is on disk is unknown.
    fn sync(&mut self) -> io::Result<()>;

    /// Cuts the file off.
    ///
    /// # Errors
    /// As the system says.
    fn truncate(&mut self, len: u64) -> io::Result<()>;

    /// Puts `data` in the place of everything, durably and at once: a crash leaves the old or the new.
    /// The old content may be put aside under `archive`.
    ///
    /// # Errors
    /// As the system says; then the old content is still there.
    fn replace(&mut self, data: &[u8], archive: Option<&Path>) -> io::Result<()>;

    /// What to call it in messages.
    fn path(&self) -> &Path;
}

/// A file of the file system.
#[derive(Debug)]
pub struct FileMedium {
    file: File,
    path: PathBuf,
    /// The file was replaced, but the directory could not be forced to disk yet.
    moved: bool,
}

impl FileMedium {
    /// Opens the file, or creates it, readable by its owner only.
    ///
    /// # Errors
    /// As the system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
        Ok(Self { file, path: path.to_owned(), moved: false })
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
    }
}

impl Medium for FileMedium {
    fn read_all(&mut self) -> io::Result<Vec<u8>> {
        let mut data = Vec::new();
        self.file.seek(SeekFrom::Start(0))?;
        self.file.read_to_end(&mut data)?;
        Ok(data)
    }

    fn append(&mut self, data: &[u8]) -> io::Result<()> {
        self.file.write_all(data)
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.moved {
            self.sync_directory()?;
            self.moved = false;
        }
        self.file.sync_data()
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn replace(&mut self, data: &[u8], archive: Option<&Path>) -> io::Result<()> {
        let next = self.path.with_extension("next");
        let _ = fs::remove_file(&next);
        let mut file = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(&next)?;
        file.write_all(data)?;
        file.sync_all()?;
        if let Some(archive) = archive {
            // A link, not a rename: the journal must never be missing under its own name.
            match fs::hard_link(&self.path, archive) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        fs::rename(&next, &self.path)?;
        // From here on the new file is the journal, whatever else fails: what is written to the old one would be lost.
        self.file = file;
        self.moved = self.sync_directory().is_err();
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
