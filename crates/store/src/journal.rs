//! The embedded store: a journal that holds everything, replayed at start.
//!
//! Requests that arrive together share one frame, and so one write. A frame whose changes must outlive the boot is
//! forced to disk before anyone is answered; what dies with the boot (a container's address) is only written, which
//! survives a crash of this process and costs microseconds. After a loss of power the boot is another one, and those
//! addresses are free anyway; see `docs/store.md` for the measurements.

use crate::entry::{self, Entry, HEADER_LEN, MAX_FRAME, STAMPS_SINCE, VERSION};
use crate::recent::Recent;
use crate::{Batch, BlockStore, BlockWrite, Medium, Revision, StoreError, Stored, Written};
use berth_core::block::{Block, BlockKey};
use berth_core::ipam::Stamp;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// What an object is found by: kind, namespace, name.
pub type ObjectKey = (String, String, String);

/// When a write is forced to disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it must outlive the boot.
    #[default]
    Boot,
    /// Always: for measuring what that costs, and for those who want it.
    Always,
}

/// A journal below this size is not worth compacting.
const COMPACT_FROM: u64 = 4 << 20;

/// What was found when a journal was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// The boot in which it was last used.
    pub boot_id: Option<String>,
    /// Bytes at the end that were cut off: a frame that was being written when the process or the power died.
    pub dropped: u64,
}

/// One journal file and what it says.
#[derive(Debug)]
pub struct Journal<M> {
    medium: M,
    durability: Durability,
    archive_dir: Option<PathBuf>,
    blocks: BTreeMap<BlockKey, (Block, Revision)>,
    objects: BTreeMap<ObjectKey, Vec<u8>>,
    boot_id: Option<String>,
    /// ADDs and DELs of this boot.
    recent: Recent,
    /// The version of the file: it may be older than what is written here.
    version: u32,
    len: u64,
    /// Size after the last compaction; the file is rewritten when it has grown to several times that.
    base: u64,
    poisoned: Option<String>,
    syncs: u64,
    frames: u64,
}

impl<M: Medium> Journal<M> {
    /// Reads the journal, or begins a new one. What was cut off at the end is dropped: a frame that was being written
    /// when the process died or, if the machine has booted since, whatever had not been forced to disk.
    ///
    /// # Errors
    /// If it cannot be read, is of a newer version, or was damaged.
    pub fn open(mut medium: M, durability: Durability, boot_id: &str) -> Result<(Self, Opened), StoreError> {
        let path = medium.path().to_owned();
        let io = |action| move |source| StoreError::Io { action, path, source };
        let data = medium.read_all().map_err(io("read"))?;
        let mut journal = Self {
            medium,
            durability,
            archive_dir: None,
            blocks: BTreeMap::new(),
            objects: BTreeMap::new(),
            boot_id: None,
            recent: Recent::default(),
            version: VERSION,
            len: data.len() as u64,
            base: 0,
            poisoned: None,
            syncs: 0,
            frames: 0,
        };
        if data.len() < HEADER_LEN {
            return journal.begin(&data);
        }
        journal.check_header(&data)?;
        let whole = journal.replay(&data, boot_id)?;
        if journal.boot_id.as_deref() != Some(boot_id) {
            // Of another boot's clock, which does not compare with this one's.
            journal.recent = Recent::default();
        }
        let dropped = (data.len() - whole) as u64;
        if dropped > 0 {
            journal.medium.truncate(whole as u64).map_err(|e| journal.io("truncate", e))?;
            journal.len = whole as u64;
        }
        journal.base = journal.encode_state().len() as u64;
        let boot_id = journal.boot_id.clone();
        Ok((journal, Opened { boot_id, dropped }))
    }

    /// Where the journal goes when it is compacted, for the audit trail.
    pub fn archive_to(&mut self, dir: PathBuf) {
        self.archive_dir = Some(dir);
    }

    /// A new file; what is shorter than a header never held anything.
    fn begin(mut self, found: &[u8]) -> Result<(Self, Opened), StoreError> {
        let header = entry::header();
        if !header.starts_with(&found[..found.len().min(12)]) {
            return Err(self.damaged(0, "not a Berth journal"));
        }
        self.medium.truncate(0).map_err(|e| self.io("truncate", e))?;
        self.medium.append(&header).and_then(|()| self.medium.sync()).map_err(|e| self.io("write", e))?;
        self.len = header.len() as u64;
        self.base = self.len;
        Ok((self, Opened { boot_id: None, dropped: 0 }))
    }

    fn check_header(&mut self, data: &[u8]) -> Result<(), StoreError> {
        if &data[..8] != entry::MAGIC {
            return Err(self.damaged(0, "not a Berth journal"));
        }
        let found = u32::from_le_bytes([data[8], data[9], data[10], data[11]]);
        if found == 0 || found > VERSION {
            let path = self.medium.path().to_owned();
            return Err(StoreError::Version { path, found, known: VERSION });
        }
        self.version = found;
        Ok(())
    }

    /// Applies every whole frame; the length of what is whole.
    fn replay(&mut self, data: &[u8], boot_id: &str) -> Result<usize, StoreError> {
        let mut at = HEADER_LEN;
        while at < data.len() {
            let (len, _, body) = match entry::read_frame(&data[at..]) {
                Ok(frame) => frame,
                Err(error) => {
                    // A crash of the process can only cut the last frame off; a loss of power, only what was not
                    // synced. Anything whole behind the hole that neither explains means damage.
                    let same_boot = self.boot_id.as_deref() == Some(boot_id);
                    if whole_frame_in(&data[at + 1..], !same_boot) {
                        return Err(self.damaged(at, error.0));
                    }
                    break;
                }
            };
            for entry in entry::decode_entries(body).map_err(|error| self.damaged(at, error.0))? {
                self.apply(entry);
            }
            at += len;
            self.frames += 1;
        }
        Ok(at)
    }

    fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Slots { key, changed, block } => {
                let (own, revision) = self.blocks.entry(key.clone()).or_default();
                if changed == u64::MAX {
                    *own = block;
                } else {
                    for slot in (0..64).filter(|slot| changed & (1 << slot) != 0) {
                        own.set(slot, block.slot(slot).map(|view| view.to_slot()).as_ref());
                    }
                }
                *revision += 1;
                if own.is_empty() {
                    self.blocks.remove(&key);
                }
            }
            Entry::Put { kind, namespace, name, json } => {
                self.objects.insert((kind, namespace, name), json);
            }
            Entry::Delete { kind, namespace, name } => {
                self.objects.remove(&(kind, namespace, name));
            }
            Entry::Boot(id) => {
                if self.boot_id.as_ref() != Some(&id) {
                    self.recent = Recent::default();
                }
                self.boot_id = Some(id);
            }
            Entry::Stamp(stamp) => self.recent.push(stamp),
        }
    }

    /// Appends a frame: afterwards it is there as a whole, or not at all.
    fn append(&mut self, entries: &[Entry], durable: bool) -> Result<(), StoreError> {
        if let Some(cause) = &self.poisoned {
            return Err(StoreError::Poisoned(cause.clone()));
        }
        let sync = durable || self.durability == Durability::Always;
        let frame = entry::encode_frame(entries, sync);
        if frame.len() > MAX_FRAME {
            return Err(StoreError::TooLarge { path: self.medium.path().to_owned(), bytes: frame.len() });
        }
        if let Err(error) = self.medium.append(&frame) {
            // Part of the frame may be there; what follows it would be lost, so it has to go.
            if let Err(cut) = self.medium.truncate(self.len) {
                self.poisoned = Some(format!("{error}, then {cut}"));
            }
            return Err(self.io("write", error));
        }
        if sync && let Err(error) = self.medium.sync() {
            // Whether the frame will be there after a crash is unknown; nothing may build on it.
            let _ = self.medium.truncate(self.len);
            self.poisoned = Some(error.to_string());
            return Err(self.io("sync", error));
        }
        self.syncs += u64::from(sync);
        self.frames += 1;
        self.len += frame.len() as u64;
        Ok(())
    }

    /// Rewrites the file as what it says now, if it has grown enough to be worth it. The old file is archived.
    ///
    /// # Errors
    /// If that failed; the old file is still in use then.
    pub fn compact_if_worthwhile(&mut self, archive_name: &str) -> Result<bool, StoreError> {
        if self.len < COMPACT_FROM || self.len < self.base.saturating_mul(4) {
            return Ok(false);
        }
        self.compact(archive_name).map(|()| true)
    }

    /// Rewrites the file as what it says now.
    ///
    /// # Errors
    /// If that failed; the old file is still in use then.
    pub fn compact(&mut self, archive_name: &str) -> Result<(), StoreError> {
        if let Some(cause) = &self.poisoned {
            return Err(StoreError::Poisoned(cause.clone()));
        }
        let state = self.encode_state();
        let archive = self.archive_dir.as_ref().map(|dir| dir.join(archive_name));
        self.medium.replace(&state, archive.as_deref()).map_err(|e| self.io("replace", e))?;
        self.len = state.len() as u64;
        self.base = self.len;
        self.version = VERSION;
        Ok(())
    }

    /// Whether an earlier release wrote the file. It is used as it is, without what that release could not read
    /// (stamps); compacting it makes it one of this release.
    #[must_use]
    pub const fn is_of_older_format(&self) -> bool {
        self.version < VERSION
    }

    fn encode_state(&self) -> Vec<u8> {
        let mut out = entry::header().to_vec();
        let mut frame = |entries: &[Entry]| out.extend_from_slice(&entry::encode_frame(entries, true));
        if let Some(id) = &self.boot_id {
            frame(&[Entry::Boot(id.clone())]);
        }
        let stamps: Vec<Entry> = self.recent.iter().map(Entry::Stamp).collect();
        if !stamps.is_empty() {
            frame(&stamps);
        }
        for ((kind, namespace, name), json) in &self.objects {
            let (kind, namespace, name) = (kind.clone(), namespace.clone(), name.clone());
            frame(&[Entry::Put { kind, namespace, name, json: json.clone() }]);
        }
        for (key, (block, _)) in &self.blocks {
            frame(&[Entry::Slots { key: key.clone(), changed: u64::MAX, block: block.clone() }]);
        }
        out
    }

    /// Records that this boot began.
    ///
    /// # Errors
    /// If it could not be written.
    pub fn set_boot(&mut self, boot_id: &str) -> Result<(), StoreError> {
        let entry = Entry::Boot(boot_id.to_owned());
        self.append(std::slice::from_ref(&entry), true)?;
        self.apply(entry);
        Ok(())
    }

    /// The objects, in order of kind, namespace and name.
    #[must_use]
    pub const fn objects(&self) -> &BTreeMap<ObjectKey, Vec<u8>> {
        &self.objects
    }

    /// Puts and deletes objects, all or none, durably. `None` deletes.
    ///
    /// # Errors
    /// If it could not be written.
    pub fn write_objects(&mut self, changes: &[(ObjectKey, Option<Vec<u8>>)]) -> Result<(), StoreError> {
        let entry = |((kind, namespace, name), json): &(ObjectKey, Option<Vec<u8>>)| {
            let (kind, namespace, name) = (kind.clone(), namespace.clone(), name.clone());
            match json.clone() {
                Some(json) => Entry::Put { kind, namespace, name, json },
                None => Entry::Delete { kind, namespace, name },
            }
        };
        let entries: Vec<Entry> = changes.iter().map(entry).collect();
        self.append(&entries, true)?;
        entries.into_iter().for_each(|entry| self.apply(entry));
        Ok(())
    }

    /// Forces everything to disk, e.g. before a graceful stop.
    ///
    /// # Errors
    /// If that failed.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.medium.sync().map_err(|e| self.io("sync", e))
    }

    /// Bytes in the file, frames written and syncs made since it was opened.
    #[must_use]
    pub const fn counters(&self) -> (u64, u64, u64) {
        (self.len, self.frames, self.syncs)
    }

    /// Why the journal takes no more writes, if it does not.
    #[must_use]
    pub fn poisoned(&self) -> Option<&str> {
        self.poisoned.as_deref()
    }

    fn io(&self, action: &'static str, source: io::Error) -> StoreError {
        StoreError::Io { action, path: self.medium.path().to_owned(), source }
    }

    fn damaged(&self, offset: usize, reason: &str) -> StoreError {
        let path = self.medium.path().to_owned();
        StoreError::Damaged { path, offset: offset as u64, reason: reason.to_owned() }
    }
}

/// Whether a whole frame begins anywhere in `data`.
fn whole_frame_in(data: &[u8], synced_only: bool) -> bool {
    // Looking at two bytes first keeps this from checksumming at every offset.
    let plausible = |at: usize| {
        let (flags, tag) = (data.get(at + 8).copied(), data.get(at + 9).copied());
        let flags_fit = flags == Some(entry::SYNCED) || (!synced_only && flags == Some(0));
        flags_fit && tag.is_some_and(|tag| entry::TAGS.contains(&tag))
    };
    let whole = |at: usize| match entry::read_frame(&data[at..]) {
        Ok((_, _, body)) => entry::decode_entries(body).is_ok(),
        Err(_) => false,
    };
    (0..data.len()).any(|at| plausible(at) && whole(at))
}

impl<M: Medium> BlockStore for Journal<M> {
    fn list(&mut self) -> Result<Vec<Stored>, StoreError> {
        Ok(self.blocks.iter().map(|(key, (block, revision))| (key.clone(), block.clone(), *revision)).collect())
    }

    fn read(&mut self, keys: &[BlockKey]) -> Result<Vec<(Block, Revision)>, StoreError> {
        Ok(keys.iter().map(|key| self.blocks.get(key).cloned().unwrap_or_default()).collect())
    }

    fn write(&mut self, batch: Batch<'_>) -> Result<Vec<Written>, StoreError> {
        let Batch { blocks, stamps, durable } = batch;
        let stamps = if self.version < STAMPS_SINCE { &[] } else { stamps };
        let current = |write: &BlockWrite| self.blocks.get(&write.key).map_or(0, |(_, revision)| *revision);
        let fresh: Vec<bool> = blocks.iter().map(|write| current(write) == write.expected).collect();
        let accepted = || blocks.iter().zip(&fresh).filter(|(_, fresh)| **fresh).map(|(write, _)| write);
        let slots = accepted().map(|write| {
            let mut block = Block::default();
            for slot in (0..64).filter(|slot| write.changed & (1 << slot) != 0) {
                block.set(slot, write.block.slot(slot).map(|view| view.to_slot()).as_ref());
            }
            Entry::Slots { key: write.key.clone(), changed: write.changed, block }
        });
        let entries: Vec<Entry> = slots.chain(stamps.iter().copied().map(Entry::Stamp)).collect();
        if !entries.is_empty() {
            self.append(&entries, durable)?;
        }
        stamps.iter().for_each(|&stamp| self.recent.push(stamp));
        let written = blocks.iter().zip(&fresh).map(|(write, &fresh)| {
            if !fresh {
                return Written::Conflict;
            }
            if write.block.is_empty() {
                self.blocks.remove(&write.key);
                return Written::As(0);
            }
            self.blocks.insert(write.key.clone(), (write.block.clone(), write.expected + 1));
            Written::As(write.expected + 1)
        });
        Ok(written.collect())
    }

    fn waits(&self, durable: bool) -> bool {
        durable || self.durability == Durability::Always
    }

    fn stamps(&self) -> Vec<Stamp> {
        self.recent.iter().collect()
    }
}
