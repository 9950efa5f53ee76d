//! `berth explain pod`: the whole decision about a pod, made anew from what the API server has.

use anyhow::Context;
use berth_core::addr::Cidr;
use berth_core::error::Error;
use berth_core::ipam::{Entropy, Ipam, Request};
use berth_dialects::native::pod::{self, Applications, Asked, Attached, Namespace};
use berth_dialects::{Lowered, lower};
use berth_kube::blocks::Blocks;
use berth_kube::objects::Objects;
use berth_kube::places::Places;
use berth_kube::pods;
use berth_kube::{Cluster, Connect};
use serde_json::{Value, json};

/// What a pod's interface gets, and why: the rule that decides, the pools that were considered, what it has already.
/// What its CNI configuration says is not known here: that is on the node.
///
/// # Errors
/// If the server cannot be asked, or there is no such pod.
pub fn explain_pod(to: &Connect, namespace: &str, name: &str, interface: &str) -> anyhow::Result<Value> {
    let cluster = Cluster::connect(to)?;
    let found = pods::find(&cluster, namespace, name)?;
    let (pod, node) = found.with_context(|| format!("there is no pod {namespace}/{name}"))?;
    let node = node.with_context(|| format!("pod {namespace}/{name} is on no node yet"))?;
    let objects = Objects::open(&cluster).context("read Berth's objects")?;
    let places = Places::open(&cluster, &node).with_context(|| format!("read node {node:?}"))?;
    let place = places.namespace(namespace).unwrap_or_default();
    let bits = |address: std::net::IpAddr| if address.is_ipv4() { 32 } else { 128 };
    let cidrs = places.node_addresses().iter().map(|&address| Cidr::containing(address, bits(address))).collect();
    let mut ipam = Ipam::new();
    let config = objects.config().0;
    let applications = Applications::of(&config);
    ipam.configure(config);
    for (key, block, _) in cluster.wait(Blocks::new(cluster.client().clone(), "").list(None))? {
        ipam.load(&key, block);
    }
    let asked = Asked {
        pod: &pod,
        namespace: &Namespace { labels: place.labels.clone(), annotations: place.annotations.clone() },
        node: &pod::Node { name: node.clone(), labels: places.node().labels.clone(), cidrs },
        container: "explain",
        interface: &Attached { ifname: interface.to_owned(), ..Attached::default() },
        others: &[],
        applications: &applications,
    };
    let title = format!("{namespace}/{name}");
    let holds: Vec<String> = ipam
        .slots()
        .filter_map(|(plane, unit, view)| Some((plane.addr(unit), view.holder()?)))
        .filter(|(_, holder)| holder.uid == pod.uid)
        .map(|(address, holder)| format!("{address} on {}", holder.ifname))
        .collect();
    let (rule, mut answer) = match decide(&asked, &objects) {
        Ok((rule, request)) => {
            let (trace, outcome) = ipam.explain(&request, berth_server::now(), &mut Entropy(berth_server::seed()));
            (rule, berth_server::explanation(trace, outcome))
        }
        Err(error) => {
            let pending = matches!(error, Error::PoolPending { .. });
            let rule =
                if pending { "a pool of the pod's application, which is not there" } else { "none could be read" };
            (rule.to_owned(), berth_server::explanation(Default::default(), Err(error)))
        }
    };
    for (key, value) in [("pod", json!(title)), ("node", json!(node)), ("rule", json!(rule)), ("holds", json!(holds))] {
        answer[key] = value;
    }
    Ok(answer)
}

/// The rule that decides, in words, and what is asked for by it.
fn decide(asked: &Asked<'_>, objects: &Objects) -> Result<(String, Request), Error> {
    let mut interfaces = pod::plan(asked)?.interfaces;
    let mut first = interfaces.swap_remove(0);
    if let Some(claim) = first.claim.clone() {
        let object = objects.get("IPClaim", &claim.namespace, &claim.name)?;
        if let Lowered::Claim(claim) = lower(&object)? {
            first.bind(&claim)?;
        }
    }
    Ok((first.rule, first.request))
}
