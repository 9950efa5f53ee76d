//! Nodes run pods, as those of a cluster do, and leave nothing behind.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use berth_cluster::{BUSYBOX, Cluster, or_skip};
use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::Instant;

#[test]
fn pods_of_three_nodes_have_addresses_of_their_own_and_reach_each_other() {
    let (mounts_before, links_before) = (mounts(), links());
    let cgroups_before = cgroups();
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
    assert!(cgroups().len() > cgroups_before.len());
    let dir = cluster.control_plane().dir().to_owned();
    let inits: Vec<_> = cluster.nodes().iter().map(|node| format!("/proc/{}", node.pid())).collect();
    let began = Instant::now();
    drop(cluster);
    eprintln!("torn down in {:?}", began.elapsed());
    assert!(!dir.exists());
    assert_eq!(links(), links_before);
    assert!(inits.iter().all(|init| !Path::new(init).exists()));
    assert_eq!(mounts(), mounts_before);
    assert_eq!(cgroups(), cgroups_before);
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

fn mounts() -> BTreeSet<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap();
    text.lines().map(|line| line.split(' ').nth(4).unwrap().to_owned()).collect()
}

fn links() -> BTreeSet<String> {
    let entries = fs::read_dir("/sys/class/net").unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The control groups of clusters, wherever a hierarchy is mounted.
fn cgroups() -> BTreeSet<String> {
    let list =
        |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect::<Vec<_>>();
    let root = Path::new("/sys/fs/cgroup");
    let all = list(root).into_iter().flat_map(|hierarchy| list(&hierarchy)).chain(list(root));
    let names = all.map(|path| path.to_string_lossy().into_owned());
    names.filter(|path| path.ends_with("/k8s.io")).collect()
}
