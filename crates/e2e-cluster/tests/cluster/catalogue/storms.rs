//! The cases in which much happens at once: G00011, G00012, I00006, I00008 and P00002, and an application with a thousand pods.

use super::pools;
use super::subnets::{app_pools, has, sizes_of};
use berth_e2e_cluster::case::Seen;
use berth_e2e_cluster::third_party::THIRD_PARTY;
use berth_e2e_cluster::workloads::version_of;
use berth_e2e_cluster::{Case, Random};
use serde_json::{Value, json};

fn running(case: &Case<'_>) -> Vec<Seen> {
    case.pods_of(&case.namespace, None).into_iter().filter(|seen| seen.phase == "Running" && !seen.ending).collect()
}

fn two_sets_share_five_addresses(sticky: bool) {
    let Some(case) = Case::begin() else { return };
    let mut spec = json!({"ranges": ["10.N.0.1-10.N.0.5"]});
    if sticky {
        spec["sticky"] = json!({});
    }
    case.berth("IPPool", "p", &spec);
    let _nodes = [case.node("n1", &json!({})), case.node("n2", &json!({}))];
    let asks = pools(&[case.name("p")]);
    let both = |replicas: u32| ["a", "b"].iter().for_each(|name| drop(case.run("StatefulSet", name, replicas, &asks)));
    for round in 0..2 {
        both(5);
        case.until("ten pods, of which five run", || {
            case.pods_of(&case.namespace, None).len() == 10 && running(&case).len() == 5
        });
        case.sane(&[&case.namespace]);
        assert_eq!((case.used(), running(&case).len()), (5, 5));
        if round == 0 {
            // One set leaves, and the other has all there is.
            case.scale("StatefulSet", "a", 0);
            case.until_running("b", 5);
            case.until_gone("a");
            case.sane(&[&case.namespace]);
        }
        both(0);
        ["a", "b"].iter().for_each(|name| case.until_gone(name));
        case.until_used(0);
    }
}

#[test]
fn g00011_two_stateful_sets_share_five_addresses_and_exactly_five_pods_run() {
    two_sets_share_five_addresses(false);
}

#[test]
fn g00011_two_stateful_sets_share_five_addresses_that_they_keep_and_exactly_five_pods_run() {
    two_sets_share_five_addresses(true);
}

#[test]
fn p00002_forty_replicas_on_forty_addresses_start_and_start_anew_and_go() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPPool", "p", &json!({"ranges": ["10.N.0.1-10.N.0.40"]}));
    let _nodes = [case.node("n1", &json!({})), case.node("n2", &json!({}))];
    let asks = pools(&[case.name("p")]);
    drop(case.run("Deployment", "web", 40, &asks));
    case.until_running("web", 40);
    // All of them at once, as people do who want to see them start anew: the new ones wait for what the old ones have.
    for seen in running(&case) {
        case.end_pod(&seen.pod);
    }
    case.until_running("web", 40);
    case.sane(&[&case.namespace]);
    assert_eq!(case.used(), 40);
    case.remove("Deployment", "web");
    case.until_used(0);
}

/// A StatefulSet of a third party.
const THIRD: &str = "another's StatefulSet";

/// What one of the six workloads of G00012 shall be now.
struct Actor {
    kind: &'static str,
    name: String,
    replicas: u32,
    owner: Value,
}

impl Actor {
    /// Makes, scales or deletes the workload.
    fn act(&mut self, case: &Case<'_>, replicas: u32, asks: &Value) {
        let (was, third_party) = (self.replicas, self.kind == THIRD);
        self.replicas = replicas;
        match (third_party, was, replicas) {
            (true, ..) => {
                self.owner = case.run_third_party("StatefulSet", &self.name, replicas as usize, asks);
            }
            // From nothing or to nothing: made anew, and deleted.
            (false, _, 0) => drop(case.try_delete(version_of(self.kind), self.kind, Some(&case.namespace), &self.name)),
            (false, 0, _) => drop(case.run(self.kind, &self.name, replicas, asks)),
            (false, ..) => case.scale(self.kind, &self.name, replicas),
        }
    }

    /// Whether all pods of it are there that should be, and no others.
    fn settled(&self, case: &Case<'_>, asks: &Value) -> bool {
        let replicas = self.replicas as usize;
        if self.kind == THIRD && !case.reconcile_numbered(&self.name, &self.owner, replicas, asks) {
            return false;
        }
        let pods = case.pods_of(&case.namespace, Some(&self.name));
        pods.len() == replicas && pods.iter().all(|seen| !seen.ending)
    }
}

#[test]
fn g00012_six_workloads_come_grow_shrink_and_go_on_eighteen_addresses() {
    let Some(case) = Case::begin() else { return };
    case.know_third_party();
    let mut random = Random::seeded("G00012");
    case.berth("IPPool", "p", &json!({"ranges": ["10.N.0.1-10.N.0.18"], "sticky": {}, "endpointObjects": "Always"}));
    let _nodes = ["n1", "n2", "n3"].map(|name| case.node(name, &json!({})));
    let asks = pools(&[case.name("p")]);
    let kinds = ["StatefulSet", "StatefulSet", "Deployment", "Deployment", THIRD, THIRD];
    let actor =
        |(i, kind): (usize, &&'static str)| Actor { kind, name: format!("w{i}"), replicas: 0, owner: json!([]) };
    let mut actors: Vec<Actor> = kinds.iter().enumerate().map(actor).collect();
    for round in 0..6 {
        // In the fourth round there are more pods than addresses.
        let most = if round == 3 { 8 } else { 7 };
        let mut left: u32 = if round == 3 { 30 } else { 18 };
        for actor in &mut actors {
            let replicas = u32::try_from(random.below(most)).unwrap_or(0).min(left);
            left -= replicas;
            actor.act(&case, replicas, &asks);
        }
        let wanted: u32 = actors.iter().map(|actor| actor.replicas).sum();
        let expected = wanted.min(18) as usize;
        case.until_or(
            || {
                let all = case.pods_of(&case.namespace, None);
                let line = |seen: &Seen| format!("{} {} {}", seen.pod.name, seen.phase, seen.ending);
                format!("round {round}: {expected} of {wanted}: {:?}", all.iter().map(line).collect::<Vec<_>>())
            },
            || actors.iter().all(|actor| actor.settled(&case, &asks)) && running(&case).len() == expected,
        );
        case.sane(&[&case.namespace]);
    }
    for actor in &mut actors {
        actor.act(&case, 0, &asks);
    }
    case.until("all pods to go", || actors.iter().all(|actor| actor.settled(&case, &asks)));
    for actor in actors.iter().filter(|actor| actor.kind == THIRD) {
        case.try_delete(THIRD_PARTY, "StatefulSet", Some(&case.namespace), &actor.name).unwrap();
    }
    case.until_used(0);
    case.sane(&[&case.namespace]);
}

#[test]
fn i00006_and_i00008_thirty_applications_on_a_hundred_and_fifty_addresses() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPReservation", "rest", &json!({"addresses": ["10.N.0.152-10.N.0.254"]}));
    case.berth("IPSubnet", "s", &json!({"cidr": "10.N.0.0/24"}));
    let _nodes = [case.node("n1", &json!({})), case.node("n2", &json!({}))];
    let asks = json!({"berth.io/subnets": case.name("s"), "berth.io/pool-size": "5"});
    let all = |replicas: &dyn Fn(u32) -> u32| {
        for i in 0..30 {
            case.run("Deployment", &format!("web-{i}"), replicas(i), &asks);
        }
        for i in 0..30 {
            case.until_running(&format!("web-{i}"), replicas(i) as usize);
        }
        let pools = app_pools(&case);
        assert_eq!(sizes_of(&pools), [5; 30]);
        for seen in case.pods_of(&case.namespace, None) {
            assert_eq!(pools.iter().filter(|pool| has(pool, seen.addresses[0])).count(), 1, "{seen:?}");
        }
        case.sane(&[&case.namespace]);
    };
    all(&|_| 2);
    all(&|i| if i < 15 { 4 } else { 1 });
    for i in 0..30 {
        case.remove("Deployment", &format!("web-{i}"));
    }
    case.until("the pools to go", || app_pools(&case).is_empty());
    case.until_used(0);
}

/// Its pool is as large as it should be, and every eighth pod is run: that many are on the node that has a kubelet.
#[test]
fn an_application_with_a_thousand_replicas_has_room_for_all_of_them() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPSubnet", "s", &json!({"cidr": "10.N.0.0/20"}));
    let node = case.node("n0", &json!({}));
    (1..8).for_each(|i| drop(case.node_object(&format!("n{i}"), &json!({}))));
    case.run("Deployment", "many", 1000, &json!({"berth.io/subnets": case.name("s")}));
    case.until_or(
        || format!("a pool of 1001, not {:?}", sizes_of(&app_pools(&case))),
        || sizes_of(&app_pools(&case)) == [1001],
    );
    let bound = || case.pods_of(&case.namespace, None);
    case.until("all pods to be bound", || {
        let pods = bound();
        pods.len() == 1000 && pods.iter().all(|seen| !seen.pod.node.is_empty())
    });
    let own: Vec<Seen> = bound().into_iter().filter(|seen| seen.pod.node == node.node()).collect();
    assert!(own.len() > 50, "{} pods are on the node", own.len());
    case.until("all pods of the node to run", || running(&case).len() == own.len());
    assert_eq!(case.used(), own.len() as u64);
    case.sane(&[&case.namespace]);
    case.scale("Deployment", "many", 10);
    // Pods of nodes without a kubelet end at once only if nobody waits for them.
    case.until("the pool to follow", || {
        for seen in bound().iter().filter(|seen| seen.ending && seen.pod.node != node.node()) {
            case.force_delete(&seen.pod);
        }
        sizes_of(&app_pools(&case)) == [11]
    });
    case.check();
}
