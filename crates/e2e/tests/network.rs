//! Real networks: namespaces wired by the real `bridge`, `ptp` and `macvlan` plugins with Berth as their IPAM.
//!
//! The host is a namespace too, so nothing here touches the machine's own network.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use berth_e2e::needs::{BUSYBOX, CNI_DIR, CNI_PLUGINS, IP, Need, UTIL_LINUX, met};
use berth_e2e::{Call, Home, Netns, Ran};
use serde_json::{Value, json};
use std::path::Path;

const NEEDS: [Need; 5] = [Need::Root, IP, UTIL_LINUX, BUSYBOX, CNI_PLUGINS];

const POOLS: &str = "
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: four}
spec: {ranges: [10.44.0.0/24], routes: [{dst: 0.0.0.0/0}]}
---
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: six}
spec: {ranges: ['fd44::/64'], routes: [{dst: '::/0'}]}
";

/// A main plugin that works between a host and its containers.
struct Wiring<'a> {
    host: &'a Netns,
    config: Value,
}

impl Wiring<'_> {
    fn call(&self, verb: &str, id: &str, container: &Netns) -> Ran {
        let plugin = Path::new(CNI_DIR).join(self.config["type"].as_str().unwrap());
        Call::new(verb, id).of(plugin).between(self.host, container).run(&self.config)
    }

    /// Adds a container; the addresses in the result are those on its interface.
    fn add(&self, id: &str) -> Container {
        let netns = Netns::new();
        let addresses = self.call("ADD", id, &netns).addresses();
        assert_eq!(netns.addresses("eth0"), addresses, "the plugin has set what Berth gave");
        Container { id: id.to_owned(), netns, addresses }
    }

    fn del(&self, container: &Container) {
        self.call("DEL", &container.id, &container.netns).silent();
        assert!(container.netns.addresses("eth0").is_empty(), "the interface is gone");
    }
}

struct Container {
    id: String,
    netns: Netns,
    addresses: Vec<String>,
}

impl Container {
    fn bare(&self) -> Vec<&str> {
        self.addresses.iter().map(|address| address.split('/').next().unwrap()).collect()
    }

    fn reaches(&self, other: &Self) {
        for address in other.bare() {
            self.netns.ping(address);
        }
    }
}

fn net_conf(kind: &str, more: &Value, ipam: Value) -> Value {
    let mut config = json!({"cniVersion": "1.0.0", "name": "net1", "type": kind});
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    config["ipam"] = ipam;
    config
}

fn berth(home: &Home) -> Value {
    json!({"type": "berth-cni", "socket": home.socket()})
}

/// `berth-cni` without a daemon, in the keys of host-local.
fn host_local(home: &Home) -> Value {
    json!({
        "type": "host-local",
        "dataDir": home.path("leases"),
        "ranges": [[{"subnet": "10.45.0.0/24"}], [{"subnet": "fd45::/64"}]],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
    })
}

fn bridge() -> Value {
    json!({"bridge": "br0", "isGateway": true})
}

#[test]
fn containers_on_a_bridge_reach_each_other() {
    if !met(&NEEDS) {
        return;
    }
    let (home, host) = (Home::new(), Netns::new());
    let daemon = home.start_with_manifests(POOLS);
    let wiring = Wiring { host: &host, config: net_conf("bridge", &bridge(), berth(&home)) };
    let (a, b) = (wiring.add("a"), wiring.add("b"));
    assert_eq!(a.addresses.len(), 2, "dual stack");
    a.reaches(&b);
    b.reaches(&a);
    for gateway in ["10.44.0.1", "fd44::1"] {
        a.netns.ping(gateway);
    }
    let held: Vec<String> = daemon.held("Active").into_iter().map(|(address, _)| address).collect();
    let mut given = [a.bare(), b.bare()].concat();
    given.sort_unstable();
    assert_eq!(held, given);

    wiring.del(&a);
    assert_eq!(daemon.holders("Active"), ["b", "b"]);
    wiring.del(&a);
    let c = wiring.add("c");
    c.reaches(&b);
    assert!(c.bare().iter().all(|address| !a.bare().contains(address)), "the address released last rests longest");
    for container in [&b, &c] {
        wiring.del(container);
    }
    assert!(daemon.held("Active").is_empty());
}

#[test]
fn containers_on_routed_links_reach_each_other() {
    if !met(&NEEDS) {
        return;
    }
    let (home, host) = (Home::new(), Netns::new());
    let daemon = home.start_with_manifests(POOLS);
    let wiring = Wiring { host: &host, config: net_conf("ptp", &json!({}), berth(&home)) };
    let (a, b) = (wiring.add("a"), wiring.add("b"));
    a.reaches(&b);
    b.reaches(&a);
    wiring.del(&a);
    wiring.del(&b);
    assert!(daemon.held("Active").is_empty());
}

#[test]
fn containers_on_a_macvlan_reach_each_other() {
    if !met(&NEEDS) {
        return;
    }
    let (home, host) = (Home::new(), Netns::new());
    // The parent is one end of a cable that lies in the same namespace.
    host.ip("link add nic0 type veth peer name nic1");
    host.ip("link set nic0 up");
    host.ip("link set nic1 up");
    let daemon = home.start_with_manifests(POOLS);
    let parent = json!({"master": "nic0", "mode": "bridge"});
    let wiring = Wiring { host: &host, config: net_conf("macvlan", &parent, berth(&home)) };
    let (a, b) = (wiring.add("a"), wiring.add("b"));
    a.reaches(&b);
    b.reaches(&a);
    wiring.del(&a);
    wiring.del(&b);
    assert!(daemon.held("Active").is_empty());
}

/// The plugin installed under host-local's name, first where the runtime looks.
fn stand_in(home: &Home) -> String {
    let dir = home.path("bin");
    std::fs::create_dir(&dir).unwrap();
    std::os::unix::fs::symlink(berth_e2e::binaries::berth_cni(), dir.join("host-local")).unwrap();
    format!("{}:{CNI_DIR}", dir.display())
}

#[test]
fn the_stand_in_for_host_local_needs_no_daemon() {
    if !met(&NEEDS) {
        return;
    }
    let (home, host) = (Home::new(), Netns::new());
    let path = stand_in(&home);
    let config = net_conf("bridge", &bridge(), host_local(&home));
    let plugin = Path::new(CNI_DIR).join("bridge");
    let call = |verb: &str, id: &str, netns: &Netns, path: &str| {
        Call::new(verb, id).of(&plugin).env("CNI_PATH", path).between(&host, netns).run(&config)
    };
    let (one, two) = (Netns::new(), Netns::new());
    let first = call("ADD", "a", &one, &path).addresses();
    // The real one takes over, on the same directory, and the other way round.
    let second = call("ADD", "b", &two, CNI_DIR).addresses();
    assert_eq!((first.len(), second.len()), (2, 2));
    for address in &second {
        assert!(!first.contains(address), "{address} was given twice");
        one.ping(address.split('/').next().unwrap());
    }
    call("DEL", "a", &one, CNI_DIR).silent();
    call("DEL", "b", &two, &path).silent();
    let left: Vec<String> = std::fs::read_dir(home.path("leases/net1"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("10.") || name.starts_with("fd45"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_failed_add_of_the_main_plugin_leaves_nothing() {
    if !met(&NEEDS) {
        return;
    }
    let (home, host) = (Home::new(), Netns::new());
    let daemon = home.start_with_manifests(POOLS);
    let mut ipam = berth(&home);
    ipam["routes"] = json!([{"dst": "192.0.2.0/24", "gw": "198.51.100.1"}]);
    let wiring = Wiring { host: &host, config: net_conf("bridge", &bridge(), ipam) };
    let netns = Netns::new();
    let ran = wiring.call("ADD", "a", &netns);
    assert!(ran.code != 0 && ran.stdout.contains("unreachable"), "the route cannot be set: {ran:?}");
    wiring.call("DEL", "a", &netns).silent();
    assert!(daemon.held("Active").is_empty());
    let history = daemon.http.get("/v1alpha1/addresses/10.44.0.2/history").ok();
    assert_eq!(history["items"][0]["holder"]["id"], "a", "it had an address in between");
}

#[test]
fn the_hosts_own_namespace_gets_no_address() {
    if !met(&NEEDS) {
        return;
    }
    let (home, host) = (Home::new(), Netns::new());
    let daemon = home.start_with_manifests(POOLS);
    let config = net_conf("bridge", &bridge(), berth(&home));
    Call::new("ADD", "a").between(&host, &host).run(&config).failed(8);
    assert!(daemon.held("Active").is_empty(), "refused before anything was allocated");
}
