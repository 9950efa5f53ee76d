//! Addresses that other managers gave to two pods at once; each test is named after the report. The table is in
//! docs/reliability.md.

use berth_e2e::until;
use berth_e2e_cluster::{Agent, Corner, Fault, Live, Pod, World};
use serde_json::json;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// ADD for each of some pods; what they got.
fn add_all(agent: &Agent, pods: &[Pod]) -> Vec<IpAddr> {
    pods.iter().map(|pod| agent.address(pod, &pod.uid)).collect()
}

#[track_caller]
fn assert_distinct(addresses: &[IpAddr]) {
    let distinct: BTreeSet<&IpAddr> = addresses.iter().collect();
    assert_eq!(distinct.len(), addresses.len(), "{addresses:?}");
}

/// Waits until the agent has compared holders and pods a few times more.
fn sweeps(agent: &Agent, times: usize) {
    let lists = || agent.proxy().seen().iter().filter(|seen| seen.verb == "list" && seen.resource == "pods").count();
    let before = lists();
    until("the agent to look at its pods", || (lists() >= before + times).then_some(()));
}

/// The daemon answered before it had restored its state, and gave a new pod the address of an old one.
#[test]
fn b01_aws_vpc_cni_711_an_agent_answers_nobody_before_it_knows_what_is_held() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("shared", &json!({"ranges": ["10.N.0.0/26"]}));
    corner.pool("affine", &json!({"ranges": ["10.N.64.0/26"], "blockSize": 26}));
    for pool in ["shared", "affine"] {
        let agent = corner.agent(pool, pool);
        let (old, new) =
            (corner.pods(&agent, &format!("{pool}-old"), 50), corner.pods(&agent, &format!("{pool}-new"), 8));
        let mut all = add_all(&agent, &old);
        agent.kill();
        // What it must know comes late, and what it watches does not come at all.
        agent.proxy().freeze_watches();
        agent.proxy().rule(|seen| (seen.verb == "list" && seen.resource == "ipblocks").then_some(Fault::Hold));
        agent.spawn();
        let asked = |seen: &berth_e2e_cluster::Seen| seen.verb == "list" && seen.resource == "ipblocks";
        until("the agent to ask", || agent.proxy().seen().iter().filter(|seen| asked(seen)).nth(1).map(drop));
        until("the agent to listen", || agent.listens().then_some(()));
        let given = std::thread::scope(|scope| {
            let adds = scope.spawn(|| add_all(&agent, &new));
            assert!(!adds.is_finished(), "nobody knows yet what is free");
            agent.proxy().no_rule();
            until("the answers", || {
                agent.proxy().release();
                adds.is_finished().then_some(())
            });
            adds.join().unwrap()
        });
        all.extend(given);
        assert_distinct(&all);
        agent.proxy().thaw_watches();
        assert_eq!(add_all(&agent, &old), all[..50], "and those who were there keep theirs");
    }
}

/// The daemons of all nodes were restarted, lost what they knew, and gave many pods one address.
#[test]
fn b02_azure_cns_1259_all_agents_are_restarted_one_after_the_other() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("p", &json!({"ranges": ["10.N.0.0/25"], "blockSize": 28}));
    let agents: Vec<Agent> = ["a", "b", "c"].iter().map(|node| corner.agent(node, "p")).collect();
    let mut pods: Vec<Vec<Pod>> = agents.iter().map(|agent| corner.pods(agent, agent.node(), 4)).collect();
    let mut before: Vec<Vec<IpAddr>> = agents.iter().zip(&pods).map(|(agent, pods)| add_all(agent, pods)).collect();
    for (n, agent) in agents.iter().enumerate() {
        agent.kill();
        agent.start();
        for (m, other) in agents.iter().enumerate() {
            let late = corner.pod(other, &format!("late-{n}-{m}"), &json!({}));
            before[m].push(other.address(&late, &late.uid));
            pods[m].push(late);
        }
    }
    assert_distinct(&before.concat());
    let after: Vec<Vec<IpAddr>> = agents.iter().zip(&pods).map(|(agent, pods)| add_all(agent, pods)).collect();
    assert_eq!(before, after);
    corner.until_used(21);
    corner.check();
}

/// A DEL by the name of the pod: a late one, of the old sandbox, freed the address of the new one.
#[test]
fn b03_azure_cni_885_a_late_del_of_the_old_sandbox() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("p", &json!({"ranges": ["10.N.0.0/28"]}));
    let agent = corner.agent("n", "p");
    let pod = corner.pod(&agent, "web", &json!({}));
    let (old, new) = (agent.address(&pod, "c1"), agent.address(&pod, "c2"));
    assert_ne!(old, new);
    agent.del(&pod, "c1").silent();
    assert_eq!((corner.used(), agent.address(&pod, "c2")), (1, new));
}

/// ADD and DEL of one container crossed; memory and file disagreed, and after a restart the address was doubled.
#[test]
fn b04_azure_cni_4829_add_and_del_of_one_container_at_once() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("shared", &json!({"ranges": ["10.N.0.0/28"]}));
    corner.pool("affine", &json!({"ranges": ["10.N.1.0/28"], "blockSize": 28}));
    for pool in ["shared", "affine"] {
        let agent = corner.agent(pool, pool);
        let pod = corner.pod(&agent, &format!("{pool}-web"), &json!({}));
        for round in 0..12 {
            let container = format!("c{round}");
            std::thread::scope(|scope| {
                scope.spawn(|| agent.add(&pod, &container));
                scope.spawn(|| agent.del(&pod, &container).silent());
            });
            // Whoever came first: the runtime says DEL of what it does not want, and then nothing is left.
            agent.del(&pod, &container).silent();
        }
        corner.until_used(0);
        let held = agent.address(&pod, "last");
        agent.kill();
        agent.start();
        assert_eq!(agent.address(&pod, "last"), held);
        agent.del(&pod, "last").silent();
    }
    corner.until_used(0);
    corner.check();
}

/// A pod was deleted and made anew under its name at once; the new one took over a record whose address was freed.
#[test]
fn b05_spiderpool_1187_a_pod_that_is_made_anew_under_its_name_again_and_again() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("p", &json!({"ranges": ["10.N.0.0/28"]}));
    let agent = corner.agent("n", "p");
    let (mut live, mut before) = (Live::default(), None::<Pod>);
    for _ in 0..15 {
        if let Some(old) = &before {
            corner.delete_pod(old);
        }
        let pod = corner.pod(&agent, "web", &json!({}));
        let address = agent.address(&pod, &pod.uid);
        live.takes(address, &pod.uid);
        if let Some(old) = &before {
            // The runtime is late with the old one.
            agent.del(old, &old.uid).silent();
            live.leaves(&old.uid);
        }
        assert_eq!(agent.address(&pod, &pod.uid), address, "what the old one gave back was its own");
        before = Some(pod);
    }
    sweeps(&agent, 3);
    assert_eq!(corner.used(), 1);
    corner.check();
}

/// The address of a StatefulSet's pod that was restarting was freed for want of a pod with that UID, and a pod of a
/// Deployment got it.
#[test]
fn b06_spiderpool_2526_a_stateful_set_restarts_while_others_wait_for_addresses() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("p", &json!({"ranges": ["10.N.0.10-10.N.0.12"], "sticky": {}}));
    let agent = corner.agent("n", "p");
    let names = ["db-0", "db-1", "db-2"];
    let mut pods: Vec<Pod> = names.iter().map(|name| corner.pod(&agent, name, &json!({}))).collect();
    let own = add_all(&agent, &pods);
    let greedy = corner.pod(&agent, "greedy", &json!({}));
    for round in 0..2 {
        for (n, name) in names.iter().enumerate() {
            agent.del(&pods[n], &pods[n].uid).silent();
            corner.delete_pod(&pods[n]);
            // Between the two pods of the name, over several sweeps: nobody else gets it.
            assert_ne!(agent.add(&greedy, &format!("g{round}{n}")).code, 0);
            sweeps(&agent, 2);
            assert_ne!(agent.add(&greedy, &format!("h{round}{n}")).code, 0);
            pods[n] = corner.pod(&agent, name, &json!({}));
            assert_eq!(agent.address(&pods[n], &pods[n].uid), own[n]);
        }
    }
    assert_eq!(corner.used(), 3);
}

/// The collector saw no address in the status of a pod, of which the kubelet had not told yet, and freed it. And: the
/// kubelet tells one family alone, and the other was freed after a while.
#[test]
fn b07_whereabouts_162_and_b11_calico_5044_what_the_status_of_a_pod_does_not_say() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("p", &json!({"ranges": ["10.N.0.0/28"]}));
    let agent = corner.agent("n", "p");
    let (silent, half) = (corner.pod(&agent, "silent", &json!({})), corner.pod(&agent, "half", &json!({})));
    let got = [agent.address(&silent, "c1"), agent.address(&half, "c2"), agent.address(&half, "c2")];
    // Of an interface that its status never tells of.
    corner.pod_status(&half, "Running", &["192.0.2.7".parse().unwrap()]);
    sweeps(&agent, 4);
    assert_eq!(corner.used(), 2, "before they ask again");
    assert_eq!([agent.address(&silent, "c1"), agent.address(&half, "c2")], got[..2]);
}

/// The collector listed pods, a pod came, the collector listed addresses, and the new one belonged to nobody.
#[test]
fn b08_whereabouts_207_a_pod_that_comes_between_two_lists() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("p", &json!({"ranges": ["10.N.0.0/28"]}));
    let agent = corner.agent("n", "p");
    let held = |agent: &Agent| agent.proxy().seen().iter().filter(|seen| seen.verb == "list").count();
    let mut addresses = Vec::new();
    for round in 0..3 {
        let before = held(&agent);
        agent.proxy().rule(|seen| (seen.verb == "list" && seen.resource == "pods").then_some(Fault::HoldAnswer));
        until("the agent to list its pods", || (held(&agent) > before).then_some(()));
        // The list is made, without this pod, and on its way.
        let pod = corner.pod(&agent, &format!("late-{round}"), &json!({}));
        addresses.push((agent.address(&pod, &pod.uid), pod));
        agent.proxy().no_rule();
        agent.proxy().release();
    }
    sweeps(&agent, 3);
    assert_eq!(corner.used(), 3);
    assert!(addresses.iter().all(|(address, pod)| agent.address(pod, &pod.uid) == *address));
}

/// The owner was the name of a pod: when a StatefulSet's pod moved off a node that was away, its new address was freed
/// and the old one kept.
#[test]
fn b09_whereabouts_176_a_pod_moves_off_a_node_that_is_cut_off() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("p", &json!({"ranges": ["10.N.0.0/28"], "sticky": {}}));
    let (away, here) = (corner.agent("away", "p"), corner.agent("here", "p"));
    let old = corner.pod(&away, "db-0", &json!({}));
    let address = away.address(&old, "c1");
    away.proxy().cut();
    corner.delete_pod(&old);
    let new = corner.pod(&here, "db-0", &json!({}));
    assert_eq!(here.address(&new, "c2"), address, "a name has one pod");
    // The runtime of the node that was away cleans up, its agent comes back, and looks at its pods.
    away.del(&old, "c1").silent();
    away.proxy().mend();
    sweeps(&away, 4);
    until("the queue of deletions to be worked off", || (away.queued() == 0).then_some(()));
    assert_eq!((here.address(&new, "c2"), corner.used()), (address, 1));
    corner.check();
}

/// The record of a pod had the wrong node, and "not on that node" was taken for "gone".
#[test]
fn b10_calico_12257_a_pod_that_is_not_where_its_record_says_is_alive() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("p", &json!({"ranges": ["10.N.0.0/28"]}));
    let (agent, other) = (corner.agent("n", "p"), corner.agent("other", "p"));
    // The pod is bound to another node than the one whose agent is asked.
    let pod = corner.pod(&other, "web", &json!({}));
    let address = agent.address(&pod, "c1");
    sweeps(&agent, 5);
    // First: who asks again may get the same one again.
    assert_eq!(corner.used(), 1);
    assert_eq!(agent.address(&pod, "c1"), address);
    corner.delete_pod(&pod);
    corner.until_used(0);
}

/// A new leader answered from a queue before it had seen what is taken, and two nodes got one range.
#[test]
fn b14_cilium_21482_two_nodes_that_know_nothing_of_each_other() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("shared", &json!({"ranges": ["10.N.0.0/27"]}));
    corner.pool("affine", &json!({"ranges": ["10.N.1.0/26"], "blockSize": 29}));
    for pool in ["shared", "affine"] {
        let agents = ["a", "b"].map(|node| corner.quiet_agent(&format!("{pool}-{node}"), pool, &[]));
        for agent in &agents {
            // From the first moment on, neither hears of what the other does.
            agent.proxy().freeze_watches();
            agent.start();
        }
        let pods = [0, 1].map(|n| corner.pods(&agents[n], &format!("{pool}-{n}"), 14));
        let given = std::thread::scope(|scope| {
            let threads = [0, 1].map(|n| {
                let (agent, pods) = (&agents[n], &pods[n]);
                scope.spawn(move || add_all(agent, pods))
            });
            threads.map(|thread| thread.join().unwrap()).concat()
        });
        assert_distinct(&given);
    }
}

/// A pool was cut down while its addresses were in use; they were forgotten and given to others.
#[test]
fn b15_cilium_41986_a_pool_that_is_edited_while_it_is_in_use() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    for (pool, lending) in [("shared", json!(null)), ("affine", json!(28))] {
        let spec = |range: &str| {
            let mut spec = json!({"ranges": [range.replace('M', if lending.is_null() { "0" } else { "1" })]});
            if !lending.is_null() {
                spec["blockSize"] = lending.clone();
            }
            spec
        };
        corner.pool(pool, &spec("10.N.M.0/26"));
        let (one, two) = (corner.agent(&format!("{pool}-1"), pool), corner.agent(&format!("{pool}-2"), pool));
        let old = corner.pods(&one, &format!("{pool}-old"), 20);
        let mut all = add_all(&one, &old);
        // Cut down to where few of them are, then as large as before; agents are restarted in between.
        corner.pool(pool, &spec("10.N.M.32/27"));
        [&one, &two].iter().for_each(|agent| agent.kill());
        [&one, &two].iter().for_each(|agent| agent.start());
        assert_eq!(add_all(&one, &old), all, "whoever has an address keeps it");
        corner.pool(pool, &spec("10.N.M.0/26"));
        let new = corner.pods(&two, &format!("{pool}-new"), 20);
        for pod in &new {
            until("an address", || (two.add(pod, &pod.uid).code == 0).then_some(()));
        }
        all.extend(add_all(&two, &new));
        assert_distinct(&all);
        assert_eq!(add_all(&one, &old), all[..20]);
        corner.until_used(if lending.is_null() { 40 } else { 80 });
    }
    corner.check();
}

/// One family failed, and the clean-up released what was good of the other.
#[test]
fn b16_cilium_44832_one_family_fails() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("v4", &json!({"ranges": ["10.N.0.0/28"]}));
    corner.pool("v6", &json!({"ranges": [format!("fd00:{}::/120", corner.here("N"))]}));
    let agent = corner.agent("n", "v4");
    let both = json!({"pools": [corner.name("v4"), corner.name("v6")]});
    let (good, bad) = (corner.pod(&agent, "good", &json!({})), corner.pod(&agent, "bad", &json!({})));
    let first = agent.add_with(&good, "c0", &both).addresses();
    assert_eq!(first.len(), 2, "{first:?}");
    agent.proxy().rule(|seen| (seen.is_write() && seen.name.contains("fd00")).then_some(Fault::Answer(500)));
    for n in 0..6 {
        let ran = agent.add_with(&bad, &format!("c1-{n}"), &both);
        assert_ne!(ran.code, 0, "{ran:?}");
        agent.del(&bad, &format!("c1-{n}")).silent();
    }
    agent.proxy().no_rule();
    until("ADD to work again", || (agent.add_with(&bad, "c2", &both).code == 0).then_some(()));
    corner.until_used(2);
    assert_eq!(agent.add_with(&good, "c0", &both).addresses(), first, "whoever was there has both still");
    corner.check();
}

/// After a restart, before everything was restored, reserved addresses were given to pods.
#[test]
fn b17_cilium_46799_reserved_addresses_at_the_moment_of_a_restart() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    // 14 addresses, of which one is the gateway's and eleven are reserved.
    corner.pool("p", &json!({"ranges": ["10.N.0.0/28"]}));
    let reservation = corner.here(
        "{apiVersion: berth.io/v1alpha1, kind: IPReservation, metadata: {name: rN}, spec: {addresses: [10.N.0.2-10.N.0.12]}}",
    );
    world.apply(&reservation);
    let agent = corner.quiet_agent("n", "p", &[]);
    let late = |seen: &berth_e2e_cluster::Seen| {
        (seen.verb == "list" && seen.resource == "ipreservations").then_some(Fault::HoldAnswer)
    };
    for round in 0..2 {
        agent.proxy().freeze_watches();
        agent.proxy().rule(late);
        agent.spawn();
        let pod = corner.pod(&agent, &format!("p{round}"), &json!({}));
        let given = std::thread::scope(|scope| {
            let add = scope.spawn(|| {
                until("the socket", || agent.listens().then_some(()));
                agent.address(&pod, &pod.uid)
            });
            until("the answer", || {
                agent.proxy().release();
                add.is_finished().then_some(())
            });
            add.join().unwrap()
        });
        let allowed = ["10.N.0.13", "10.N.0.14"].map(|text| corner.here(text));
        assert!(allowed.contains(&given.to_string()), "{given} is reserved");
        agent.proxy().thaw_watches();
        agent.kill();
    }
}

/// An object with a finalizer was taken for gone when its deletion had begun.
#[test]
fn b18_kubernetes_127792_a_pod_that_lingers_is_alive() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("p", &json!({"ranges": ["10.N.0.0/28"]}));
    let agent = corner.agent("n", "p");
    let pod = corner.pod(&agent, "web", &json!({}));
    let address = agent.address(&pod, "c1");
    let finalizers = |list: &str| {
        let patch = format!("{{\"metadata\":{{\"finalizers\":{list}}}}}");
        world.plane.kubectl_ok(&["patch", "pod", &pod.name, "--type=merge", "-p", &patch]).unwrap();
    };
    finalizers("[\"example.com/stay\"]");
    corner.delete_pod(&pod);
    sweeps(&agent, 4);
    assert_eq!((corner.used(), agent.address(&pod, "c1")), (1, address));
    finalizers("null");
    corner.until_used(0);
}

/// A write failed, its range was released, and the retry used it all the same. And: a write that got no answer was made.
#[test]
fn b19_cloud_provider_azure_4556_a_write_that_fails_or_seems_to() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("p", &json!({"ranges": ["10.N.0.10-10.N.0.11"]}));
    let (agent, other) = (corner.agent("n", "p"), corner.agent("o", "p"));
    let faults = [Fault::LoseAnswer, Fault::Answer(500), Fault::Answer(409), Fault::Refuse];
    for (n, fault) in faults.into_iter().enumerate() {
        let pods =
            [(&agent, "a"), (&other, "b")].map(|(agent, name)| corner.pod(agent, &format!("{name}{n}"), &json!({})));
        let mut once = true;
        agent.proxy().rule(move |seen| (seen.is_write() && std::mem::take(&mut once)).then_some(fault));
        // Two addresses and two pods: each gets one, whatever became of the first write.
        until("an address", || (agent.add(&pods[0], &pods[0].uid).code == 0).then_some(()));
        until("an address", || (other.add(&pods[1], &pods[1].uid).code == 0).then_some(()));
        let given = [agent.address(&pods[0], &pods[0].uid), other.address(&pods[1], &pods[1].uid)];
        assert_ne!(given[0], given[1]);
        assert_eq!(corner.used(), 2);
        agent.del(&pods[0], &pods[0].uid).silent();
        other.del(&pods[1], &pods[1].uid).silent();
        corner.until_used(0);
    }
}
