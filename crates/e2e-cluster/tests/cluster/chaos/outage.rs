//! A server that stands still, a process that stands still, and many that want the same at once.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use berth_e2e::until;
use berth_e2e_cluster::{Agent, Corner, Fault, Live, Pod, World};
use rustix::process::{Signal, kill_process};
use serde_json::json;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long the API server stands still: long enough for every timeout of the agent. `BERTH_OUTAGE` has other seconds.
fn outage() -> Duration {
    let seconds = std::env::var("BERTH_OUTAGE").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(15))
}

/// A container runtime that starts and stops the sandboxes of some pods in turn.
fn churn(agent: &Agent, pods: &[Pod], live: &Mutex<Live>, stop: &AtomicBool, served: &AtomicU64) -> Vec<(Pod, String)> {
    let mut running: Vec<(Pod, String)> = Vec::new();
    for round in 0u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        for pod in pods {
            let container = format!("{}-{round}", pod.uid);
            let ran = agent.add(pod, &container);
            let first = ran.addresses().remove(0);
            let address: IpAddr = first.split('/').next().and_then(|text| text.parse().ok()).expect("an address");
            live.lock().expect("nobody panicked").takes(address, &container);
            running.push((pod.clone(), container));
            served.fetch_add(1, Ordering::Relaxed);
        }
        // All but the latest round go.
        let old = running.len() - pods.len();
        for (pod, container) in running.drain(..old) {
            live.lock().expect("nobody panicked").leaves(&container);
            agent.del(&pod, &container).silent();
        }
    }
    running
}

/// Invariant of affine pools: ADD and DEL work while the server is away, and afterwards it hears of everything.
#[test]
fn an_api_server_that_stands_still_under_load_loses_nothing() {
    let Some(world) = World::start() else { return };
    let corner = Corner::of(&world);
    corner.pool("p", &json!({"ranges": ["10.N.0.0/22"], "blockSize": 26}));
    let agents: Vec<Agent> = ["a", "b"].iter().map(|node| corner.agent(node, "p")).collect();
    let pods: Vec<Vec<Pod>> = agents.iter().map(|agent| corner.pods(agent, agent.node(), 6)).collect();
    let (live, stop, served) = (Mutex::default(), AtomicBool::new(false), AtomicU64::new(0));
    let running: Vec<(Pod, String)> = std::thread::scope(|scope| {
        let lanes: Vec<_> = agents
            .iter()
            .zip(&pods)
            .flat_map(|(agent, pods)| pods.chunks(3).map(move |pods| (agent, pods)))
            .map(|(agent, pods)| scope.spawn(|| churn(agent, pods, &live, &stop, &served)))
            .collect();
        let progress = |more: u64| {
            let before = served.load(Ordering::Relaxed);
            until("more pods to be served", || (served.load(Ordering::Relaxed) >= before + more).then_some(()));
        };
        progress(40);
        world.plane.pause().expect("it runs");
        let since = Instant::now();
        while since.elapsed() < outage() {
            progress(12);
        }
        world.plane.resume().expect("it stands still");
        progress(40);
        stop.store(true, Ordering::Relaxed);
        lanes.into_iter().flat_map(|lane| lane.join().expect("every ADD and DEL works")).collect()
    });
    assert_eq!(running.len(), 12);
    corner.until_used(12);
    corner.check();
    agents.iter().for_each(Agent::kill);
    agents.iter().for_each(berth_e2e_cluster::Agent::start);
    assert_eq!(corner.used(), 12);
    for (pod, container) in running {
        let agent = agents.iter().find(|agent| agent.node() == pod.node).expect("one of two");
        agent.del(&pod, &container).silent();
    }
    corner.until_used(0);
}

/// A process that was stopped with a write under way went on after another had taken over. Here the revision fences it.
#[test]
fn b36_kubernetes_125761_a_stopped_agent_goes_on_with_a_write_that_is_too_old() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("p", &json!({"ranges": ["10.N.0.10-10.N.0.11"]}));
    let (stopped, other) = (corner.agent("stopped", "p"), corner.agent("other", "p"));
    let pods = [corner.pod(&stopped, "a", &json!({})), corner.pod(&other, "b", &json!({}))];
    // The block is there, and both know it.
    let warm = corner.pod(&stopped, "warm", &json!({}));
    let _ = stopped.address(&warm, "c");
    stopped.del(&warm, "c").silent();
    stopped.proxy().rule(|seen| (seen.is_write() && seen.resource == "ipblocks").then_some(Fault::Hold));
    let before = stopped.proxy().writes();
    let given = std::thread::scope(|scope| {
        let add = scope.spawn(|| stopped.address(&pods[0], "c1"));
        until("the write to be under way", || (stopped.proxy().writes() > before).then_some(()));
        kill_process(stopped.pid(), Signal::STOP).expect("it runs");
        // Meanwhile another takes one of the two addresses; it may well be the same.
        let theirs = other.address(&pods[1], "c2");
        stopped.proxy().no_rule();
        stopped.proxy().release();
        kill_process(stopped.pid(), Signal::CONT).expect("it is stopped");
        [add.join().expect("it is served in the end"), theirs]
    });
    assert_ne!(given[0], given[1]);
    assert_eq!(corner.used(), 2);
    assert_eq!([stopped.address(&pods[0], "c1"), other.address(&pods[1], "c2")], given);
}

/// Retries ran out while addresses were left: with as many addresses as pods, of both families, some pods got none.
#[test]
fn b37_antrea_7996_as_many_addresses_as_pods() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    // 29 of each family: a /27 without network, broadcast and gateway.
    corner.pool("v4", &json!({"ranges": ["10.N.0.2-10.N.0.30"]}));
    corner.pool("v6", &json!({"ranges": [corner.here("fd00:N::2-fd00:N::1e")]}));
    let agents: Vec<Agent> = ["a", "b", "c"].iter().map(|node| corner.agent(node, "v4")).collect();
    let both = json!({"pools": [corner.name("v4"), corner.name("v6")]});
    let pods: Vec<(&Agent, Pod)> = (0..29)
        .map(|n| {
            let agent = &agents[n % 3];
            (agent, corner.pod(agent, &format!("web-{n}"), &json!({})))
        })
        .collect();
    let add = |(agent, pod): &(&Agent, Pod)| agent.add_with(pod, &pod.uid, &both).addresses();
    let add_some = |some: &[(&Agent, Pod)]| some.iter().flat_map(add).collect::<Vec<_>>();
    let given: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = pods.chunks(3).map(|some| scope.spawn(|| add_some(some))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("every pod is served")).collect()
    });
    let distinct: BTreeSet<&String> = given.iter().collect();
    assert_eq!((given.len(), distinct.len()), (58, 58));
    assert_eq!(corner.used(), 29);
    let late = corner.pod(&agents[0], "late", &json!({}));
    assert_ne!(agents[0].add_with(&late, "c", &both).code, 0, "there is none left");
}
