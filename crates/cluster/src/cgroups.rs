//! The control groups of containers: the one thing of a node that the kernel does not clean up.
//!
//! containerd calls a container's group `k8s.io/ID`, and so does every containerd on the machine; so groups are removed
//! by the IDs of the node's own containers. Those are in the names of the directories that containerd keeps for its
//! shims, which for that reason lie on the machine's disk and not in the node's memory: they are still there after an
//! owner that was killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

const ROOT: &str = "/sys/fs/cgroup";
const PARENT: &str = "k8s.io";

/// Removes the groups of a node whose processes are gone: `tasks` has a directory for each container.
pub(crate) fn remove(tasks: &Path) {
    let containers = directories(&tasks.join(PARENT));
    // With the old control groups each controller has a hierarchy of its own below the root.
    for hierarchy in directories(Path::new(ROOT)).into_iter().chain([ROOT.into()]) {
        let parent = hierarchy.join(PARENT);
        for id in containers.iter().filter_map(|container| container.file_name()) {
            remove_group(&parent.join(id));
        }
        // Only if nobody else has one there.
        let _ = fs::remove_dir(parent);
    }
}

fn remove_group(group: &Path) {
    // The kernel may take a moment to notice that a group is empty.
    let deadline = Instant::now() + Duration::from_secs(1);
    while group.exists() && !remove_tree(group) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(5));
    }
}

/// Removes a group and those below. Their files are not removed: they are the kernel's.
fn remove_tree(dir: &Path) -> bool {
    directories(dir).iter().for_each(|dir| _ = remove_tree(dir));
    fs::remove_dir(dir).is_ok()
}

fn directories(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}
