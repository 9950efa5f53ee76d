//! A controller whose picture of the cluster is old: its watches stand still, and things have happened since.

use super::super::{behind, no_news, proxy, until_listed, without_news};
use super::{FINALIZER, of_pool};
use crate::spiderpool::{apply, endpoint, start};
use berth_e2e::until;
use berth_e2e_cluster::{Agent, Controller, Pod, Proxy, World};
use rustix::process::Signal;
use serde_json::json;

/// What comes back is not what this is about.
const NEVER: [&str; 4] = ["--audit", "1s", "--reclaim", "pod-gone=never,not-coming-back=never"];

fn is_there(world: &World, object: &str) -> bool {
    !world.field(object, ".metadata.uid").is_empty()
}

fn until_gone(world: &World, object: &str) {
    until(&format!("{object} to go"), || (!is_there(world, object)).then_some(()));
}

fn delete(world: &World, object: &str) {
    world.plane.kubectl_ok(&["delete", object, "--wait=false"]).unwrap();
}

/// A pool of one address.
fn small_pool(world: &World, name: &str, net: u8) {
    let spec = json!({"subnet": format!("10.9.{net}.0/24"), "ips": [format!("10.9.{net}.10")]});
    apply(world, "SpiderIPPool", name, &spec);
}

/// A pod that has an address.
fn served(world: &World, agent: &Agent, name: &str, pool: &str) -> Pod {
    let pod = world.pod("n1", name, &of_pool(pool));
    until("the pool to be known", || (agent.add(&pod, name).code == 0).then_some(()));
    pod
}

/// A controller that leads, and one that waits and hears nothing more of these resources.
fn one_after_the_other(
    world: &World,
    resources: &'static [&'static str],
    arguments: &[&str],
) -> (Controller, Proxy, Controller) {
    let leader = world.controller("r1", arguments);
    until("the first to lead", || leader.log().contains("leading").then_some(()));
    let proxy = proxy(world);
    no_news(&proxy, resources);
    let next = behind(world, &proxy, "r2", arguments);
    until_listed(&proxy, resources);
    until_listed(&proxy, &["spiderendpoints"]);
    (leader, proxy, next)
}

fn endpoint_of(world: &World, pod: &str) -> String {
    let uid = || world.field(&format!("spiderendpoint/{pod}"), ".metadata.uid");
    until("an endpoint", || Some(uid()).filter(|uid| !uid.is_empty()))
}

/// The one that waits has not heard of a pod for which the leader wrote an endpoint, and then leads itself.
#[test]
fn endpoints_of_pods_that_a_controller_has_not_heard_of_stay() {
    let Some(world) = start() else { return };
    let file = world.file("conf.yml", "enableCleanOutdatedEndpoint: true\n");
    let arguments = [&NEVER[..], &["--spiderpool-config", &file]].concat();
    small_pool(&world, "p", 0);
    let (mut leader, proxy, next) = one_after_the_other(&world, &["pods"], &arguments);
    let agent = world.agent("n1");
    let web = served(&world, &agent, "web", "p");
    let uid = endpoint_of(&world, "web");
    // One that Spiderpool left behind, of a pod that lives.
    let lives = world.pod("n1", "lives", &json!({}));
    endpoint(&world, ("lives", &lives.uid), ("Pod", "lives"), false);
    leader.signal(Signal::TERM);
    leader.wait();
    // These are looked at after those that live, and nothing stands behind them.
    endpoint(&world, ("zz-own", "u1"), ("Pod", "zz-own"), true);
    endpoint(&world, ("zz-left", "u2"), ("Pod", "zz-left"), false);
    until_gone(&world, "spiderendpoint/zz-own");
    assert_eq!(world.field("spiderendpoint/web", ".metadata.uid"), uid, "{}", next.log());
    until_gone(&world, "spiderendpoint/zz-left");
    assert!(is_there(&world, "spiderendpoint/lives"), "{}", next.log());
    assert_eq!(world.field("spiderendpoint/web", ".metadata.uid"), uid, "{}", next.log());
    // When it hears again, what is over is over.
    agent.del(&web, "web").silent();
    world.delete_pod(&web);
    proxy.no_rule();
    proxy.release();
    until_gone(&world, "spiderendpoint/web");
}

/// Nothing that it knows of uses the pool.
#[test]
fn a_pool_whose_use_a_controller_has_not_heard_of_keeps_its_finalizer() {
    let Some(world) = start() else { return };
    small_pool(&world, "p", 0);
    let agent = world.agent("n1");
    let (proxy, controller) = without_news(&world, &["ipblocks"], &NEVER);
    until("the finalizer", || world.field("spiderippool/p", ".metadata.finalizers").contains(FINALIZER).then_some(()));
    let pod = served(&world, &agent, "a", "p");
    delete(&world, "spiderippool/p");
    let told = || world.plane.kubectl_ok(&["get", "events", "-A"]).unwrap().contains("pod default/a");
    until("the event that names the holder", || (told() || !is_there(&world, "spiderippool/p")).then_some(()));
    assert!(is_there(&world, "spiderippool/p"), "{}", controller.log());
    agent.del(&pod, "a").silent();
    proxy.no_rule();
    proxy.release();
    until_gone(&world, "spiderippool/p");
}
