//! Agents that speak the socket API of spiderpool-agent, one beside another: the same pods ask each of them in turn. Whose
//! agents they are does not matter; without any, an agent of Berth is started over a control plane of its own.

use super::stats::Samples;
use crate::{dist, sh};
use anyhow::{Context, Result, bail, ensure};
use berth_cluster::tools::{self, Tool};
use berth_cluster::{ControlPlane, Options};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const NAMESPACE: &str = "berth-bench";
const NODE: &str = "berth-bench";

#[derive(clap::Args)]
pub(super) struct Args {
    /// An agent's socket, `PATH` or `NAME=PATH`; given again, they take turns
    #[arg(long, value_name = "[NAME=]PATH")]
    agent_socket: Vec<String>,
    /// Kubeconfig of the cluster that the agents are in
    #[arg(long, value_name = "FILE", requires = "agent_socket")]
    kubeconfig: Option<PathBuf>,
    /// The `berth` of the agent that is started where none is given; one is built if absent
    #[arg(long, value_name = "FILE", conflicts_with = "agent_socket")]
    daemon: Option<PathBuf>,
    /// The node that the agents are of; its pods are made here, and deleted afterwards
    #[arg(long, value_name = "NAME", default_value = NODE)]
    node: String,
    /// How many pods ask
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=5000))]
    pods: u32,
    /// How many of them at once
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=64))]
    at_once: u8,
    /// How often each agent has its turn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
}

/// An agent, and what was measured.
struct Contestant {
    name: String,
    socket: PathBuf,
    adds: Samples,
    dels: Samples,
    /// Seconds until all pods had their addresses, by round.
    all: Vec<Duration>,
    failed: usize,
}

struct Pod {
    name: String,
    uid: String,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let own = if args.agent_socket.is_empty() { Some(Own::start(args)?) } else { None };
    let kubeconfig = own.as_ref().map(|own| own.plane.kubeconfig()).or_else(|| args.kubeconfig.clone());
    let sockets = match &own {
        Some(own) => vec![format!("berth={}", own.socket().display())],
        None => args.agent_socket.clone(),
    };
    let mut contestants: Vec<Contestant> = sockets.iter().map(|given| contestant(given)).collect::<Result<_>>()?;
    let [program] = tools::ensure([Tool::Kubectl])?;
    let kubectl = Kubectl { program, kubeconfig };
    let pods = kubectl.make_pods(args)?;
    let measured = (0..args.rounds).try_for_each(|round| {
        eprintln!("round {} of {}", round + 1, args.rounds);
        let shift = usize::from(round) % contestants.len();
        contestants.rotate_left(shift);
        contestants.iter_mut().try_for_each(|one| one.take_turn(&pods, args.at_once.into(), round))
    });
    kubectl.delete_pods();
    measured?;
    report(&mut contestants, args);
    Ok(())
}

fn contestant(given: &str) -> Result<Contestant> {
    let (name, path) = given.split_once('=').unwrap_or((given, given));
    let socket = PathBuf::from(path);
    ask(&socket, "GET", "/ipam/healthy", &Value::Null).with_context(|| format!("--agent-socket {given}"))?;
    let (adds, dels) = (Samples::default(), Samples::default());
    Ok(Contestant { name: name.to_owned(), socket, adds, dels, all: Vec::new(), failed: 0 })
}

impl Contestant {
    fn take_turn(&mut self, pods: &[Pod], at_once: usize, round: u8) -> Result<()> {
        let begun = Instant::now();
        let added = side_by_side(pods, at_once, |pod| ask(&self.socket, "POST", "/ipam/ip", &wish(pod, round)));
        self.all.push(begun.elapsed());
        let mut seen = HashSet::new();
        for (_, answer) in &added {
            for ip in answer.iter().flat_map(|answer| answer["ips"].as_array().into_iter().flatten()) {
                let address = ip["address"].as_str().unwrap_or_default().to_owned();
                ensure!(seen.insert(address.clone()), "{} gave {address} twice", self.name);
            }
        }
        let served = added.iter().filter(|(_, answer)| answer.is_ok()).count();
        if let Some((_, Err(error))) = added.iter().find(|(_, answer)| answer.is_err()) {
            eprintln!("{}: {} of {} were refused: {error}", self.name, pods.len() - served, pods.len());
        }
        ensure!(served > 0, "{} served nobody", self.name);
        ensure!(seen.len() >= served, "{} answered without an address", self.name);
        self.failed += pods.len() - served;
        self.adds.add_round(added.into_iter().map(|(took, _)| took).collect());
        let deleted = side_by_side(pods, at_once, |pod| ask(&self.socket, "DELETE", "/ipam/ip", &wish(pod, round)));
        self.failed += deleted.iter().filter(|(_, answer)| answer.is_err()).count();
        self.dels.add_round(deleted.into_iter().map(|(took, _)| took).collect());
        Ok(())
    }
}

/// Does something for all pods, so many at once; how long each took, and what came of it.
fn side_by_side(
    pods: &[Pod],
    at_once: usize,
    call: impl Fn(&Pod) -> Result<Value> + Sync,
) -> Vec<(Duration, Result<Value>)> {
    let next = AtomicUsize::new(0);
    let lane = || {
        let mut done = Vec::new();
        while let Some(pod) = pods.get(next.fetch_add(1, Ordering::SeqCst)) {
            let begun = Instant::now();
            let answer = call(pod);
            done.push((begun.elapsed(), answer));
        }
        done
    };
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..at_once).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().flat_map(|lane| lane.join().unwrap_or_default()).collect()
    })
}

fn wish(pod: &Pod, round: u8) -> Value {
    json!({"containerID": format!("{}-{round}", pod.name), "ifName": "eth0", "netNamespace": "/run/netns/none",
        "podNamespace": NAMESPACE, "podName": pod.name, "podUID": pod.uid})
}

/// One request on a connection of its own, as the plugin makes it.
fn ask(socket: &Path, method: &str, path: &str, body: &Value) -> Result<Value> {
    let mut stream = UnixStream::connect(socket).with_context(|| format!("connect to {}", socket.display()))?;
    stream.set_read_timeout(Some(Duration::from_secs(120)))?;
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let head =
        format!("{method} /v1{path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\nAccept: application/json\r\n");
    let head = format!("{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer is no HTTP")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status != "200" {
        bail!("{method} {path}: {status} {}", body.trim());
    }
    Ok(serde_json::from_str(body).unwrap_or_default())
}

fn report(contestants: &mut [Contestant], args: &Args) {
    contestants.sort_by(|a, b| a.name.cmp(&b.name));
    println!("{} pods, {} at once, {} rounds", args.pods, args.at_once, args.rounds);
    println!(
        "{:<24} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}",
        "agent", "all s", "ADD p50", "p90", "p99", "DEL p50", "p99", "failed"
    );
    for Contestant { name, adds, dels, all, failed, .. } in contestants {
        all.sort();
        let median = all.get(all.len() / 2).copied().unwrap_or_default();
        let ms = |samples: &Samples, percent| format!("{:9.2}", samples.percentile(percent).as_secs_f64() * 1e3);
        println!(
            "{name:<24} {:>8.2} {} {} {} {} {} {failed:>7}",
            median.as_secs_f64(),
            ms(adds, 50),
            ms(adds, 90),
            ms(adds, 99),
            ms(dels, 50),
            ms(dels, 99)
        );
    }
}

/// kubectl with the cluster it talks to.
struct Kubectl {
    program: PathBuf,
    kubeconfig: Option<PathBuf>,
}

impl Kubectl {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = sh::command(&self.program, arguments);
        if let Some(kubeconfig) = &self.kubeconfig {
            command.arg("--kubeconfig").arg(kubeconfig);
        }
        command
    }

    fn apply(&self, items: &[Value]) -> Result<()> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        let mut command = self.command(&["apply", "--server-side", "--filename", "-"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        child.stdin.take().context("no standard input")?.write_all(list.as_bytes())?;
        ensure!(child.wait()?.success(), "kubectl apply failed");
        Ok(())
    }

    /// Pods of the node that nobody runs.
    fn make_pods(&self, args: &Args) -> Result<Vec<Pod>> {
        self.apply(&[
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": NAMESPACE}}),
        ])?;
        let pod = |n: u32| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{n}"), "namespace": NAMESPACE},
                "spec": {"nodeName": args.node, "containers": [{"name": "c", "image": "none"}],
                    "terminationGracePeriodSeconds": 0}})
        };
        let pods: Vec<Value> = (0..args.pods).map(pod).collect();
        pods.chunks(200).try_for_each(|some| self.apply(some))?;
        let listed = sh::output(&mut self.command(&["get", "pods", "--namespace", NAMESPACE, "--output", "json"]))?;
        let listed: Value = serde_json::from_str(&listed)?;
        let pod = |pod: &Value| {
            let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
            Pod { name: text("name"), uid: text("uid") }
        };
        Ok(listed["items"].as_array().into_iter().flatten().map(pod).collect())
    }

    fn delete_pods(&self) {
        let arguments = ["delete", "namespace", NAMESPACE, "--wait=false"];
        // Best effort: what was measured counts.
        let _ = self.command(&arguments).stdout(Stdio::null()).status();
    }
}

/// An agent of Berth over a control plane of its own.
struct Own {
    plane: ControlPlane,
    dir: tempfile::TempDir,
    agent: Child,
}

impl Own {
    fn start(args: &Args) -> Result<Self> {
        tools::ensure([Tool::Etcd, Tool::Apiserver, Tool::Kubectl])?;
        let (berth, plane) =
            (args.daemon.clone().map_or_else(dist::daemon, Ok)?, ControlPlane::start(&Options::default())?);
        for kind in [&["crds"][..], &["crds", "spiderpool"]] {
            plane.apply(&sh::output(&mut sh::command(&berth, kind))?)?;
        }
        plane.kubectl_ok(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"])?;
        plane.apply(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": args.node}}).to_string())?;
        let pool = json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
            "metadata": {"name": "bench"},
            "spec": {"subnet": "10.64.0.0/16", "ips": ["10.64.0.10-10.64.255.250"], "default": true}});
        plane.apply(&pool.to_string())?;
        let dir = tempfile::tempdir()?;
        let mut command = sh::command(&berth, &["agent", "--listen", "none", "--node-name", &args.node]);
        command.arg("--kubeconfig").arg(plane.kubeconfig()).arg("--socket").arg(dir.path().join("berth.sock"));
        command.arg("--state-dir").arg(dir.path().join("state"));
        command.arg("--spiderpool-socket").arg(dir.path().join("spiderpool.sock"));
        let agent = command.env("BERTH_LOG_LEVEL", "warn").stdin(Stdio::null()).spawn()?;
        let own = Self { plane, dir, agent };
        for _ in 0..600 {
            if ask(&own.socket(), "GET", "/ipam/healthy", &Value::Null).is_ok() {
                return Ok(own);
            }
            thread::sleep(Duration::from_millis(100));
        }
        bail!("the agent does not answer")
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("spiderpool.sock")
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.agent.kill();
        let _ = self.agent.wait();
    }
}
