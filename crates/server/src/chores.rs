//! What time does: holds and quarantines run out, cold blocks are forgotten, the journal is compacted, the audit trail
//! is pruned, deletions left on disk are worked off.

use crate::node::{Node, now};
use berth_door::Queue;
use berth_store::History;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use tracing::{info, warn};

/// How long a block in which nothing is taken keeps the memory of when its addresses were released.
const COLD_AFTER: Duration = Duration::from_secs(3600);

/// The audit trail takes at most this much of the disk, whatever its age.
const AUDIT_MAX_BYTES: u64 = 1 << 30;

/// How long it rests between two rounds.
pub(crate) const ROUND: Duration = Duration::from_secs(1);

/// Does the chores until told to stop, which it notices while it rests: `stop` is never sent to, it hangs up.
pub(crate) fn run(node: &Node, queue: &Queue, audit_keep: Duration, round: Duration, stop: &Receiver<()>) {
    for second in 0u64.. {
        sweep(node);
        queue.drain(node, false);
        if second % 60 == 59 {
            forget(node);
            if let Err(error) = node.forget_lost_claims() {
                warn!(%error, "could not let go of what was kept for claims that are gone");
            }
            compact(node);
        }
        if second % 3600 == 0 {
            prune(node, audit_keep);
        }
        if stop.recv_timeout(round) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

fn sweep(node: &Node) {
    match node.engine.transact(|context| Ok(context.ipam.sweep(context.now))) {
        Ok(freed) if !freed.is_empty() => info!(addresses = freed.len(), "holds and quarantines ran out"),
        Ok(_) => {}
        Err(error) => warn!(%error, "could not end what has run out"),
    }
}

fn forget(node: &Node) {
    // A pool that cools longer than this keeps its memory longer.
    let longest = node.engine.read(|ipam| ipam.pools().map(|pool| pool.cool_down).max().unwrap_or_default());
    let age = longest.max(COLD_AFTER);
    if let Err(error) = node.engine.transact(move |context| Ok(context.ipam.forget_cold(context.now.before(age)))) {
        warn!(%error, "could not forget cold blocks");
    }
}

fn compact(node: &Node) {
    let name = History::archive_name(now());
    match node.engine.with_store(|journal| journal.compact_if_worthwhile(&name)) {
        Ok(true) => info!("compacted the journal"),
        Ok(false) => {}
        Err(error) => warn!(%error, "could not compact the journal"),
    }
}

fn prune(node: &Node, keep: Duration) {
    match node.history.prune(now(), keep, AUDIT_MAX_BYTES) {
        Ok(0) => {}
        Ok(files) => info!(files, "pruned the audit trail"),
        Err(error) => warn!(%error, "could not prune the audit trail"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_store::Durability;
    use std::sync::mpsc::channel;
    use std::thread;

    /// Or this test takes an hour.
    #[test]
    fn a_stop_is_noticed_in_the_middle_of_a_rest() {
        let dir = tempfile::tempdir().unwrap();
        let node = Node::open(&dir.path().join("state"), "n", Durability::Boot).unwrap();
        let queue = Queue::beside(&dir.path().join("sock"));
        let (stop, stopped) = channel();
        thread::scope(|scope| {
            let hour = Duration::from_secs(3600);
            let (node, queue) = (&node, &queue);
            let chores = scope.spawn(move || run(node, queue, hour, hour, &stopped));
            drop(stop);
            chores.join().unwrap();
        });
    }
}
