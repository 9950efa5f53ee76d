//! Proving the state consistent: every index is rebuilt from the blocks and compared, every slot is looked at.

use super::Ipam;
use crate::block::State;
use crate::model::LOCAL_TYPE;
use crate::time::Time;
use serde::Serialize;
use std::collections::BTreeMap;

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
        let mut units: BTreeMap<(String, std::net::IpAddr), (u8, std::net::IpAddr)> = BTreeMap::new();
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
            if view.state == State::Released {
                continue;
            }
            units.insert((plane.network.to_string(), prefix.network()), (prefix.prefix_len(), prefix.last()));
            let owned = self.pools.iter().any(|s| {
                s.pool.plane() == *plane && s.pool.ranges.iter().any(|range| range.contains(prefix.network()))
            });
            if !owned {
                report(name, "it is taken, but no pool has it; re-create the pool or release it".to_owned());
            }
        }
        // Sorted by first address: a unit that begins inside the one before it overlaps that one.
        let mut before: Option<(&String, std::net::IpAddr, std::net::IpAddr)> = None;
        for ((network, first), (_, last)) in &units {
            if let Some((_, from, to)) = before.filter(|&(name, _, to)| name == network && *first <= to) {
                report(
                    format!("{first} in network {network:?}"),
                    format!("it overlaps what is given out at {from}-{to}"),
                );
            }
            before = Some((network, *first, *last));
        }
        self.check_indexes(&mut report);
        findings
    }

    fn check_indexes(&self, report: &mut impl FnMut(String, String)) {
        let mut fresh = Self { config: self.config.clone(), ..Self::default() };
        fresh.reindex();
        for (key, block) in self.blocks() {
            fresh.load(key, block.clone());
        }
        for (name, ours, theirs) in [
            ("attachments", self.attachments.len(), fresh.attachments.len()),
            ("identities", self.identities.len(), fresh.identities.len()),
            ("pods", self.pods.len(), fresh.pods.len()),
            ("deadlines", self.deadlines.len(), fresh.deadlines.len()),
        ] {
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
        for (plane, unit, view) in self.slots().filter(|(_, _, view)| view.state == State::Active) {
            let Some(holder) = view.holder() else { continue };
            let addr = plane.addr(unit);
            if !self.of_attachment(holder.attachment()).contains(&addr) {
                report(addr.to_string(), format!("it is not found by its holder ({holder})"));
            }
        }
    }
}
