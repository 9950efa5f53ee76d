//! Nodes run pods, as those of a cluster do, and leave nothing behind.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use berth_cluster::{BUSYBOX, Cluster, or_skip};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

#[test]
fn pods_of_three_nodes_have_addresses_of_their_own_and_reach_each_other() {
    let began = Instant::now();
    let Some(mut cluster) = or_skip(Cluster::start(3)) else { return };
    eprintln!("three nodes ready after {:?}", began.elapsed());

    let began = Instant::now();
    cluster.control_plane().apply(&deployment("web", 6)).unwrap();
    let rollout = ["rollout", "status", "deployment/web", "--timeout", "90s"];
    cluster.control_plane().kubectl_ok(&rollout).unwrap();
    eprintln!("six pods ready after {:?}", began.elapsed());

    let pods = pods(&cluster);
    assert_eq!(pods.len(), 6);
    assert_eq!(pods.iter().map(|pod| &pod.node).collect::<BTreeSet<_>>().len(), 3, "{pods:?}");
    let mut seen = BTreeSet::new();
    for pod in &pods {
        // What the pod has is what the API server was told, and nobody else's.
        assert_eq!(cluster.pod_addresses("default", &pod.name).unwrap(), [pod.address]);
        assert!(seen.insert(pod.address), "{} is given twice: {pods:?}", pod.address);
    }
    let first = &pods[0];
    let node = cluster.node(&first.node).unwrap();
    for other in pods.iter().filter(|other| other.node != first.node) {
        let address = other.address.to_string();
        let ping = ["busybox", "ping", "-c", "1", "-W", "5", &address];
        let output = node.in_pod("default", &first.name, &ping).unwrap();
        assert!(output.status.success(), "{first:?} does not reach {other:?}: {output:?}");
    }
    // The same through the API server, kubelet and runtime, from the program in the image.
    let exec = ["exec", &first.name, "--", "ip", "-4", "-o", "addr", "show", "eth0"];
    let text = cluster.control_plane().kubectl_ok(&exec).unwrap();
    assert!(text.contains(&format!("{}/16", first.address)), "{text}");

    // A kubelet and a containerd that were killed find their pods again.
    let node = cluster.nodes_mut().iter_mut().find(|node| node.name() == first.node).unwrap();
    node.stop_kubelet();
    node.stop_containerd();
    assert_eq!(node.pod_addresses("default", &first.name).unwrap(), [first.address]);
    node.start_containerd().unwrap();
    node.start_kubelet().unwrap();
    cluster.wait_ready().unwrap();
    cluster.control_plane().kubectl_ok(&["delete", "deployment", "web", "--wait", "--timeout", "60s"]).unwrap();
    cluster.control_plane().kubectl_ok(&["wait", "--for=delete", "pod", "--all", "--timeout", "60s"]).unwrap();

    // And a cluster with pods leaves as little behind as one without.
    cluster.control_plane().apply(&deployment("again", 3)).unwrap();
    cluster.control_plane().kubectl_ok(&["rollout", "status", "deployment/again", "--timeout", "90s"]).unwrap();
    let left = Traces::of(&cluster);
    left.assert_there();
    let began = Instant::now();
    drop(cluster);
    eprintln!("torn down in {:?}", began.elapsed());
    left.assert_gone();
}

/// Set in the process that the test below starts from its own executable, and kills.
const OWNER: &str = "BERTH_TEST_OWNS_A_CLUSTER";

/// What that process does: it prints what to look for, and waits.
fn start_a_cluster_and_wait_to_be_killed() {
    let Some(cluster) = or_skip(Cluster::start(1)) else { return };
    cluster.control_plane().apply(&deployment("web", 1)).unwrap();
    cluster.control_plane().kubectl_ok(&["rollout", "status", "deployment/web", "--timeout", "90s"]).unwrap();
    let Traces { dir, number, containers, nodes } = Traces::of(&cluster);
    println!("\nfound {} {number} {} {}", dir.display(), containers.join(","), nodes.join(","));
    thread::park();
}

#[test]
fn the_owner_of_a_cluster_can_be_killed() {
    if env::var_os(OWNER).is_some() {
        return start_a_cluster_and_wait_to_be_killed();
    }
    let mut owner = Command::new(env::current_exe().unwrap());
    owner.args(["--exact", "the_owner_of_a_cluster_can_be_killed", "--nocapture"]).env(OWNER, "1");
    let mut owner = owner.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(owner.stdout.take().unwrap()).lines().map(Result::unwrap);
    let found = lines.filter_map(|line| line.strip_prefix("found ").map(str::to_owned)).next();
    if found.is_some() {
        owner.kill().unwrap();
    }
    let status = owner.wait().unwrap();
    // If it was skipped it has said why; if it failed, it exited by itself and not with success.
    let Some(found) = found else {
        assert!(status.success(), "the owner of the cluster failed: {status}");
        return;
    };
    let mut words = found.split(' ').map(str::to_owned);
    let mut word = || words.next().unwrap();
    let left = Traces {
        dir: word().into(),
        number: word().parse().unwrap(),
        containers: word().split(',').map(str::to_owned).collect(),
        nodes: word().split(',').map(str::to_owned).collect(),
    };
    // The kernel kills the processes; what they used is removed by the next cluster that starts.
    let deadline = Instant::now() + Duration::from_secs(20);
    while !left.processes().is_empty() {
        assert!(Instant::now() < deadline, "{:?}", left.processes());
        thread::sleep(Duration::from_millis(10));
    }
    drop(or_skip(Cluster::start(0)).unwrap());
    left.assert_gone();
}

/// What a cluster would leave behind.
struct Traces {
    dir: PathBuf,
    number: u8,
    containers: Vec<String>,
    /// The namespaces of the nodes' processes.
    nodes: Vec<String>,
}

impl Traces {
    fn of(cluster: &Cluster) -> Self {
        let ids = "jsonpath={.items[*].status.containerStatuses[*].containerID}";
        let text = cluster.control_plane().kubectl_ok(&["get", "pods", "-o", ids]).unwrap();
        Self {
            dir: cluster.control_plane().dir().to_owned(),
            number: cluster.underlay().number(),
            nodes: cluster
                .nodes()
                .iter()
                .filter_map(|node| namespace(Path::new(&format!("/proc/{}", node.pid()))))
                .collect(),
            containers: text.split(' ').map(|id| id.trim_start_matches("containerd://").to_owned()).collect(),
        }
    }

    #[track_caller]
    fn assert_there(&self) {
        assert!(!self.containers.is_empty());
        assert!(!self.links().is_empty() && !self.cgroups().is_empty());
        // kubelet, containerd, shims, containers, the control plane.
        assert!(self.processes().len() > 20, "{:?}", self.processes());
    }

    #[track_caller]
    fn assert_gone(&self) {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(&*self.dir.to_string_lossy()), "{mounts}");
        let left = [self.links(), self.cgroups(), self.processes()].concat();
        assert_eq!(left, Vec::<String>::new());
        assert!(!self.dir.exists());
    }

    /// The bridge, and cables to it.
    fn links(&self) -> Vec<String> {
        let entries = fs::read_dir("/sys/class/net").unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let (bridge, cables) = (format!("berth{}", self.number), format!("b{}-", self.number));
        names.filter(|name| *name == bridge || name.starts_with(&cables)).collect()
    }

    /// The containers' control groups, wherever a hierarchy is mounted.
    fn cgroups(&self) -> Vec<String> {
        let root = Path::new("/sys/fs/cgroup");
        let hierarchies = fs::read_dir(root).unwrap().flatten().map(|entry| entry.path()).chain([root.to_owned()]);
        let groups = hierarchies.flat_map(|dir| self.containers.iter().map(move |id| dir.join("k8s.io").join(id)));
        groups.filter(|group| group.exists()).map(|group| group.display().to_string()).collect()
    }

    /// Those of the control plane by its directory, those of nodes by their namespace, containers by control group.
    fn processes(&self) -> Vec<String> {
        let read = |dir: &Path, name: &str| fs::read(dir.join(name)).unwrap_or_default();
        let text = |dir: &Path, name: &str| String::from_utf8_lossy(&read(dir, name)).replace('\0', " ");
        let ours = |process: &PathBuf| {
            namespace(process).is_some_and(|namespace| self.nodes.contains(&namespace))
                || text(process, "cmdline").contains(&*self.dir.to_string_lossy())
                || self.containers.iter().any(|id| text(process, "cgroup").contains(id))
        };
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()).filter(ours);
        processes.map(|process| format!("{} {}", process.display(), text(&process, "cmdline"))).collect()
    }
}

/// The process namespace of a process, if it has one.
fn namespace(process: &Path) -> Option<String> {
    Some(fs::read_link(process.join("ns/pid")).ok()?.to_string_lossy().into_owned())
}

fn deployment(name: &str, replicas: u8) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 0
      topologySpreadConstraints:
      - {{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule,
         labelSelector: {{matchLabels: {{app: {name}}}}}}}
      containers: [{{name: main, image: '{BUSYBOX}'}}]
"
    )
}

#[derive(Debug)]
struct Pod {
    name: String,
    node: String,
    address: IpAddr,
}

fn pods(cluster: &Cluster) -> Vec<Pod> {
    let path = "jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName} {.status.podIP}{\"\\n\"}{end}";
    let text = cluster.control_plane().kubectl_ok(&["get", "pods", "-o", path]).unwrap();
    let pod = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        let mut word = || words.next().unwrap();
        Pod { name: word(), node: word(), address: word().parse().unwrap() }
    };
    text.lines().map(pod).collect()
}
