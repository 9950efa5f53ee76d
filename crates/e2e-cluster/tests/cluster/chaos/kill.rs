//! Agents that are killed at any moment, under load: nothing doubled, nothing lost.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use berth_e2e::until;
use berth_e2e_cluster::{Agent, Pod, World};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A runtime that starts and stops the containers of some pods, and always says DEL of what it tried to start.
fn churn(agent: &Agent, pods: &[Pod], live: &Mutex<HashSet<IpAddr>>, stop: &AtomicBool, served: &AtomicU64) {
    for round in 0u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let started: Vec<(String, Option<IpAddr>)> = pods
            .iter()
            .map(|pod| {
                let container = format!("{}-{round}", pod.uid);
                let ran = agent.add(pod, &container);
                let address = (ran.code == 0).then(|| {
                    let first = ran.addresses().remove(0);
                    first.split('/').next().and_then(|text| text.parse().ok()).expect("an address")
                });
                if let Some(address) = address {
                    served.fetch_add(1, Ordering::Relaxed);
                    assert!(live.lock().expect("nobody panicked").insert(address), "{address} was given out twice");
                }
                (container, address)
            })
            .collect();
        for (pod, (container, address)) in pods.iter().zip(started) {
            if let Some(address) = address {
                live.lock().expect("nobody panicked").remove(&address);
            }
            agent.del(pod, &container).silent();
        }
    }
}

fn killed_under_load(pool: &Value) {
    let Some(world) = World::start() else { return };
    let nodes = ["n1", "n2"];
    world.nodes(&nodes);
    world.pool("p", pool);
    let agents: Vec<Agent> = nodes.iter().map(|node| world.agent(node)).collect();
    let pods: Vec<Vec<Pod>> = nodes
        .iter()
        .map(|node| world.pods(node, &(0..6).map(|i| format!("{node}-{i}")).collect::<Vec<_>>(), &json!({})))
        .collect();
    let (live, stop, served) = (Mutex::default(), AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for (agent, pods) in agents.iter().zip(&pods) {
            for pods in pods.chunks(2) {
                scope.spawn(|| churn(agent, pods, &live, &stop, &served));
            }
        }
        for round in 0..8 {
            // Another moment each time; at least one request is served in between.
            let before = served.load(Ordering::Relaxed);
            let since = Instant::now();
            while served.load(Ordering::Relaxed) == before && since.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(7 * (round + 1)));
            }
            let agent = &agents[usize::try_from(round).expect("small") % agents.len()];
            agent.kill();
            agent.start();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(served.load(Ordering::Relaxed) > 10, "{served:?} requests were served");
    until("every address to be free", || (world.used() == 0).then_some(()));
    world.check();
}

#[test]
fn a_shared_pool_survives_agents_that_are_killed() {
    killed_under_load(&json!({"ranges": ["10.9.0.0/27"]}));
}

#[test]
fn an_affine_pool_survives_agents_that_are_killed() {
    killed_under_load(&json!({"ranges": ["10.9.0.0/24"], "blockSize": 28}));
}
