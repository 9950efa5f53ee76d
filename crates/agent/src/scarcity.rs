//! When a pool that lends has nothing left for a node: others are asked, and give.
//!
//! What is free in a lease only its lessee knows, so nobody can take from it. A node that goes short says so on the
//! blocks of leases; who has leases there hears of it by its watch and *opens* one: the block's truth moves from its
//! journal to the API server, with everything that is in use, and from then on anybody takes single addresses of it as
//! of a shared pool. So with as many addresses as pods every pod gets one, wherever it runs.

use crate::agent::Agent;
use berth_core::block::BlockKey;
use berth_core::ipam::Lease;
use std::sync::PoisonError;
use tracing::{debug, info};

/// Says on the blocks of leases of the pools that this node is short of that it needs addresses.
pub(crate) fn ask(agent: &Agent) {
    let short = std::mem::take(&mut *agent.short_of.lock().unwrap_or_else(PoisonError::into_inner));
    if short.is_empty() {
        return;
    }
    let keys: Vec<BlockKey> = agent.engine.read(|ipam| {
        let lending = |name: &String| {
            let pool = ipam.pool(name)?;
            pool.lending.filter(|lending| !lending.strict).map(|_| pool.clone())
        };
        let pools: Vec<_> = short.iter().filter_map(lending).collect();
        let records = |key: &BlockKey| {
            let of = key.plane.leases_of();
            pools.iter().any(|pool| of == Some(&*pool.network) && pool.family == key.plane.family)
        };
        ipam.blocks().map(|(key, _)| key).filter(|key| records(key)).cloned().collect()
    });
    let remote = agent.engine.with_store(|store| store.remote());
    for key in keys {
        match remote.want(&key) {
            Ok(true) => info!(block = %key, "asked for a lease to be opened"),
            Ok(false) => {}
            Err(error) => return debug!(%error, "cannot ask for a lease to be opened"),
        }
    }
}

/// Opens a lease of each block where another node has asked for it.
pub(crate) fn open_wanted(agent: &Agent) {
    let wanted = agent.engine.with_store(|store| store.remote().take_wanted());
    if wanted.is_empty() {
        return;
    }
    let node = agent.node.clone();
    let opened = agent.engine.transact(move |context| {
        let pools: Vec<String> = context.ipam.pools().map(|pool| pool.name.clone()).collect();
        let mut opened = 0usize;
        for pool in pools {
            let own = context.ipam.leases(&pool).into_iter().filter(|lease| lease.node == node);
            let meant = |lease: &Lease| wanted.iter().any(|key| records(key, lease));
            // The one with the most to give; one that has nothing to give stays.
            let free = |lease: &Lease| {
                let (used, size) = context.ipam.lease_usage(lease);
                size.as_f64() - used.as_f64()
            };
            let mut own: Vec<(f64, Lease)> = own.filter(meant).map(|lease| (free(&lease), lease)).collect();
            own.sort_by(|a, b| b.0.total_cmp(&a.0));
            if let Some((_, lease)) = own.first().filter(|(free, _)| *free > 0.0) {
                context.ipam.open_lease(lease, context.now)?;
                opened += 1;
            }
        }
        Ok(opened)
    });
    match opened {
        Ok(0) => {}
        Ok(leases) => info!(leases, "opened leases for nodes that are short of addresses"),
        Err(error) => debug!(%error, "could not open a lease"),
    }
}

/// Whether a block records a lease.
fn records(key: &BlockKey, lease: &Lease) -> bool {
    key.plane.unit_len == lease.prefix.prefix_len()
        && key.plane.family == lease.prefix.family()
        && BlockKey::of(&key.plane, key.plane.unit_of(lease.prefix.network())).0 == *key
}
