//! The audit trail: who held an address when.
//!
//! Every change is in the journal anyway, so the trail costs nothing on the way of a request. When the journal is
//! compacted the old file is kept in a directory of its own, until it is too old or there are too many bytes.

use crate::entry::{Entry, decode_frames};
use berth_core::addr::Family;
use berth_core::block::Slot;
use berth_core::time::Time;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One thing that happened to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The slot as it became; `None` if its record was forgotten.
    pub slot: Option<Slot>,
    /// The network.
    pub network: String,
    /// The address, or the first of the prefix.
    pub address: IpAddr,
    /// The prefix length of the unit.
    pub unit_len: u8,
}

/// The archived journals of a state directory.
#[derive(Clone, Debug)]
pub struct History {
    journal: PathBuf,
    dir: PathBuf,
}

impl History {
    /// The trail behind a journal file; archives are in `audit` beside it.
    ///
    /// # Errors
    /// If the directory cannot be made.
    pub fn new(journal: &Path) -> io::Result<Self> {
        let dir = journal.with_file_name("audit");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        Ok(Self { journal: journal.to_owned(), dir })
    }

    /// Where archives go.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The name of an archive made now; names sort by time.
    #[must_use]
    pub fn archive_name(now: Time) -> String {
        format!("{:020}.journal", now.0)
    }

    /// What happened to an address since `from`, oldest first, without repeats.
    ///
    /// # Errors
    /// If a file cannot be read. An archive that was pruned meanwhile is no error.
    pub fn of(&self, network: Option<&str>, address: IpAddr, from: Time) -> io::Result<Vec<Event>> {
        let mut events: Vec<Event> = Vec::new();
        for (_, path) in self.archives()? {
            self.scan(&path, network, address, &mut events)?;
        }
        self.scan(&self.journal, network, address, &mut events)?;
        events.retain(|event| event.slot.as_ref().is_some_and(|slot| slot.since >= from));
        events.sort_by_key(|event| event.slot.as_ref().map(|slot| slot.since));
        // A compacted journal begins with what the one before it ended with.
        events.dedup();
        Ok(events)
    }

    fn scan(&self, path: &Path, network: Option<&str>, address: IpAddr, out: &mut Vec<Event>) -> io::Result<()> {
        let data = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            data => data?,
        };
        decode_frames(&data, |entry| {
            let Entry::Slots { key, changed, block } = entry else { return };
            let plane = &key.plane;
            if plane.family != Family::of(address) || network.is_some_and(|name| name != &*plane.network) {
                return;
            }
            let unit = plane.unit_of(address);
            let (index, slot) = (unit / 64, u8::try_from(unit % 64).unwrap_or(0));
            let slot_value = block.slot(slot).map(|view| view.to_slot());
            // A whole block, as compaction writes it, says nothing of slots that it lacks.
            if index != key.index || changed & (1 << slot) == 0 || (changed == u64::MAX && slot_value.is_none()) {
                return;
            }
            let (network, address, unit_len) = (plane.network.to_string(), plane.addr(unit), plane.unit_len);
            out.push(Event { slot: slot_value, network, address, unit_len });
        });
        Ok(())
    }

    /// Deletes archives older than `keep`, and the oldest ones beyond `max_bytes`.
    ///
    /// # Errors
    /// If the directory cannot be read or a file not be deleted.
    pub fn prune(&self, now: Time, keep: Duration, max_bytes: u64) -> io::Result<usize> {
        let mut archives = self.archives()?;
        archives.reverse();
        let (mut total, mut pruned) = (0, 0);
        for (made, path) in archives {
            total += fs::metadata(&path)?.len();
            if now.since(made) > keep || total > max_bytes {
                fs::remove_file(&path)?;
                pruned += 1;
            }
        }
        Ok(pruned)
    }

    fn archives(&self) -> io::Result<Vec<(Time, PathBuf)>> {
        let mut found = Vec::new();
        for file in fs::read_dir(&self.dir)? {
            let path = file?.path();
            let made = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
            found.extend(made.map(|made| (Time(made), path)));
        }
        found.sort();
        Ok(found)
    }
}
