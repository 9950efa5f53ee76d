//! Quotas among nodes, against a real API server.

use berth_e2e::until;
use berth_e2e_cluster::{Pod, World};
use serde_json::json;

const QUOTA: u64 = 5;

/// Nodes that ask at once, none of which knows what the others have just got: what the quota allows is given out, and
/// not one more. What is given back on one node can be had on another, also after the agent that had it was killed.
#[test]
fn nodes_together_never_exceed_a_quota() {
    let Some(world) = World::start() else { return };
    let nodes = ["n1", "n2", "n3"];
    world.nodes(&nodes);
    world.pool("p", &json!({"ranges": ["10.9.0.0/22"], "quota": {"perNamespace": QUOTA}}));
    let agents: Vec<_> = nodes.iter().map(|node| world.agent(node)).collect();
    let names = |node: &str| (0..8).map(|i| format!("{node}-{i}")).collect::<Vec<_>>();
    let pods: Vec<Vec<Pod>> = nodes.iter().map(|node| world.pods(node, &names(node), &json!({}))).collect();
    let ask = |agent: usize, pod: &Pod| {
        let ran = agents[agent].add(pod, &pod.uid);
        assert!(ran.code == 0 || ran.stdout.contains("quota"), "{}", ran.stdout);
        ran.code == 0
    };
    let served: Vec<Vec<bool>> = std::thread::scope(|scope| {
        let ask = &ask;
        let threads: Vec<Vec<_>> = (0..)
            .zip(&pods)
            .map(|(agent, pods)| {
                pods.chunks(2)
                    .map(|pods| scope.spawn(move || pods.iter().map(|pod| ask(agent, pod)).collect::<Vec<_>>()))
                    .collect()
            })
            .collect();
        let joined = |thread: std::thread::ScopedJoinHandle<'_, Vec<bool>>| thread.join().unwrap();
        threads.into_iter().map(|node| node.into_iter().flat_map(joined).collect()).collect()
    });
    let given = served.iter().flatten().filter(|served| **served).count() as u64;
    assert!(given <= QUOTA && world.used() == given, "{given} were served, {} are in use", world.used());
    let mut having: Vec<(usize, &Pod)> = Vec::new();
    let mut lacking: Vec<(usize, &Pod)> = Vec::new();
    for (agent, (pods, served)) in pods.iter().zip(&served).enumerate() {
        for (pod, served) in pods.iter().zip(served) {
            if *served { having.push((agent, pod)) } else { lacking.push((agent, pod)) }
        }
    }
    // A race may have kept the last ones from everybody for a moment.
    while having.len() < QUOTA as usize {
        let (agent, pod) = lacking.remove(0);
        until("what is left of the quota", || (agents[agent].add(pod, &pod.uid).code == 0).then_some(()));
        having.push((agent, pod));
    }
    assert_ne!(agents[lacking[0].0].add(lacking[0].1, &lacking[0].1.uid).code, 0);
    assert_eq!(world.used(), QUOTA);

    let (left, gone) = having.remove(0);
    agents[left].del(gone, &gone.uid).silent();
    let (agent, next) = *lacking.iter().find(|(agent, _)| *agent != left).unwrap();
    until("another node to have its share", || (agents[agent].add(next, &next.uid).code == 0).then_some(()));
    agents[agent].kill();
    agents[agent].start();
    agents[agent].del(next, &next.uid).silent();
    let other = *lacking.iter().find(|(other, _)| *other != agent).unwrap();
    until("the share of a node that was killed", || {
        (agents[other.0].add(other.1, &other.1.uid).code == 0).then_some(())
    });
    assert_eq!(world.used(), QUOTA);
    world.check();
}
