//! Behind the answers: what the journal has and the API server does not yet, and leases that nobody needs.

use crate::agent::Agent;
use crate::store::ClusterStore;
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

/// Tells the API server which containers took up what their pods were promised, if no other write has said so meanwhile.
pub(crate) fn tell_arrivals(agent: &Agent, at_most_every: Duration) {
    let untold = agent.engine.with_store(|store| store.untold(at_most_every));
    if untold.is_empty() {
        return;
    }
    let slots = untold.clone();
    let told = agent.engine.transact(move |context| {
        slots.iter().for_each(|(key, arrivals)| context.ipam.record_anew(key, arrivals.taken()));
        Ok(())
    });
    // What was not there to be written any more does not matter any more.
    let told = told.and_then(|()| {
        let tell = |store: &mut ClusterStore| untold.iter().try_for_each(|(key, slots)| store.told_of(key, slots));
        agent.engine.with_store(tell).map_err(Error::from)
    });
    if let Err(error) = told {
        debug!(%error, "the API server does not know yet which containers have the addresses of their pods");
    }
}

/// Deletes the objects of blocks in which nothing has been in use for so long, and nothing rests any more. Whoever writes
/// one of them meanwhile meets a conflict, or has it deleted under its hands and begins it anew: both are seen.
pub(crate) fn forget_empty(agent: &Agent, empty_for: Duration) {
    // Also those that this agent does not know: who emptied them may be gone.
    let listed = agent.engine.with_store(|store| store.remote()).list_empty();
    let listed = listed.map_err(|error| Error::Unreachable(error.to_string()));
    let forgotten = listed.and_then(|keys| {
        if keys.is_empty() {
            return Ok(0);
        }
        agent.engine.look_at(&keys)?;
        agent.engine.transact(move |context| Ok(context.ipam.forget_cold(context.now.before(empty_for))))
    });
    match forgotten {
        Ok(0) => {}
        Ok(blocks) => info!(blocks, "deleted blocks in which nothing has been in use for a while"),
        Err(error) => debug!(%error, "could not delete empty blocks"),
    }
}

/// Takes the next lease of each pool before the last one is used up: a pod must not wait for it.
pub(crate) fn lend_ahead(agent: &Agent) {
    let node = agent.node.clone();
    let nearly_full = agent.engine.read(|ipam| {
        let lending = ipam.pools().filter(|pool| pool.lending.is_some());
        let own = |pool: &str| ipam.leases(pool).into_iter().filter(|lease| lease.node == node).collect::<Vec<_>>();
        let short = |pool: &str| {
            let own = own(pool);
            !own.is_empty() && !ipam.is_ample(&own)
        };
        lending.map(|pool| pool.name.clone()).filter(|pool| short(pool)).collect::<Vec<String>>()
    });
    if nearly_full.is_empty() {
        return;
    }
    let lent = agent.engine.transact(move |context| {
        let lend = |pool: &String| context.ipam.lend_ahead(pool, &node, context.now, context.entropy).is_some();
        Ok(nearly_full.iter().map(lend).filter(|lent| *lent).count())
    });
    match lent {
        Ok(0) => {}
        Ok(leases) => debug!(leases, "took leases that will be needed soon"),
        Err(error) => debug!(%error, "could not take a lease ahead"),
    }
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
            let mut left = own.clone();
            for lease in idle {
                let others: Vec<Lease> = left.iter().filter(|other| *other != lease).cloned().collect();
                // What would be taken again at once stays.
                if others.is_empty() || !context.ipam.is_ample(&others) {
                    break;
                }
                match context.ipam.return_lease(lease, context.now) {
                    Ok(()) => (left, returned) = (others, returned + 1),
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
