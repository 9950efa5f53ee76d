//! Proving the state consistent: every index is rebuilt from the blocks and compared, every slot is looked at.

use super::indexes::Indexes;
use super::{Ipam, SlotId};
use crate::block::{BlockKey, State};
use crate::holder::Holder;
use crate::model::LOCAL_TYPE;
use crate::time::Time;
use serde::Serialize;
use std::net::IpAddr;

/// Something that should not be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it concerns: an address, a pool, an index.
    pub object: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl Ipam {
    /// Everything that should not be; empty if the state is consistent.
    #[must_use]
    pub fn check(&self, now: Time) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut report = |object: String, message: String| findings.push(Finding { object, message });

        if let Err(error) = self.config.validate() {
            report("configuration".to_owned(), error.to_string());
        }
        let day = std::time::Duration::from_secs(86_400);
        let mut units: Vec<(&str, IpAddr, IpAddr)> = Vec::new();
        for (plane, unit, view) in self.slots() {
            let prefix = plane.prefix(unit);
            let name = format!("{prefix} in network {:?}", plane.network);
            if view.since > now.after(day) {
                report(name.clone(), "its record is dated in the future; was the clock wrong?".to_owned());
            }
            match (view.state, view.holder()) {
                (State::Active | State::Held, None) => {
                    report(name.clone(), "it is taken by nobody; release it with `berth release`".to_owned());
                }
                (State::Held, Some(holder)) if holder.sticky.is_none() => {
                    report(name.clone(), "it is held, but not for any identity".to_owned());
                }
                _ => {}
            }
            if view.state == State::Released || plane.quota_of().is_some() {
                continue;
            }
            units.push((&plane.network, prefix.network(), prefix.last()));
            let (key, slot) = BlockKey::of(plane, unit);
            if !self.owners.of(&key).into_iter().any(|pool| self.pools[pool as usize].own.has(key.index, slot)) {
                report(name, "it is taken, but no pool has it; re-create the pool or release it".to_owned());
            }
        }
        // In order of first address, a unit that begins before the furthest end so far overlaps the one that ends there.
        units.sort_unstable();
        let mut furthest: Option<(&str, IpAddr, IpAddr)> = None;
        for (network, first, last) in units {
            let before = furthest.filter(|(name, ..)| *name == network);
            if let Some((_, from, to)) = before.filter(|(.., to)| first <= *to) {
                let message = format!("it overlaps what is given out at {from}-{to}");
                report(format!("{first} in network {network:?}"), message);
            }
            if before.is_none_or(|(.., to)| last > to) {
                furthest = Some((network, first, last));
            }
        }
        self.check_indexes(&mut report);
        findings
    }

    fn check_indexes(&self, report: &mut impl FnMut(String, String)) {
        let mut fresh = Self::default();
        fresh.configure(self.config.clone());
        for (key, block) in self.blocks() {
            fresh.load(key, block.clone());
        }
        let sizes = |of: &Indexes| {
            let Indexes { attachments, sources, identities, pods, awaited, deadlines } = of;
            [attachments.len(), sources.len(), identities.len(), pods.len(), awaited.len(), deadlines.len()]
        };
        let names = ["attachments", "sources", "identities", "pods", "awaited", "deadlines"];
        for ((name, ours), theirs) in names.iter().zip(sizes(&self.indexes)).zip(sizes(&fresh.indexes)) {
            if ours != theirs {
                report(format!("index of {name}"), format!("has {ours} entries, the blocks say {theirs}"));
            }
        }
        for (own, new) in self.pools.iter().zip(&fresh.pools).filter(|(own, _)| own.pool.kind == LOCAL_TYPE) {
            let counts = |state: &super::PoolState| {
                let mut counts: Vec<_> = state.namespaces.iter().filter(|(_, n)| **n > 0).collect();
                counts.sort();
                format!("{counts:?}")
            };
            if counts(own) != counts(new) {
                report(
                    format!("pool {:?}", own.pool.name),
                    "its count per namespace differs from the blocks".to_owned(),
                );
            }
            if !own.index.agrees_with(&new.index) {
                report(
                    format!("pool {:?}", own.pool.name),
                    "its index of free addresses differs from the blocks".to_owned(),
                );
            }
        }
        self.check_finds(report);
    }

    /// Every slot is found by what it should be found by; with the sizes being right, by nothing else.
    fn check_finds(&self, report: &mut impl FnMut(String, String)) {
        for (block, entry) in self.entries.iter().enumerate().filter_map(|(i, entry)| Some((i, entry.as_ref()?))) {
            for (slot, view) in entry.block.slots() {
                let id = SlotId::new(block, slot);
                let addr = entry.key.plane.addr(entry.key.unit(slot));
                if view.until.is_some_and(|until| !self.indexes.deadlines.contains(&(until, id))) {
                    report(addr.to_string(), "its deadline is not in the index".to_owned());
                }
                let Some(holder) = view.holder() else { continue };
                let active = view.state == State::Active;
                let is_left = |source: &Holder| !self.find_sources(source.attachment()).contains(&id);
                let missing = [
                    (view.source().as_ref().is_some_and(is_left), "source"),
                    (active && !self.find_attachment(holder.attachment()).contains(&id), "attachment"),
                    (
                        active
                            && !holder.uid.is_empty()
                            && !self.find_pod(&holder.uid, &holder.network, &holder.ifname).contains(&id),
                        "pod",
                    ),
                    (active && holder.awaited && !self.find_awaited(&holder.id).contains(&id), "awaited container"),
                    (view.identity().is_some_and(|identity| !self.find_identity(identity).contains(&id)), "identity"),
                ];
                for (_, what) in missing.iter().filter(|(missing, _)| *missing) {
                    report(addr.to_string(), format!("it is not found by the {what} of its holder ({holder})"));
                }
            }
        }
    }
}
