//! Addresses that other managers lost; each test is named after the report. The table is in docs/reliability.md.

use berth_e2e::until;
use berth_e2e_cluster::{Agent, Corner, Fault, Seen, World};
use serde_json::json;
use std::net::IpAddr;

fn is_list(seen: &Seen, resource: &str) -> bool {
    seen.verb == "list" && seen.resource == resource
}

fn lists(agent: &Agent, resource: &str) -> usize {
    agent.proxy().seen().iter().filter(|seen| is_list(seen, resource)).count()
}

/// Every recreated sandbox took one more address, and the DEL of the failed ones never came.
#[test]
fn b26_azure_cni_4497_a_crash_loop_takes_no_more_than_two_addresses() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("shared", &json!({"ranges": ["10.N.0.0/28"]}));
    corner.pool("affine", &json!({"ranges": ["10.N.1.0/28"], "blockSize": 28}));
    for (pool, other) in [("shared", 0), ("affine", 2)] {
        let agent = corner.agent(pool, pool);
        let pod = corner.pod(&agent, &format!("{pool}-loop"), &json!({}));
        // More sandboxes than there are addresses; the thousand are in crates/core/tests/regressions.rs.
        let given: Vec<IpAddr> = (0..40).map(|n| agent.address(&pod, &format!("c{n}"))).collect();
        corner.until_used(other + 2);
        // The one before keeps its address, because its DEL may be on the way, and that DEL takes nothing from the last.
        agent.del(&pod, "c38").silent();
        corner.until_used(other + 1);
        assert_eq!(agent.address(&pod, "c39"), given[39]);
        agent.del(&pod, "c39").silent();
        corner.until_used(other);
        let _ = (agent.address(&pod, "left"), agent.address(&pod, "over"));
        corner.until_used(other + 2);
    }
}

/// The pool was written, the record of the endpoint was not, and neither was the rollback.
#[test]
fn b28_spiderpool_412_the_second_write_fails_and_so_does_what_would_undo_the_first() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("p", &json!({"ranges": ["10.N.0.0/29"], "endpointObjects": "Always"}));
    let agent = corner.agent("n", "p");
    let pod = corner.pod(&agent, "web", &json!({}));
    agent.proxy().rule(|seen| (seen.is_write() && seen.resource == "ipendpoints").then_some(Fault::Answer(500)));
    // More attempts than there are addresses.
    for n in 0..10 {
        let ran = agent.add(&pod, &format!("c{n}"));
        assert_ne!(ran.code, 0, "{ran:?}");
        agent.del(&pod, &format!("c{n}")).silent();
    }
    corner.until_used(0);
    // And now the runtime's DEL does not get through either: the agent has it on disk.
    let first = agent.proxy().writes() + 1;
    agent.proxy().rule(move |seen| (seen.is_write() && seen.writes > first).then_some(Fault::Answer(500)));
    let ran = agent.add(&pod, "last");
    assert_ne!(ran.code, 0, "{ran:?}");
    agent.del(&pod, "last").silent();
    assert_eq!((corner.used(), agent.queued()), (1, 1));
    agent.proxy().no_rule();
    corner.until_used(0);
    until("the queue to be empty", || (agent.queued() == 0).then_some(()));
    corner.check();
}

/// A DEL in the first moments after a start, before anything was known, did nothing and said that it was done.
#[test]
fn b29_antrea_3384_a_del_in_the_first_moment_of_an_agent() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("shared", &json!({"ranges": ["10.N.0.0/28"]}));
    corner.pool("affine", &json!({"ranges": ["10.N.1.0/28"], "blockSize": 28}));
    for pool in ["shared", "affine"] {
        let agent = corner.agent(pool, pool);
        let pod = corner.pod(&agent, &format!("{pool}-web"), &json!({}));
        let _ = agent.address(&pod, "c1");
        corner.until_used(1);
        agent.kill();
        let before = lists(&agent, "ipblocks");
        agent.proxy().freeze_watches();
        agent.proxy().rule(|seen| is_list(seen, "ipblocks").then_some(Fault::Hold));
        agent.spawn();
        until("the agent to ask what it holds", || (lists(&agent, "ipblocks") > before).then_some(()));
        std::thread::scope(|scope| {
            let del = scope.spawn(|| agent.del(&pod, "c1").silent());
            agent.proxy().no_rule();
            until("the DEL", || {
                agent.proxy().release();
                del.is_finished().then_some(())
            });
        });
        agent.proxy().thaw_watches();
        corner.until_used(0);
    }
}

/// The kubelet never said DEL; and pods that had ended, but were still there, kept their addresses for ever.
#[test]
fn b31_kubernetes_86944_no_del_and_pods_that_have_ended() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("p", &json!({"ranges": ["10.N.0.0/28"]}));
    let agent = corner.agent("n", "p");
    let pods = corner.pods(&agent, "web", 4);
    let given: Vec<IpAddr> = pods.iter().map(|pod| agent.address(pod, &pod.uid)).collect();
    corner.delete_pod(&pods[0]);
    corner.pod_status(&pods[1], "Failed", &[given[1]]);
    corner.pod_status(&pods[2], "Succeeded", &[given[2]]);
    corner.until_used(1);
    assert_eq!(agent.address(&pods[3], &pods[3].uid), given[3]);
}

/// Nothing is freed for want of information: neither when the pods cannot be listed, nor when the list cannot be trusted
/// because it was made before.
#[test]
fn b32_aws_vpc_cni_431_a_server_that_cannot_be_asked_frees_nothing() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("shared", &json!({"ranges": ["10.N.0.0/28"]}));
    corner.pool("affine", &json!({"ranges": ["10.N.1.0/28"], "blockSize": 28}));
    for (pool, other) in [("shared", 0), ("affine", 4)] {
        let agent = corner.agent(pool, pool);
        let pods = corner.pods(&agent, pool, 4);
        let given: Vec<IpAddr> = pods.iter().map(|pod| agent.address(pod, &pod.uid)).collect();
        corner.until_used(other + 4);
        agent.kill();
        // It starts without a server, then with one that fails whatever is asked of pods.
        agent.proxy().cut();
        agent.spawn();
        until("the agent to listen", || agent.listens().then_some(()));
        agent.proxy().rule(|seen| (seen.resource == "pods" && seen.verb != "get").then_some(Fault::Answer(500)));
        agent.proxy().mend();
        let before = lists(&agent, "pods");
        until("the agent to ask for pods", || (lists(&agent, "pods") >= before + 4).then_some(()));
        assert_eq!(corner.used(), other + 4);
        agent.proxy().no_rule();
        let again: Vec<IpAddr> = pods.iter().map(|pod| agent.address(pod, &pod.uid)).collect();
        assert_eq!(again, given);
        // Down once more, under its feet.
        agent.proxy().cut();
        std::thread::sleep(std::time::Duration::from_secs(3));
        agent.proxy().mend();
        let before = lists(&agent, "pods");
        until("the agent to ask for pods", || (lists(&agent, "pods") >= before + 2).then_some(()));
        assert_eq!(corner.used(), other + 4);
    }
    corner.check();
}

/// While the daemon was down, DEL failed, and pods hung in termination.
#[test]
fn b33_cilium_22067_a_del_while_the_agent_is_down() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("shared", &json!({"ranges": ["10.N.0.10-10.N.0.11"]}));
    corner.pool("affine", &json!({"ranges": ["10.N.1.0/28"], "blockSize": 28}));
    for (pool, other) in [("shared", 0), ("affine", 1)] {
        let agent = corner.agent(pool, pool);
        let pods = corner.pods(&agent, pool, 2);
        let _ = (agent.address(&pods[0], "c0"), agent.address(&pods[1], "c1"));
        corner.until_used(other + 2);
        agent.kill();
        agent.del(&pods[0], "c0").silent();
        assert_eq!(agent.queued(), 1);
        // The agent comes, and goes again before it could reach the server.
        agent.proxy().cut();
        agent.spawn();
        until("the agent to listen", || agent.listens().then_some(()));
        agent.kill();
        assert_eq!(agent.queued(), 1, "what waits on disk outlives an agent");
        agent.proxy().mend();
        agent.start();
        corner.until_used(other + 1);
        until("the queue to be empty", || (agent.queued() == 0).then_some(()));
        // A new ADD of the container comes after the DEL that waited, and keeps its address.
        let again = agent.address(&pods[0], "c0");
        assert_eq!(agent.address(&pods[0], "c0"), again);
        agent.del(&pods[0], "c0").silent();
        corner.until_used(other + 1);
    }
}
