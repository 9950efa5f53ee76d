//! Berth on three real nodes, as it is installed: one cluster, and one scenario after another in it.
//!
//! After each, what the API server says is in use must be what pods have in their own namespaces, no address may be in
//! two, and `berth check` finds nothing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use berth_cluster::{BUSYBOX, berth};
use berth_e2e_nodes::{Lab, Pod, Workload};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Instant;

/// It leaves the cluster as it found it, but for its pools.
type Scenario = fn(&mut Lab);

#[test]
fn berth_on_three_nodes() {
    let Some(mut lab) = Lab::start(3) else { return };
    lab.pool("shared", 1, 1, 250, &json!({}));
    lab.pool6("shared6", 1, &json!({}));
    let scenarios: [(&str, Scenario); 10] = [
        ("pods of a dual-stack pair of pools reach each other across nodes", reach_each_other),
        ("a pool with as many addresses as pods is used to the last", exactly_as_many),
        ("an affine pool leases blocks to nodes", affine),
        ("a sandbox that is made again and again uses one address", sandboxes_come_and_go),
        ("agents that are killed under load hold nothing up for good", agents_are_killed),
        ("agents that are upgraded under load hold nothing up for good", agents_are_upgraded),
        ("pods that are deleted by force leave nothing behind", deleted_by_force),
        ("pods that are evicted give back what they had", evicted),
        ("a kubelet and a containerd that were away catch up", daemons_are_away),
        ("a StatefulSet of a sticky pool keeps its addresses", sticky),
    ];
    for (what, scenario) in scenarios {
        eprintln!("  {what}");
        let began = Instant::now();
        scenario(&mut lab);
        lab.is_sound();
        eprintln!("    took {:.1} s", began.elapsed().as_secs_f64());
    }
    let began = Instant::now();
    drop(lab);
    eprintln!("  torn down in {:.1} s", began.elapsed().as_secs_f64());
}

/// The nodes of pods.
fn nodes(pods: &[Pod]) -> BTreeSet<&str> {
    pods.iter().map(|pod| &*pod.node).collect()
}

fn reach_each_other(lab: &mut Lab) {
    let web = Workload::deployment(lab, "web", 12, "shared,shared6");
    let pods = web.pods(lab);
    assert_eq!((pods.len(), nodes(&pods).len()), (12, 3), "{pods:?}");
    assert_eq!(lab.holders(&pods).len(), 24);
    let first = &pods[0];
    for other in pods.iter().filter(|other| other.node != first.node) {
        let own = lab.addresses(other).unwrap();
        assert_eq!((own.len(), own.iter().filter(|address| address.is_ipv4()).count()), (2, 1), "{other:?}: {own:?}");
        own.into_iter().for_each(|address| lab.ping(first, address));
    }
    lab.settle(0);
    web.delete(lab);
    lab.settle(0);
}

fn exactly_as_many(lab: &mut Lab) {
    lab.pool("exact", 2, 1, 9, &json!({}));
    let full = Workload::deployment(lab, "full", 9, "exact");
    assert_eq!(lab.holders(&full.pods(lab)).len(), 9);
    lab.settle(0);
    // All at once: nobody gets an address before one of the old pods has let go of it.
    let began = Instant::now();
    full.force_delete_pods(lab);
    full.wait(lab);
    eprintln!("    all nine replaced after {:.1} s", began.elapsed().as_secs_f64());
    lab.settle(0);
    full.delete(lab);
    lab.settle(0);
}

fn affine(lab: &mut Lab) {
    lab.pool("affine", 3, 0, 255, &json!({"blockSize": 28, "gateway": "none"}));
    let leased = Workload::deployment(lab, "leased", 12, "affine");
    let pods = leased.pods(lab);
    assert_eq!(lab.holders(&pods).len(), 12);
    // Pods of different nodes are in different blocks.
    let block = |pod: &Pod| match lab.addresses(pod).unwrap()[0] {
        IpAddr::V4(address) => (address.octets()[3] & 0xf0, pod.node.clone()),
        IpAddr::V6(address) => unreachable!("{address}"),
    };
    let blocks: BTreeSet<(u8, String)> = pods.iter().map(block).collect();
    assert_eq!(blocks.len(), blocks.iter().map(|(block, _)| block).collect::<BTreeSet<_>>().len(), "{blocks:?}");
    lab.settle(0);
    leased.delete(lab);
    lab.settle(0);
}

fn sandboxes_come_and_go(lab: &mut Lab) {
    lab.pool("small", 4, 1, 9, &json!({}));
    let one = Workload::deployment(lab, "one", 1, "small");
    let pod = one.pods(lab).remove(0);
    let node = lab.cluster.node(&pod.node).unwrap();
    let before = lab.used();
    for _ in 0..4 {
        let old = node.pod_netns("default", &pod.name).unwrap();
        // A sandbox has its network before it has a process.
        lab.until("a process to kill", || node.kill_sandbox("default", &pod.name).map_err(|error| error.to_string()));
        lab.until("another sandbox", || {
            let used = lab.used();
            assert!(used <= before + 1, "one pod uses {used} addresses");
            match node.pod_netns("default", &pod.name) {
                Ok(netns) if netns != old && lab.addresses(&pod).is_ok_and(|own| own.len() == 1) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
    }
    let now = one.pods(lab);
    assert_eq!(now.iter().map(|pod| &pod.name).collect::<Vec<_>>(), [&pod.name], "the same pod");
    lab.settle(0);
    one.delete(lab);
    lab.settle(0);
}

fn agents_are_killed(lab: &mut Lab) {
    let load = Workload::deployment(lab, "load", 6, "shared,shared6");
    let began = Instant::now();
    load.scale(lab, 30);
    let killed = "delete pods --selector app.kubernetes.io/name=berth-agent --wait=false --grace-period";
    lab.kubectl(&format!("{killed} 0 --force --namespace {}", berth::NAMESPACE));
    load.wait(lab);
    eprintln!("    24 more ready after {:.1} s", began.elapsed().as_secs_f64());
    berth::wait_for_agents(&lab.cluster).unwrap();
    lab.settle(0);
    // And while pods go; politely this time.
    load.scale(lab, 3);
    lab.kubectl(&format!("{killed} 5 --namespace {}", berth::NAMESPACE));
    lab.settle(0);
    berth::wait_for_agents(&lab.cluster).unwrap();
    load.delete(lab);
    lab.settle(0);
}

fn agents_are_upgraded(lab: &mut Lab) {
    let load = Workload::deployment(lab, "upgrade", 6, "shared,shared6");
    let kept = lab.holders(&load.pods(lab));
    // Another release as far as Kubernetes can tell: agents are replaced one node after the other, and plugins too.
    let (next, namespace) = ("berth.test/berth:next", berth::NAMESPACE);
    lab.cluster.nodes().iter().try_for_each(|node| node.tag_image(berth::IMAGE, next)).unwrap();
    lab.kubectl(&format!("set image daemonset/berth-agent *={next} --namespace {namespace}"));
    load.scale(lab, 24);
    load.wait(lab);
    load.scale(lab, 9);
    load.scale(lab, 24);
    berth::wait_for_agents(&lab.cluster).unwrap();
    load.wait(lab);
    lab.settle(0);
    let now = lab.holders(&load.pods(lab));
    for (address, pod) in now.iter().filter(|(_, pod)| kept.values().any(|old| old == *pod)) {
        assert_eq!(kept.get(address), Some(pod), "who stayed has what it had");
    }
    let images = lab.kubectl(&format!(
        "get pods --namespace {namespace} --selector app.kubernetes.io/name=berth-agent -o jsonpath={{.items[*].spec.containers[*].image}}"
    ));
    assert!(images.split(' ').count() == 3 && images.split(' ').all(|image| image == next), "{images}");
    load.delete(lab);
    lab.settle(0);
}

fn deleted_by_force(lab: &mut Lab) {
    let gone = Workload::deployment(lab, "gone", 9, "shared,shared6");
    let before = lab.holders(&gone.pods(lab));
    gone.force_delete_pods(lab);
    gone.wait(lab);
    lab.settle(0);
    assert_eq!(lab.holders(&gone.pods(lab)).len(), before.len());
    gone.delete(lab);
    lab.settle(0);
}

/// By whoever drains a node, by a taint, and by the kubelet itself: a pod whose time is over ends as one that is evicted
/// for want of memory does, with its object left behind.
fn evicted(lab: &mut Lab) {
    let away = Workload::deployment(lab, "evicted", 9, "shared,shared6");
    let node = lab.cluster.nodes()[2].name().to_owned();
    let elsewhere = |lab: &Lab, pods: Vec<Pod>| {
        assert!(!nodes(&pods).contains(&*node), "{pods:?}");
        assert_eq!(lab.holders(&pods).len(), 18);
    };
    lab.kubectl(&format!("drain {node} --ignore-daemonsets --timeout 180s"));
    away.wait(lab);
    elsewhere(lab, away.pods(lab));
    lab.settle(0);
    lab.kubectl(&format!("uncordon {node}"));
    away.scale(lab, 3);
    away.wait(lab);
    away.scale(lab, 9);
    away.wait(lab);
    lab.kubectl(&format!("taint node {node} berth.test/away=now:NoExecute"));
    lab.until("the pods to be elsewhere", || {
        let pods = away.pods(lab);
        let left = pods.iter().filter(|pod| pod.node == node || !pod.ready).count();
        if left == 0 && pods.len() == 9 { Ok(()) } else { Err(format!("{left} of {} are not", pods.len())) }
    });
    elsewhere(lab, away.pods(lab));
    lab.settle(0);
    lab.kubectl(&format!("taint node {node} berth.test/away-"));
    let used = lab.used();
    let mut short = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "short", "namespace": "default", "annotations": {"berth.io/pools": "shared,shared6"}},
        "spec": {"activeDeadlineSeconds": 3, "terminationGracePeriodSeconds": 1, "dnsPolicy": "Default"}});
    short["spec"]["containers"] = json!([{"name": "main", "image": BUSYBOX}]);
    lab.apply(&short);
    lab.kubectl("wait --for=jsonpath={.status.phase}=Failed pod/short --timeout 180s");
    lab.until("the address of a pod that failed to be free", || {
        let now = lab.used();
        if now == used { Ok(()) } else { Err(format!("{now} in use, {used} before")) }
    });
    lab.kubectl("delete pod short");
    away.delete(lab);
    lab.settle(0);
}

fn daemons_are_away(lab: &mut Lab) {
    let away = Workload::deployment(lab, "away", 9, "shared,shared6");
    let pods = away.pods(lab);
    let node = lab.cluster.nodes()[1].name().to_owned();
    let (theirs, others): (Vec<Pod>, Vec<Pod>) = pods.into_iter().partition(|pod| pod.node == node);
    let kept = lab.holders(&theirs[1..]);
    lab.cluster.nodes_mut()[1].stop_kubelet();
    lab.cluster.nodes_mut()[1].stop_containerd();
    // Nobody is there to say DEL for one of that node, and one of another node goes as usual.
    for pod in [&theirs[0], &others[0]] {
        lab.kubectl(&format!("delete pod {} --force --grace-period 0", pod.name));
    }
    let node = &mut lab.cluster.nodes_mut()[1];
    node.start_containerd().unwrap();
    node.start_kubelet().unwrap();
    lab.cluster.wait_ready().unwrap();
    away.wait(lab);
    lab.settle(0);
    assert_eq!(lab.holders(&theirs[1..]), kept, "who was not touched has what it had");
    away.delete(lab);
    lab.settle(0);
}

/// Where the pods of a StatefulSet are, and what they have.
type Places = BTreeMap<String, (String, Vec<IpAddr>)>;

fn places(lab: &Lab, pods: &[Pod]) -> Places {
    pods.iter().map(|pod| (pod.name.clone(), (pod.node.clone(), lab.addresses(pod).unwrap()))).collect()
}

fn sticky(lab: &mut Lab) {
    lab.pool("kept", 5, 1, 100, &json!({"sticky": {"keep": "10m"}}));
    lab.pool6("kept6", 5, &json!({"sticky": {"keep": "10m"}}));
    let db = Workload::stateful_set(lab, "db", 3, "kept,kept6");
    let first = places(lab, &db.pods(lab));
    // Not by force: a pod that comes back while the old one still runs cannot have what that one has.
    lab.kubectl("delete pods --selector app=db");
    db.wait(lab);
    let second = places(lab, &db.pods(lab));
    lab.settle(0);
    // One comes back on another node for certain.
    let node = &second["db-0"].0;
    lab.kubectl(&format!("cordon {node}"));
    lab.kubectl("delete pod db-0");
    db.wait(lab);
    lab.kubectl(&format!("uncordon {node}"));
    let third = places(lab, &db.pods(lab));
    assert_ne!(third["db-0"].0, *node);
    for (before, after) in [(&first, &second), (&second, &third)] {
        for (name, (node, own)) in before {
            assert_eq!(after[name].1, *own, "{name} was on {node} and is on {}", after[name].0);
        }
    }
    lab.settle(0);
    let held = lab.holders(&db.pods(lab)).len() as u64;
    db.delete(lab);
    // Kept for those that may come back.
    lab.settle(held);
}
