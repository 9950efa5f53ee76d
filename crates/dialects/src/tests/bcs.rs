use super::{native, object};
use crate::bcs::{Allocation, Envelope, FIXED_ANNOTATION, Failure, KEEP_ANNOTATION, NetPool, Release};
use crate::bcs::{host_released, is_on_host};
use crate::{Object, lower_all, parse_manifests};
use berth_core::block::Slot;
use berth_core::ipam::{Entropy, Ipam};
use berth_core::time::Time;
use serde_json::{Value, json};
use std::net::IpAddr;

/// The manifest of BCS' documentation, with addresses in place of its `xx`.
const SEED: &str = "
apiVersion: networkextension.bkbcs.tencent.com/v1
kind: BCSNetPool
metadata:
  name: 10.1.2.0
spec:
  net: 10.1.2.0
  mask: 24
  gateway: 10.1.2.1
  hosts:
  - 10.1.2.11
  - 10.1.2.12
  availableIPs:
  - 10.1.2.20
  - 10.1.2.21
  - 10.1.2.22
";

/// The bodies of BCS' documentation.
const POST: &str = r#"{
	"host":"10.1.2.11",
	"containerID":"c1",
	"ipAddr":"10.1.2.21",
	"podName":"web-0",
	"podNamespace":"shop"
}"#;
const DELETE: &str = r#"{
    "host":"10.1.2.11",
    "containerID":"c1",
    "podName":"web-0",
    "podNamespace":"shop"
}"#;

/// What the daemon does with the dialect, without the daemon.
struct World {
    ipam: Ipam,
    pools: Vec<NetPool>,
    now: u64,
}

impl World {
    fn new(manifests: &str) -> Self {
        let objects = parse_manifests(manifests).unwrap_or_else(|error| panic!("{error}"));
        let pools = objects.iter().map(|object| NetPool::read(object).unwrap_or_else(|error| panic!("{error}")));
        let mut ipam = Ipam::new();
        let config = lower_all(&objects).unwrap_or_else(|error| panic!("{error}"));
        ipam.admits(&config).unwrap_or_else(|error| panic!("{error}"));
        ipam.configure(config);
        Self { ipam, pools: pools.collect(), now: 1_700_000_000 }
    }

    fn tick(&mut self) -> Time {
        self.now += 1;
        Time::from_secs(self.now)
    }

    fn post(&mut self, body: &str) -> Envelope {
        let now = self.tick();
        let allocation = match Allocation::read(body.as_bytes()) {
            Ok(allocation) => allocation,
            Err(Failure::Refused(envelope)) => return envelope,
            Err(Failure::Malformed(text)) => panic!("{text}"),
        };
        let request = match allocation.request(&self.pools) {
            Ok(request) => request,
            Err(envelope) => return envelope,
        };
        match self.ipam.allocate(&request, now, &mut Entropy(7)) {
            Ok(outcome) => allocation.given(&outcome.given[0]),
            Err(error) => allocation.refused(&error),
        }
    }

    fn delete(&mut self, body: &str) -> Envelope {
        let now = self.tick();
        match Release::read(body.as_bytes()) {
            Ok(release) => release.released(&self.ipam.release(release.attachment(), now)),
            Err(Failure::Refused(envelope)) => envelope,
            Err(Failure::Malformed(text)) => panic!("{text}"),
        }
    }

    fn delete_host(&mut self, host: &str) -> Envelope {
        let now = self.tick();
        host_released(host, &self.ipam.release_where(|holder| is_on_host(holder, host), now))
    }

    fn slot(&self, ip: IpAddr) -> Option<Slot> {
        self.ipam.slots_of("default", ip).next().map(|(_, _, view)| view.to_slot())
    }

    fn net_ips(&self) -> Vec<Object> {
        self.pools.iter().flat_map(|pool| pool.net_ips(|ip| self.slot(ip))).collect()
    }

    fn phases(&self) -> Vec<String> {
        let phase = |ip: &Object| ip.status.as_ref().and_then(|status| status["status"].as_str().map(str::to_owned));
        self.net_ips().iter().filter_map(phase).collect()
    }
}

fn edited(body: &str, key: &str, value: impl Into<Value>) -> String {
    let mut body: Value = serde_json::from_str(body).unwrap_or_default();
    body[key] = value.into();
    body.to_string()
}

fn container(body: &str, id: &str) -> String {
    let body = edited(body, "containerID", id);
    edited(&edited(&body, "ipAddr", ""), "podName", format!("pod-{id}"))
}

#[test]
fn the_seed_works_as_written() {
    let mut world = World::new(SEED);
    assert_eq!(world.phases(), ["Available"; 3]);
    let envelope = world.post(POST).with_request_id("r1");
    assert_eq!(
        serde_json::to_value(&envelope).expect("JSON"),
        json!({
            "code": 0,
            "message": "allocate IP [10.1.2.21] for Host 10.1.2.11 success",
            "result": true,
            "data": {
                "host": "10.1.2.11", "containerID": "c1", "ipAddr": "10.1.2.21", "podName": "web-0",
                "podNamespace": "shop", "gateway": "10.1.2.1", "mask": 24,
            },
            "request_id": "r1",
        })
    );
    assert_eq!(world.post(POST), world.post(POST), "asking again gives the same");
    assert_eq!(world.phases(), ["Available", "Active", "Available"]);

    let envelope = world.delete(DELETE);
    assert_eq!(envelope.message, "deactive IP [10.1.2.21] success, it's available now");
    assert_eq!(envelope.data, serde_json::from_str::<Value>(DELETE).expect("JSON"));
    let envelope = world.delete(DELETE);
    assert_eq!((envelope.code, envelope.result, envelope.data), (0, true, Value::Null));
    assert_eq!(envelope.message, "didn't find related BCSNetIP instance for container c1");
    assert_eq!(world.phases(), ["Available"; 3]);
}

#[test]
fn a_host_is_released_as_a_whole() {
    let mut world = World::new(SEED);
    world.post(POST);
    world.post(&container(POST, "c2"));
    world.post(&edited(&container(POST, "c3"), "host", "10.1.2.12"));
    let envelope = world.delete_host("10.1.2.11");
    assert_eq!((envelope.code, envelope.result), (0, true));
    assert_eq!(envelope.message, "release 2 IPs of Host 10.1.2.11 success");
    assert_eq!(envelope.data.as_array().map(Vec::len), Some(2));
    let envelope = world.delete_host("192.0.2.1");
    assert_eq!((envelope.code, envelope.message.as_str()), (0, "release 0 IPs of Host 192.0.2.1 success"));
    assert_eq!(envelope.data, json!([]));
    assert_eq!(world.phases().iter().filter(|phase| *phase == "Active").count(), 1);
}

#[test]
fn refusals_have_the_words_of_the_controller() {
    let mut world = World::new(SEED);
    world.post(POST);
    for (body, code, message) in [
        (String::new(), 1, "lost request body for allocating ip"),
        ("null".into(), 1, "lost request body for allocating ip"),
        ("{}".into(), 1, "lost Host/ContainerID info in request"),
        (edited(POST, "containerID", ""), 1, "lost Host/ContainerID info in request"),
        (edited(POST, "podName", ""), 1, "lost PodNamespace/PodName info in request"),
        (edited(&container(POST, "c2"), "host", "10.9.9.9"), 2, "host 10.9.9.9 does not exist in pools"),
        (edited(&container(POST, "c2"), "ipAddr", "10.1.2.x"), 1, "ipAddr 10.1.2.x is not a valid IP address"),
        (
            edited(&container(POST, "c2"), "keepDuration", "2d"),
            1,
            "invalid keepDuration: \"2d\" has the unknown unit \"d\"; use h, m, s, ms, us or ns (a day is 24h)",
        ),
        (
            edited(&container(POST, "c2"), "ipAddr", "10.1.2.21"),
            2,
            "update IP [10.1.2.21] status failed, err address 10.1.2.21 is taken by pod shop/web-0 (container c1) on \
             10.1.2.11",
        ),
        (
            edited(&container(POST, "c2"), "ipAddr", "10.1.2.99"),
            2,
            "update IP [10.1.2.99] status failed, err address 10.1.2.99 is in none of the pools 10.1.2.0",
        ),
    ] {
        let envelope = world.post(&body);
        assert_eq!((envelope.code, envelope.message.as_str()), (code, message), "{body}");
        assert_eq!((envelope.result, envelope.data), (false, Value::Null));
    }
    world.post(&container(POST, "c2"));
    world.post(&container(POST, "c3"));
    let envelope = world.post(&container(POST, "c4"));
    assert_eq!((envelope.code, envelope.message.as_str()), (2, "no available IP for pod shop/pod-c4"));
    assert_eq!(world.delete("{}").message, "lost Host/ContainerID info in request");
    assert!(matches!(Allocation::read(b"{"), Err(Failure::Malformed(_))));
}

#[test]
fn every_address_is_raised_as_a_bcsnetip() {
    let mut world = World::new(SEED);
    world.post(&edited(&edited(POST, "fixed", true), "keepDuration", "10h"));
    let ips = world.net_ips();
    assert_eq!(
        ips.iter().map(|ip| ip.metadata.name.as_str()).collect::<Vec<_>>(),
        ["10.1.2.20", "10.1.2.21", "10.1.2.22"]
    );
    assert_eq!(
        serde_json::to_value(&ips[1]).expect("JSON"),
        json!({
            "apiVersion": "networkextension.bkbcs.tencent.com/v1",
            "kind": "BCSNetIP",
            "metadata": {"name": "10.1.2.21", "labels": {"pool": "10.1.2.0", "fixed-ip": "true"}},
            "spec": {"pool": "10.1.2.0", "net": "10.1.2.0", "mask": 24, "gateway": "10.1.2.1"},
            "status": {
                "status": "Active", "phase": "Active", "host": "10.1.2.11", "fixed": true, "containerID": "c1",
                "podPrimaryKey": "shop/web-0", "podName": "web-0", "podNamespace": "shop",
                "updateTime": "2023-11-14T22:13:21Z", "keepDuration": "10h",
            },
        })
    );
    assert_eq!(ips[0].status, Some(json!({"status": "Available", "phase": "Available"})));
    world.delete(DELETE);
    assert_eq!(
        world.net_ips()[1].status,
        Some(json!({
            "status": "Reserved", "phase": "Reserved", "fixed": true, "podPrimaryKey": "shop/web-0",
            "podName": "web-0", "podNamespace": "shop", "updateTime": "2023-11-14T22:13:22Z",
            "fixedIPExpiredTime": "2023-11-15T08:13:22Z", "keepDuration": "10h",
        }))
    );
    let quarantined = Slot::quarantined(Time::from_secs(1), None);
    let status = world.pools[0].net_ip([10, 1, 2, 20].into(), Some(quarantined)).status;
    assert_eq!(status.map(|status| status["phase"].clone()), Some(json!("Reserved")));
    let usage = world.ipam.pool_usage("10.1.2.0", Time::from_secs(world.now)).expect("a pool");
    let status = json!({
        "status": "Normal", "phase": "Normal", "activeIPs": "0", "availableIPs": "2", "reservedIPs": "1",
    });
    assert_eq!(world.pools[0].status(&usage), status);
}

#[test]
fn a_fixed_pool_keeps_addresses_for_their_pods() {
    let annotations = format!("  annotations:\n    {FIXED_ANNOTATION}: \"true\"\n    {KEEP_ANNOTATION}: 10h\nspec:");
    let mut world = World::new(&SEED.replace("spec:", &annotations));
    world.post(POST);
    world.delete(DELETE);
    assert_eq!(world.phases(), ["Available", "Reserved", "Available"]);
    let elsewhere = edited(&edited(POST, "containerID", "c9"), "host", "10.1.2.12");
    assert_eq!(world.post(&edited(&elsewhere, "ipAddr", "")).data["ipAddr"], "10.1.2.21");
    world.delete(&edited(DELETE, "containerID", "c9"));
    world.now += 36_001;
    let now = world.tick();
    world.ipam.sweep(now);
    assert_eq!(world.phases(), ["Available"; 3]);
}

#[test]
fn a_pool_gives_exactly_what_it_lists_to_the_hosts_it_lists() {
    let edges =
        SEED.replace("10.1.2.20", "10.1.2.0").replace("10.1.2.21", "10.1.2.255").replace("10.1.2.22", "10.1.2.1");
    let mut world = World::new(&edges);
    for id in ["a", "b", "c"] {
        assert_eq!(world.post(&container(POST, id)).code, 0);
    }
    // Anyone else is kept out, by default and by name.
    let mut world = World::new(SEED);
    for pools in [vec![], vec!["10.1.2.0".to_owned()]] {
        let group = berth_core::ipam::Group { pools, ..Default::default() };
        let request = berth_core::ipam::Request { groups: vec![group], ..Default::default() };
        let error = world.ipam.allocate(&request, Time::from_secs(1), &mut Entropy(7)).expect_err("kept out");
        assert_eq!(error.names().slug, "no-qualified-pool");
    }
}

#[test]
fn pools_without_hosts_or_addresses_serve_nobody() {
    let empty = "
apiVersion: netservice.bkbcs.tencent.com/v1
kind: BCSNetPool
metadata: {name: empty}
spec: {net: 10.9.0.0, mask: 16, gateway: 10.9.0.1, hosts: [10.9.0.5]}
---
apiVersion: netservice.bkbcs.tencent.com/v1
kind: BCSNetPool
metadata: {name: homeless}
spec: {net: 10.8.0.0, mask: 16, gateway: 10.8.0.1, availableIPs: [10.8.0.9]}
";
    let mut world = World::new(empty);
    let body = edited(&container(POST, "c1"), "host", "10.9.0.5");
    assert_eq!(world.post(&body).message, "no available IP for pod shop/pod-c1");
    let body = edited(&body, "host", "10.8.0.5");
    assert_eq!(world.post(&body).message, "host 10.8.0.5 does not exist in pools");
    assert!(world.pools[1].lower().disabled);
}

#[test]
fn pools_of_both_families_give_one_address() {
    let v6 = "
apiVersion: netservice.bkbcs.tencent.com/v1
kind: BCSNetPool
metadata: {name: a-six}
spec: {net: 'fd00::', mask: 64, gateway: 'fd00::1', hosts: [10.1.2.11, h6], availableIPs: ['fd00::9']}
";
    let mut world = World::new(&format!("{SEED}---{v6}"));
    assert_eq!(world.post(&container(POST, "c1")).data["gateway"], "10.1.2.1");
    assert_eq!(world.post(&edited(&container(POST, "c2"), "host", "h6")).data["ipAddr"], "fd00::9");
}

#[test]
fn a_pool_with_an_active_address_stays() {
    let mut world = World::new(SEED);
    world.post(POST);
    let pool = &world.pools[0];
    let refusal = "can not perform operation for pool 10.1.2.0, active IP 10.1.2.21 exists; BCSNetPool \"10.1.2.0\" \
                   is in use: 10.1.2.21 by pod shop/web-0 (container c1) on 10.1.2.11";
    let deleted = pool.check_change(None, |ip| world.slot(ip)).expect_err("in use");
    assert_eq!((deleted.to_string().as_str(), deleted.names().http), (refusal, 409));
    let without = |ip: &str| NetPool::read(&object(&SEED.replace(&format!("  - {ip}\n"), ""))).expect("a pool");
    let shrunk = pool.check_change(Some(&without("10.1.2.21")), |ip| world.slot(ip));
    assert_eq!(shrunk.expect_err("in use"), deleted);
    assert_eq!(pool.check_change(Some(&without("10.1.2.20")), |ip| world.slot(ip)), Ok(()));
}

#[test]
fn a_bad_pool_is_refused() {
    let good = "{net: 10.1.2.0, mask: 24, gateway: 10.1.2.1, hosts: [10.1.2.11], availableIPs: [10.1.2.20, 10.1.2.21]}";
    for (from, to, field, reason) in [
        ("net: 10.1.2.0", "net: 10.1.2", "spec.net", "spec.net 10.1.2 is not valid when creating bcsnetpool blue"),
        ("way: 10.1.2.1,", "way: x,", "spec.gateway", "spec.gateway is not valid x when creating bcsnetpool blue"),
        ("way: 10.1.2.1,", "way: 'fd00::1',", "spec.gateway", "fd00::1 is not IPv4, as spec.net 10.1.2.0 is"),
        (
            "10.1.2.20",
            "10.1.2.300",
            "spec.availableIPs[0]",
            "10.1.2.300 in spec.availableIPs is not valid when creating bcsnetpool blue",
        ),
        (
            "10.1.2.20",
            "10.1.3.20",
            "spec.availableIPs[0]",
            "10.1.3.20 is not inside 10.1.2.0/24; mend it, or spec.net and spec.mask",
        ),
        ("10.1.2.20", "10.1.2.21", "spec.availableIPs[1]", "10.1.2.21 is listed twice; list it once"),
        ("mask: 24", "mask: 33", "spec.mask", "33 is not a prefix length; use 0 to 32"),
        ("mask: 24", "mask: -1", "spec.mask", "-1 is not a prefix length; use 0 to 32"),
        ("mask: 24, ", "", "spec.mask", "is required"),
        ("availableIPs", "availableIps", "spec.availableIps", "unknown field; did you mean \"availableIPs\"?"),
        ("10.1.2.11", "'10.1.2.*'", "spec.hosts[0]", "\"10.1.2.*\" is not a host; write the address of each host"),
    ] {
        let manifest = native("BCSNetPool", "blue", &good.replacen(from, to, 1));
        let manifest = manifest.replace("berth.io/v1alpha1", "netservice.bkbcs.tencent.com/v1");
        let error = parse_manifests(&manifest).expect_err(&manifest);
        assert_eq!((error.field.as_str(), error.reason.as_str()), (field, reason), "{manifest}");
        assert_eq!(error.object.as_deref(), Some("BCSNetPool \"blue\""));
    }
    for (key, value) in [(FIXED_ANNOTATION, "yes please"), (KEEP_ANNOTATION, "long")] {
        let annotated = SEED.replace("spec:", &format!("  annotations:\n    {key}: {value}\nspec:"));
        let error = parse_manifests(&annotated).expect_err(&annotated);
        assert_eq!((error.field, error.line), (format!("metadata.annotations.{key}"), Some(7)));
    }
}
