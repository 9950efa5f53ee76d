//! The control groups of containers: what they weigh, and the one thing of a node that the kernel does not clean up.
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
/// What all containers together weigh; a process that is in no group weighs 1024 for each of its threads that is busy.
const SHARES: &str = "65536";
/// The same as the new control groups count, where such a process weighs 100: the most there is.
const WEIGHT: &str = "10000";

/// Gives containers their part of the processors when all are busy.
///
/// On a node that systemd runs, kubelet and containerd are in one group, and the kubelet gives the group of all pods a
/// weight by the number of cores, so that pods have at least half of the machine. Here daemons are in no group: without a
/// weight, all containers together would count as much as one busy thread of one of them, and an agent in a container
/// would wait for every process that a plugin or a runtime starts.
pub(crate) fn weigh() {
    let old = Path::new(ROOT).join("cpu");
    let (hierarchy, file, weight) =
        if old.is_dir() { (old, "cpu.shares", SHARES) } else { (PathBuf::from(ROOT), "cpu.weight", WEIGHT) };
    let group = hierarchy.join(PARENT);
    // Where this is not allowed, nothing is shared out by weight either.
    let _ = fs::create_dir(&group);
    let _ = fs::write(group.join(file), weight);
}

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
