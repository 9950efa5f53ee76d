//! A controller whose picture of the cluster is old: its watches stand still, and things have happened since.

use super::super::{behind, no_news, proxy, until_listed, without_news};
use super::{FINALIZER, of_pool};
use crate::spiderpool::{apply, endpoint, start};
use berth_e2e::until;
use berth_e2e_cluster::{Agent, Controller, Fault, Pod, Proxy, World};
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

fn small_subnet(world: &World, name: &str, net: u8) {
    let spec = json!({"subnet": format!("10.9.{net}.0/24"), "ips": [format!("10.9.{net}.10-10.9.{net}.99")]});
    apply(world, "SpiderSubnet", name, &spec);
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

/// It does not know of any pool that is cut from the subnet.
#[test]
fn a_subnet_of_whose_pools_a_controller_has_not_heard_keeps_its_finalizer() {
    let Some(world) = start() else { return };
    for (name, net) in [("s", 0), ("zz", 1)] {
        small_subnet(&world, name, net);
    }
    let (proxy, controller) = without_news(&world, &["spiderippools"], &NEVER);
    let guarded = |name: &str| world.field(&format!("spidersubnet/{name}"), ".metadata.finalizers").contains(FINALIZER);
    until("the finalizers", || (guarded("s") && guarded("zz")).then_some(()));
    small_pool(&world, "p", 0);
    delete(&world, "spidersubnet/s");
    // This one is looked at after it, and nobody uses it.
    delete(&world, "spidersubnet/zz");
    until_gone(&world, "spidersubnet/zz");
    assert!(is_there(&world, "spidersubnet/s"), "{}", controller.log());
    proxy.no_rule();
    proxy.release();
    delete(&world, "spiderippool/p");
    until_gone(&world, "spidersubnet/s");
}

/// Pools are followed twice: with their specs, to give out addresses, and without, to keep those that are deleted.
#[test]
fn a_pool_that_a_controller_knows_by_one_of_two_watches_keeps_its_finalizer() {
    let Some(world) = start() else { return };
    let agent = world.agent("n1");
    let proxy = proxy(&world);
    let mut first = true;
    proxy.rule(move |seen| {
        let is_first = seen.verb == "watch" && seen.resource == "spiderippools" && std::mem::take(&mut first);
        is_first.then_some(Fault::Hold)
    });
    let controller = behind(&world, &proxy, "r1", &NEVER);
    until("the controller to lead", || controller.log().contains("leading").then_some(()));
    small_pool(&world, "p", 0);
    for (name, net) in [("zz1", 1), ("zz2", 2)] {
        small_subnet(&world, name, net);
    }
    let guarded = |object: &str| world.field(object, ".metadata.finalizers").contains(FINALIZER);
    let all = ["spiderippool/p", "spidersubnet/zz1", "spidersubnet/zz2"];
    until("the finalizers", || all.iter().all(|object| guarded(object)).then_some(()));
    let _pod = served(&world, &agent, "a", "p");
    delete(&world, "spiderippool/p");
    // Subnets are looked at after pools, and of the second it hears when it has long heard of the pool.
    for object in &all[1..] {
        delete(&world, object);
        until_gone(&world, object);
    }
    assert!(is_there(&world, "spiderippool/p"), "{}", controller.log());
}

/// That the address of a pod is kept while it is away, blocks say; the next to lead has not heard of them.
#[test]
fn endpoints_of_pods_for_which_a_block_keeps_an_address_that_a_controller_has_not_heard_of_stay() {
    let Some(world) = start() else { return };
    small_pool(&world, "p", 0);
    let (mut leader, _proxy, next) = one_after_the_other(&world, &["ipblocks"], &NEVER);
    let agent = world.agent("n1");
    let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s", "controller": true}]);
    let pod = world.make_pod("n1", "db-0", &json!({"annotations": of_pool("p"), "ownerReferences": owner}));
    until("the pool to be known", || (agent.add(&pod, "db-0").code == 0).then_some(()));
    let uid = endpoint_of(&world, "db-0");
    agent.del(&pod, "db-0").silent();
    world.delete_pod(&pod);
    leader.signal(Signal::TERM);
    leader.wait();
    endpoint(&world, ("zz-own", "u1"), ("Pod", "zz-own"), true);
    until_gone(&world, "spiderendpoint/zz-own");
    assert_eq!(world.field("spiderendpoint/db-0", ".metadata.uid"), uid, "{}", next.log());
}
