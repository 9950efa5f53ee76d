//! Ten thousand operations at random against the real API server, real agents and the real controller.
//!
//! Four nodes start and stop containers through the plugin, each in an order of its own that the seed decides. Meanwhile
//! agents and the controller are killed, pools edited, pods deleted without a word, namespaces deleted, and workloads of
//! Kubernetes scaled up and down beside it. There are exactly as many addresses as pods.
//!
//! Two thirds of the pods use a shared pool, the others one that lends runs of four to nodes. Nodes have so many of these
//! pods that there are not runs enough: some of them are opened. Runs that were opened are not lent again, so each part of
//! the storm has such a pool of its own.
//!
//! - At every ADD: nobody else has the address. ADD again answers the same, DEL always succeeds.
//! - Eight times, when the dust has settled: every pod runs, what is recorded is what runs, `berth check` finds nothing.
//! - At the end: everything is free.
//!
//! `BERTH_SEED` repeats a storm as far as its choices go; `BERTH_STORM` says how many operations.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use berth_core::block::State;
use berth_e2e::Ran;
use berth_e2e_cluster::stage::SOON;
use berth_e2e_cluster::{Agent, Case, Live, Pod, Random, Stage};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const NODES: u64 = 4;
const PODS_EACH: usize = 12;
const EPOCHS: u64 = 8;
/// How many pods of each node use the pool that lends: six runs would be needed, and there are four.
const LENT_EACH: [usize; 4] = [2, 3, 5, 6];
/// Ranges of the shared pool: each has room for all its pods, wherever they are when it is edited.
const RANGES: [&str; 3] = ["10.N.0.1-10.N.0.32", "10.N.0.17-10.N.0.48", "10.N.0.1-10.N.0.48"];

/// What all nodes share.
struct Storm<'s> {
    case: Case<'s>,
    live: Mutex<Live>,
    /// Which part of it this is.
    epoch: AtomicU64,
    done: AtomicU64,
    refused: AtomicU64,
}

/// A pod of a node, and its container.
struct Place {
    pod: Pod,
    /// Whether it uses the pool that lends.
    lent: bool,
    container: Option<(String, IpAddr)>,
}

/// One node: what a kubelet and a runtime do, in an order that chance decides.
struct Node<'s> {
    storm: &'s Storm<'s>,
    agent: Arc<Agent>,
    random: Random,
    places: Vec<Place>,
    /// Containers that are gone, with their pods.
    dead: Vec<(Pod, String)>,
    serial: u64,
}

fn address_of(ran: &Ran) -> IpAddr {
    ran.addresses()[0].split('/').next().unwrap().parse().unwrap()
}

impl Storm<'_> {
    fn asks(&self, lent: bool) -> Value {
        let pool = if lent { self.lending() } else { "p".to_owned() };
        json!({"annotations": {"berth.io/pools": self.case.name(&pool)}, "labels": {"app": "storm"}})
    }

    /// The pool that lends in this part of the storm.
    fn lending(&self) -> String {
        format!("lent-{}", self.epoch.load(Ordering::Relaxed))
    }

    /// The next part begins.
    fn next(&self) {
        let third = 10 + self.epoch.fetch_add(1, Ordering::Relaxed);
        let range = format!("10.N.{}.0-10.N.{}.15", third + 1, third + 1);
        self.case.berth("IPPool", &self.lending(), &json!({"ranges": [range], "blockSize": 30}));
    }

    fn edit_pool(&self, range: &str) {
        self.case.berth("IPPool", "p", &json!({"ranges": [range]}));
    }
}

impl Node<'_> {
    fn pick(&mut self, up: bool) -> Option<usize> {
        let fit: Vec<usize> = (0..self.places.len()).filter(|i| self.places[*i].container.is_some() == up).collect();
        self.random.choose(&fit).copied()
    }

    /// ADD of a new container; what it was refused with is undone, as a runtime does.
    fn add(&mut self, at: usize) -> bool {
        self.serial += 1;
        let (pod, container) = (self.places[at].pod.clone(), format!("{}-{}", self.agent.node(), self.serial));
        let ran = self.agent.add(&pod, &container);
        if ran.code != 0 {
            self.storm.refused.fetch_add(1, Ordering::Relaxed);
            self.del(&pod, &container);
            return false;
        }
        let address = address_of(&ran);
        self.storm.live.lock().unwrap().takes(address, &container);
        self.places[at].container = Some((container, address));
        true
    }

    fn del(&mut self, pod: &Pod, container: &str) {
        self.storm.live.lock().unwrap().leaves(container);
        self.agent.del(pod, container).silent();
        self.dead.push((pod.clone(), container.to_owned()));
    }

    fn stop(&mut self, at: usize) {
        if let Some((container, _)) = self.places[at].container.take() {
            let pod = self.places[at].pod.clone();
            self.del(&pod, &container);
        }
    }

    /// The pod is gone without a DEL, and another has its name.
    fn replace(&mut self, at: usize) {
        let old = self.places[at].pod.clone();
        // Its containers are killed first: a machine that lost its runtime's memory.
        if let Some((container, _)) = self.places[at].container.take() {
            self.storm.live.lock().unwrap().leaves(&container);
        }
        self.storm.case.force_delete(&old);
        let asks = self.storm.asks(self.places[at].lent);
        self.places[at].pod = self.storm.case.pod_on(&self.agent, &old.namespace, &old.name, &asks);
    }

    /// The pods that use the pool that lends are made anew, for the one that does now.
    fn move_on(&mut self) {
        for at in (0..self.places.len()).filter(|at| self.places[*at].lent).collect::<Vec<_>>() {
            self.stop(at);
            self.replace(at);
        }
    }

    fn operate(&mut self) {
        let dice = self.random.below(100);
        let (up, down) = (self.pick(true), self.pick(false));
        match (dice, up, down) {
            (0..=39, _, Some(at)) => drop(self.add(at)),
            (40..=67, Some(at), _) => self.stop(at),
            // Again, with whatever else goes on: the same answer or none.
            (68..=79, Some(at), _) => {
                let (container, address) = self.places[at].container.clone().unwrap_or_else(|| unreachable!());
                let ran = self.agent.add(&self.places[at].pod, &container);
                assert!(ran.code != 0 || address_of(&ran) == address, "{container} has {address}: {}", ran.stdout);
            }
            // A DEL that comes again, of a container whose address may be another's by now.
            (80..=91, ..) => {
                if let Some((pod, container)) = self.random.choose(&self.dead).cloned() {
                    self.agent.del(&pod, &container).silent();
                }
            }
            // A new sandbox before the old one is gone.
            (92..=95, Some(at), _) => {
                let (pod, old) = (self.places[at].pod.clone(), self.places[at].container.take());
                self.add(at);
                if let Some((container, _)) = old {
                    self.del(&pod, &container);
                }
            }
            (96..=97, ..) => {
                let pod = self.places[0].pod.clone();
                self.agent.del(&pod, &format!("never-{dice}-{}", self.serial)).silent();
            }
            (98, Some(at), _) => self.replace(at),
            _ => {}
        }
        self.storm.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Every pod has a container.
    fn all_up(&mut self) {
        for at in 0..self.places.len() {
            let (case, name) = (&self.storm.case, self.places[at].pod.name.clone());
            case.until_or(
                || format!("{name} to have an address"),
                || self.places[at].container.is_some() || self.add(at),
            );
        }
    }
}

/// What happens to everybody while nodes are at work, until so many operations are done.
fn disturb(storm: &Storm<'_>, agents: &[Arc<Agent>], random: &mut Random, until: u64) {
    let case = &storm.case;
    while storm.done.load(Ordering::Relaxed) < until {
        let next = storm.done.load(Ordering::Relaxed) + 20 + random.below(100);
        case.until("operations", || storm.done.load(Ordering::Relaxed) >= next.min(until));
        match random.below(8) {
            0..=2 => {
                let agent = random.choose(agents).unwrap();
                agent.kill();
                agent.start();
            }
            3 => case.stage.start_controller(),
            4 => storm.edit_pool(RANGES[usize::try_from(random.below(3)).unwrap()]),
            5 => case.scale("Deployment", "tide", u32::try_from(random.below(6)).unwrap()),
            6 => case.scale("StatefulSet", "ebb", u32::try_from(random.below(6)).unwrap()),
            _ => namespace_comes_and_goes(storm, random.choose(agents).unwrap(), next),
        }
    }
}

/// Pods get addresses, and their namespace is deleted without a DEL of anything.
fn namespace_comes_and_goes(storm: &Storm<'_>, agent: &Agent, number: u64) {
    let case = &storm.case;
    let name = case.name(&format!("gone-{number}"));
    case.make_namespace(&name, &json!({}));
    let asks = json!({"annotations": {"berth.io/pools": case.name("spare")}});
    let pods: Vec<Pod> = (0..3).map(|i| case.pod_on(agent, &name, &format!("web-{i}"), &asks)).collect();
    for pod in &pods {
        let ran = agent.add(pod, &format!("{name}-{}", pod.name));
        if ran.code == 0 {
            storm.live.lock().unwrap().takes(address_of(&ran), &pod.uid);
        }
    }
    // The containers are gone before anybody can have their addresses.
    pods.iter().for_each(|pod| storm.live.lock().unwrap().leaves(&pod.uid));
    case.try_delete("v1", "Namespace", None, &name).unwrap();
    pods.iter().for_each(|pod| case.force_delete(pod));
}

/// Everything is as it should be, now that nothing is on its way.
fn settled(storm: &Storm<'_>, nodes: &[Node<'_>], tides: usize) {
    let case = &storm.case;
    let places = nodes.iter().flat_map(|node| &node.places);
    let expected: BTreeMap<IpAddr, String> =
        places.map(|place| (place.container.as_ref().unwrap().1, place.pod.uid.clone())).collect();
    assert_eq!(expected.len(), usize::try_from(NODES).unwrap() * PODS_EACH, "every pod has an address of its own");
    let recorded = || {
        let active = case.holders().into_iter().filter(|(_, (state, _))| *state == State::Active);
        active.map(|(address, (_, holder))| (address, holder.uid)).collect::<BTreeMap<IpAddr, String>>()
    };
    // What is lent is told a moment behind the answers.
    case.until_or(
        || format!("what runs to be what is recorded: {} are in use\n{expected:?}\n{:?}", case.used(), recorded()),
        || {
            let recorded = recorded();
            case.used() == (expected.len() + tides) as u64
                && expected.iter().all(|own| recorded.get(own.0) == Some(own.1))
        },
    );
    assert_eq!(case.stage.kubelets.conflicts(), Vec::<String>::new());
    case.check();
}

#[test]
fn ten_thousand_operations_at_random_leave_nothing_doubled_and_nothing_lost() {
    let Some(stage) = Stage::set(&["--reclaim", SOON]) else { return };
    stage.start_controller();
    let mut random = Random::seeded("the storm");
    let total: u64 = std::env::var("BERTH_STORM").map_or(10_000, |text| text.parse().unwrap());
    let case = Case::on(&stage);
    let (epoch, done, refused) = (AtomicU64::default(), AtomicU64::default(), AtomicU64::default());
    let storm = Storm { case, live: Mutex::default(), epoch, done, refused };
    let case = &storm.case;
    storm.edit_pool(RANGES[0]);
    storm.next();
    case.berth("IPPool", "spare", &json!({"ranges": ["10.N.1.0/24"]}));
    case.berth("IPPool", "tide", &json!({"ranges": ["10.N.2.0/24"]}));
    case.berth("IPPool", "ebb", &json!({"ranges": ["10.N.3.1-10.N.3.5"], "sticky": {}}));
    let agents: Vec<_> = (0..NODES).map(|i| case.node_without_kubelet(&format!("n{i}"), &json!({}))).collect();
    let tidal = json!({"storm": "tidal"});
    let _tidal = [case.node("t0", &tidal), case.node("t1", &tidal)];
    for (kind, name) in [("Deployment", "tide"), ("StatefulSet", "ebb")] {
        let mut object = case.workload(kind, name, 3, &json!({"berth.io/pools": case.name(name)}));
        object["spec"]["template"]["spec"]["nodeSelector"] = tidal.clone();
        case.apply(&object);
    }
    let node = |(i, agent): (usize, &Arc<Agent>)| {
        let place = |n: usize| {
            let lent = n < LENT_EACH[i];
            let pod = case.pod_on(agent, &case.namespace, &format!("n{i}-{n}"), &storm.asks(lent));
            Place { pod, lent, container: None }
        };
        let places = (0..PODS_EACH).map(place).collect();
        let seed = random.clone().next() + i as u64;
        Node { storm: &storm, agent: agent.clone(), random: Random::new(seed), places, dead: Vec::new(), serial: 0 }
    };
    let mut nodes: Vec<Node<'_>> = agents.iter().enumerate().map(node).collect();
    for epoch in 1..=EPOCHS {
        let each = total.div_ceil(EPOCHS * NODES);
        std::thread::scope(|scope| {
            for node in &mut nodes {
                scope.spawn(move || (0..each).for_each(|_| node.operate()));
            }
            disturb(&storm, &agents, &mut random, each * NODES * epoch);
        });
        storm.edit_pool(RANGES[usize::try_from(epoch % 3).unwrap()]);
        case.scale("Deployment", "tide", 3);
        case.scale("StatefulSet", "ebb", 5);
        std::thread::scope(|scope| nodes.iter_mut().for_each(|node| drop(scope.spawn(|| node.all_up()))));
        case.until_running("tide", 3);
        case.until_running("ebb", 5);
        // An address in use that an edit cut off from its pool stays with its pod, and `berth check` says so.
        storm.edit_pool(RANGES[2]);
        settled(&storm, &nodes, 8);
        storm.next();
        std::thread::scope(|scope| nodes.iter_mut().for_each(|node| drop(scope.spawn(|| node.move_on()))));
    }
    for node in &mut nodes {
        (0..PODS_EACH).for_each(|at| node.stop(at));
    }
    case.remove("Deployment", "tide");
    case.remove("StatefulSet", "ebb");
    case.until_used(0);
    case.check();
    let (done, refused) = (storm.done.load(Ordering::Relaxed), storm.refused.load(Ordering::Relaxed));
    println!("{done} operations, {refused} ADDs were told to come again");
}
