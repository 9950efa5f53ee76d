//! A real container runtime: podman with its CNI back end, runc, and a static busybox for a root file system.
//!
//! Everything podman keeps is in the test's directory, and the host of its containers is a network namespace.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use berth_e2e::needs::{BUSYBOX, CNI_DIR, CNI_PLUGINS, IP, Need, PODMAN, RUNC, UTIL_LINUX, met};
use berth_e2e::{Home, Netns, binaries, run, succeed, until};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

const NEEDS: [Need; 7] = [Need::Root, IP, UTIL_LINUX, BUSYBOX, CNI_PLUGINS, PODMAN, RUNC];

const POOLS: &str = "
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: four}
spec: {ranges: [10.46.0.0/24], routes: [{dst: 0.0.0.0/0}]}
---
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: six}
spec: {ranges: ['fd46::/64'], routes: [{dst: '::/0'}]}
";

/// A podman of its own; its containers are removed when dropped.
struct Podman<'a> {
    home: &'a Home,
    host: Netns,
}

impl<'a> Podman<'a> {
    fn new(home: &'a Home) -> Self {
        for dir in ["rootfs/bin", "rootfs/proc", "rootfs/sys", "rootfs/dev", "rootfs/etc", "rootfs/run", "networks"] {
            fs::create_dir_all(home.path(dir)).unwrap();
        }
        let busybox = succeed(Command::new("sh").args(["-c", "command -v busybox"]));
        fs::copy(busybox.trim(), home.path("rootfs/bin/busybox")).unwrap();
        for applet in ["sleep", "ping", "ip"] {
            symlink("busybox", home.path(&format!("rootfs/bin/{applet}"))).unwrap();
        }
        let plugins = json!([binaries::plugin_dir(), CNI_DIR]);
        let conf = format!(
            "[engine]\ncgroup_manager = \"cgroupfs\"\nruntime = \"runc\"\nevents_logger = \"none\"\n\
             [network]\nnetwork_backend = \"cni\"\ncni_plugin_dirs = {plugins}\ndefault_network = \"berth\"\n"
        );
        fs::write(home.path("containers.conf"), conf).unwrap();
        let network = json!({"cniVersion": "0.4.0", "name": "berth", "plugins": [{
            "type": "bridge", "bridge": "cni-berth", "isGateway": true,
            "ipam": {"type": "berth-cni", "socket": home.socket()},
        }]});
        fs::write(home.path("networks/10-berth.conflist"), network.to_string()).unwrap();
        Self { home, host: Netns::new() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.host.command("podman");
        command.env("CONTAINERS_CONF", self.home.path("containers.conf"));
        for (option, dir) in
            [("--root", "root"), ("--runroot", "runroot"), ("--tmpdir", "tmp"), ("--network-config-dir", "networks")]
        {
            command.arg(option).arg(self.home.path(dir));
        }
        command.args(["--storage-driver=vfs", "--runtime=runc", "--cgroup-manager=cgroupfs"]).args(arguments);
        command
    }

    #[track_caller]
    fn podman(&self, arguments: &[&str]) -> String {
        succeed(&mut self.command(arguments)).trim().to_owned()
    }

    /// Starts a container that sleeps, and returns its ID.
    #[track_caller]
    fn run(&self, name: &str) -> String {
        let rootfs = self.home.path("rootfs");
        let (limits, network) = (["--ulimit=nofile=1024:4096", "--ulimit=nproc=1000:1000"], "--network=berth");
        let options = ["run", "--detach", "--name", name, network, "--stop-timeout=0", limits[0], limits[1]];
        let command = ["--rootfs", rootfs.to_str().unwrap(), "/bin/sleep", "1000"];
        self.podman(&[options.as_slice(), command.as_slice()].concat())
    }

    /// The global addresses that a container sees on its interface.
    #[track_caller]
    fn addresses(&self, name: &str) -> Vec<String> {
        let text = self.podman(&["exec", name, "/bin/ip", "addr", "show", "dev", "eth0", "scope", "global"]);
        let words: Vec<&str> = text.split_whitespace().collect();
        let address =
            |pair: &[&str]| pair[0].starts_with("inet").then(|| pair[1].split('/').next().unwrap().to_owned());
        words.windows(2).filter_map(address).collect()
    }

    #[track_caller]
    fn ping(&self, name: &str, address: &str) {
        let ping = || -> Output { run(&mut self.command(&["exec", name, "/bin/ping", "-c", "1", "-W", "1", address])) };
        until(&format!("{address} to answer {name}"), || ping().status.success().then_some(()));
    }
}

impl Drop for Podman<'_> {
    fn drop(&mut self) {
        let _ = run(&mut self.command(&["rm", "--all", "--force", "--time", "0"]));
    }
}

fn held(daemon: &berth_e2e::Daemon, container: &str) -> Vec<String> {
    let own = daemon.held("Active").into_iter().filter(|(_, id)| id == container);
    own.map(|(address, _)| address).collect()
}

#[test]
fn containers_have_the_addresses_that_berth_shows() {
    if !met(&NEEDS) {
        return;
    }
    let home = Home::new();
    let daemon = home.start_with_manifests(POOLS);
    let podman = Podman::new(&home);
    let (a, b) = (podman.run("a"), podman.run("b"));
    for (name, id) in [("a", &a), ("b", &b)] {
        let addresses = podman.addresses(name);
        assert_eq!(addresses.len(), 2, "{addresses:?}");
        assert_eq!(addresses, held(&daemon, id));
    }
    for address in held(&daemon, &b).iter().map(String::as_str).chain(["10.46.0.1", "fd46::1"]) {
        podman.ping("a", address);
    }

    podman.podman(&["stop", "a"]);
    assert_eq!(held(&daemon, &a), Vec::<String>::new(), "a stopped container has no address");
    podman.podman(&["start", "a"]);
    assert_eq!(podman.addresses("a"), held(&daemon, &a), "the same container, under the same ID, has one again");
    podman.podman(&["restart", "a"]);
    assert_eq!(podman.addresses("a"), held(&daemon, &a));
    podman.ping("a", &held(&daemon, &b)[0]);

    podman.podman(&["rm", "--force", "a", "b"]);
    assert_eq!(daemon.held("Active"), []);
    daemon.check();
}

#[test]
fn a_killed_daemon_loses_nothing_of_a_running_container() {
    if !met(&NEEDS) {
        return;
    }
    let home = Home::new();
    let daemon = home.start_with_manifests(POOLS);
    let podman = Podman::new(&home);
    let a = podman.run("a");
    let addresses = podman.addresses("a");
    daemon.kill();
    assert_eq!(podman.addresses("a"), addresses, "the container does not notice");

    let daemon = home.start();
    assert_eq!(held(&daemon, &a), addresses);
    let b = podman.run("b");
    assert!(held(&daemon, &b).iter().all(|address| !addresses.contains(address)));
    daemon.kill();
    podman.podman(&["rm", "--force", "a"]);

    let daemon = home.start();
    assert_eq!(held(&daemon, &a), Vec::<String>::new(), "removed while the daemon was down: free");
    assert_eq!(held(&daemon, &b).len(), 2);
    podman.podman(&["rm", "--force", "b"]);
    assert_eq!(daemon.held("Active"), []);
    daemon.check();
}

#[test]
fn a_container_does_not_start_without_the_daemon_and_leaves_nothing() {
    if !met(&NEEDS) {
        return;
    }
    let home = Home::new();
    home.start_with_manifests(POOLS).kill();
    let podman = Podman::new(&home);
    let rootfs = home.path("rootfs");
    let output = run(&mut podman.command(&["run", "--network=berth", "--rootfs", rootfs.to_str().unwrap(), "/bin/ip"]));
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("cannot reach the Berth daemon"), "{said}");
    assert_eq!(home.start().held("Active"), []);
}
