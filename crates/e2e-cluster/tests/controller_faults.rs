//! The controller with three things that go wrong: what it knows is old, it was away when something happened, and it dies
//! at any of its writes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use berth_e2e::until;
use berth_e2e_cluster::{Agent, Controller, Fault, Pod, Proxy, World};
use rustix::process::Pid;
use serde_json::json;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

const SOON: [&str; 2] = ["--reclaim", "pod-gone=0s,pod-replaced=0s,pod-ended=0s,node-gone=0s,not-coming-back=0s"];

/// A controller behind a proxy.
fn behind(world: &World, proxy: &Proxy) -> Controller {
    let url = proxy.url();
    world.controller("r1", &[&SOON[..], &["--api-server", &url]].concat())
}

fn proxy(world: &World) -> Proxy {
    Proxy::start(&world.plane.kubeconfig_for_service_account("berth-system", "berth-controller", None).unwrap())
}

#[test]
fn a_controller_whose_picture_of_pods_is_old_frees_nothing_of_the_living() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.node_is("n1", "True");
    world.pool("p", &json!({"ranges": ["10.9.0.0/24"]}));
    let proxy = proxy(&world);
    // The list goes through, and what comes after it does not.
    proxy.rule(|seen| (seen.verb == "watch" && seen.resource == "pods").then_some(Fault::Hold));
    let controller = behind(&world, &proxy);
    until("the controller to lead", || controller.log().contains("leading").then_some(()));
    let agent = world.agent("n1");
    let pods = world.pods("n1", &["a", "b", "c"].map(str::to_owned), &json!({}));
    for pod in &pods {
        let _ = agent.address(pod, &pod.name);
    }
    // To the controller they are addresses of pods that do not exist. It asks the server before it believes that.
    let asked = || proxy.seen().iter().filter(|seen| seen.verb == "get" && seen.resource == "pods").count();
    until("the controller to ask about each of them", || (asked() >= 3).then_some(()));
    sleep(Duration::from_secs(5));
    assert_eq!(world.used(), 3);
    assert!(asked() <= 6, "what the server knows better it is not asked over and over: {}", asked());
    assert!(!controller.log().contains("came back"), "{}", controller.log());
}

#[test]
fn what_happened_while_no_controller_ran_is_made_up_for() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1", "n2"]);
    world.node_is("n1", "True");
    world.pool("p", &json!({"ranges": ["10.9.0.0/24"]}));
    let controller = world.controller("r1", &SOON);
    let agent = world.agent("n1");
    let pods = world.pods("n1", &["gone", "stays"].map(str::to_owned), &json!({}));
    for pod in &pods {
        let _ = agent.address(pod, &pod.name);
    }
    drop(controller);
    agent.kill();
    world.delete_pod(&pods[0]);
    sleep(Duration::from_secs(1));
    assert_eq!(world.used(), 2);
    let _controller = world.controller("r1", &SOON);
    until("what the pod that is gone held", || (world.used() == 1).then_some(()));
}

/// Everything that a controller writes: a finalizer on and off, an address of a dead pod, a lease of a dead node, a claim,
/// an application's pool, statuses.
struct Scene {
    third: u32,
    dead: Pod,
}

impl Scene {
    fn set(world: &World, agent: &Agent, third: u32) -> Self {
        world.pool(&format!("p{third}"), &json!({"ranges": [format!("10.9.{third}.0/26")]}));
        world.apply(
            &json!({"apiVersion": "berth.io/v1alpha1", "kind": "IPSubnet", "metadata": {"name": format!("s{third}")},
            "spec": {"cidr": format!("10.8.{third}.0/24")}})
            .to_string(),
        );
        world.apply(&json!({"apiVersion": "berth.io/v1alpha1", "kind": "IPClaim", "metadata": {"name": format!("c{third}"), "namespace": "default"},
            "spec": {"pools": [format!("p{third}")]}}).to_string());
        let template = json!({"metadata": {"labels": {"app": "w"}, "annotations": {"berth.io/subnets": format!("s{third}"), "berth.io/pool-size": "3"}},
            "spec": {"containers": [{"name": "c", "image": "none"}]}});
        world.apply(&json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": format!("w{third}"), "namespace": "default"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "w"}}, "template": template}}).to_string());
        let dead = world.pod("n1", &format!("dead{third}"), &json!({"berth.io/pools": format!("p{third}")}));
        agent.start();
        let _ = agent.address(&dead, &dead.name);
        // Else the agent itself frees it.
        agent.kill();
        world.delete_pod(&dead);
        Self { third, dead }
    }

    /// What is still to be done, if anything.
    fn undone(&self, world: &World) -> Option<String> {
        let third = self.third;
        let holders = world.plane.kubectl_ok(&["get", "ipblocks", "-o", "json"]).unwrap();
        let holders: serde_json::Value = serde_json::from_str(&holders).unwrap();
        let block = format!("default.10-9-{third}-0-26");
        let used = holders["items"].as_array().unwrap().iter().find(|item| item["metadata"]["name"] == block.as_str());
        let used = used.map_or(0, |item| item["spec"]["used"].as_u64().unwrap());
        if used != 1 {
            return Some(format!("{block} has {used} in use, not the claim's alone ({} is gone)", self.dead.name));
        }
        if world.field(&format!("ipclaim/c{third}"), ".status.phase") != "Bound" {
            return Some("the claim is not bound".to_owned());
        }
        let pools = world.plane.kubectl_ok(&["get", "ippools", "-o", "json"]).unwrap();
        let pools: serde_json::Value = serde_json::from_str(&pools).unwrap();
        let subnet = format!("s{third}");
        let own = pools["items"].as_array().unwrap().iter().filter(|item| item["spec"]["subnet"] == subnet.as_str());
        let own: Vec<_> = own.collect();
        if own.len() != 1 || own[0]["status"]["usage"]["capacity"] != "3" {
            return Some(format!("the application has {own:?}"));
        }
        let guarded = world.field(&format!("ippool/p{third}"), ".metadata.finalizers").contains("in-use");
        let counted = world.field(&format!("ippool/p{third}"), ".status.usage.held") == "1";
        (!guarded || !counted).then(|| format!("guarded {guarded}, counted {counted}"))
    }
}

#[test]
fn a_controller_that_dies_at_any_of_its_writes_is_followed_by_one_that_goes_on() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.node_is("n1", "True");
    let agent = world.agent("n1");
    agent.kill();
    let proxy = proxy(&world);
    let run = |third: u32, at: Option<(u32, bool)>| -> u32 {
        let scene = Scene::set(&world, &agent, third);
        let (writes, pid) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(None::<Pid>)));
        let (counted, whom) = (writes.clone(), pid.clone());
        proxy.rule(move |seen| {
            let counts = seen.is_write() && !matches!(seen.resource.as_str(), "leases" | "events");
            let number = if counts { counted.fetch_add(1, Ordering::SeqCst) + 1 } else { 0 };
            let (nth, before) = at?;
            let pid = (*whom.lock().ok()?)?;
            (number == nth).then_some(if before { Fault::KillBefore(pid) } else { Fault::KillAfter(pid) })
        });
        let mut controller = behind(&world, &proxy);
        *pid.lock().unwrap() = Some(controller.pid());
        until(&format!("write {at:?} of round {third}"), || {
            if controller.has_ended() {
                controller = behind(&world, &proxy);
                *pid.lock().unwrap() = None;
            }
            scene.undone(&world).is_none().then_some(())
        });
        proxy.no_rule();
        drop(controller);
        writes.load(Ordering::SeqCst)
    };
    let writes = run(0, None);
    assert!(writes >= 8, "{writes}");
    let mut third = 1;
    // At each write on one side; on both if somebody has the time.
    let every = std::env::var_os("BERTH_EVERY_MISHAP").is_some();
    for nth in 1..=writes {
        for before in [true, false].into_iter().filter(|before| every || *before == (nth % 2 == 0)) {
            run(third, Some((nth, before)));
            third += 1;
        }
    }
    world.check();
    eprintln!("{writes} writes, died at {} times", third - 1);
}
