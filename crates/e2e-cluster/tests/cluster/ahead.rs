//! Addresses before they are asked for: what a pod will need is in the API server when its container asks.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use berth_core::block::Block;
use berth_dialects::native::block::{BlockSpec, from_spec};
use berth_e2e::until;
use berth_e2e_cluster::{Agent, Corner as Part, Fault, Pod, World};
use serde_json::{Value, json};
use std::sync::OnceLock;

/// The cluster that these tests share; with no others, since its server stands still at times.
fn world() -> Option<&'static World> {
    static WORLD: OnceLock<Option<World>> = OnceLock::new();
    WORLD.get_or_init(World::start).as_ref()
}

/// A node of its own with a pool of its own, in that cluster.
struct Corner {
    world: &'static World,
    name: &'static str,
    number: u8,
    agent: Agent,
}

impl Corner {
    /// One pod has been served, so that it is known what pods ask for.
    fn new(name: &'static str, number: u8) -> Option<Self> {
        let world = world()?;
        world.nodes(&[name]);
        world.pool(name, &json!({"ranges": [format!("10.9.{number}.0/24")]}));
        let corner = Self { world, name, number, agent: world.agent(name) };
        let first = corner.pod("first");
        let _ = corner.agent.address(&first, "c-first");
        Some(corner)
    }

    fn annotations(&self) -> Value {
        json!({"berth.io/pools": self.name})
    }

    fn pods(&self, names: &[&str]) -> Vec<Pod> {
        let names: Vec<String> = names.iter().map(|name| format!("{}-{name}", self.name)).collect();
        self.world.pods(self.name, &names, &self.annotations())
    }

    fn pod(&self, name: &str) -> Pod {
        self.pods(&[name]).remove(0)
    }

    /// How many addresses of its pool are in use, says the API server.
    fn used(&self) -> u64 {
        let own = format!("default.10-9-{}-", self.number);
        self.world.blocks().iter().filter(|(name, _)| name.starts_with(&own)).map(|(_, used)| used).sum()
    }

    fn until_used(&self, addresses: u64) {
        until(&format!("{addresses} addresses to be in use"), || (self.used() == addresses).then_some(()));
    }

    /// Whether the API server knows that a container has an address.
    fn knows(&self, container: &str) -> bool {
        let listed = self.world.plane.kubectl_ok(&["get", "ipblocks", "-o", "json"]).unwrap();
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let has = |block: &Block| block.slots().any(|(_, view)| view.holder().is_some_and(|it| it.id == container));
        listed["items"].as_array().unwrap().iter().any(|object| {
            let spec: BlockSpec = serde_json::from_value(object["spec"].clone()).unwrap();
            has(&from_spec(&spec).unwrap().1)
        })
    }
}

#[test]
fn an_add_needs_no_server_once_the_pod_is_bound() {
    let Some(own) = Corner::new("bound", 1) else { return };
    let agent = &own.agent;
    let pods = own.pods(&["a", "b", "c"]);
    own.until_used(4);
    own.world.plane.pause().unwrap();
    let given = pods.iter().map(|pod| agent.address(pod, &format!("c-{}", pod.name)));
    let given: Vec<std::net::IpAddr> = given.collect();
    own.world.plane.resume().unwrap();
    assert_eq!(own.used(), 4, "what was given is what was promised");
    // A container that took it up is known by its name from then on, also after a crash, also before the server is told.
    agent.kill();
    agent.start();
    agent.del(&pods[0], "c-another").silent();
    assert_eq!((own.used(), own.knows("c-bound-b")), (4, false), "not its container, and the server is not told yet");
    agent.del(&pods[0], "c-bound-a").silent();
    assert_eq!((own.used(), own.knows("c-bound-b")), (3, true), "the next write of the block tells of the rest");
    assert_eq!(agent.address(&pods[1], "c-bound-b"), given[1]);
    for pod in &pods[1..] {
        agent.del(pod, &format!("c-{}", pod.name)).silent();
    }
    assert_eq!(own.used(), 1);
    agent.stop();
}

#[test]
fn which_container_has_an_address_is_told_after_a_while_and_at_the_end() {
    let Some(own) = Corner::new("told", 2) else { return };
    let pods = own.pods(&["a", "b"]);
    own.until_used(3);
    let _ = own.agent.address(&pods[0], "c-told-a");
    until("the server to hear of it", || own.knows("c-told-a").then_some(()));
    let _ = own.agent.address(&pods[1], "c-told-b");
    own.agent.stop();
    assert!(own.knows("c-told-b"), "what is not written at the end is written by nobody");
}

#[test]
fn a_pod_that_goes_before_it_asks_takes_nothing_along() {
    let Some(own) = Corner::new("goes", 3) else { return };
    let pods = own.pods(&["gone", "stays"]);
    own.until_used(3);
    // So the sweep frees nothing: it is the promise that ends.
    own.world.node_is(own.name, "Unknown");
    own.world.delete_pod(&pods[0]);
    own.until_used(2);
    let _ = own.agent.address(&pods[1], "c-stays");
    own.world.delete_pod(&pods[1]);
    // When the agent has seen a pod that came after that, it has seen that.
    let _ = own.pod("another");
    own.until_used(3);
    own.agent.del(&pods[1], "c-stays").silent();
    assert_eq!(own.used(), 2, "a container that has asked keeps it until its DEL");
    own.agent.stop();
}

#[test]
fn nothing_is_promised_to_pods_that_ask_for_nothing_or_have_to_ask_first() {
    let Some(own) = Corner::new("nothing", 4) else { return };
    let world = own.world;
    world.pool("lent", &json!({"ranges": ["10.9.5.0/24"], "blockSize": 28}));
    let spec = json!({"nodeName": own.name, "hostNetwork": true, "containers": [{"name": "c", "image": "none"}]});
    let metadata = json!({"name": "host", "annotations": own.annotations()});
    world.apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}).to_string());
    let address = json!({"berth.io/pools": own.name, "berth.io/addresses": "10.9.4.77"});
    let named = world.pod_of(own.name, "named", 1, &address);
    let lent = world.pod_of(own.name, "lent", 1, &json!({"berth.io/pools": "lent"}));
    let plain = world.pod_of(own.name, "plain", 1, &own.annotations());
    // Pods are seen in order: when this one has its promise, the others have none.
    own.until_used(2);
    for pod in [named, lent, plain] {
        let _ = own.agent.address(&pod, &format!("c-{}", pod.name));
    }
    assert_eq!(own.used(), 3, "and each was served all the same");
    own.agent.stop();
}

#[test]
fn a_pod_whose_pools_change_before_it_asks_gets_what_it_asks_for() {
    let Some(own) = Corner::new("change", 6) else { return };
    own.world.pool("other", &json!({"ranges": ["10.9.7.0/24"]}));
    let pod = own.pod("web");
    own.until_used(2);
    own.world.plane.kubectl_ok(&["annotate", "--overwrite", "pod", &pod.name, "berth.io/pools=other"]).unwrap();
    until("the agent to see it", || {
        let address = own.agent.address(&pod, "c-web").to_string();
        if !address.starts_with("10.9.7.") {
            own.agent.del(&pod, "c-web").silent();
        }
        address.starts_with("10.9.7.").then_some(())
    });
    assert_eq!(own.used(), 1, "that of the first pod");
    own.agent.stop();
}

#[test]
fn an_agent_that_lost_its_journal_lets_the_pod_keep_what_it_was_promised() {
    let Some(own) = Corner::new("lost", 8) else { return };
    let pod = own.pod("web");
    own.until_used(2);
    own.agent.kill();
    own.agent.lose_state();
    own.agent.start();
    own.world.plane.pause().unwrap();
    let answer = own.agent.add(&pod, "c-web");
    own.world.plane.resume().unwrap();
    assert_eq!(answer.code, 0, "{}", answer.stdout);
    own.agent.del(&pod, "c-web").silent();
    assert_eq!(own.used(), 1);
    own.agent.stop();
}

#[test]
fn a_promise_that_may_have_been_taken_back_is_kept_by_nobody_who_cannot_ask() {
    let Some(world) = World::shared() else { return };
    let corner = Part::of(world);
    corner.pool("p", &json!({"ranges": ["10.N.0.1-10.N.0.2"]}));
    let agent = corner.quiet_agent("n1", "p", &["--promise-for", "2"]);
    agent.start();
    let _ = agent.address(&corner.pod(&agent, "first", &json!({})), "c-first");
    let late = corner.pod(&agent, "late", &json!({}));
    until("the promise", || (corner.used() == 2).then_some(()));
    // It is taken back; that gets there, its answer does not, and nothing else after it.
    let proxy = agent.proxy();
    proxy.freeze_watches();
    let mut lost = false;
    proxy.rule(move |seen| match (lost, seen.is_write()) {
        (true, _) => Some(Fault::Refuse),
        (false, true) => {
            lost = true;
            Some(Fault::LoseAnswer)
        }
        (false, false) => None,
    });
    until("the end of the promise", || (corner.used() == 1).then_some(()));
    let other = corner.agent("n2", "p");
    let quicker = corner.pod(&other, "quicker", &json!({}));
    let _ = other.address(&quicker, "c-quicker");
    let refused = agent.add(&late, "c-late");
    assert_ne!(refused.code, 0, "another has it: {}", refused.stdout);
    // Who can ask again is told that nothing is left, and served when something is.
    proxy.no_rule();
    proxy.thaw_watches();
    assert_ne!(agent.add(&late, "c-late").code, 0);
    other.del(&quicker, "c-quicker").silent();
    until("an address", || (agent.add(&late, "c-late").code == 0).then_some(()));
    corner.check();
}
