//! What both doors of the daemon share.

use crate::metrics::Metrics;
use crate::objects;
use anyhow::Context as _;
use berth_core::time::Time;
use berth_door::Quiet;
use berth_engine::Engine;
use berth_store::{Durability, FileMedium, History, Journal, StateLock};
use berth_wire::boot;
use std::collections::hash_map::RandomState;
use std::fs::DirBuilder;
use std::hash::{BuildHasher, Hasher};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::{info, warn};

/// Where a daemon keeps its blocks.
pub(crate) type DaemonStore = Journal<FileMedium>;

/// One machine's allocator with everything around it.
pub struct Node {
    /// The allocator.
    pub engine: Engine<DaemonStore>,
    /// Who held an address when.
    pub history: History,
    /// What is counted.
    pub metrics: Metrics,
    /// What is known of the wire.
    pub(crate) quiet: Quiet,
    /// The name of this machine, for pools that are bound to nodes.
    pub name: String,
    /// Whether there was no state before.
    pub(crate) new: bool,
    /// Whether the machine has booted since the state was last used.
    pub(crate) booted: bool,
    _lock: StateLock,
}

impl Node {
    /// Opens the state directory, or makes it.
    ///
    /// # Errors
    /// If another process has it, or the journal cannot be read.
    pub fn open(state_dir: &Path, name: &str, durability: Durability) -> anyhow::Result<Self> {
        let dir = DirBuilder::new().recursive(true).mode(0o700).create(state_dir);
        dir.with_context(|| format!("make the state directory {}", state_dir.display()))?;
        let lock = StateLock::take(state_dir)?;
        let path = state_dir.join("state.journal");
        let medium = FileMedium::open(&path).with_context(|| format!("open {}", path.display()))?;
        let boot_id = boot::id().context("read the boot ID")?;
        let (mut journal, opened) = Journal::open(medium, durability, &boot_id)?;
        if opened.dropped > 0 {
            warn!(bytes = opened.dropped, "dropped a write that was cut off at the end of the journal");
        }
        let history = History::new(&path).with_context(|| format!("make {}", state_dir.join("audit").display()))?;
        journal.archive_to(history.dir().to_owned());
        if journal.is_of_older_format() {
            journal.compact(&History::archive_name(now()))?;
            info!("the journal was of an older format; it is archived, and rewritten in the one of this release");
        }
        let config = objects::configuration(&journal)?;
        let engine = Engine::open(journal, config, seed(), now)?.before_waiting(berth_door::door::before_waiting);
        let booted = opened.boot_id.as_ref() != Some(&boot_id);
        let (new, name, metrics) = (opened.boot_id.is_none(), name.to_owned(), Metrics::new());
        let node = Self { engine, history, metrics, quiet: Quiet::default(), name, new, booted, _lock: lock };
        node.begin_boot(opened.boot_id.as_deref(), &boot_id)?;
        node.forget_lost_claims()?;
        Ok(node)
    }

    /// The containers of an earlier boot are gone, whatever the journal says of them.
    fn begin_boot(&self, last: Option<&str>, current: &str) -> anyhow::Result<()> {
        if last == Some(current) {
            return Ok(());
        }
        if last.is_some() {
            let name = self.name.clone();
            let freed = self.engine.transact(move |context| Ok(context.ipam.release_dead_boot(&name, context.now)))?;
            info!(addresses = freed.len(), "the machine has booted since: addresses of dead containers are free");
        }
        self.engine.with_store(|journal| journal.set_boot(current))?;
        Ok(())
    }
}

/// The time of day.
#[must_use]
pub fn now() -> Time {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX))
}

/// A random number from the system, by way of the standard library's own seeding.
#[must_use]
pub fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
