//! `berth check --cluster`: whether the blocks of a cluster are consistent, and agree with its pods.

use anyhow::Context;
use berth_core::block::State;
use berth_core::holder::{Holder, Kind};
use berth_core::ipam::{Finding, Ipam};
use berth_kube::blocks::Blocks;
use berth_kube::objects::Objects;
use berth_kube::pods::{self, Running};
use berth_kube::{Cluster, Connect};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

/// Everything in a cluster that should not be, in the form that the daemon's API has.
///
/// # Errors
/// If the server cannot be asked.
pub fn check_cluster(to: &Connect) -> anyhow::Result<Value> {
    let cluster = Cluster::connect(to)?;
    let objects = Objects::open(&cluster).context("read Berth's objects")?;
    let mut ipam = Ipam::new();
    ipam.configure(objects.config().0);
    // Holders first, pods second: a pod that came in between is among the living.
    for (key, block, _) in cluster.wait(Blocks::new(cluster.client().clone(), "").list(None))? {
        ipam.load(&key, block);
    }
    let pods = pods::all(&cluster)?;
    let mut findings = ipam.check(berth_server::now());
    findings.extend(against_pods(&ipam, &pods));
    Ok(json!({ "findings": findings }))
}

/// Where blocks and pods tell different stories.
fn against_pods(ipam: &Ipam, pods: &[Running]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |object: String, message: String| findings.push(Finding { object, message });
    let active = ipam.slots().filter(|(_, _, view)| view.state == State::Active);
    let held: Vec<(IpAddr, Holder)> =
        active.flat_map(|(plane, unit, view)| view.holders().map(move |holder| (plane.addr(unit), holder))).collect();
    let known: HashSet<&str> = pods.iter().flat_map(|pod| pod.uids.iter().map(String::as_str)).collect();
    for (address, holder) in held.iter().filter(|(_, holder)| holder.kind == Kind::Container) {
        if !holder.uid.is_empty() && !known.contains(holder.uid.as_str()) {
            let who = format!("{}/{} ({})", holder.namespace, holder.pod, holder.uid);
            let message = format!("held by pod {who}, which is gone; the agent of {:?} frees it", holder.node);
            report(address.to_string(), message);
        }
    }
    // Of a machine that is moving, both of its pods.
    let mut holders: HashMap<IpAddr, Vec<&Holder>> = HashMap::new();
    held.iter().for_each(|(address, holder)| holders.entry(*address).or_default().push(holder));
    let mut users: BTreeMap<IpAddr, Vec<String>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| pod.runs && !pod.on_host_network) {
        for &address in &pod.addresses {
            let ours = ipam.pools().any(|pool| pool.ranges.iter().any(|range| range.contains(address)));
            if !ours {
                continue;
            }
            let holders = holders.get(&address).map(Vec::as_slice).unwrap_or_default();
            let is_own = |holder: &&&Holder| holder.uid.is_empty() || pod.uids.contains(&holder.uid);
            match holders.iter().find(is_own) {
                Some(_) if holders.len() > 1 => continue,
                Some(_) => {}
                None => {
                    let by = holders.first().map_or("nobody holds it".to_owned(), |holder| format!("held by {holder}"));
                    report(address.to_string(), format!("used by pod {}, and {by}", pod.name));
                }
            }
            users.entry(address).or_default().push(pod.name.clone());
        }
    }
    for (address, users) in users.iter().filter(|(_, users)| users.len() > 1) {
        report(address.to_string(), format!("used by several pods at once: {}", users.join(", ")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::ipam::{Config, Entropy, Group, Request};
    use berth_core::model::Pool;
    use berth_core::time::Time;
    use berth_dialects::native::pod::Pod;

    fn state() -> Ipam {
        let mut ipam = Ipam::new();
        let pool = Pool::new("p", vec!["10.0.0.0/24".parse().expect("a range")]);
        ipam.configure(Config { pools: BTreeMap::from([("p".to_owned(), pool)]), ..Config::default() });
        let holder = Holder { id: "c".into(), uid: "u1".into(), pod: "a".into(), ..Holder::default() };
        let request = Request { holder, groups: vec![Group::default()], ..Request::default() };
        ipam.allocate(&request, Time(1), &mut Entropy(1)).expect("an address");
        ipam
    }

    fn pod(name: &str, uid: &str, address: &str) -> Running {
        let addresses = vec![address.parse().expect("an address")];
        let uids = vec![uid.into()];
        Running {
            name: name.into(),
            is_leaving: false,
            pod: Pod::default(),
            uids,
            addresses,
            runs: true,
            on_host_network: false,
        }
    }

    #[test]
    fn stories_that_differ_are_told() {
        let told = |pods: &[Running]| -> Vec<String> {
            against_pods(&state(), pods).into_iter().map(|finding| finding.message).collect()
        };
        assert!(told(&[pod("a", "u1", "10.0.0.2")]).is_empty());
        assert!(told(&[])[0].contains("is gone"));
        assert!(told(&[pod("a", "u1", "10.0.0.2"), pod("b", "u2", "10.0.0.9")])[0].contains("nobody holds it"));
        let twice = told(&[pod("a", "u1", "10.0.0.2"), pod("b", "u2", "10.0.0.2")]);
        assert!(twice.iter().any(|said| said.contains("several pods at once: a, b")), "{twice:?}");
        assert!(twice.iter().any(|said| said.contains("used by pod b, and held by")), "{twice:?}");
        assert!(told(&[pod("a", "u1", "10.0.0.2"), pod("c", "u3", "192.0.2.1")]).is_empty(), "not ours");
    }
}
