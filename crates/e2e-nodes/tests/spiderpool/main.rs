//! A cluster in Spiderpool's words on three real nodes: its kinds, its annotations, its plugin's name in the configuration
//! of the network, and Multus in front. Berth's agents and controller are pods that the chart made.
//!
//! One cluster, and one story after another in it. What pods have is read from their own namespaces. After each story
//! `berth check` finds nothing, and no two pods that run have an address in common.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clone_sets;
mod conflict;
mod lost_node;
mod placement;
mod two_interfaces;

use berth_cluster::{Cluster, ClusterOptions, PodNetwork, berth, image, or_skip};
use berth_e2e_nodes::helm::{chart, helm, rolled_out, values};
use berth_e2e_nodes::{Lab, clone_set, multus};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::time::Instant;

/// It leaves the cluster as it found it, but for its pools.
type Story = fn(&mut Lab);

#[test]
fn stories_of_spiderpools_users() {
    let began = Instant::now();
    let Some(mut lab) = start() else { return };
    eprintln!("Berth speaks Spiderpool on three nodes after {:.1} s", began.elapsed().as_secs_f64());
    let stories: [(&str, Story); 7] = [
        ("a CloneSet with a pool by hand, as in the guide", clone_sets::by_hand),
        ("a CloneSet with pools of its own, as in the guide", clone_sets::automatic),
        ("a Deployment across two subnets", placement::across_subnets),
        ("a StatefulSet that moves from node to node", placement::from_node_to_node),
        ("pods with two interfaces in two subnets", two_interfaces::in_two_subnets),
        ("a stranger has the next address", conflict::with_a_stranger),
        ("a node is lost", lost_node::and_its_addresses_come_back),
    ];
    for (what, story) in stories {
        eprintln!("  {what}");
        let began = Instant::now();
        story(&mut lab);
        lab.is_sound();
        eprintln!("    took {:.1} s", began.elapsed().as_secs_f64());
    }
    lab.is_sound_from_within();
    drop(lab);
    eprintln!("all of it took {:.1} s", began.elapsed().as_secs_f64());
}

/// A cluster that might have run Spiderpool: only who answers is another.
fn start() -> Option<Lab> {
    let archive = berth::image().unwrap();
    let options = ClusterOptions { nodes: 3, network: PodNetwork::None, ..ClusterOptions::default() };
    let mut lab = Lab { cluster: or_skip(Cluster::start_with(&options))? };
    let definitions = std::fs::read_to_string(berth::manifests().join("spiderpool/crds.yaml")).unwrap();
    lab.cluster.control_plane().apply(&definitions).unwrap();
    clone_set::define(&lab);
    lab.cluster.load_image(&archive).unwrap();
    // What the guide's pods run.
    let busybox = lab.cluster.control_plane().dir().join("guide.tar");
    image::busybox("busybox:latest").unwrap().write(&busybox).unwrap();
    lab.cluster.load_image(&busybox).unwrap();
    install_berth(&lab);
    let network = json!({"cniVersion": "1.0.0", "name": "pods",
        "plugins": [{"type": "bridge", "bridge": "cni0", "ipam": {"type": "spiderpool"}}]});
    multus::install(&lab, &network);
    lab.cluster.wait_ready().unwrap();
    rolled_out(&lab);
    Some(lab)
}

/// The chart, with one controller, which is on a node that stays; and the pool that its pod gets an address from.
fn install_berth(lab: &Lab) {
    let own = [
        "spiderpool.enabled=true",
        "controller.replicas=1",
        r"controller.nodeSelector.kubernetes\.io/hostname=node-1",
        "controller.workloads[0].apiGroup=apps.kruise.io,controller.workloads[0].resources={clonesets}",
        // Nobody waits for a minute to see an address of a lost node again.
        "controller.reclaim.node-gone=3s",
    ];
    let (chart, values) = (chart(), values(lab));
    let mut args = vec!["install", "berth", &chart, "--create-namespace"];
    args.extend(values.iter().map(String::as_str));
    args.extend(own.iter().flat_map(|value| ["--set", value]));
    helm(lab, &args);
    berth::wait_for_agents(&lab.cluster).unwrap();
    let (number, gateway) = (lab.cluster.underlay().number(), lab.cluster.underlay().gateway());
    let spec = json!({"subnet": lab.cluster.underlay().subnet(), "ips": [format!("10.{number}.9.1-10.{number}.9.20")],
        "gateway": gateway, "default": true});
    pool(lab, "default-v4-ippool", &spec);
}

/// Makes a SpiderIPPool.
#[track_caller]
fn pool(lab: &Lab, name: &str, spec: &Value) {
    object(lab, "SpiderIPPool", &json!({"name": name}), spec);
}

#[track_caller]
fn object(lab: &Lab, kind: &str, metadata: &Value, spec: &Value) {
    lab.apply(
        &json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": kind, "metadata": metadata, "spec": spec}),
    );
}

/// What `kubectl` prints, with single spaces: the header and the rows.
#[track_caller]
fn table(lab: &Lab, line: &str) -> (String, Vec<String>) {
    let text = lab.kubectl(line);
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    (lines.next().unwrap_or_default(), lines.collect())
}

/// Waits until `kubectl` prints this row.
#[track_caller]
fn row(lab: &Lab, line: &str, expected: &str) {
    lab.until(&format!("{expected:?} in kubectl {line}"), || {
        let (_, rows) = table(lab, line);
        if rows.iter().any(|row| row == expected) { Ok(()) } else { Err(rows.join("\n")) }
    });
}

/// The last byte of an IPv4 address that begins like this.
#[track_caller]
fn last_byte(address: IpAddr, prefix: &str) -> u8 {
    let text = address.to_string();
    text.strip_prefix(prefix).and_then(|last| last.parse().ok()).ok_or(text).unwrap()
}
