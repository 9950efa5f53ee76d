//! What a decision rests on that others may have changed meanwhile: which blocks to look at before it stands.

use super::units::split;
use super::{Ipam, Request};
use crate::block::BlockKey;
use crate::error::Error;
use std::collections::BTreeSet;

/// The pools of which too little is known, or everything there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doubt {
    pools: BTreeSet<String>,
    everything: bool,
}

impl Doubt {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty() && !self.everything
    }

    /// A request was refused: what that rests on, if it is anything that others can change.
    pub fn of_refusal(&mut self, ipam: &Ipam, request: &Request, error: &Error) {
        match error {
            // Another pool may have been ruled out by a quota, and only the first reason is told.
            Error::PoolExhausted { pools, .. } if !ipam.counts_any(request) => self.pools.extend(pools.iter().cloned()),
            Error::PoolExhausted { .. } | Error::AddressTaken { .. } | Error::QuotaReached { .. } => {
                self.everything = true;
            }
            _ => {}
        }
    }

    /// A block was not what it was thought to be: its pools.
    pub fn of_block(&mut self, ipam: &Ipam, key: &BlockKey) {
        let pools = ipam.owners.of(key);
        self.everything |= pools.is_empty();
        self.pools.extend(pools.into_iter().map(|pool| ipam.pools[pool as usize].pool.name.clone()));
    }
}

impl Ipam {
    /// The blocks of the pools in doubt, those of their leases included; `None` if there are more than so many.
    #[must_use]
    pub fn blocks_in_doubt(&self, doubt: &Doubt, most: usize) -> Option<Vec<BlockKey>> {
        if doubt.everything {
            return None;
        }
        let mut keys = BTreeSet::new();
        let lender = |name: &String| self.pool(name)?.of_leases().map(|pool| pool.name);
        let names = doubt.pools.iter().flat_map(|name| std::iter::once(name.clone()).chain(lender(name)));
        for state in names.filter_map(|name| self.names.get(&name)).map(|&pool| &self.pools[pool]) {
            for &(first, last) in state.own.runs() {
                let (first, last) = (split(first).0, split(last).0);
                if last - first >= most as u128 {
                    return None;
                }
                keys.extend((first..=last).map(|index| BlockKey { plane: state.plane.clone(), index }));
                if keys.len() > most {
                    return None;
                }
            }
        }
        Some(keys.into_iter().collect())
    }

    /// Whether the search in these pools takes what is known to be free, rather than look for a block that nobody has
    /// begun.
    pub fn settle(&mut self, doubt: &Doubt, yes: bool) {
        for pool in doubt.pools.iter().filter_map(|name| self.names.get(name)) {
            self.pools[*pool].index.settle(yes);
        }
    }

    /// Whether a quota counts what one of the request's pools gives it.
    fn counts_any(&self, request: &Request) -> bool {
        let candidates = request.groups.iter().filter_map(|group| self.candidates(group).ok()).flatten();
        let namespace = &request.holder.namespace;
        candidates.into_iter().any(|candidate| self.pools[candidate.pool].pool.quota.limit(namespace).is_some())
    }
}
