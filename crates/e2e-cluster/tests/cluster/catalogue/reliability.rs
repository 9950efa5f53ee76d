//! R, and what else needs a control plane that goes away: R00001 to R00006, G00008, G00009, I00024 of the catalogue.

use berth_e2e::Instead;
use berth_e2e::needs::{Need, UTIL_LINUX, met};
use berth_e2e_cluster::{Agent, Case, Stage};
use serde_json::json;
use std::sync::Arc;

/// As in the rest of the catalogue, and a node that does not answer counts as one that is down: somebody has said so.
const SOON: &str =
    "pod-gone=1s,pod-replaced=1s,pod-ended=1s,pod-stuck=1s,node-gone=1s,not-coming-back=1s,node-silent=2s";

/// Deletes all pods of the workloads, and waits until as many others run, while something happens.
fn while_pods_start(case: &Case<'_>, what: &str, happens: impl FnOnce()) {
    let before = case.pods_of(&case.namespace, None);
    before.iter().for_each(|seen| case.end_pod(&seen.pod));
    happens();
    case.until(&format!("other pods ({what})"), || {
        let now = case.pods_of(&case.namespace, None);
        now.iter().all(|seen| before.iter().all(|old| old.pod.uid != seen.pod.uid))
    });
    case.until_running("web", 6);
    case.until_running("db", 4);
    // As many as there are pods, and no more.
    case.until_used(10);
    case.sane(&[&case.namespace]);
}

fn start(case: &Case<'_>) -> [Arc<Agent>; 2] {
    let nodes = [case.node("n1", &json!({})), case.node("n2", &json!({}))];
    case.berth("IPPool", "web", &json!({"ranges": ["10.N.0.1-10.N.0.6"]}));
    case.berth("IPPool", "db", &json!({"ranges": ["10.N.1.1-10.N.1.4"], "sticky": {}}));
    case.run("Deployment", "web", 6, &json!({"berth.io/pools": case.name("web")}));
    case.run("StatefulSet", "db", 4, &json!({"berth.io/pools": case.name("db")}));
    case.until_running("web", 6);
    case.until_running("db", 4);
    nodes
}

/// Starts everything of Berth's anew, with these files in the place of others.
fn start_seeing(stage: &Stage, nodes: &[Arc<Agent>], files: &[Instead]) {
    for agent in nodes {
        agent.see(files);
        agent.kill();
        agent.start();
    }
    stage.show_controller(files);
    stage.start_controller();
}

#[test]
fn r00001_to_r00006_g00008_g00009_and_i00024_whatever_restarts_pods_start_and_addresses_come_back() {
    let Some(stage) = Stage::set(&["--reclaim", SOON]) else { return };
    let case = Case::on(&stage);
    let nodes = start(&case);
    let plane = &stage.world.plane;

    // I00024: nobody makes pools for applications. The pod does not start, is told why, and no pool is made.
    case.berth("IPSubnet", "s", &json!({"cidr": "10.N.8.0/24"}));
    case.run("ReplicaSet", "app", 1, &json!({"berth.io/subnets": case.name("s")}));
    case.until("a pod", || case.pods_of(&case.namespace, Some("app")).len() == 1);
    let waiting = case.pods_of(&case.namespace, Some("app")).remove(0);
    case.refused(&waiting.pod, "pool");
    assert_eq!(case.list_berth("IPPool").len(), 2);
    case.remove("ReplicaSet", "app");
    case.until_gone("app");

    while_pods_start(&case, "R00001: no controller", || {});
    stage.start_controller();
    while_pods_start(&case, "R00001: the controller is killed and starts", || stage.start_controller());
    while_pods_start(&case, "R00002: etcd is killed and starts", || plane.restart_etcd().unwrap());
    while_pods_start(&case, "R00003: the API server is killed and starts", || {
        plane.stop_apiserver();
        plane.start_apiserver().unwrap();
        // As on a node of the control plane that comes back.
        plane.restart_controllers().unwrap();
    });
    while_pods_start(&case, "R00004: agents are killed and start", || {
        nodes.iter().for_each(|agent| agent.kill());
        nodes.iter().for_each(|agent| agent.start());
    });

    // R00005: whoever asks for a name gets no answer. Nobody does.
    if met(&[Need::Root, UTIL_LINUX]) {
        let resolver = stage.resolver();
        start_seeing(&stage, &nodes, &[resolver.configuration()]);
        while_pods_start(&case, "R00005: no name server answers", || {});
        assert_eq!(resolver.asked(), Vec::<String>::new(), "pods start without DNS, but somebody asked it");
        start_seeing(&stage, &nodes, &[]);
    }

    // G00008: what comes back without a DEL does so through a restart of everything.
    let pods = case.pods_of(&case.namespace, None);
    let (gone, lost): (&Agent, Vec<_>) = nodes
        .iter()
        .map(|agent| (&**agent, pods.iter().filter(|seen| seen.pod.node == agent.node()).collect::<Vec<_>>()))
        .max_by_key(|(_, lost)| lost.len())
        .unwrap();
    assert!(!lost.is_empty());
    stage.kubelets.power_off(gone.node());
    gone.kill();
    stage.kill_controller();
    plane.restart_etcd().unwrap();
    plane.stop_apiserver();
    plane.start_apiserver().unwrap();
    plane.restart_controllers().unwrap();

    // R00006 and G00009: the node's power is cut. Its kubelet says nothing, its pods are deleted by whoever evicts them.
    case.node_condition(gone.node(), "Unknown");
    case.cordon(gone.node());
    lost.iter().for_each(|seen| case.end_pod(&seen.pod));
    stage.start_controller();
    // Of the Deployment others run on the node that is left, with the addresses that came back.
    case.until("six pods of the Deployment to run", || {
        let pods = case.pods_of(&case.namespace, Some("web"));
        // A scheduler that has not heard yet binds pods there; whoever evicts, evicts those too.
        for seen in pods.iter().filter(|seen| seen.phase == "Pending" && seen.pod.node == gone.node()) {
            case.force_delete(&seen.pod);
        }
        pods.iter().filter(|seen| seen.phase == "Running" && !seen.ending).count() == 6
    });
    assert_eq!(stage.kubelets.conflicts(), Vec::<String>::new());
    // Those of the StatefulSet wait for the node, as they should: nobody has said that they are gone.
    // The node comes back, empty: its kubelet ends what was to end, and all is as it was.
    gone.start();
    case.node_condition(gone.node(), "True");
    nodes.iter().filter(|agent| agent.node() == gone.node()).for_each(|agent| stage.kubelets.join(agent));
    case.until_running("web", 6);
    case.until_running("db", 4);
    case.until_used(10);
    case.sane(&[&case.namespace]);

    case.remove("Deployment", "web");
    case.remove("StatefulSet", "db");
    case.until_used(0);
    case.check();
}
