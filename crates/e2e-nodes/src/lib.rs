//! What the tests of Berth on real nodes stand on: a cluster with Berth installed from its manifests, and workloads in
//! it.
//!
//! What a pod has is read from its own network namespace, not from what anybody says about it.
//!
//! A test fails by panicking, and so does everything here.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

pub mod clone_set;
pub mod helm;
pub mod multus;
pub mod workload;

pub use workload::Workload;

use berth_cluster::{Cluster, ClusterOptions, PodNetwork, berth, or_skip};
use berth_e2e::binaries;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take. A pod whose deletion nobody told is missed for a minute before its address is freed.
const PATIENCE: Duration = Duration::from_secs(180);

/// A cluster with Berth.
pub struct Lab {
    /// The cluster.
    pub cluster: Cluster,
}

/// A pod that is not about to go.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Its name, in the namespace `default`.
    pub name: String,
    /// Its node; empty if it has none yet.
    pub node: String,
    /// Whether all of it runs.
    pub ready: bool,
    /// What the kubelet says that its addresses are.
    pub told: Vec<IpAddr>,
}

impl Lab {
    /// A cluster with this many nodes and Berth; `None` if there can be none here, which is said.
    ///
    /// # Panics
    /// If it does not come up.
    #[must_use]
    pub fn start(nodes: u8) -> Option<Self> {
        let image = berth::image().unwrap();
        let began = Instant::now();
        let options = ClusterOptions { nodes, network: PodNetwork::None, ..ClusterOptions::default() };
        let mut lab = Self { cluster: or_skip(Cluster::start_with(&options))? };
        eprintln!("{nodes} nodes up after {:.1} s", began.elapsed().as_secs_f64());
        berth::install(&mut lab.cluster, &image).unwrap();
        eprintln!("Berth installed and all nodes ready after {:.1} s", began.elapsed().as_secs_f64());
        Some(lab)
    }

    /// Runs `kubectl`, which must succeed.
    ///
    /// # Panics
    /// With what it said.
    #[track_caller]
    pub fn kubectl(&self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        self.cluster.control_plane().kubectl_ok(&words).unwrap()
    }

    /// The objects that `kubectl get` lists.
    ///
    /// # Panics
    /// If it does not succeed.
    #[track_caller]
    #[must_use]
    pub fn get(&self, line: &str) -> Vec<Value> {
        let list: Value = serde_json::from_str(&self.kubectl(&format!("get {line} -o json"))).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    /// Applies a manifest.
    ///
    /// # Panics
    /// If the server refuses it.
    #[track_caller]
    pub fn apply(&self, manifest: &Value) {
        self.cluster.control_plane().apply(&manifest.to_string()).unwrap();
    }

    /// Makes an IPv4 pool of addresses `10.N.<third>.<from>` to `<to>`, with more fields if wanted.
    ///
    /// # Panics
    /// If the server refuses it.
    #[track_caller]
    pub fn pool(&self, name: &str, third: u8, from: u8, to: u8, more: &Value) {
        let prefix = format!("10.{}.{third}", self.cluster.underlay().number());
        let gateway = self.cluster.underlay().gateway();
        let spec =
            json!({"ranges": [format!("{prefix}.{from}-{prefix}.{to}")], "prefixLength": 16, "gateway": gateway});
        self.make_pool(name, spec, more);
    }

    /// Makes an IPv6 pool of 65535 addresses; `part` tells it from others.
    ///
    /// # Panics
    /// If the server refuses it.
    #[track_caller]
    pub fn pool6(&self, name: &str, part: u8, more: &Value) {
        let range = self.cluster.underlay().subnet_v6().replace("::/64", &format!("::{part:x}:0/112"));
        self.make_pool(name, json!({"ranges": [range], "prefixLength": 64, "gateway": "none"}), more);
    }

    fn make_pool(&self, name: &str, mut spec: Value, more: &Value) {
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        let metadata = json!({"name": name});
        self.apply(&json!({"apiVersion": "berth.io/v1alpha1", "kind": "IPPool", "metadata": metadata, "spec": spec}));
    }

    /// The pods of a workload, or of all.
    #[must_use]
    pub fn pods(&self, of: Option<&str>) -> Vec<Pod> {
        let selector = of.map(|name| format!(" --selector app={name}")).unwrap_or_default();
        let pods = self.get(&format!("pods{selector}"));
        let stays = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let ready = |pod: &Value| {
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            conditions.into_iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
        };
        let told = |pod: &Value| {
            let addresses = pod["status"]["podIPs"].as_array().into_iter().flatten();
            addresses.filter_map(|it| it["ip"].as_str()?.parse().ok()).collect()
        };
        let read = |pod: &Value| Pod {
            name: text(&pod["metadata"]["name"]),
            node: text(&pod["spec"]["nodeName"]),
            ready: ready(pod),
            told: told(pod),
        };
        stays.map(read).collect()
    }

    /// The addresses in a pod's own namespace.
    ///
    /// # Errors
    /// If it does not run.
    pub fn addresses(&self, pod: &Pod) -> berth_cluster::Result<Vec<IpAddr>> {
        self.cluster.node(&pod.node)?.pod_addresses("default", &pod.name)
    }

    /// Who has which address, and that nobody has another's.
    ///
    /// # Panics
    /// If two pods have the same address, or the kubelet tells another than the pod has.
    #[track_caller]
    #[must_use]
    pub fn holders(&self, pods: &[Pod]) -> BTreeMap<IpAddr, String> {
        let mut holders = BTreeMap::new();
        for pod in pods {
            let own = self.addresses(pod).unwrap();
            assert!(pod.told.iter().all(|told| own.contains(told)), "{pod:?} has {own:?}");
            for address in own {
                let other = holders.insert(address, pod.name.clone());
                assert!(other.is_none(), "{address} is given twice: {pod:?} and {other:?}");
            }
        }
        holders
    }

    /// How many addresses are taken, as the API server has it; leases are not counted.
    #[must_use]
    pub fn used(&self) -> u64 {
        let blocks = self.get("ipblocks");
        let addresses = blocks
            .iter()
            .filter(|block| !block["metadata"]["name"].as_str().unwrap_or_default().contains("--2fleases"));
        addresses.map(|block| block["spec"]["used"].as_u64().unwrap_or_default()).sum()
    }

    /// Waits until all pods are ready, none is about to go, and exactly what they have is in use, besides `kept`.
    ///
    /// # Panics
    /// If that does not come to pass, or an address is given twice.
    #[track_caller]
    pub fn settle(&self, kept: u64) {
        let began = Instant::now();
        self.until("what is used to be what pods have", || {
            let all = self.get("pods").len();
            let pods = self.pods(None);
            let unready: Vec<&Pod> = pods.iter().filter(|pod| !pod.ready).collect();
            if all != pods.len() || !unready.is_empty() {
                return Err(format!("{} pods are going, not ready: {unready:?}", all - pods.len()));
            }
            let (held, used) = (self.holders(&pods).len() as u64, self.used());
            if held + kept == used { Ok(()) } else { Err(format!("pods have {held}, kept {kept}, used {used}")) }
        });
        eprintln!("    settled after {:.1} s", began.elapsed().as_secs_f64());
    }

    /// That all is well: `berth check` finds nothing, and no two pods that run anywhere have an address in common, whatever
    /// the API server says about them.
    ///
    /// # Panics
    /// If it is not.
    #[track_caller]
    pub fn is_sound(&self) {
        self.checks_out(|| {
            let mut check = Command::new(binaries::berth());
            check.args(["check", "--kubeconfig"]).arg(self.cluster.control_plane().kubeconfig()).output().unwrap()
        });
        let mut holders: BTreeMap<IpAddr, String> = BTreeMap::new();
        let running = self.cluster.nodes().iter().filter(|node| node.is_up());
        for (node, namespace) in running.flat_map(|node| [(node, "default"), (node, berth::NAMESPACE)]) {
            for (pod, addresses) in node.pods_addresses(namespace).unwrap() {
                for address in addresses {
                    let other = holders.insert(address, format!("{pod} on {}", node.name()));
                    assert!(other.is_none(), "{address} is in two pods: {pod} on {} and {other:?}", node.name());
                }
            }
        }
    }

    /// That `berth check` finds nothing when it is run in a pod of the controller, with its account.
    ///
    /// # Panics
    /// If it does.
    #[track_caller]
    pub fn is_sound_from_within(&self) {
        let exec = ["exec", "--namespace", berth::NAMESPACE, "deployment/berth-controller", "--"];
        let words = [&exec[..], &["/berth", "check", "--cluster"]].concat();
        self.checks_out(|| self.cluster.control_plane().kubectl(&words).unwrap());
    }

    /// What has just gone is looked at twice before it is free, so `berth check` is run until it finds nothing.
    #[track_caller]
    fn checks_out(&self, check: impl Fn() -> Output) {
        self.until("berth check to find nothing", || {
            let output = check();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            if output.status.success() { Ok(()) } else { Err(text(&output.stdout) + &text(&output.stderr)) }
        });
    }

    /// Asks until the answer is `Ok`.
    ///
    /// # Panics
    /// If it never is.
    #[track_caller]
    pub fn until<T>(&self, what: &str, mut ask: impl FnMut() -> Result<T, String>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match ask() {
                Ok(answer) => return answer,
                Err(state) if Instant::now() > deadline => panic!("waited {PATIENCE:?} for {what}: {state}"),
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// That a pod reaches an address.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn ping(&self, pod: &Pod, address: IpAddr) {
        let node = self.cluster.node(&pod.node).unwrap();
        let address = address.to_string();
        let output = node.in_pod("default", &pod.name, &["busybox", "ping", "-c", "1", "-W", "5", &address]).unwrap();
        assert!(output.status.success(), "{pod:?} does not reach {address}: {output:?}");
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if thread::panicking() {
            let plane = self.cluster.control_plane();
            let logs = format!("logs --namespace {} --selector app.kubernetes.io/name=berth-agent", berth::NAMESPACE);
            for line in ["get pods -A -o wide", "get ipblocks", "get ippools", &format!("{logs} --prefix --tail 40")] {
                let words: Vec<&str> = line.split(' ').collect();
                let said = plane.kubectl(&words).map(|output| output.stdout).unwrap_or_default();
                eprintln!("--- {line}\n{}", String::from_utf8_lossy(&said));
            }
            let columns = "custom-columns=:.lastTimestamp,:.involvedObject.name,:.message";
            let events = ["get", "events", "--field-selector", "type=Warning", "-o", columns];
            let said = plane.kubectl(&events).map(|output| output.stdout).unwrap_or_default();
            let said = String::from_utf8_lossy(&said).into_owned();
            let lines: Vec<&str> = said.lines().collect();
            eprintln!("--- warnings\n{}", lines[lines.len().saturating_sub(30)..].join("\n"));
        }
    }
}
