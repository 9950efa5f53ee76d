//! Where blocks and objects are kept.
//!
//! One small trait, [`BlockStore`], stands between the engine and storage; nothing above it knows which store it has.
//! The embedded one is the [`Journal`]: one file, appended to, one frame per group of requests.

mod entry;
mod history;
mod journal;
mod lock;
mod medium;
mod recent;

pub use entry::{Entry, decode_frames};
pub use history::{Event, History};
pub use journal::{Durability, Journal, ObjectKey, Opened};
pub use lock::StateLock;
pub use medium::{FileMedium, Medium};

use berth_core::block::{Block, BlockKey};
use berth_core::ipam::Stamp;
use std::io;
use std::path::PathBuf;

/// The version of a block in the store; 0 means that it is not there.
pub type Revision = u64;

/// A block as the store has it.
pub type Stored = (BlockKey, Block, Revision);

/// One block to write, if the store still has the revision that was read.
#[derive(Clone, Debug)]
pub struct BlockWrite {
    /// Which block.
    pub key: BlockKey,
    /// The revision this change was made from.
    pub expected: Revision,
    /// The block as it shall be; an empty one is deleted.
    pub block: Block,
    /// Which slots changed, as bits.
    pub changed: u64,
    /// Those of them in which a container merely took up what its pod had already. Nobody else is concerned, so a store
    /// that is slow may keep this to itself for a while.
    pub arrived: u64,
}

/// What is written at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Batch<'a> {
    /// Blocks, each with the revision it was made from.
    pub blocks: &'a [BlockWrite],
    /// Which ADDs and DELs these changes come from, or which changed nothing but must be remembered.
    pub stamps: &'a [Stamp],
    /// Whether the blocks must survive a loss of power, or only this process. Stamps never outlive the boot.
    pub durable: bool,
}

/// What became of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is in the store, as this revision.
    As(Revision),
    /// Someone else changed the block; nothing was written for it.
    Conflict,
}

/// A place that keeps blocks, each written by compare-and-swap.
pub trait BlockStore: Send {
    /// Every block there is, as of now and not of some cache.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn list(&mut self) -> Result<Vec<Stored>, StoreError>;

    /// What an engine has to know before it serves: everything, or, in a store that others write too, at least every
    /// block in which its own holders have a slot.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn list_own(&mut self) -> Result<Vec<Stored>, StoreError> {
        self.list()
    }

    /// Whether others write to it too, so that there may be blocks which this engine has not seen, and what it has seen
    /// may be out of date.
    fn is_shared(&self) -> bool {
        false
    }

    /// These blocks, in order; revision 0 and an empty block for one that is not there.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn read(&mut self, keys: &[BlockKey]) -> Result<Vec<(Block, Revision)>, StoreError>;

    /// Writes each block whose revision is still the expected one; an answer for each, in order.
    ///
    /// A store without a place for stamps drops them, and says so: then an ADD that was overtaken by its DEL is only
    /// known to be late while the same engine runs.
    ///
    /// # Errors
    /// If the store failed; then nothing of the batch is in it.
    fn write(&mut self, batch: Batch<'_>) -> Result<Vec<Written>, StoreError>;

    /// The latest stamps of this boot, oldest first; none if the store does not keep them.
    fn stamps(&self) -> Vec<Stamp> {
        Vec::new()
    }

    /// Whether a write makes the caller wait for a disk or for another machine.
    fn waits(&self, durable: bool) -> bool;

    /// Blocks that others have changed since this was last asked, as far as the store is told; never waits for them.
    ///
    /// # Errors
    /// If a block that may have changed cannot be read.
    fn changed(&mut self) -> Result<Vec<Stored>, StoreError> {
        Ok(Vec::new())
    }

    /// Whether [`Self::changed`] tells when others change this block, as long as it is like this. Of the others, what is
    /// known may be out of date at any time.
    fn follows(&self, key: &BlockKey, block: &Block) -> bool {
        let _ = (key, block);
        true
    }

    /// Whether a write failed of which it is not known whether it is there all the same, so that somebody may hold what
    /// this engine knows nothing of.
    fn is_unsure(&self) -> bool {
        false
    }

    /// Waits a little before a write is tried again that others have forestalled for the `attempt`th time.
    fn give_way(&mut self, attempt: u32) {
        let _ = attempt;
    }
}

/// Why the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Input or output failed.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file was damaged after it had been written.
    #[error("{} is damaged at byte {offset}: {reason}; restore it from a backup, or move it away to start empty", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// A newer Berth wrote the file.
    #[error("{} has format version {found}, this berth knows up to {known}; use a newer berth", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version it has.
        found: u32,
        /// The newest one known.
        known: u32,
    },
    /// More than a frame may hold; it could not be read back.
    #[error("{bytes} bytes are too much for one write of {}; send fewer objects at once", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// How much it was.
        bytes: usize,
    },
    /// Another process has the store.
    #[error("{} is in use by process {pid}; stop it, or give this one another --state-dir", path.display())]
    Locked {
        /// The state directory.
        path: PathBuf,
        /// Who has it.
        pid: String,
    },
    /// A store on another machine did not answer; what was written is not known.
    #[error("{0}")]
    Unreachable(String),
    /// A store on another machine understood and refused.
    #[error("{reason} (status {status})")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What it said.
        reason: String,
    },
    /// An earlier write failed in a way that leaves the file's content unknown.
    #[error("the store stopped taking writes after an error: {0}; restart berth once the cause is mended")]
    Poisoned(String),
}

impl From<StoreError> for berth_core::error::Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unreachable(reason) => Self::Unreachable(reason),
            other => Self::Store(other.to_string()),
        }
    }
}
