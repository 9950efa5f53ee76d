//! Behind the answers: what the journal has and the API server does not yet, and leases that nobody needs.

use crate::agent::Agent;
use berth_core::error::Error;
use berth_core::ipam::Lease;
use std::time::Duration;
use tracing::{debug, info};

/// How long a lease in which nothing is used stays with the node.
pub(crate) const IDLE: Duration = Duration::from_secs(60);

/// How often one block is written at most, however much happens in it. The first change after a quiet time is told soon;
/// that others see the rest some seconds later harms nobody, since the addresses are leased.
pub(crate) const AT_MOST_EVERY: Duration = Duration::from_secs(10);

/// Writes what is new to the API server; how many blocks that was.
pub(crate) fn flush(agent: &Agent, at_most_every: Duration) -> usize {
    let taken = agent.engine.with_store(|store| store.unflushed(at_most_every).map(|writes| (store.remote(), writes)));
    let (remote, writes) = match taken {
        Ok(taken) => taken,
        Err(error) => {
            debug!(%error, "cannot read the journal");
            return 0;
        }
    };
    // Not under the engine's lock: requests go on meanwhile.
    let outcomes = remote.write_behind(&writes);
    let mut done = 0;
    for (write, outcome) in writes.iter().zip(outcomes) {
        match outcome {
            Ok(outcome) => {
                done += 1;
                if let Err(error) = agent.engine.with_store(|store| store.flushed(write, outcome)) {
                    debug!(%error, block = %write.key, "cannot read a block that others have changed");
                }
            }
            Err(error) => {
                debug!(%error, block = %write.key, "the API server does not have the latest of a block yet");
                break;
            }
        }
    }
    done
}

/// Gives back leases in which nothing has been in use for a while; one of each pool stays, for the next pod.
pub(crate) fn give_back(agent: &Agent, idle_for: Duration) {
    let node = agent.node.clone();
    let returned = agent.engine.transact(move |context| {
        let pools: Vec<String> = context.ipam.pools().map(|pool| pool.name.clone()).collect();
        let mut returned = 0usize;
        for pool in pools {
            let own: Vec<Lease> = context.ipam.leases(&pool).into_iter().filter(|lease| lease.node == node).collect();
            let idle = own.iter().filter(|lease| context.now.since(lease.since) > idle_for);
            let mut left = own.len();
            for lease in idle {
                if left <= 1 {
                    break;
                }
                match context.ipam.return_lease(lease, context.now) {
                    Ok(()) => (left, returned) = (left - 1, returned + 1),
                    Err(Error::InUse { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(returned)
    });
    match returned {
        Ok(0) => {}
        Ok(leases) => info!(leases, "gave back leases that nobody needed"),
        Err(error) => debug!(%error, "could not give leases back"),
    }
}
