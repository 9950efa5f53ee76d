//! One Deployment, from its creation until nothing is left of it.

use crate::calls::{self, Calls};
use crate::contestant::Contestant;
use crate::report::{load, millis, quantiles};
use anyhow::{Context, Result, bail, ensure};
use berth_cluster::counters::{Counters, Spent};
use berth_cluster::{BUSYBOX, Cluster};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Long enough for anything that comes to pass at all.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long addresses may stay taken when all pods are gone: what is missed is freed within less.
const LEFT_BEHIND: Duration = Duration::from_secs(60);
const NAME: &str = "bench";

/// What was measured.
pub(crate) struct Round {
    pub(crate) contestant: Contestant,
    pub(crate) pods: u16,
    /// From the creation until all pods are ready.
    pub(crate) ready: Duration,
    /// From the deletion until the last DEL was answered.
    pub(crate) free: Duration,
    /// From the deletion until the API server has no pod any more.
    pub(crate) gone: Duration,
    /// From the deletion until whoever keeps the truth for others has no address any more: the API server, for Berth.
    pub(crate) known: Duration,
    /// Addresses that stayed.
    pub(crate) left: u64,
    /// Requests to Berth's kinds.
    pub(crate) own: Spent,
    /// All requests.
    pub(crate) all: Spent,
    /// How many reads among them are our own.
    pub(crate) looks: u16,
    pub(crate) calls: Calls,
    load: String,
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Creates so many pods, and deletes them.
pub(crate) fn run(cluster: &Cluster, contestant: Contestant, pods: u16, berth: &Path) -> Result<Round> {
    let plane = cluster.control_plane();
    contestant.enter(cluster)?;
    calls::clear(cluster)?;
    let (load, before) = (load(), Counters::read(plane)?);
    let created = now();
    plane.apply(&deployment(contestant, pods).to_string())?;
    let wanted = format!("--for=jsonpath={{.status.readyReplicas}}={pods}");
    let deployment = format!("deployment/{NAME}");
    plane.kubectl_ok(&["wait", &deployment, &wanted, "--timeout", "600s"])?;
    let ready = now() - created;
    check_pods(cluster, pods)?;

    let deleted = now();
    plane.kubectl_ok(&["delete", &deployment, "--wait=false"])?;
    let calls = loop {
        let calls = Calls::read(cluster)?;
        if calls.all_returned().is_some() {
            break calls;
        }
        ensure!(now() - deleted < PATIENCE, "DELs do not come");
        thread::sleep(Duration::from_millis(100));
    };
    let free = calls.all_returned().unwrap_or_default().saturating_sub(deleted);
    plane.kubectl_ok(&["wait", "--for=delete", "pod", "--selector", "app=bench", "--timeout", "600s"])?;
    let gone = now() - deleted;
    let (mut left, mut looks) = (contestant.in_use(cluster)?, 1);
    while left > 0 && now() - deleted < gone + LEFT_BEHIND {
        thread::sleep(Duration::from_millis(500));
        (left, looks) = (contestant.in_use(cluster)?, looks + 1);
    }
    let known = now() - deleted;
    let all = Counters::read(plane)?.since(&before);
    let own = all.of_berth();
    if contestant.is_berth() {
        check_state(cluster, berth)?;
    }
    let calls = Calls::read(cluster)?;
    let strangers = calls.of_others(contestant.plugin());
    ensure!(strangers == 0, "{strangers} calls of another plugin than {}", contestant.plugin());
    let looks = if contestant.is_berth() { looks } else { 0 };
    Ok(Round { contestant, pods, ready, free, gone, known, left, own, all, looks, calls, load })
}

/// Waits until no runtime has a sandbox of an earlier round. Kubelets remove them once a minute, each with DELs of its own:
/// that is not to be the next one's burden.
pub(crate) fn wait_until_clean(cluster: &Cluster) -> Result<()> {
    let of_pods = "labels.\"io.kubernetes.pod.namespace\"==default";
    let began = now();
    for node in cluster.nodes() {
        loop {
            let list = ["--namespace", "k8s.io", "containers", "list", "--quiet", of_pods];
            let output = node.command("ctr").args(list).output().context("cannot run ctr")?;
            if output.status.success() && output.stdout.iter().all(u8::is_ascii_whitespace) {
                break;
            }
            ensure!(now() - began < PATIENCE, "{} keeps sandboxes of pods that are gone", node.name());
            thread::sleep(Duration::from_secs(1));
        }
    }
    Ok(())
}

impl Round {
    /// The round in a line.
    pub(crate) fn in_words(&self) -> String {
        let seconds = |time: Duration| format!("{:.1}", time.as_secs_f64());
        let times = |verb: &str| quantiles(self.calls.times(verb)).map(millis).join(" / ");
        format!(
            "ready {} s, free {} s, gone {} s, known {} s, ADD {} ms, DEL {} ms, {} failed, {} left, load {}",
            seconds(self.ready),
            seconds(self.free),
            seconds(self.gone),
            seconds(self.known),
            times("ADD"),
            times("DEL"),
            self.calls.failed(),
            self.left,
            self.load,
        )
    }

    /// Writes what the stand-ins wrote down to a file.
    pub(crate) fn keep_calls(&self, dir: &Path, number: usize) -> Result<()> {
        fs::create_dir_all(dir)?;
        let path = dir.join(format!("{}-{}-{number}", self.pods, self.contestant));
        let lines: Vec<String> = self.calls.0.iter().map(ToString::to_string).collect();
        fs::write(&path, lines.join("\n") + "\n").with_context(|| format!("cannot write {}", path.display()))
    }
}

fn deployment(contestant: Contestant, pods: u16) -> Value {
    let labels = json!({"app": NAME});
    let spread = json!([{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }]);
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": "default"},
        "spec": {
            "replicas": pods,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": contestant.annotations()},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "dnsPolicy": "Default",
                    "automountServiceAccountToken": false,
                    "topologySpreadConstraints": spread,
                    "containers": [{"name": "main", "image": BUSYBOX, "imagePullPolicy": "Never"}],
                },
            },
        },
    })
}

/// That all pods have an address of their own, in their own namespaces, and that the kubelets tell the same.
fn check_pods(cluster: &Cluster, pods: u16) -> Result<()> {
    let mut holders: BTreeMap<IpAddr, String> = BTreeMap::new();
    let mut own: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
    for node in cluster.nodes() {
        for (pod, addresses) in node.pods_addresses("default")? {
            for &address in &addresses {
                if let Some(other) = holders.insert(address, pod.clone()) {
                    bail!("{address} is given twice: to {pod} and to {other}");
                }
            }
            own.insert(pod, addresses);
        }
    }
    ensure!(holders.len() == usize::from(pods), "{pods} pods have {} addresses", holders.len());
    let text = cluster.control_plane().kubectl_ok(&["get", "pods", "--selector", "app=bench", "-o", "json"])?;
    let list: Value = serde_json::from_str(&text)?;
    for pod in list["items"].as_array().into_iter().flatten() {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let told: Option<IpAddr> = pod["status"]["podIP"].as_str().and_then(|text| text.parse().ok());
        let has = own.get(name).map(Vec::as_slice).unwrap_or_default();
        ensure!(told.is_some_and(|told| has.contains(&told)), "{name} has {has:?}, and its kubelet says {told:?}");
    }
    Ok(())
}

/// That `berth check` finds nothing.
fn check_state(cluster: &Cluster, berth: &Path) -> Result<()> {
    let mut check = Command::new(berth);
    let output = check.arg("check").arg("--kubeconfig").arg(cluster.control_plane().kubeconfig()).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "berth check: {said}");
    Ok(())
}
