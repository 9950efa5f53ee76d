//! `berth explain pod`: the whole decision about a pod, made anew from what the API server has.

use crate::attachments::{self, Found};
use anyhow::Context;
use berth_core::addr::Cidr;
use berth_core::error::Error;
use berth_core::ipam::{Entropy, Ipam, Outcome, Request};
use berth_dialects::native::pod::{self, Applications, Asked, Attached, Interface, Namespace, Pod};
use berth_dialects::spiderpool::settings::Conf;
use berth_dialects::{Lowered, lower};
use berth_kube::blocks::Blocks;
use berth_kube::definitions::Definitions;
use berth_kube::objects::Objects;
use berth_kube::places::Places;
use berth_kube::pods;
use berth_kube::{Cluster, Connect};
use serde_json::{Value, json};

/// What a pod's interface gets, and why: the rule that decides, the pools that were considered, what it has already; and
/// which other interfaces of the pod are served along with it, or why not. What a CNI configuration on the node says is
/// not known here; what Spiderpool's switches say has to be brought along.
///
/// # Errors
/// If the server cannot be asked, or there is no such pod.
pub fn explain_pod(
    to: &Connect,
    (namespace, name): (&str, &str),
    interface: &str,
    spiderpool: &Conf,
) -> anyhow::Result<Value> {
    let cluster = Cluster::connect(to)?;
    let found = pods::find(&cluster, namespace, name)?;
    let (pod, node) = found.with_context(|| format!("there is no pod {namespace}/{name}"))?;
    let node = node.with_context(|| format!("pod {namespace}/{name} is on no node yet"))?;
    let objects = Objects::open(&cluster).context("read Berth's objects")?;
    let places = Places::open(&cluster, &node).with_context(|| format!("read node {node:?}"))?;
    let place = places.namespace(namespace).unwrap_or_default();
    let bits = |address: std::net::IpAddr| if address.is_ipv4() { 32 } else { 128 };
    let cidrs: Vec<Cidr> =
        places.node_addresses().iter().map(|&address| Cidr::containing(address, bits(address))).collect();
    let mut ipam = Ipam::new();
    let mut config = objects.config().0;
    spiderpool.apply(&mut config);
    let applications = Applications::of(&config, spiderpool);
    ipam.configure(config);
    for (key, block, _) in cluster.wait(Blocks::new(cluster.client().clone(), "").list(None))? {
        ipam.load(&key, block);
    }
    let (mut interface, mut others, mut along) = interfaces(&pod, interface, &Definitions::new(&cluster));
    for uplink in others.iter_mut().chain([&mut interface]).filter_map(|one| one.uplink.as_mut()) {
        // Which address is on which NIC only the node itself knows.
        uplink.cidrs.clone_from(&cidrs);
    }
    let asked = Asked {
        pod: &pod,
        namespace: &Namespace { labels: place.labels.clone(), annotations: place.annotations.clone() },
        node: &pod::Node { name: node.clone(), labels: places.node().labels.clone(), cidrs },
        container: "explain",
        interface: &interface,
        others: &others,
        applications: &applications,
    };
    let title = format!("{namespace}/{name}");
    let holds: Vec<String> = ipam
        .slots()
        .filter_map(|(plane, unit, view)| Some((plane.addr(unit), view.holder()?)))
        .filter(|(_, holder)| holder.uid == pod.uid)
        .map(|(address, holder)| format!("{address} on {}", holder.ifname))
        .collect();
    let mut explain =
        |request: &Request| ipam.explain(request, berth_server::now(), &mut Entropy(berth_server::seed()));
    let (rule, mut answer) = match decide(&asked, &objects) {
        Ok(mut interfaces) => {
            let first = interfaces.remove(0);
            let (trace, mut outcome) = explain(&first.request);
            for other in interfaces {
                let (_, served) = explain(&other.request);
                along.push(format!("{}; {}", other.rule, verdict(&served)));
                let interface = other.request.holder.ifname;
                let all_or_none = |error| Err(Error::Along { interface, error: Box::new(error) });
                outcome = outcome.and_then(|first| served.map_or_else(all_or_none, |_| Ok(first)));
            }
            (first.rule, berth_server::explanation(trace, outcome))
        }
        Err(error) => {
            let pending = matches!(error, Error::PoolPending { .. });
            let rule =
                if pending { "a pool of the pod's application, which is not there" } else { "none could be read" };
            (rule.to_owned(), berth_server::explanation(Default::default(), Err(error)))
        }
    };
    for (key, value) in [
        ("pod", json!(title)),
        ("node", json!(node)),
        ("rule", json!(rule)),
        ("along", json!(along)),
        ("holds", json!(holds)),
    ] {
        answer[key] = value;
    }
    Ok(answer)
}

/// The interface that is asked about, the pod's others that are known, and in words those that are not.
fn interfaces(pod: &Pod, interface: &str, definitions: &Definitions) -> (Attached, Vec<Attached>, Vec<String>) {
    let unknown = Attached { ifname: interface.to_owned(), ..Attached::default() };
    let found = attachments::find(pod, |selected| definitions.read(&selected.namespace, &selected.name));
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            return (unknown, Vec::new(), vec![format!("other interfaces are left to their own ADD: {error}")]);
        }
    };
    let (mut known, mut words) = (Vec::new(), Vec::new());
    for Found { selected, attached } in found {
        match attached {
            Ok(attached) => known.push(attached),
            Err(reason) => {
                let definition = selected.definition();
                words.push(format!("{}: left to its own ADD; definition {definition}: {reason}", selected.interface));
            }
        }
    }
    let own = known.iter().position(|known| known.ifname == interface).map(|at| known.remove(at));
    (own.unwrap_or(unknown), known, words)
}

fn verdict(outcome: &Result<Outcome, Error>) -> String {
    match outcome {
        Ok(outcome) => {
            let given: Vec<String> = outcome.given.iter().map(|given| given.address().to_string()).collect();
            format!("would get {}", given.join(", "))
        }
        Err(error) => format!("would get nothing: {error}"),
    }
}

/// What each interface is to get, and the rule that decides, in words.
fn decide(asked: &Asked<'_>, objects: &Objects) -> Result<Vec<Interface>, Error> {
    let mut interfaces = pod::plan(asked)?.interfaces;
    for interface in &mut interfaces {
        if let Some(claim) = interface.claim.clone() {
            let object = objects.get("IPClaim", &claim.namespace, &claim.name)?;
            if let Lowered::Claim(claim) = lower(&object)? {
                interface.bind(&claim)?;
            }
        }
    }
    Ok(interfaces)
}
