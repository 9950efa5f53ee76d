//! Objects get what their makers left out: at once from the webhook, and a moment later from the controller where nobody
//! was there to be asked.

use super::{apply, install};
use berth_dialects::crd;
use berth_e2e::{binaries, succeed, until};
use berth_e2e_cluster::World;
use serde_json::{Value, json};
use std::net::{IpAddr, TcpListener};
use std::process::Command;

const REGISTRATIONS: &str = "validatingwebhookconfigurations,mutatingwebhookconfigurations";

/// Makes an object; what the server answers.
fn create(world: &World, kind: &str, name: &str, spec: &Value, more: &[&str]) -> Value {
    let object = json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let file = world.dir().join(format!("{name}.json"));
    std::fs::write(&file, object.to_string()).unwrap();
    let line = [&["create", "-o", "json", "-f", file.to_str().unwrap()], more].concat();
    serde_json::from_str(&world.plane.kubectl_ok(&line).unwrap()).unwrap()
}

/// What an object has that nobody wrote.
fn filled_in(object: &Value) -> Value {
    let label = |name: &str| object["metadata"]["labels"][format!("ipam.spidernet.io/{name}")].clone();
    json!([
        object["metadata"]["finalizers"],
        object["spec"]["ipVersion"],
        [label("ippool-cidr"), label("subnet-cidr"), label("owner-spider-subnet")],
        object["metadata"]["ownerReferences"][0]["uid"],
        object["spec"]["ips"],
    ])
}

#[test]
fn what_an_object_lacks_it_gets_at_once_or_a_moment_later() {
    let Some(world) = World::start() else { return };
    install(&world);
    let host: IpAddr = world.plane.url().trim_start_matches("https://").split(':').next().unwrap().parse().unwrap();
    let (listen, name) = (TcpListener::bind((host, 0)).unwrap().local_addr().unwrap().to_string(), host.to_string());
    for mut webhook in crd::webhooks() {
        let path = webhook["webhooks"][0]["clientConfig"]["service"]["path"].as_str().unwrap().to_owned();
        webhook["webhooks"][0]["clientConfig"] = json!({ "url": format!("https://{listen}{path}") });
        webhook["webhooks"][0]["timeoutSeconds"] = json!(30);
        world.apply(&webhook.to_string());
    }
    let start = || world.controller("r1", &["--webhook", &listen, "--webhook-name", &name]);
    let controller = start();
    let subnet = json!({"subnet": "10.9.0.0/24", "ips": ["10.9.0.50-10.9.0.99", "10.9.0.10-10.9.0.49"]});
    let pool = |first: u8| json!({"subnet": "10.9.0.0/24", "ips": [format!("10.9.0.{}", first + 1), format!("10.9.0.{first}")]});
    until("the webhook to be asked", || {
        let tried = create(&world, "SpiderSubnet", "s", &subnet, &["--dry-run=server"]);
        (tried["spec"]["ipVersion"] == 4).then_some(())
    });
    let made = create(&world, "SpiderSubnet", "s", &subnet, &[]);
    let finalizers = json!(["spiderpool.spidernet.io"]);
    let cidr = "10-9-0-0-24";
    assert_eq!(filled_in(&made), json!([finalizers, 4, [null, cidr, null], null, ["10.9.0.10-10.9.0.99"]]));
    let uid = made["metadata"]["uid"].clone();
    until("the subnet to be known", || {
        let tried = create(&world, "SpiderIPPool", "p", &pool(10), &["--dry-run=server"]);
        (!filled_in(&tried)[3].is_null()).then_some(())
    });
    let complete = |ips: &str| json!([finalizers, 4, [cidr, null, "s"], uid, [ips]]);
    let made = create(&world, "SpiderIPPool", "p", &pool(10), &[]);
    assert_eq!(filled_in(&made), complete("10.9.0.10-10.9.0.11"));
    let reserved = create(&world, "SpiderReservedIP", "r", &json!({"ips": ["10.9.0.21", "10.9.0.20"]}), &[]);
    assert_eq!(filled_in(&reserved), json!([null, 4, [null, null, null], null, ["10.9.0.20-10.9.0.21"]]));

    // Nobody is there to be asked: it is accepted as it is, and completed by who comes back.
    drop(controller);
    let bare = create(&world, "SpiderIPPool", "while-down", &pool(30), &[]);
    assert_eq!(filled_in(&bare), json!([null, null, [null, null, null], null, ["10.9.0.31", "10.9.0.30"]]));
    let bare = create(&world, "SpiderReservedIP", "also-down", &json!({"ips": ["10.9.0.41", "10.9.0.40"]}), &[]);
    assert_eq!(bare["spec"]["ips"], json!(["10.9.0.41", "10.9.0.40"]));
    let controller = start();
    let read = |object: &str| -> Value {
        serde_json::from_str(&world.plane.kubectl_ok(&["get", object, "-o", "json"]).unwrap()).unwrap()
    };
    until("the controller to complete it", || {
        (filled_in(&read("sp/while-down")) == complete("10.9.0.30-10.9.0.31")).then_some(())
    });
    until("the reservation to be complete", || {
        let now = read("sr/also-down");
        (now["spec"] == json!({"ipVersion": 4, "ips": ["10.9.0.40-10.9.0.41"]})).then_some(())
    });

    // Whoever leaves takes the registrations along, and what would keep objects for good.
    drop(controller);
    succeed(Command::new(binaries::berth()).args(["uninstall", "--kubeconfig"]).arg(world.plane.kubeconfig()));
    assert_eq!(world.plane.kubectl_ok(&["get", REGISTRATIONS, "-o", "name"]).unwrap(), "");
    world.plane.kubectl_ok(&["delete", "sp,ss", "--all", "--timeout=20s"]).unwrap();
    apply(&world, "SpiderIPPool", "alone", &json!({"subnet": "10.9.0.0/24"}));
    assert_eq!(filled_in(&read("sp/alone"))[0], Value::Null);
}
