//! Strangers and gateways on a real wire: namespaces on a bridge, and containers that ask before they use an address.
//!
//! The host is a namespace too, so nothing here touches the machine's own network.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use berth_e2e::needs::{BUSYBOX, CNI_DIR, CNI_PLUGINS, IP, Need, UTIL_LINUX, met};
use berth_e2e::segment::{Segment, hardware};
use berth_e2e::{Call, Daemon, Home, Netns, Ran, until};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const NEEDS: [Need; 5] = [Need::Root, IP, UTIL_LINUX, BUSYBOX, CNI_PLUGINS];

/// A host with a bridge, a daemon with a pool of each family, and a configuration that joins both.
struct World {
    home: Home,
    segment: Segment,
    daemon: Daemon,
    config: Value,
}

impl World {
    /// With `detect` as given, and so many bits of network in IPv4.
    fn new(detect: &str, prefix: u8) -> Self {
        let (home, segment) = (Home::new(), Segment::new());
        let pools = format!(
            "{{apiVersion: berth.io/v1alpha1, kind: IPPool, metadata: {{name: four}}, \
             spec: {{ranges: [10.44.0.0/{prefix}], detect: {detect}}}}}\n---\n\
             {{apiVersion: berth.io/v1alpha1, kind: IPPool, metadata: {{name: six}}, \
             spec: {{ranges: ['fd44::/64'], detect: {detect}}}}}\n"
        );
        let daemon = home.start_with_manifests(&pools);
        let ipam = json!({"type": "berth-cni", "socket": home.socket()});
        let config = json!({"cniVersion": "1.0.0", "name": "net1", "type": "bridge", "bridge": "br0", "ipam": ipam});
        Self { home, segment, daemon, config }
    }

    /// A call of the bridge plugin.
    fn bridge(&self, verb: &str, id: &str, container: &Netns) -> Ran {
        Call::new(verb, id)
            .of(Path::new(CNI_DIR).join("bridge"))
            .between(&self.segment.host, container)
            .run(&self.config)
    }

    /// A call of `berth-cni` alone, for a container whose interface is there already.
    fn alone(&self, verb: &str, id: &str, container: &Netns) -> Ran {
        Call::new(verb, id).between(&self.segment.host, container).run(&self.config)
    }

    fn set_apart(&self) -> Vec<String> {
        self.daemon.held("Quarantined").into_iter().map(|(address, _)| address).collect()
    }

    fn metric(&self, name: &str) -> f64 {
        let text = self.daemon.http.get("/metrics").body;
        let value = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        value.unwrap().parse().unwrap()
    }
}

#[test]
fn c00007_a_stranger_on_the_bridge_is_found_and_avoided_in_both_families() {
    if !met(&NEEDS) {
        return;
    }
    let world = World::new("{gateway: Ignore}", 24);
    let stranger = world.segment.stranger(&["10.44.0.2/24", "fd44::2/64"]);
    let container = Netns::new();
    let given = world.bridge("ADD", "a", &container).addresses();
    assert_eq!(given, ["10.44.0.3/24", "fd44::3/64"], "another one in the same ADD");
    assert_eq!(container.addresses("eth0"), given);
    assert_eq!(world.set_apart(), ["10.44.0.2", "fd44::2"]);
    container.ping("10.44.0.2");
    container.ping("fd44::2");
    assert_eq!(world.alone("ADD", "a", &container).addresses(), given, "asked again, the same answer");
    let seen = world.daemon.logged("a stranger uses an address");
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert_eq!(seen[0]["hardware"].as_str().unwrap(), hardware(&stranger));
    assert!((world.metric("berth_strangers_total") - 2.0).abs() < 0.1);
    world.bridge("DEL", "a", &container).silent();
    assert!(world.daemon.held("Active").is_empty());
    world.daemon.check();
}

#[test]
fn a_stranger_is_found_from_a_macvlan_too() {
    if !met(&NEEDS) {
        return;
    }
    let mut world = World::new("{gateway: Ignore}", 24);
    world.segment.host.ip("link add nic0 type veth peer name port0");
    world.segment.host.ip("link set port0 master br0 up");
    world.segment.host.ip("link set nic0 up");
    let _stranger = world.segment.stranger(&["10.44.0.2/24", "fd44::2/64"]);
    world.config["type"] = json!("macvlan");
    world.config["master"] = json!("nic0");
    let container = Netns::new();
    let plugin = Path::new(CNI_DIR).join("macvlan");
    let call = |verb| Call::new(verb, "a").of(&plugin).between(&world.segment.host, &container).run(&world.config);
    assert_eq!(call("ADD").addresses(), ["10.44.0.3/24", "fd44::3/64"]);
    container.ping("10.44.0.2");
    container.ping("fd44::2");
    call("DEL").silent();
    assert!(world.daemon.held("Active").is_empty());
}

#[test]
fn many_strangers_in_a_row_are_passed_over() {
    if !met(&NEEDS) {
        return;
    }
    let world = World::new("{gateway: Ignore}", 24);
    let addresses: Vec<String> = (2..22).map(|n| format!("10.44.0.{n}/24")).collect();
    let _strangers: Vec<Netns> = addresses
        .chunks(10)
        .map(|some| world.segment.stranger(&some.iter().map(String::as_str).collect::<Vec<_>>()))
        .collect();
    let container = world.segment.container();
    assert_eq!(world.alone("ADD", "a", &container).addresses(), ["10.44.0.22/24", "fd44::2/64"]);
    assert_eq!(world.set_apart().len(), 20);
    world.alone("DEL", "a", &container).silent();
}

#[test]
fn if_strangers_have_everything_the_error_names_them_and_nothing_is_left() {
    if !met(&NEEDS) {
        return;
    }
    let world = World::new("{gateway: Ignore}", 29);
    let all: Vec<String> = (2..7).map(|n| format!("10.44.0.{n}/29")).collect();
    let stranger = world.segment.stranger(&all.iter().map(String::as_str).collect::<Vec<_>>());
    let container = Netns::new();
    let said = world.bridge("ADD", "a", &container).failed(102);
    assert!(said.contains("no address left") && said.contains(&hardware(&stranger)), "{said}");
    assert!(world.daemon.held("Active").is_empty(), "not even the address of the other family");
    assert_eq!(world.set_apart().len(), 5);
    world.bridge("DEL", "a", &container).silent();
    world.daemon.check();
    drop(stranger);
    world.daemon.http.delete("/v1alpha1/addresses/10.44.0.4").ok();
    assert_eq!(world.bridge("ADD", "b", &container).addresses()[0], "10.44.0.4/29", "a person knows better");
}

#[test]
fn an_address_that_was_asked_for_is_refused_while_a_stranger_has_it() {
    if !met(&NEEDS) {
        return;
    }
    let world = World::new("{gateway: Ignore}", 24);
    let stranger = world.segment.stranger(&["10.44.0.9/24"]);
    let container = world.segment.container();
    let asks = |id: &str| {
        Call::new("ADD", id).between(&world.segment.host, &container).env("CNI_ARGS", "IP=10.44.0.9").run(&world.config)
    };
    let said = asks("a").failed(103);
    assert!(said.contains(&hardware(&stranger)), "{said}");
    world.alone("DEL", "a", &container).silent();
    assert!(world.set_apart().is_empty() && world.daemon.held("Active").is_empty());
    drop(stranger);
    assert_eq!(asks("b").addresses(), ["10.44.0.9/24"], "as soon as he is gone");
}

#[test]
fn c00009_a_dead_gateway_is_reported_or_refused_as_the_pool_says() {
    if !met(&NEEDS) {
        return;
    }
    let world = World::new("{gateway: Warn}", 24);
    let container = world.segment.container();
    assert_eq!(world.alone("ADD", "a", &container).addresses().len(), 2);
    let said = world.daemon.logged("a gateway does not answer");
    let said: Vec<&str> = said.iter().map(|line| line["gateway"].as_str().unwrap()).collect();
    assert_eq!(said, ["10.44.0.1", "fd44::1"]);
    assert!((world.metric("berth_silent_gateways_total") - 2.0).abs() < 0.1);
    world.alone("DEL", "a", &container).silent();

    let world = World::new("{gateway: Require}", 24);
    let container = world.segment.container();
    let said = world.alone("ADD", "a", &container).failed(113);
    assert!(said.contains("gateway 10.44.0.1 of pool \"four\" does not answer"), "{said}");
    world.alone("DEL", "a", &container).silent();
    assert!(world.daemon.held("Active").is_empty());
    let _router = world.segment.stranger(&["10.44.0.1/24", "fd44::1/64"]);
    assert_eq!(world.alone("ADD", "b", &container).addresses().len(), 2, "now it is there");
    assert!((world.metric("berth_silent_gateways_total") - 2.0).abs() < 0.1);
}

#[test]
fn neighbours_learn_where_an_address_is_now() {
    if !met(&NEEDS) {
        return;
    }
    let world = World::new("{gateway: Ignore}", 24);
    let neighbour = world.segment.stranger(&["10.44.0.99/24", "fd44::99/64"]);
    for old in ["10.44.0.2", "fd44::2"] {
        neighbour.ip(&format!("neigh add {old} lladdr 02:00:00:00:de:ad dev eth0 nud stale"));
    }
    let container = world.segment.container();
    assert_eq!(world.alone("ADD", "a", &container).addresses(), ["10.44.0.2/24", "fd44::2/64"]);
    for address in ["10.44.0.2", "fd44::2"] {
        until(&format!("the neighbour to know where {address} is"), || {
            let known = neighbour.ip(&format!("neigh show {address} dev eth0"));
            known.contains(&hardware(&container)).then_some(())
        });
    }
}

#[test]
fn where_nobody_can_be_asked_the_container_starts_and_it_is_said() {
    if !met(&NEEDS) {
        return;
    }
    let world = World::new("{gateway: Require}", 24);
    let empty = Netns::new();
    let ran = world.alone("ADD", "a", &empty);
    assert_eq!(ran.addresses(), ["10.44.0.2/24", "fd44::2/64"]);
    assert!(ran.stderr.contains("there is no interface eth0 yet"), "{}", ran.stderr);
    let ran = Call::new("ADD", "b").run(&world.config);
    assert_eq!(ran.addresses(), ["10.44.0.3/24", "fd44::3/64"]);
    assert!(ran.stderr.contains("cannot enter the network namespace"), "{}", ran.stderr);
    assert_eq!(world.daemon.logged("nothing was asked on the wire").len(), 2);
    assert!((world.metric("berth_blind_total") - 2.0).abs() < 0.1);
}

/// The standard's pauses leave seconds to interfere.
fn slow_add(world: &World, id: &str, container: &Netns) -> Child {
    let call = [("CNI_COMMAND", "ADD"), ("CNI_CONTAINERID", id), ("CNI_IFNAME", "eth0"), ("CNI_PATH", "/")];
    let mut command = Command::new(berth_e2e::binaries::berth_cni());
    command.env_clear().envs(call).env("CNI_NETNS", container.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), world.config.to_string().as_bytes()).unwrap();
    until("the address to be given", || (!world.daemon.held("Active").is_empty()).then_some(()));
    child
}

#[test]
fn a_plugin_that_dies_while_it_asks_leaves_nothing_that_del_does_not_take() {
    if !met(&NEEDS) {
        return;
    }
    let world = World::new("{conflicts: Rfc5227, gateway: Ignore}", 24);
    let container = world.segment.container();
    let mut child = slow_add(&world, "a", &container);
    child.kill().unwrap();
    child.wait().unwrap();
    world.alone("DEL", "a", &container).silent();
    assert!(world.daemon.held("Active").is_empty() && world.set_apart().is_empty());
    world.daemon.check();
}

#[test]
fn a_container_that_is_deleted_while_its_address_is_asked_for_gets_no_other() {
    if !met(&NEEDS) {
        return;
    }
    let world = World::new("{conflicts: Rfc5227, gateway: Ignore}", 24);
    let _stranger = world.segment.stranger(&["10.44.0.2/24"]);
    let container = world.segment.container();
    let child = slow_add(&world, "a", &container);
    world.alone("DEL", "a", &container).silent();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success() && said.contains("\"code\": 11"), "{said}");
    assert!(world.daemon.held("Active").is_empty(), "{:?}", world.daemon.held("Active"));
    world.daemon.check();
}

#[test]
fn a_daemon_that_is_killed_in_between_goes_on_where_it_was() {
    if !met(&NEEDS) {
        return;
    }
    let mut world = World::new("{conflicts: Rfc5227, gateway: Ignore}", 24);
    let _stranger = world.segment.stranger(&["10.44.0.2/24"]);
    let container = world.segment.container();
    let child = slow_add(&world, "a", &container);
    world.daemon.signal(rustix::process::Signal::KILL);
    world.daemon.wait();
    world.daemon = world.home.start();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.contains("10.44.0.3/24"), "{said}");
    assert_eq!(world.set_apart(), ["10.44.0.2"]);
    assert_eq!(world.daemon.holders("Active"), ["a", "a"]);
    world.daemon.check();
}
