//! The control plane, the nodes and pods in it, and the agents.

use anyhow::{Context, Result, anyhow, bail, ensure};
use berth_agent::AgentOptions;
use berth_cluster::{ControlPlane, Options};
use berth_core::block::State;
use berth_core::holder::Kind;
use berth_dialects::crd;
use berth_kube::blocks::Blocks;
use berth_kube::{Cluster, Connect};
use berth_server::LogFormat;
use berth_wire::protocol::{Op, Request, Response, StatusRequest, read_frame, write_frame};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod as ApiPod;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::BufReader;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const NAMESPACE: &str = include_str!("../../../deploy/kubernetes/namespace.yaml");
const RBAC: &str = include_str!("../../../deploy/kubernetes/agent-rbac.yaml");
const POLICY: &str = include_str!("../../../deploy/kubernetes/agent-policy.yaml");
/// Long enough for anything that comes to pass at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// A pod that exists.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// A node, its pods and its agent.
pub(crate) struct Node {
    pub(crate) socket: PathBuf,
    pub(crate) pods: Vec<Pod>,
    agent: JoinHandle<Result<()>>,
}

/// A cluster without kubelets.
pub(crate) struct World {
    pub(crate) nodes: Vec<Node>,
    pub(crate) plane: ControlPlane,
    stop: Arc<AtomicBool>,
    admin: Cluster,
    _dir: TempDir,
}

impl World {
    /// Starts everything: so many nodes with so many pods each.
    pub(crate) fn start(nodes: usize, pods: usize) -> Result<Self> {
        let began = Instant::now();
        let plane = ControlPlane::start(&Options::default())?;
        plane.apply(&crd::yaml(crd::kinds())?)?;
        plane.kubectl_ok(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"])?;
        plane.apply(NAMESPACE)?;
        plane.apply(RBAC)?;
        plane.apply(POLICY)?;
        // Without a controller manager nobody makes the account that every pod of a namespace has.
        plane.apply("{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: default}}")?;
        let names: Vec<String> = (0..nodes).map(|n| format!("node-{n:02}")).collect();
        let node = |name: &String| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        let items: Vec<Value> = names.iter().map(node).collect();
        plane.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())?;
        let admin = Cluster::connect(&Connect { kubeconfig: Some(plane.kubeconfig()), server: None })?;
        let (dir, stop) = (TempDir::new()?, Arc::new(AtomicBool::new(false)));
        let mut all = Vec::new();
        for name in &names {
            let pods = make_pods(&admin, name, pods)?;
            let kubeconfig = plane.kubeconfig_for_service_account("berth-system", "berth-agent", Some(name))?;
            let options = AgentOptions {
                node_name: name.clone(),
                connect: Connect { kubeconfig: Some(kubeconfig), server: None },
                socket: dir.path().join(name).join("run/berth.sock"),
                state_dir: dir.path().join(name).join("state"),
                listen: None,
                missing_for: None,
                empty_for: None,
                idle_lease_for: None,
                write_block_every: None,
                promise_for: None,
                spiderpool_socket: None,
                spiderpool: Default::default(),
                log_format: LogFormat::Text,
                log_level: String::new(),
            };
            let (socket, stop) = (options.socket.clone(), stop.clone());
            let agent = thread::Builder::new().name(name.clone());
            let agent = agent.spawn(move || berth_agent::serve(&options, &stop))?;
            all.push(Node { socket, pods, agent });
        }
        let world = Self { nodes: all, plane, stop, admin, _dir: dir };
        eprintln!("{nodes} agents and {} pods after {:.1} s", nodes * pods, began.elapsed().as_secs_f64());
        Ok(world)
    }

    /// Makes a pool, and waits until every agent knows it.
    pub(crate) fn pool(&self, name: &str, spec: &Value) -> Result<()> {
        let pool =
            json!({"apiVersion": "berth.io/v1alpha1", "kind": "IPPool", "metadata": {"name": name}, "spec": spec});
        self.plane.apply(&pool.to_string())?;
        for node in &self.nodes {
            let wanted = StatusRequest { pools: vec![name.to_owned()], ..StatusRequest::default() };
            let deadline = Instant::now() + PATIENCE;
            loop {
                let error = match node.ask(Op::Status(wanted.clone())) {
                    Ok(Response::Error(error)) => anyhow!("{error:?}"),
                    Ok(_) => break,
                    Err(error) => error,
                };
                ensure!(
                    Instant::now() < deadline,
                    "pool {name} does not come up at {}: {error}",
                    node.socket.display()
                );
                thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// The addresses that containers hold, as the API server has it.
    pub(crate) fn used(&self) -> Result<BTreeSet<IpAddr>> {
        let blocks = Blocks::new(self.admin.client().clone(), "bench");
        let mut used = BTreeSet::new();
        for (key, block, _) in self.admin.wait(blocks.list(None))? {
            let active = block.slots().filter(|(_, view)| view.state == State::Active);
            let held = active.filter(|(_, view)| view.kind() == Some(Kind::Container));
            used.extend(held.map(|(slot, _)| key.plane.addr(key.unit(slot))));
        }
        Ok(used)
    }

    /// Waits until the API server has just these addresses in use.
    pub(crate) fn settled(&self, held: &BTreeSet<IpAddr>) -> Result<Duration> {
        let began = Instant::now();
        loop {
            let used = self.used();
            if used.as_ref().is_ok_and(|used| used == held) {
                return Ok(began.elapsed());
            }
            if began.elapsed() > PATIENCE {
                let used = used?;
                let (lost, left) = (held.difference(&used).count(), used.difference(held).count());
                bail!("{lost} of {} held addresses are not in the API server, {left} others are", held.len());
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Ends the agents as a node does.
    pub(crate) fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::SeqCst);
        for node in self.nodes {
            node.agent.join().map_err(|_| anyhow!("an agent panicked"))??;
        }
        Ok(())
    }
}

impl Node {
    pub(crate) fn connect(&self) -> Result<BufReader<UnixStream>> {
        let connected = UnixStream::connect(&self.socket);
        connected.map(BufReader::new).with_context(|| format!("cannot reach {}", self.socket.display()))
    }

    fn ask(&self, op: Op) -> Result<Response> {
        ask(&mut self.connect()?, op)
    }
}

/// One request and its answer.
pub(crate) fn ask(stream: &mut BufReader<UnixStream>, op: Op) -> Result<Response> {
    write_frame(stream.get_mut(), &Request::new(berth_wire::boot::stamp(), op))?;
    Ok(read_frame(stream)?)
}

/// Makes the pods of a node, many at a time.
fn make_pods(admin: &Cluster, node: &str, count: usize) -> Result<Vec<Pod>> {
    let api: Api<ApiPod> = Api::namespaced(admin.client().clone(), "default");
    let mut pods = Vec::with_capacity(count);
    // Not all at once: a call has only so long.
    for from in (0..count).step_by(200) {
        let one = |i: usize| {
            let pod = json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": format!("{node}-web-{i:04}"), "namespace": "default", "labels": {"app": "web"}},
                "spec": {"nodeName": node, "containers": [{"name": "c", "image": "none"}]},
            });
            let api = api.clone();
            async move {
                let pod = serde_json::from_value(pod).map_err(kube::Error::SerdeError)?;
                let made = api.create(&PostParams::default(), &pod).await?;
                let meta = made.metadata;
                Ok::<_, kube::Error>(Pod { name: meta.name.unwrap_or_default(), uid: meta.uid.unwrap_or_default() })
            }
        };
        let made = futures::stream::iter((from..count.min(from + 200)).map(one)).buffer_unordered(32);
        pods.extend(admin.wait(made.try_collect::<Vec<Pod>>()).with_context(|| format!("make pods on {node}"))?);
    }
    Ok(pods)
}
