//! What is lost is found again: a node's disk, a backup that is too old, a lease of which nobody knows.

use berth_e2e::needs::{Need, UTIL_LINUX, met};
use berth_e2e::until;
use berth_e2e_cluster::{Agent, Corner, Fault, Pod, Seen, World};
use serde_json::json;
use std::collections::BTreeSet;
use std::net::IpAddr;

fn add_all(agent: &Agent, pods: &[Pod]) -> Vec<IpAddr> {
    pods.iter().map(|pod| agent.address(pod, &pod.uid)).collect()
}

/// ADD until it works, as a kubelet does.
fn served(agent: &Agent, pod: &Pod) -> IpAddr {
    until("an address", || (agent.add(pod, &pod.uid).code == 0).then_some(()));
    agent.address(pod, &pod.uid)
}

#[track_caller]
fn assert_distinct(addresses: &[IpAddr]) {
    let distinct: BTreeSet<&IpAddr> = addresses.iter().collect();
    assert_eq!(distinct.len(), addresses.len(), "{addresses:?}");
}

/// The state was rebuilt from one source alone, and what only the others knew was given out again. Here: the journal is
/// gone, the API server is seconds behind, and the pods run.
#[test]
fn b20_kube_ovn_4304_a_node_that_lost_its_disk_asks_its_pods() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("p", &json!({"ranges": ["10.N.0.0/24"], "blockSize": 26}));
    let agent = corner.agent("n", "p");
    // Of the first the API server hears at once, of the rest not for ten seconds.
    let first = corner.pod(&agent, "first", &json!({}));
    let mut all = vec![agent.address(&first, &first.uid)];
    corner.until_used(1);
    let pods = corner.pods(&agent, "web", 30);
    all.extend(add_all(&agent, &pods));
    agent.kill();
    agent.lose_state();
    assert_eq!(corner.used(), 1, "otherwise this tests nothing");
    // Of two thirds the kubelet has told, of the rest it tells when the agent runs again.
    for (pod, address) in pods[..20].iter().zip(&all[1..]) {
        corner.pod_status(pod, "Running", &[*address]);
    }
    agent.start();
    let new = corner.pods(&agent, "new", 40);
    all.extend(new.iter().map(|pod| served(&agent, pod)));
    assert_distinct(&all);
    for (pod, address) in pods[20..].iter().zip(&all[21..]) {
        corner.pod_status(pod, "Running", &[*address]);
    }
    until("the log to say that all is known", || {
        let log = std::fs::read_to_string(agent.log()).unwrap_or_default();
        log.contains("it is known again what pods of this node have").then_some(())
    });
    let newer = corner.pods(&agent, "newer", 40);
    all.extend(newer.iter().map(|pod| served(&agent, pod)));
    assert_distinct(&all);
    until("the API server to know of all", || (corner.used() == 111).then_some(()));
    corner.check();
    // What was recognised goes with its pod; and a new sandbox of such a pod gets an address as any other.
    let address = agent.address(&pods[0], "new-sandbox");
    assert!(!all.contains(&address));
    pods.iter().for_each(|pod| corner.delete_pod(pod));
    corner.until_used(81);
}

/// The API server's store was restored from an old backup: addresses of pods that run belonged to nobody. The only cure
/// was to reboot every node; here the agents are restarted.
#[test]
fn b13_calico_4374_an_old_backup_is_restored() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("shared", &json!({"ranges": ["10.N.0.0/26"]}));
    corner.pool("affine", &json!({"ranges": ["10.N.1.0/26"], "blockSize": 28}));
    let (one, two) = (corner.agent("one", "shared"), corner.agent("two", "shared"));
    let affine = json!({"pools": [corner.name("affine")]});
    let run = |agent: &Agent, name: &str, count: usize| -> Vec<(Pod, IpAddr)> {
        let start = |(n, pod): (usize, Pod)| {
            let ran = if n % 2 == 0 { agent.add(&pod, &pod.uid) } else { agent.add_with(&pod, &pod.uid, &affine) };
            let first = ran.addresses().remove(0);
            let address = first.split('/').next().and_then(|text| text.parse().ok()).unwrap();
            corner.pod_status(&pod, "Running", &[address]);
            (pod, address)
        };
        corner.pods(agent, name, count).into_iter().enumerate().map(start).collect()
    };
    let old = run(&one, "old", 6);
    corner.until_used(6);
    let backup = (corner.block_objects(), corner.lease_objects());
    let mut live = run(&one, "later", 8);
    live.extend(run(&two, "two", 8));
    for (pod, _) in &old[..4] {
        one.del(pod, &pod.uid).silent();
        corner.delete_pod(pod);
    }
    live.extend_from_slice(&old[4..]);
    corner.until_used(18);
    [&one, &two].iter().for_each(|agent| agent.kill());
    corner.restore(&backup.0, &backup.1);
    // Whoever comes back first must not take what is the other's.
    [&two, &one].iter().for_each(|agent| agent.start());
    let mut all: Vec<IpAddr> = live.iter().map(|(_, address)| *address).collect();
    all.extend(run(&two, "new-two", 6).iter().map(|(_, address)| *address));
    all.extend(run(&one, "new-one", 6).iter().map(|(_, address)| *address));
    assert_distinct(&all);
    corner.until_used(30);
    corner.check();
}

/// A lease was given back, the answer was lost and the server away: it may be another node's by now.
#[test]
fn a_lease_whose_return_got_no_answer_is_not_used_until_the_server_has_been_asked() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    // Three leases of 16; a gateway in the first.
    corner.pool("p", &json!({"ranges": ["10.N.0.0-10.N.0.47"], "blockSize": 28}));
    let agent = corner.quiet_agent("n", "p", &["--idle-lease-for", "0"]);
    agent.start();
    let pods = corner.pods(&agent, "web", 20);
    let given = add_all(&agent, &pods);
    corner.until_used(20);
    let run_of = |address: &IpAddr| match address {
        IpAddr::V4(address) => address.octets()[3] / 16,
        IpAddr::V6(_) => 99,
    };
    let kept = run_of(&given[0]);
    let (stay, go): (Vec<usize>, Vec<usize>) = (0..20).partition(|&n| run_of(&given[n]) == kept);
    assert!(!go.is_empty() && stay.len() > 2, "{given:?}");
    // The next write that changes leases is the one that gives a lease back. It is made, and nobody hears of it.
    agent.proxy().rule(|seen| (seen.is_write() && seen.name.contains("leases")).then_some(Fault::SwallowAnswer));
    for &n in go.iter().chain(&stay[2..]) {
        agent.del(&pods[n], &pods[n].uid).silent();
    }
    let returned = |seen: &Seen| seen.is_write() && seen.name.contains("leases");
    let before = agent.proxy().seen().iter().filter(|seen| returned(seen)).count();
    until("a lease to be given back", || {
        (agent.proxy().seen().iter().filter(|seen| returned(seen)).count() > before).then_some(())
    });
    agent.proxy().cut();
    // Another node takes whatever is there.
    let other = corner.agent("other", "p");
    let theirs: Vec<IpAddr> = corner.pods(&other, "theirs", 14).iter().map(|pod| served(&other, pod)).collect();
    // Cut off, the node goes on with what it has for sure.
    let mut all = theirs;
    all.extend(stay[..2].iter().map(|&n| given[n]));
    for pod in corner.pods(&agent, "own", 10) {
        let ran = agent.add(&pod, &pod.uid);
        if ran.code == 0 {
            all.push(agent.address(&pod, &pod.uid));
        }
    }
    assert_distinct(&all);
    agent.proxy().no_rule();
    agent.proxy().mend();
    let more: Vec<IpAddr> = corner.pods(&agent, "more", 6).iter().map(|pod| served(&agent, pod)).collect();
    all.extend(more);
    assert_distinct(&all);
    corner.until_used(all.len() as u64);
    corner.check();
}

/// Two leases in one block, of which one is opened: its addresses are given back and given out through the API server,
/// those of the other through the journal.
#[test]
fn a_block_of_which_one_lease_is_opened_and_another_is_not() {
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("p", &json!({"ranges": ["10.N.0.0/27"], "blockSize": 28}));
    let (agent, other) = (corner.agent("n", "p"), corner.agent("other", "p"));
    let pods = corner.pods(&agent, "web", 20);
    let mut all = add_all(&agent, &pods);
    // 29 addresses; the other node needs some, and has no lease.
    let theirs = corner.pods(&other, "theirs", 8);
    all.extend(theirs.iter().map(|pod| served(&other, pod)));
    assert_distinct(&all);
    corner.until_used(28);
    for pod in &pods {
        agent.del(pod, &pod.uid).silent();
        assert_eq!(agent.queued(), 0, "nothing has to wait");
    }
    corner.until_used(8);
    let again = corner.pods(&agent, "again", 20);
    let mut all: Vec<IpAddr> = again.iter().map(|pod| served(&agent, pod)).collect();
    all.extend(add_all(&other, &theirs));
    assert_distinct(&all);
    agent.kill();
    agent.start();
    assert_eq!(add_all(&agent, &again), all[..20]);
    corner.until_used(28);
    corner.check();
}

/// The containers of the last boot are gone, and so is what they held; a restart within the boot frees nothing.
#[test]
fn a_node_that_has_booted_frees_what_its_dead_containers_held() {
    if !met(&[Need::Root, UTIL_LINUX]) {
        return;
    }
    let Some(world) = World::shared() else { return };
    let corner = Corner::of(world);
    corner.pool("shared", &json!({"ranges": ["10.N.0.0/28"]}));
    corner.pool("affine", &json!({"ranges": ["10.N.1.0/28"], "blockSize": 28}));
    corner.pool("sticky", &json!({"ranges": ["10.N.2.0/28"], "sticky": {}}));
    let agent = corner.quiet_agent("n", "shared", &[]);
    agent.boot("11111111-1111-1111-1111-111111111111");
    agent.start();
    let from = |pool: &str| json!({"pools": [corner.name(pool)]});
    let pods = corner.pods(&agent, "web", 3);
    let pools = ["shared", "affine", "sticky"];
    let start = |sandbox: &str| -> Vec<String> {
        let run = |(pod, pool): (&Pod, &&str)| {
            agent.add_with(pod, &format!("{sandbox}{pool}"), &from(pool)).addresses().remove(0)
        };
        pods.iter().zip(&pools).map(run).collect()
    };
    let first = start("a");
    corner.until_used(3);
    agent.kill();
    agent.start();
    assert_eq!(start("a"), first);
    // What the kubelet said last is what a pod had before the boot, until its new sandbox is there.
    let told = |addresses: &[String]| {
        for (pod, address) in pods.iter().zip(addresses) {
            corner.pod_status(pod, "Running", &[address.split('/').next().unwrap().parse().unwrap()]);
        }
    };
    told(&first);
    // The last DELs of the old boot wait on disk; its stamps do not compare with those of the new one.
    agent.kill();
    agent.boot("22222222-2222-2222-2222-222222222222");
    agent.start();
    // What is kept for the sticky pod is all that is left.
    corner.until_used(1);
    let second = start("b");
    assert_eq!(second[2], first[2], "a pod that comes back gets its address back");
    corner.until_used(3);
    told(&second);
    corner.check();
}
