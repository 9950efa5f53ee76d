//! Requests as an API server sends them, and what is known, to answers.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod defaulting;
mod spiderpool;

use berth_admission::review::{Answer, Options, Request, View, may_go, review};
use berth_core::holder::{Holder, Kind};
use berth_core::ipam::{Entropy, Group, Ipam};
use berth_core::model::Subject;
use berth_core::time::Time;
use berth_dialects::native::lower_claim;
use berth_dialects::{Object, judge};
use serde_json::{Value, json};
use spiderpool::spider;

const NOW: Time = Time::from_secs(1_790_000_000);
const CONTROLLER: &str = "system:serviceaccount:berth-system:berth-controller";

/// What a cluster has, and who asks.
struct World {
    objects: Vec<Value>,
    ipam: Ipam,
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    let namespace = (kind == "IPClaim").then_some("shop");
    json!({
        "apiVersion": "berth.io/v1alpha1", "kind": kind, "spec": spec,
        "metadata": {
            "name": name, "namespace": namespace, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{"manager": "kubectl"}], "finalizers": ["berth.io/in-use"],
        },
    })
}

impl World {
    fn new(objects: Vec<Value>) -> Self {
        let mut world = Self { objects, ipam: Ipam::new() };
        let read: Vec<Object> = world.read();
        world.ipam.configure(judge(&read).config);
        world
    }

    fn read(&self) -> Vec<Object> {
        self.objects.iter().map(|object| Object::of_cluster(object).unwrap()).collect()
    }

    /// Gives an address to a pod, or to something with a name.
    fn give(&mut self, address: &str, kind: Kind, pod: &str) {
        let holder = Holder {
            kind,
            id: format!("c-{pod}"),
            ifname: "eth0".into(),
            namespace: "shop".into(),
            pod: pod.into(),
            ..Holder::default()
        };
        let subject = Subject { namespace: "shop".into(), ..Subject::default() };
        let groups = vec![Group { addresses: vec![address.parse().unwrap()], ..Group::default() }];
        let request = berth_core::ipam::Request { holder, subject, groups };
        self.ipam.allocate(&request, NOW, &mut Entropy(1)).unwrap();
        self.ipam.commit();
    }

    fn view<R>(&self, look: impl FnOnce(&View<'_>) -> R) -> R {
        let claims =
            self.read().iter().filter(|o| o.kind == "IPClaim").map(|o| lower_claim(o).unwrap()).collect::<Vec<_>>();
        look(&View { ipam: &self.ipam, claims: &claims })
    }

    fn ask(&self, operation: &str, old: &Value, new: &Value, user: &str) -> Answer {
        let options = Options { controller: Some(CONTROLLER.to_owned()), ..Options::default() };
        self.ask_with(&options, operation, old, new, user)
    }

    fn ask_with(&self, options: &Options, operation: &str, old: &Value, new: &Value, user: &str) -> Answer {
        let asked = json!({
            "uid": "1", "operation": operation, "userInfo": {"username": user}, "object": new, "oldObject": old,
            "resource": {"group": "berth.io"}, "dryRun": false,
        });
        let request: Request = serde_json::from_value(asked).unwrap();
        self.view(|view| review(&request, view, options))
    }

    fn create(&self, new: &Value) -> Result<Vec<String>, String> {
        said(self.ask("CREATE", &Value::Null, new, "me"))
    }

    fn update(&self, name: &str, edit: impl FnOnce(&mut Value)) -> Result<Vec<String>, String> {
        let old = self.objects.iter().find(|object| object["metadata"]["name"] == name).unwrap();
        let mut new = old.clone();
        edit(&mut new);
        said(self.ask("UPDATE", old, &new, "me"))
    }

    fn delete(&self, name: &str) -> Result<Vec<String>, String> {
        let old = self.objects.iter().find(|object| object["metadata"]["name"] == name).unwrap();
        said(self.ask("DELETE", old, &Value::Null, "me"))
    }
}

fn said(answer: Answer) -> Result<Vec<String>, String> {
    let json = answer.to_json("1");
    assert_eq!(json["response"]["allowed"], answer.refused.is_none());
    match answer.refused {
        None => Ok(answer.warnings),
        Some(error) => {
            assert_eq!(json["response"]["status"]["message"], error.to_string());
            Err(error.to_string())
        }
    }
}

fn pool(name: &str, spec: &Value) -> Value {
    object("IPPool", name, spec)
}

#[track_caller]
fn refused(result: Result<Vec<String>, String>, words: &str) {
    let error = result.expect_err(words);
    assert!(error.contains(words), "{words:?} is not in {error:?}");
}

fn shop() -> World {
    let mut world = World::new(vec![
        object("IPSubnet", "net", &json!({"cidr": "10.0.0.0/16", "gateway": "10.0.0.1"})),
        pool("blue", &json!({"ranges": ["10.0.1.0/24"], "subnet": "net"})),
        pool("alone", &json!({"ranges": ["10.9.0.0/24"]})),
        object("IPReservation", "printers", &json!({"addresses": ["10.9.0.32/28"]})),
        object("IPClaim", "vip", &json!({"addresses": ["10.0.1.77"]})),
    ]);
    for (address, pod) in [("10.0.1.9", "web-0"), ("10.9.0.10", "web-1"), ("10.9.0.11", "web-2")] {
        world.give(address, Kind::Container, pod);
    }
    world
}

#[test]
fn an_object_is_made_if_it_makes_sense_beside_the_others() {
    let world = shop();
    assert_eq!(world.create(&pool("p", &json!({"ranges": ["10.0.2.0/24"], "subnet": "net"}))), Ok(vec![]));
    assert_eq!(world.create(&pool("p", &json!({"ranges": ["10.0.1.0/24"], "network": "other"}))), Ok(vec![]));
    for (spec, words) in [
        (
            json!({"ranges": ["10.0.1.128/25"]}),
            "10.0.1.128/25 overlaps IPPool \"blue\" (10.0.1.0/24) in network \"default\"",
        ),
        (
            json!({"ranges": ["10.1.0.0/24"], "subnet": "net"}),
            "10.1.0.0/24 is not inside IPSubnet \"net\" (10.0.0.0/16)",
        ),
        (json!({"ranges": ["10.2.0.9/24"]}), "10.2.0.0/24"),
        (json!({"ranges": ["10.2.0.0/24"], "gateway": "10.3.0.1"}), "spec.gateway: 10.3.0.1 is not inside 10.2.0.0/24"),
        (
            json!({"ranges": ["10.2.0.0/24"], "routes": [{"dst": "10.5.0.0/16", "gw": "10.3.0.1"}]}),
            "spec.routes[0].gw: 10.3.0.1 is not inside",
        ),
        (
            json!({"ranges": ["10.2.0.0/24"], "gateway": "none", "routes": [{"dst": "0.0.0.0/0"}]}),
            "has no gateway to go through",
        ),
        (
            json!({"ranges": ["10.2.0.0/24"], "routes": [{"dst": "10.5.0.0/16"}, {"dst": "10.5.0.0/16"}]}),
            "spec.routes[1].dst: 10.5.0.0/16 is there twice",
        ),
        (
            json!({"ranges": ["10.2.0.0/24"], "allow": {"podSelector": {"matchLabels": {"a b": "c"}}}}),
            "is not the key of a label",
        ),
        (
            json!({"ranges": ["10.2.0.0/24"], "allow": {"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["-"]}]}}}),
            "is not the value of a label",
        ),
        (json!({"ranges": ["10.2.0.0/24"], "quota": {"namespaces": {"team-*": 3}}}), "is not a valid name"),
        (json!({"ranges": ["10.2.0.0/24", "10.2.0.4"]}), "of the same pool"),
    ] {
        refused(world.create(&pool("p", &spec)), words);
    }
    // Link-local routers, and addresses that stand alone, are fine.
    for spec in [
        json!({"ranges": ["10.2.0.0/24"], "gateway": "169.254.1.1"}),
        json!({"ranges": ["10.2.0.0/24"], "prefixLength": 32, "gateway": "10.3.0.1"}),
        json!({"ranges": ["10.2.0.5-10.2.0.9"], "gateway": "10.2.0.254"}),
        json!({"ranges": ["10.2.0.0/24"], "routes": [{"dst": "10.3.0.1/32"}, {"dst": "10.5.0.0/16", "gw": "10.3.0.1"}]}),
    ] {
        assert_eq!(world.create(&pool("p", &spec)), Ok(vec![]), "{spec}");
    }
    refused(world.create(&object("IPSubnet", "s", &json!({"cidr": "10.0.7.0/24"}))), "overlaps IPSubnet \"net\"");
    refused(
        world.create(&object("IPSubnet", "s", &json!({"cidr": "10.7.0.0/24", "gateway": "10.8.0.1"}))),
        "is not inside 10.7.0.0/24",
    );
    refused(
        world.create(&object("IPClaim", "other", &json!({"addresses": ["10.0.1.77"]}))),
        "10.0.1.77 is claimed by IPClaim \"shop/vip\"",
    );
    refused(
        world.create(&object("IPClaim", "other", &json!({"addresses": ["10.0.1.7", "10.0.1.7"]}))),
        "is there twice",
    );
}

/// A file with a pool and its subnet is applied in any order, and a view may be a moment old.
#[test]
fn a_pool_without_its_subnet_is_warned_about() {
    let warnings = shop().create(&pool("p", &json!({"ranges": ["10.8.0.0/24"], "subnet": "later"}))).unwrap();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("IPSubnet \"later\" does not exist; apply it first; until then"), "{warnings:?}");
}

#[test]
fn what_is_in_use_stays() {
    let mut world = shop();
    let edit = |spec: Value| move |object: &mut Value| object["spec"] = spec;
    for spec in [
        json!({"ranges": ["10.9.0.0/29"]}),
        json!({"ranges": ["10.9.0.0/24"], "exclude": ["10.9.0.8/29"]}),
        json!({"ranges": ["10.9.0.0/24"], "gateway": "10.9.0.10"}),
    ] {
        refused(world.update("alone", edit(spec)), "a part that IPPool \"alone\" would lose is in use: 10.9.0.10 by");
    }
    assert_eq!(world.update("alone", edit(json!({"ranges": ["10.9.0.0/28"]}))), Ok(vec![]));
    refused(world.delete("alone"), "IPPool \"alone\" is in use: 10.9.0.10 by pod shop/web-1");
    refused(world.update("net", |o| o["spec"]["gateway"] = json!("10.0.1.9")), "10.0.1.9 by");
    refused(world.delete("net"), "IPSubnet \"net\" is in use: IPPool \"blue\"");
    assert_eq!(world.delete("printers"), Ok(vec![]));
    assert_eq!(world.delete("vip"), Ok(vec![]));
    for n in 12..20 {
        world.give(&format!("10.9.0.{n}"), Kind::Container, &format!("more-{n}"));
    }
    let error = world.delete("alone").unwrap_err();
    assert_eq!((error.matches(" by pod ").count(), error.ends_with("and more")), (5, true), "{error}");
    let plane = world.ipam.pool("alone").unwrap().plane();
    world.ipam.quarantine(&plane, "10.9.0.200".parse().unwrap(), None, NOW).unwrap();
    refused(world.update("alone", edit(json!({"ranges": ["10.9.0.0/25"]}))), "10.9.0.200 by quarantine");
    world.ipam.quarantine(&plane, "10.9.0.33".parse().unwrap(), None, NOW).unwrap();
    refused(world.delete("printers"), "IPReservation \"printers\" is in use: 10.9.0.33 by quarantine");
    let printers = Object::of_cluster(&world.objects[3]).unwrap();
    assert!(world.view(|view| may_go(&printers, view)).is_err(), "nor does its finalizer go");
}

#[test]
fn a_claim_in_use_stays() {
    let mut world = shop();
    let claims: Vec<Object> = world.read();
    let claim = lower_claim(&claims[4]).unwrap();
    let mut request = claim.request();
    request.holder = Holder { id: "c".into(), pod: "web-7".into(), namespace: "shop".into(), ..claim.holder() };
    world.ipam.allocate(&request, NOW, &mut Entropy(1)).unwrap();
    world.ipam.commit();
    refused(world.delete("vip"), "IPClaim \"shop/vip\" is in use: 10.0.1.77 by");
}

/// Spiderpool's #1203: pools that came to overlap could neither be edited nor deleted.
#[test]
fn what_is_wrong_already_can_be_mended_and_left_alone() {
    let mut world = World::new(vec![
        pool("a", &json!({"ranges": ["10.0.0.0/24"]})),
        pool("b", &json!({"ranges": ["10.0.0.128/25", "10.0.1.0/24"]})),
        pool("bad", &json!({"ranges": ["10.5.0.0/24"], "subnet": "gone", "gateway": "10.6.0.1"})),
    ]);
    world.give("10.0.0.200", Kind::Container, "web-0");
    let ranges = |ranges: Value| move |object: &mut Value| object["spec"]["ranges"] = ranges;
    // Finalizers, labels, whatever the spec.
    assert_eq!(world.update("b", |o| o["metadata"]["finalizers"] = json!([])), Ok(vec![]));
    assert_eq!(world.update("b", |o| o["spec"]["coolDown"] = json!("5s")), Ok(vec![]));
    assert_eq!(world.update("b", ranges(json!(["10.0.0.192/26", "10.0.1.0/24"]))), Ok(vec![]), "better");
    refused(
        world.update("b", ranges(json!(["10.0.0.64/26", "10.0.0.128/25", "10.0.1.0/24"]))),
        "overlaps IPPool \"a\"",
    );
    assert_eq!(world.delete("b"), Ok(vec![]), "what is in use there is in the other pool too");
    assert_eq!(world.update("a", ranges(json!(["10.0.0.0/25"]))), Ok(vec![]));
    assert_eq!(world.update("bad", |o| o["spec"]["disabled"] = json!(true)), Ok(vec![]));
    refused(world.update("bad", |o| o["spec"]["routes"] = json!([{"dst": "10.1.0.0/16", "gw": "fd00::1"}])), "family");
    // And an object that makes no sense is in nobody's way.
    assert_eq!(world.create(&pool("c", &json!({"ranges": ["10.7.0.0/24"]}))), Ok(vec![]));
}

#[test]
fn the_pool_of_an_application_is_the_controllers() {
    let world = World::new(vec![]);
    let spec = |ranges: &str| json!({"ranges": [ranges], "application": {"name": "web"}});
    let (old, new) = (pool("app", &spec("10.0.0.0/30")), pool("app", &spec("10.0.0.0/29")));
    refused(said(world.ask("UPDATE", &old, &new, "me")), "spec.ranges: the pool is sized by Berth for its application");
    let mut freed = old.clone();
    freed["spec"].as_object_mut().unwrap().remove("application");
    refused(said(world.ask("UPDATE", &old, &freed, "me")), "spec.application");
    assert_eq!(said(world.ask("UPDATE", &old, &new, CONTROLLER)), Ok(vec![]));
}

#[test]
fn what_is_of_a_family_that_is_switched_off_is_not_made() {
    let text = "enableIPv6: false";
    let spiderpool = berth_dialects::spiderpool::settings::Settings::read([], Some(text)).unwrap().conf;
    let (world, options) = (World::new(vec![]), Options { spiderpool, ..Options::default() });
    let create = |new: &Value| said(world.ask_with(&options, "CREATE", &Value::Null, new, "me"));
    for (kind, spec) in [
        ("SpiderIPPool", json!({"subnet": "fd00::/64", "ips": ["fd00::9"]})),
        ("SpiderSubnet", json!({"subnet": "fd00::/64"})),
        ("SpiderReservedIP", json!({"ips": ["fd00::9"]})),
    ] {
        refused(create(&spider(kind, "x", &spec)), "IPv6 is disabled: enableIPv6 is false in spiderpool-conf");
    }
    assert_eq!(create(&spider("SpiderReservedIP", "x", &json!({"ips": ["10.0.0.9"]}))), Ok(vec![]));
    assert_eq!(create(&pool("native", &json!({"ranges": ["fd01::/64"]}))), Ok(vec![]), "in Berth's own words");
    let old = spider("SpiderIPPool", "x", &json!({"subnet": "fd00::/64", "ips": ["fd00::9"]}));
    let new = spider("SpiderIPPool", "x", &json!({"subnet": "fd00::/64", "ips": ["fd00::9-fd00::a"]}));
    assert_eq!(said(world.ask_with(&options, "UPDATE", &old, &new, "me")), Ok(vec![]), "what is there may be edited");
}
