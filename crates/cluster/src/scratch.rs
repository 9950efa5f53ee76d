//! What a cluster owns on the machine besides its processes: a directory, and for nodes a bridge and control groups.
//!
//! They carry the process ID of their owner, or hang on what does. Dropping removes them; if the owner was killed, the next cluster that
//! starts finds them orphaned and removes them. Nothing else can be left behind: the processes die with their parent,
//! and a node's interfaces and mounts with the node's first process (see [`crate::node`]).

use crate::cgroups;
use crate::error::{Context, Result};
use crate::node::TASKS;
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::{env, fs, process};
use tempfile::TempDir;

const PREFIX: &str = "berth-cluster-";

/// A directory of this process, removed when dropped.
pub(crate) fn directory() -> Result<TempDir> {
    let parent = env::temp_dir();
    sweep(&parent);
    let prefix = format!("{PREFIX}{}-", process::id());
    tempfile::Builder::new()
        .prefix(&prefix)
        .tempdir_in(&parent)
        .context(|| format!("cannot make a directory in {}", parent.display()))
}

/// A number that no other cluster of this process has.
pub(crate) fn number() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    NEXT.fetch_add(1, Ordering::SeqCst)
}

/// Whether the process that something belongs to is gone.
pub(crate) fn orphaned(owner: u32) -> bool {
    !Path::new(&format!("/proc/{owner}")).exists()
}

/// Removes the directories of processes that are gone. Best effort: another process may be at it too.
fn sweep(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()).filter(|path| owner(path).is_some_and(orphaned)) {
        for node in fs::read_dir(&path).into_iter().flatten().flatten() {
            cgroups::remove(&node.path().join(TASKS));
        }
        let _ = fs::remove_dir_all(path);
    }
}

fn owner(path: &Path) -> Option<u32> {
    let rest = path.file_name()?.to_str()?.strip_prefix(PREFIX)?;
    rest.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_dead_processes_are_swept_and_others_stay() {
        let parent = tempfile::tempdir().unwrap();
        // Process IDs end at 2^22.
        let dead = parent.path().join("berth-cluster-99999999-x");
        let own = parent.path().join(format!("berth-cluster-{}-x", process::id()));
        let other = parent.path().join("berth-clusters");
        for dir in [&dead, &own, &other] {
            fs::create_dir(dir).unwrap();
        }
        sweep(parent.path());
        assert!(!dead.exists() && own.exists() && other.exists());
    }
}
