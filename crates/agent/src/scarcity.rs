//! When a pool that lends has nothing left for a node: others are asked, and give.
//!
//! What is free in a lease only its lessee knows, so nobody can take from it. A node that goes short says so on the
//! blocks of leases; who has leases there hears of it by its watch and *opens* one: the block's truth moves from its
//! journal to the API server, with everything that is in use, and from then on anybody takes single addresses of it as
//! of a shared pool. So with as many addresses as pods every pod gets one, wherever it runs.

use crate::agent::Agent;
use berth_core::block::BlockKey;
use berth_core::ipam::{Ipam, Lease};
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

/// Opens a lease of each block where another node has asked for it, as soon as there is something to give.
pub(crate) fn open_wanted(agent: &Agent) {
    let remote = agent.engine.with_store(|store| store.remote());
    let (wanted, node) = (remote.wanted(), agent.node.clone());
    if wanted.is_empty() || agent.engine.read(|ipam| to_give(ipam, &node, &wanted).is_empty()) {
        return;
    }
    let opened = agent.engine.transact(move |context| {
        let mut opened = Vec::new();
        for (key, lease) in to_give(context.ipam, &node, &wanted) {
            context.ipam.open_lease(&lease, context.now)?;
            opened.push(key);
        }
        Ok(opened)
    });
    match opened {
        Ok(keys) => {
            info!(leases = keys.len(), "opened leases for nodes that are short of addresses");
            remote.met(&keys);
        }
        Err(error) => debug!(%error, "could not open a lease"),
    }
}

/// Of each pool and block of leases that was asked for, the lease of this node with the most to give, if it has anything.
fn to_give(ipam: &Ipam, node: &str, wanted: &[BlockKey]) -> Vec<(BlockKey, Lease)> {
    let free = |lease: &Lease| {
        let (used, size) = ipam.lease_usage(lease);
        size.as_f64() - used.as_f64()
    };
    let of_pool = |pool: String| {
        let own = ipam.leases(&pool).into_iter().filter(|lease| lease.node == node);
        let meant = |lease: Lease| Some((wanted.iter().find(|key| records(key, &lease))?.clone(), lease));
        let ample =
            own.filter_map(meant).map(|(key, lease)| (free(&lease), key, lease)).filter(|(free, ..)| *free > 0.0);
        ample.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, key, lease)| (key, lease))
    };
    ipam.pools().map(|pool| pool.name.clone()).filter_map(of_pool).collect()
}

/// Whether a block records a lease.
fn records(key: &BlockKey, lease: &Lease) -> bool {
    key.plane.unit_len == lease.prefix.prefix_len()
        && key.plane.family == lease.prefix.family()
        && BlockKey::of(&key.plane, key.plane.unit_of(lease.prefix.network())).0 == *key
}
