//! Annotations of pods and namespaces: the cases A of the catalogue that need no real interfaces. All tests share a server;
//! each has a node, a namespace and pools of its own. `N` in a text is the number of the test.

use super::{apply, install};
use berth_e2e::{Ran, until};
use berth_e2e_cluster::{Agent, Pod, World};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::sync::OnceLock;

/// A test's part of the world.
struct Place {
    world: &'static World,
    number: u8,
    agent: Agent,
}

impl Place {
    /// A node, a namespace and pools: `nN-a`, `nN-b` with gateways, `nN-six`, each with ten addresses.
    fn new(number: u8) -> Option<Self> {
        // These tests share a server with each other and with nobody else: they have numbers of their own.
        static WORLD: OnceLock<Option<World>> = OnceLock::new();
        let begin = || {
            let world = World::start()?;
            install(&world);
            world.plane.define_attachments().unwrap();
            Some(world)
        };
        let world = WORLD.get_or_init(begin).as_ref()?;
        let node = format!("n{number}");
        world.nodes(&[&node]);
        let text = "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Namespace, metadata: {name: nN}}, \
                    {apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: nN}}]}";
        world.apply(&text.replace('N', &number.to_string()).replace(&format!("{number}amespace"), "Namespace"));
        for (name, net) in [("a", 0), ("b", 1)] {
            let spec = json!({"subnet": format!("10.{number}.{net}.0/24"), "gateway": format!("10.{number}.{net}.1"),
                "ips": [format!("10.{number}.{net}.10-10.{number}.{net}.19")]});
            apply(world, "SpiderIPPool", &format!("n{number}-{name}"), &spec);
        }
        let spec =
            json!({"subnet": format!("fd00:{number}::/64"), "ips": [format!("fd00:{number}::10-fd00:{number}::19")]});
        apply(world, "SpiderIPPool", &format!("n{number}-six"), &spec);
        Some(Self { world, number, agent: world.agent(&node) })
    }

    fn here(&self, text: &str) -> String {
        text.replace('N', &self.number.to_string())
    }

    /// Makes a pod with these annotations, of a StatefulSet of this name if there is one.
    fn pod(&self, name: &str, annotations: &[(&str, &str)], set: Option<&str>) -> Pod {
        let namespace = format!("n{}", self.number);
        let annotations: serde_json::Map<String, Value> =
            annotations.iter().map(|(key, value)| ((*key).to_owned(), json!(self.here(value)))).collect();
        let mut metadata = json!({"name": name, "namespace": namespace, "annotations": annotations});
        if let Some(set) = set {
            metadata["ownerReferences"] =
                json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": set, "uid": set, "controller": true}]);
        }
        let containers = json!([{"name": "c", "image": "none"}, {"name": "d", "image": "none"}]);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {"nodeName": format!("n{}", self.number), "containers": containers}});
        self.world.apply(&pod.to_string());
        let uid = ["get", "pod", name, "-n", &namespace, "-o", "jsonpath={.metadata.uid}"];
        let uid = self.world.plane.kubectl_ok(&uid).unwrap();
        Pod { namespace, name: name.to_owned(), uid, node: format!("n{}", self.number) }
    }

    /// ADD of an interface. What was applied a moment ago may not be known yet.
    fn add(&self, pod: &Pod, container: &str, ifname: &str) -> Ran {
        self.agent.call("ADD", pod, container, ifname).run(&self.config(ifname))
    }

    /// Each interface is of a CNI network of its own, as with Multus.
    fn config(&self, ifname: &str) -> Value {
        let mut config = self.agent.config(&json!({}));
        if ifname != "eth0" {
            config["name"] = json!("second");
        }
        config
    }

    /// ADD that must succeed; the addresses.
    #[track_caller]
    fn addresses(&self, pod: &Pod, container: &str, ifname: &str) -> Vec<String> {
        let mut last = None;
        until("an ADD that succeeds", || {
            let ran = self.add(pod, container, ifname);
            let served = (ran.code == 0).then(|| ran.addresses());
            last = Some(ran);
            served
        })
    }

    fn delete(&self, pod: &Pod, container: &str, interfaces: &[&str]) {
        for ifname in interfaces {
            self.agent.call("DEL", pod, container, ifname).run(&self.config(ifname)).silent();
        }
        self.world.delete_pod(pod);
    }

    fn annotate(&self, key: &str, value: &str) {
        let namespace = format!("n{}", self.number);
        let pair = format!("{key}={}", self.here(value));
        self.world.plane.kubectl_ok(&["annotate", "namespace", &namespace, &pair, "--overwrite"]).unwrap();
    }

    #[track_caller]
    fn refused(&self, annotations: &[(&str, &str)], ifname: &str, told: &str) {
        static COUNT: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);
        let name = format!("wrong-{}", COUNT.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
        let pod = self.pod(&name, annotations, None);
        let ran = self.add(&pod, &name, ifname);
        assert!(ran.code != 0 && ran.stdout.contains(&self.here(told)), "{told}\n{}", ran.stdout);
    }
}

const IPPOOL: &str = "ipam.spidernet.io/ippool";
const IPPOOLS: &str = "ipam.spidernet.io/ippools";
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

fn routes(ran: &Ran) -> Vec<String> {
    let json = ran.json();
    let all = json["routes"].as_array().cloned().unwrap_or_default();
    all.iter().map(|route| route["dst"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A NIC of this machine and the network of 256 addresses that it is in, if it is in one.
fn network_of_this_machine() -> Option<(String, Ipv4Addr)> {
    let table = std::fs::read_to_string("/proc/net/route").ok()?;
    table.lines().skip(1).find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (gateway, mask) = (columns.get(2)?, columns.get(7)?);
        let network = u32::from_str_radix(columns.get(1)?, 16).ok()?;
        let is_own =
            *gateway == "00000000" && u32::from_str_radix(mask, 16) == Ok(u32::from_ne_bytes([255, 255, 255, 0]));
        is_own.then(|| (columns[0].to_owned(), Ipv4Addr::from(network.to_ne_bytes())))
    })
}

#[test]
fn a00001_the_vlan_of_older_releases_is_left_alone() {
    let Some(place) = Place::new(101) else { return };
    // The case has been given up there: a pod whose pools have two VLANs was refused. Now VLANs are the interface's business.
    for (pool, vlan) in [("n101-a", 7), ("n101-six", 8)] {
        let patch = json!({"spec": {"vlan": vlan}}).to_string();
        place.world.plane.kubectl_ok(&["patch", "spiderippool", pool, "--type=merge", "-p", &patch]).unwrap();
    }
    let pod = place.pod("web", &[(IPPOOL, r#"{"ipv4":["nN-a"],"ipv6":["nN-six"]}"#)], None);
    assert_eq!(place.addresses(&pod, "c", "eth0"), ["10.101.0.10/24", "fd00:101::10/64"]);
}

#[test]
fn of_two_interfaces_that_reach_a_gateway_the_first_has_the_route() {
    let Some(place) = Place::new(121) else { return };
    let anno = [
        (IPPOOL, r#"{"ipv4":["nN-a"]}"#),
        ("ipam.spidernet.io/routes", r#"[{"dst":"172.20.0.0/16","gw":"10.N.0.5"}]"#),
    ];
    let pod = place.pod("web", &anno, None);
    for ifname in ["eth0", "net1"] {
        let _ = place.addresses(&pod, "c", ifname);
    }
    // Asked again too, whoever comes first.
    for (ifname, expected) in [("net1", &["0.0.0.0/0"][..]), ("eth0", &["0.0.0.0/0", "172.20.0.0/16"])] {
        let again = place.add(&pod, "c", ifname);
        assert_eq!(routes(&again), expected, "{ifname}: {}", again.stdout);
    }
}

#[test]
fn a00002_a00008_routes_with_pools_of_an_annotation() {
    let Some(place) = Place::new(102) else { return };
    let anno = [
        (IPPOOLS, r#"[{"interface":"eth0","ipv4":["nN-a"],"ipv6":["nN-six"]}]"#),
        (
            "ipam.spidernet.io/routes",
            r#"[{"dst":"172.20.0.0/16","gw":"10.N.0.5"},{"dst":"172.21.0.0/16","gw":"10.99.0.5"}]"#,
        ),
    ];
    let pod = place.pod("web", &anno, None);
    assert_eq!(place.addresses(&pod, "c", "eth0"), ["10.102.0.10/24", "fd00:102::10/64"]);
    let again = place.add(&pod, "c", "eth0");
    assert_eq!(
        routes(&again),
        ["0.0.0.0/0", "172.20.0.0/16"],
        "by the gateway that the interface reaches: {}",
        again.stdout
    );
}

#[test]
fn a00003_a00013_a00014_wrong_annotations_are_refused_with_a_reason() {
    let Some(place) = Place::new(103) else { return };
    let ready = place.pod("ready", &[(IPPOOL, r#"{"ipv4":["nN-a"]}"#)], None);
    assert_eq!(place.addresses(&ready, "ready", "eth0").len(), 1);
    place.refused(&[(IPPOOL, r#"{"ipv4":["nobodys"]}"#)], "eth0", "nobodys");
    place.refused(&[(IPPOOL, r#"{"IPv44444":["nN-a"]}"#)], "eth0", "unknown field");
    place.refused(&[(IPPOOLS, r#"[{"ipv4":["nN-a"],"cleangateway":"maybe"}]"#)], "eth0", "cleangateway");
    place.refused(&[(IPPOOL, r#"{"ipv4":["nN-six"]}"#)], "eth0", "no pool");
    let one = r#"[{"interface":"eth0","ipv4":["nN-a"]}]"#;
    place.refused(&[(IPPOOLS, one)], "net1", "interface net1 must be specified");
    let twice = r#"[{"interface":"eth0","ipv4":["nN-a"]},{"interface":"eth0","ipv4":["nN-b"]}]"#;
    place.refused(&[(IPPOOLS, twice)], "eth0", "duplicate interface eth0");
}

#[test]
fn a00004_a00005_a00006_a00007_a00015_which_annotation_wins() {
    let Some(place) = Place::new(104) else { return };
    place.annotate("ipam.spidernet.io/default-ipv4-ippool", r#"["nN-[bc]"]"#);
    place.annotate("ipam.spidernet.io/default-ipv6-ippool", r#"["nN-s?x"]"#);
    let plain = place.pod("plain", &[], None);
    until("the namespace's annotation", || {
        let ran = place.add(&plain, "plain", "eth0");
        (ran.code == 0 && ran.addresses() == ["10.104.1.10/24", "fd00:104::10/64"]).then_some(())
    });
    let pod = place.pod("pod", &[(IPPOOL, r#"{"ipv4":["nN-a"]}"#)], None);
    assert_eq!(place.addresses(&pod, "pod", "eth0"), ["10.104.0.10/24"], "pod before namespace");
    let both = [(IPPOOL, r#"{"ipv4":["nN-a"]}"#), (IPPOOLS, r#"[{"ipv4":["nN-b*","nN-a"]}]"#)];
    let both = place.pod("both", &both, None);
    assert_eq!(place.addresses(&both, "both", "eth0"), ["10.104.1.11/24"], "the list before the single one");
    let cni =
        place.agent.call("ADD", &pod, "configured", "eth0").run(&place.agent.config(&json!({"pools": ["n104-b"]})));
    assert_eq!(cni.addresses(), ["10.104.0.11/24"], "pod before CNI configuration");
}

#[test]
fn a00009_a00017_a00018_a_stateful_set_keeps_its_addresses_until_its_pools_change() {
    for (number, named) in [(109u8, true), (118, false)] {
        let Some(place) = Place::new(number) else { return };
        let name = |nic: &str| if named { format!(r#""interface":"{nic}","#) } else { String::new() };
        let pools = |first: &str, second: &str| {
            format!(r#"[{{{}"ipv4":["nN-{first}"]}},{{{}"ipv4":["nN-{second}"]}}]"#, name("eth0"), name("net1"))
        };
        let (before, after) = (pools("a", "b"), pools("b", "a"));
        let pod = place.pod("db-0", &[(IPPOOLS, &before)], Some("db"));
        let addresses = (place.addresses(&pod, "c1", "eth0"), place.addresses(&pod, "c1", "net1"));
        assert_eq!(addresses.0, [format!("10.{number}.0.10/24")]);
        assert_eq!(addresses.1, [format!("10.{number}.1.10/24")]);
        let other = place.pod("other", &[(IPPOOL, r#"{"ipv4":["nN-a"]}"#)], None);
        assert_eq!(place.addresses(&other, "other", "eth0"), [format!("10.{number}.0.11/24")]);
        place.delete(&pod, "c1", &["eth0", "net1"]);
        let pod = place.pod("db-0", &[(IPPOOLS, &before)], Some("db"));
        assert_eq!((place.addresses(&pod, "c2", "eth0"), place.addresses(&pod, "c2", "net1")), addresses, "restarted");
        place.delete(&pod, "c2", &["eth0", "net1"]);
        let pod = place.pod("db-0", &[(IPPOOLS, &after)], Some("db"));
        let moved = (place.addresses(&pod, "c3", "eth0"), place.addresses(&pod, "c3", "net1"));
        assert!(moved.0[0].starts_with(&format!("10.{number}.1.")), "{moved:?}");
        assert!(moved.1[0].starts_with(&format!("10.{number}.0.")), "{moved:?}");
        // What was kept in the old pools is free again: the lowest address of the first pool is the next one given.
        let next = place.pod("next", &[(IPPOOL, r#"{"ipv4":["nN-b"]}"#)], None);
        let next = place.addresses(&next, "next", "eth0");
        assert_ne!(next, moved.0);
        assert!(["10", "11"].iter().any(|end| next[0] == format!("10.{number}.1.{end}/24")), "{next:?}");
    }
}

#[test]
fn a00010_a00011_a00012_interfaces_and_the_default_route() {
    let Some(place) = Place::new(110) else { return };
    let listed = r#"[{"interface":"eth0","ipv4":["nN-a"],"cleangateway":false},{"interface":"net1","ipv4":["nN-b"],"cleangateway":true}]"#;
    let pod = place.pod("named", &[(IPPOOLS, listed)], None);
    assert_eq!(place.addresses(&pod, "c", "eth0"), ["10.110.0.10/24"]);
    assert_eq!(place.addresses(&pod, "c", "net1"), ["10.110.1.10/24"]);
    assert_eq!(routes(&place.add(&pod, "c", "eth0")), ["0.0.0.0/0"]);
    assert_eq!(routes(&place.add(&pod, "c", "net1")), Vec::<String>::new());
    let unnamed =
        [(IPPOOLS, r#"[{"ipv4":["nN-a"]},{"ipv4":["nN-b"]}]"#), ("ipam.spidernet.io/default-route-nic", "net1")];
    let pod = place.pod("unnamed", &unnamed, None);
    assert_eq!(place.addresses(&pod, "d", "eth0"), ["10.110.0.11/24"]);
    assert_eq!(place.addresses(&pod, "d", "net1"), ["10.110.1.11/24"]);
    assert_eq!(routes(&place.add(&pod, "d", "eth0")), Vec::<String>::new());
    assert_eq!(routes(&place.add(&pod, "d", "net1")), ["0.0.0.0/0"]);
    // Two interfaces in one pool have an address each.
    let same = place.pod("same", &[(IPPOOL, r#"{"ipv4":["nN-a"]}"#)], None);
    let (first, second) = (place.addresses(&same, "e", "eth0"), place.addresses(&same, "e", "net1"));
    assert_ne!(first, second);
}

#[test]
fn a00016_a_second_interface_that_finds_nothing_drains_no_pool() {
    let Some(place) = Place::new(116) else { return };
    apply(place.world, "SpiderIPPool", "n116-tiny", &json!({"subnet": "10.116.2.0/24", "ips": ["10.116.2.10"]}));
    let config = json!({"cniVersion": "1.1.0", "name": "second", "type": "bridge",
        "ipam": {"type": "berth-cni", "socket": place.agent.socket()}});
    let definition = json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "second", "namespace": "n116"}, "spec": {"config": config.to_string()}});
    place.world.apply(&definition.to_string());
    let anno = [(IPPOOLS, r#"[{"ipv4":["nN-a"]},{"ipv4":["nN-tiny"]}]"#), (NETWORKS, "second")];
    let first = place.pod("first", &anno, None);
    assert_eq!(place.addresses(&first, "c1", "eth0"), ["10.116.0.10/24"]);
    assert_eq!(place.addresses(&first, "c1", "net1"), ["10.116.2.10/24"]);
    let second = place.pod("second", &anno, None);
    for i in 0..5 {
        assert_ne!(place.add(&second, &format!("try-{i}"), "eth0").code, 0, "the tiny pool is full");
    }
    let free = place.pod("free", &[(IPPOOL, r#"{"ipv4":["nN-a"]}"#)], None);
    assert_eq!(place.addresses(&free, "free", "eth0"), ["10.116.0.11/24"], "nothing was taken by what failed");
}

#[test]
fn the_plugin_is_configured_in_spiderpools_words() {
    let Some(place) = Place::new(120) else { return };
    let pod = place.pod("plain", &[], None);
    let add = |container: &str, keys: Value| {
        let mut ipam = json!({"type": "spiderpool", "log_level": "DEBUG", "log_file_max_size": "100",
            "ipam_unix_socket_path": "/var/run/spidernet/spiderpool.sock"});
        ipam.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        place.agent.call("ADD", &pod, container, "eth0").run(&place.agent.config(&ipam))
    };
    let pools = json!({"default_ipv4_ippool": ["n120-b"], "default_ipv6_ippool": ["n120-s*"]});
    let ran = until("the pools to be known", || Some(add("c1", pools.clone())).filter(|ran| ran.code == 0));
    assert_eq!(ran.addresses(), ["10.120.1.10/24", "fd00:120::10/64"]);
    let said = ran.json();
    assert_eq!(said["ips"][0]["gateway"], "10.120.1.1");
    assert!(said["routes"].to_string().contains("0.0.0.0/0"), "{said}");
    let said = add("c2", json!({"default_ipv4_ippool": ["n120-b"], "clean_gateway": true})).json();
    assert!(said["ips"][0].get("gateway").is_none() && !said["routes"].to_string().contains("0.0.0.0/0"), "{said}");
    // Only pools of where the NIC is that the interface is put on.
    let on_nic = |container: &str, nic: &str, pools: &[&str]| {
        let ipam = json!({"type": "spiderpool", "match_master_subnet": true, "default_ipv4_ippool": pools});
        let mut config = place.agent.config(&ipam);
        (config["type"], config["master"]) = (json!("macvlan"), json!(nic));
        place.agent.call("ADD", &pod, container, "eth0").run(&config)
    };
    let said = on_nic("c3", "no-such-nic", &["n120-b"]).json()["msg"].as_str().unwrap_or_default().to_owned();
    let reason = "the interface is on no-such-nic of node \"n120\", which has no address in 10.120.1.0/24";
    assert!(said.contains(reason), "{said}");
    if let Some((nic, network)) = network_of_this_machine() {
        let octets = network.octets();
        let [a, b, c, _] = octets;
        let spec = json!({"subnet": format!("{network}/24"), "ips": [format!("{a}.{b}.{c}.77")]});
        apply(place.world, "SpiderIPPool", "n120-here", &spec);
        let pools = ["n120-b", "n120-here"];
        let near = until("the pool to be known", || Some(on_nic("c4", &nic, &pools)).filter(|ran| ran.code == 0));
        assert_eq!(near.addresses(), [format!("{a}.{b}.{c}.77/24")], "though the other pool comes first");
    }
    for container in ["c1", "c2", "c4"] {
        place
            .agent
            .call("DEL", &pod, container, "eth0")
            .run(&place.agent.config(&json!({"type": "spiderpool"})))
            .silent();
    }
}
