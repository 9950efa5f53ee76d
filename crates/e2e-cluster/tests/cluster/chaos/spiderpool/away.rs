//! What happens while no controller runs, and nobody is told of.

use super::super::{SOON, scale, until_all_is_done};
use super::{Picture, application, auto_pool, differences, of_pool, of_subnet, picture, pool, record, subnet, told};
use crate::spiderpool::{apply, endpoint, start};
use berth_e2e::until;
use berth_e2e_cluster::World;
use serde_json::{Value, json};

fn patch(world: &World, object: &str, status: bool, patch: &Value) {
    let patch = patch.to_string();
    let line = ["patch", object, "--type=merge", "-p", &patch, "--subresource=status"];
    world.plane.kubectl_ok(&line[..if status { 6 } else { 5 }]).unwrap();
}

#[track_caller]
fn until_as(world: &World, wanted: &Picture) {
    until_all_is_done("the controller", || differences(&picture(world), wanted));
}

#[test]
fn what_happened_to_spiderpools_kinds_while_no_controller_ran_is_made_up_for() {
    let Some(world) = start() else { return };
    let file = world.file("conf.yml", "enableCleanOutdatedEndpoint: true\n");
    let arguments = [&SOON[..], &["--spiderpool-config", &file]].concat();
    for (name, net) in [("s", 0), ("t", 1)] {
        let spec = json!({"subnet": format!("10.9.{net}.0/24"), "ips": [format!("10.9.{net}.10-10.9.{net}.99")]});
        apply(&world, "SpiderSubnet", name, &spec);
    }
    for (name, net, ips) in [("p", 0, "N.50-N.59"), ("unused", 2, "N.10"), ("busy", 3, "N.10"), ("freed", 4, "N.10")] {
        let net = format!("10.9.{net}");
        let ips = ips.replace('N', &net);
        apply(&world, "SpiderIPPool", name, &json!({"subnet": format!("{net}.0/24"), "ips": [ips]}));
    }
    scale(&world, "Deployment", "grows", 2, &of_subnet("s", "+0"));
    scale(&world, "Deployment", "goes", 2, &of_subnet("t", "+0"));
    let controller = world.controller("r1", &arguments);
    let agent = world.agent("n1");
    let serve = |name: &str, pool: &str| {
        let pod = world.pod("n1", name, &of_pool(pool));
        until("the pool to be known", || (agent.add(&pod, name).code == 0).then_some(()));
        pod
    };
    let [gone, stays, edited] = ["gone", "stays", "edited"].map(|name| serve(name, "p"));
    let (holder, leaver) = (serve("holder", "busy"), serve("leaver", "freed"));

    let uid = |name: &str| world.field(&format!("spidersubnet/{name}"), ".metadata.uid");
    let (s, t) = (uid("s"), uid("t"));
    let (of_s, of_t) = (Some(("s", s.as_str())), Some(("t", t.as_str())));
    let (grows, goes) = (auto_pool(&world, "grows"), auto_pool(&world, "goes"));
    let asked = |ips: &str, name: &str| json!({"ips": [ips], "application": application(name)});
    let all: Picture = [
        (
            "ss/s".to_owned(),
            subnet(
                "10-9-0-0-24",
                ("10.9.0.10-10.9.0.99", 90),
                12,
                json!({"p": {"ips": ["10.9.0.50-10.9.0.59"]}, &grows: asked("10.9.0.10-10.9.0.11", "grows")}),
            ),
        ),
        (
            "ss/t".to_owned(),
            subnet("10-9-1-0-24", ("10.9.1.10-10.9.1.99", 90), 2, json!({&goes: asked("10.9.1.10-10.9.1.11", "goes")})),
        ),
        (format!("sp/{grows}"), pool("10-9-0-0-24", of_s, ("10.9.0.10-10.9.0.11", 2), json!(null))),
        (format!("sp/{goes}"), pool("10-9-1-0-24", of_t, ("10.9.1.10-10.9.1.11", 2), json!(null))),
        (
            "sp/p".to_owned(),
            pool(
                "10-9-0-0-24",
                of_s,
                ("10.9.0.50-10.9.0.59", 10),
                json!({
            "10.9.0.50": record(&gone), "10.9.0.51": record(&stays), "10.9.0.52": record(&edited)}),
            ),
        ),
        ("sp/unused".to_owned(), pool("10-9-2-0-24", None, ("10.9.2.10", 1), json!(null))),
        ("sp/busy".to_owned(), pool("10-9-3-0-24", None, ("10.9.3.10", 1), json!({"10.9.3.10": record(&holder)}))),
        ("sp/freed".to_owned(), pool("10-9-4-0-24", None, ("10.9.4.10", 1), json!({"10.9.4.10": record(&leaver)}))),
        told(&gone, "10.9.0.50", "p"),
        told(&stays, "10.9.0.51", "p"),
        told(&edited, "10.9.0.52", "p"),
        told(&holder, "10.9.3.10", "busy"),
        told(&leaver, "10.9.4.10", "freed"),
    ]
    .into();
    until_as(&world, &all);

    drop(controller);
    let late = serve("late", "p");
    agent.kill();
    [&gone, &leaver].into_iter().for_each(|pod| world.delete_pod(pod));
    let line = [
        "delete",
        "spiderippool/unused",
        "spiderippool/busy",
        "spiderippool/freed",
        "spiderendpoint/stays",
        "deployment/goes",
        "--wait=false",
    ];
    world.plane.kubectl_ok(&line).unwrap();
    scale(&world, "Deployment", "grows", 4, &of_subnet("s", "+0"));
    apply(&world, "SpiderIPPool", "new", &json!({"subnet": "10.9.0.0/24", "ips": ["10.9.0.31", "10.9.0.30"]}));
    patch(
        &world,
        "spiderippool/p",
        false,
        &json!({"spec": {"ips": ["10.9.0.50-10.9.0.64"]},
        "metadata": {"finalizers": null, "ownerReferences": null, "labels": null}}),
    );
    patch(&world, "spiderippool/p", true, &json!({"status": {"allocatedIPs": "{}", "allocatedIPCount": 7}}));
    patch(&world, "spidersubnet/s", true, &json!({"status": {"controlledIPPools": null, "totalIPCount": 1}}));
    let ips = json!([{"interface": "eth0", "ipv4": "10.9.0.59/24", "ipv4Pool": "busy"}]);
    patch(&world, "spiderendpoint/edited", false, &json!({"status": {"current": {"ips": ips}}}));
    endpoint(&world, ("stray", "u1"), ("Pod", "stray"), true);
    endpoint(&world, ("outdated", "u2"), ("Pod", "outdated"), false);

    let _controller = world.controller("r1", &arguments);
    let mut wanted = all;
    for name in [
        format!("sp/{goes}"),
        "sp/unused".to_owned(),
        "sp/freed".to_owned(),
        "se/gone".to_owned(),
        "se/leaver".to_owned(),
    ] {
        wanted.remove(&name);
    }
    wanted.get_mut("sp/busy").unwrap()["going"] = json!(true);
    let controlled = json!({"p": {"ips": ["10.9.0.50-10.9.0.64"]}, "new": {"ips": ["10.9.0.30-10.9.0.31"]},
        &grows: asked("10.9.0.10-10.9.0.13", "grows")});
    wanted.extend([
        ("ss/s".to_owned(), subnet("10-9-0-0-24", ("10.9.0.10-10.9.0.99", 90), 21, controlled)),
        ("ss/t".to_owned(), subnet("10-9-1-0-24", ("10.9.1.10-10.9.1.99", 90), 0, json!(null))),
        (format!("sp/{grows}"), pool("10-9-0-0-24", of_s, ("10.9.0.10-10.9.0.13", 4), json!(null))),
        ("sp/new".to_owned(), pool("10-9-0-0-24", of_s, ("10.9.0.30-10.9.0.31", 2), json!(null))),
        (
            "sp/p".to_owned(),
            pool(
                "10-9-0-0-24",
                of_s,
                ("10.9.0.50-10.9.0.64", 15),
                json!({
            "10.9.0.51": record(&stays), "10.9.0.52": record(&edited), "10.9.0.53": record(&late)}),
            ),
        ),
        told(&late, "10.9.0.53", "p"),
    ]);
    until_as(&world, &wanted);
    world.check();
}
