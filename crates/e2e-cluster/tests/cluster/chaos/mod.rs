//! What goes wrong is made to go wrong: processes die at any write, servers stand still, watches tell nothing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod controller;
mod crash;
mod kill;
mod old_picture;
mod outage;
mod spiderpool;
mod storm;

use berth_e2e::until;
use berth_e2e_cluster::{Controller, Fault, Proxy, Seen, World};
use rustix::process::Pid;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// Whatever can come back comes back at once.
const SOON: [&str; 4] =
    ["--audit", "1s", "--reclaim", "pod-gone=0s,pod-replaced=0s,pod-ended=0s,node-gone=0s,not-coming-back=0s"];

/// A way to the server for controllers.
fn proxy(world: &World) -> Proxy {
    Proxy::start(&world.plane.kubeconfig_for_service_account("berth-system", "berth-controller", None).unwrap())
}

/// A controller behind a proxy.
fn behind(world: &World, proxy: &Proxy, replica: &str, arguments: &[&str]) -> Controller {
    let url = proxy.url();
    world.controller(replica, &[arguments, &["--api-server", &url]].concat())
}

/// From now on who comes by here hears of these resources what there is, and nothing after.
fn no_news(proxy: &Proxy, resources: &'static [&'static str]) {
    proxy
        .rule(move |seen| (seen.verb == "watch" && resources.contains(&seen.resource.as_str())).then_some(Fault::Hold));
}

/// Waits until all of these were listed, and nothing more is told of them.
fn until_listed(proxy: &Proxy, resources: &[&str]) {
    let listed = |resource: &&str| proxy.seen().iter().any(|seen| seen.verb == "watch" && seen.resource == **resource);
    until("the controller to have listed", || resources.iter().all(listed).then_some(()));
}

/// A controller that hears of these resources what there was when it started, and nothing after. It is the same replica
/// whenever it starts, and so leads at once.
fn without_news(world: &World, resources: &'static [&'static str], arguments: &[&str]) -> (Proxy, Controller) {
    let proxy = proxy(world);
    no_news(&proxy, resources);
    let led = |controller: &Controller| controller.log().matches("leading").count();
    let controller = behind(world, &proxy, "r1", arguments);
    let before = led(&controller);
    until_listed(&proxy, resources);
    until("the controller to lead", || (led(&controller) > before).then_some(()));
    (proxy, controller)
}

fn until_asked(proxy: &Proxy, verb: &str, resource: &str, name: &str) {
    let is_it = |seen: &Seen| (seen.verb, &*seen.resource, &*seen.name) == (verb, resource, name);
    until(&format!("{verb} {resource} {name}"), || proxy.seen().iter().any(is_it).then_some(()));
}

/// Objects as the server has them.
fn items(world: &World, kinds: &str) -> Vec<Value> {
    let list = world.plane.kubectl_ok(&["get", kinds, "-o", "json"]).unwrap();
    let mut list: Value = serde_json::from_str(&list).unwrap();
    serde_json::from_value(list["items"].take()).unwrap()
}

/// Makes or scales a workload whose pods nobody makes.
fn scale(world: &World, kind: &str, name: &str, replicas: u32, annotations: &Value) {
    let template = json!({"metadata": {"labels": {"app": name}, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "none"}]}});
    let mut spec = json!({"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template});
    if kind == "StatefulSet" {
        spec["serviceName"] = json!(name);
    }
    let metadata = json!({"name": name, "namespace": "default"});
    world.apply(&json!({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}).to_string());
}

/// The write at which a controller dies, and whether that is before the server has it.
type Death = (u32, bool);

/// At each so manyth write on one side; at each on both if somebody has the time.
fn deaths(writes: u32, step: usize) -> Vec<Death> {
    if std::env::var_os("BERTH_EVERY_MISHAP").is_some() {
        return (1..=writes).flat_map(|nth| [(nth, true), (nth, false)]).collect();
    }
    (1..=writes).step_by(step).enumerate().map(|(index, nth)| (nth, index % 2 == 1)).collect()
}

/// Runs a controller until nothing is left undone, and another when it dies at one of its writes; how many it made, and
/// whether it died.
fn work_off(
    (world, proxy): (&World, &Proxy),
    arguments: &[&str],
    at: Option<Death>,
    undone: impl Fn() -> Option<String>,
) -> (u32, bool) {
    let (writes, pid) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(None::<Pid>)));
    let (counted, whom) = (writes.clone(), pid.clone());
    proxy.rule(move |seen| {
        let counts = seen.is_write() && !matches!(seen.resource.as_str(), "leases" | "events");
        let number = if counts { counted.fetch_add(1, Ordering::SeqCst) + 1 } else { 0 };
        let (nth, before) = at?;
        let pid = (*whom.lock().ok()?)?;
        (number == nth).then_some(if before { Fault::KillBefore(pid) } else { Fault::KillAfter(pid) })
    });
    let mut controller = behind(world, proxy, "r1", arguments);
    *pid.lock().unwrap() = Some(controller.pid());
    let mut died = false;
    until_all_is_done(&format!("whoever comes after who died at {at:?}"), || {
        if controller.has_ended() {
            controller = behind(world, proxy, "r1", arguments);
            *pid.lock().unwrap() = None;
            died = true;
        }
        undone()
    });
    proxy.no_rule();
    (writes.load(Ordering::SeqCst), died)
}

/// Waits until nothing is left undone; what is, is said when it changes.
#[track_caller]
fn until_all_is_done(by: &str, mut undone: impl FnMut() -> Option<String>) {
    let mut last = None;
    until(&format!("all to be done by {by}"), || {
        let left = undone();
        if left != last {
            eprintln!("left to {by}: {}", left.as_deref().unwrap_or("nothing"));
            last.clone_from(&left);
        }
        left.is_none().then_some(())
    });
}
