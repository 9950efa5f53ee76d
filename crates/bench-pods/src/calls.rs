//! What the stand-ins wrote down.

use anyhow::{Context, Result, anyhow};
use berth_cluster::Cluster;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::time::Duration;
use timed_ipam::{Call, LOG};

/// Calls of all nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(pub(crate) Vec<Call>);

/// Forgets what was written down.
pub(crate) fn clear(cluster: &Cluster) -> Result<()> {
    for node in cluster.nodes() {
        match fs::remove_file(node.path(LOG)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error).context("cannot clear the calls"),
            _ => {}
        }
    }
    Ok(())
}

impl Calls {
    /// What is written down by now.
    pub(crate) fn read(cluster: &Cluster) -> Result<Self> {
        let mut calls = Vec::new();
        for node in cluster.nodes() {
            // Before the first call there is no file.
            let text = fs::read_to_string(node.path(LOG)).unwrap_or_default();
            for line in text.lines() {
                calls.push(line.parse().map_err(|error| anyhow!("{}: {error}", node.name()))?);
            }
        }
        Ok(Self(calls))
    }

    /// How long calls of this verb took that succeeded.
    pub(crate) fn times(&self, verb: &str) -> Vec<Duration> {
        self.0.iter().filter(|call| call.ok && call.verb == verb).map(|call| call.took).collect()
    }

    /// Calls that failed.
    pub(crate) fn failed(&self) -> usize {
        self.0.iter().filter(|call| !call.ok).count()
    }

    /// Calls of another plugin than was meant.
    pub(crate) fn of_others(&self, plugin: &str) -> usize {
        self.0.iter().filter(|call| call.plugin != plugin).count()
    }

    /// When each container that got an address had given it back, first of all.
    fn returned(&self) -> BTreeMap<&str, Option<&Call>> {
        let given = self.0.iter().filter(|call| call.ok && call.verb == "ADD");
        let back = |add: &Call| {
            let dels = self.0.iter().filter(|call| call.ok && call.verb == "DEL" && call.container == add.container);
            dels.filter(|del| del.ended() > add.began).min_by_key(|del| del.ended())
        };
        given.map(|add| (&*add.container, back(add))).collect()
    }

    /// When the last address was given back; `None` while there is one that was not.
    pub(crate) fn all_returned(&self) -> Option<Duration> {
        let ends: Option<Vec<Duration>> = self.returned().values().map(|del| del.map(Call::ended)).collect();
        ends?.into_iter().max()
    }

    /// Addresses that two containers had at once: both from the end of their ADD to the beginning of their DEL.
    pub(crate) fn given_twice(&self) -> BTreeSet<IpAddr> {
        let returned = self.returned();
        let mut held: BTreeMap<IpAddr, Vec<(Duration, Duration, &str)>> = BTreeMap::new();
        for call in self.0.iter().filter(|call| call.ok && call.verb == "ADD") {
            let until = returned.get(&*call.container).copied().flatten().map_or(Duration::MAX, |del| del.began);
            if let Some(address) = call.address {
                held.entry(address).or_default().push((call.ended(), until, &call.container));
            }
        }
        let overlap = |held: &mut Vec<(Duration, Duration, &str)>| {
            held.sort_unstable();
            held.windows(2).any(|pair| pair[1].0 < pair[0].1 && pair[0].2 != pair[1].2)
        };
        held.iter_mut().filter_map(|(address, held)| overlap(held).then_some(*address)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(verb: &str, container: &str, began: u64, took: u64) -> Call {
        Call {
            plugin: "p".to_owned(),
            verb: verb.to_owned(),
            container: container.to_owned(),
            began: Duration::from_secs(began),
            took: Duration::from_secs(took),
            ok: true,
            address: (verb == "ADD").then(|| "10.0.0.1".parse().unwrap()),
        }
    }

    #[test]
    fn an_address_may_be_given_again_once_it_is_asked_back() {
        let calls = Calls(vec![call("ADD", "a", 1, 1), call("DEL", "a", 5, 3), call("ADD", "b", 4, 3)]);
        assert!(calls.given_twice().is_empty(), "b has it from 7 on, and a wanted it no more from 5 on");
        assert_eq!(calls.all_returned(), None);
        let calls = Calls(vec![call("ADD", "a", 1, 1), call("DEL", "a", 5, 3), call("ADD", "b", 3, 1)]);
        assert_eq!(calls.given_twice().len(), 1);
    }

    #[test]
    fn all_is_returned_when_the_last_is() {
        let mut calls = vec![call("DEL", "a", 0, 0), call("ADD", "a", 1, 1), call("ADD", "b", 1, 1)];
        calls.extend([call("DEL", "a", 5, 3), call("DEL", "a", 20, 1), call("DEL", "b", 6, 4)]);
        assert_eq!(Calls(calls).all_returned(), Some(Duration::from_secs(10)));
    }
}
