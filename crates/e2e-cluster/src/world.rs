//! The API server with Berth's kinds, and the nodes and pods in it.

use crate::agent::Agent;
use crate::controller::Controller;
use berth_cluster::{ControlPlane, Options, or_skip};
use berth_e2e::{Instead, binaries, succeed};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The agent's own account, as it is installed.
const NAMESPACE: &str = include_str!("../../../deploy/kubernetes/namespace.yaml");
const RBAC: &str = include_str!("../../../deploy/kubernetes/agent-rbac.yaml");
const CONTROLLER_RBAC: &str = include_str!("../../../deploy/kubernetes/controller-rbac.yaml");
const POLICY: &str = include_str!("../../../deploy/kubernetes/agent-policy.yaml");

/// The controllers of Kubernetes that a world with them has.
const CONTROLLERS: &str = "--controllers=serviceaccount-controller,serviceaccount-token-controller,\
    namespace-controller,garbage-collector-controller,deployment-controller,replicaset-controller,\
    statefulset-controller,daemonset-controller,job-controller,cronjob-controller";

/// A cluster without kubelets: nodes and pods are objects, and the test plays the runtime.
pub struct World {
    /// The API server.
    pub plane: ControlPlane,
    /// Where files of agents go: inside the directory of the control plane, which is swept when its owner is gone.
    dir: PathBuf,
}

/// A pod that exists.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The node it is bound to.
    pub node: String,
}

impl World {
    /// An API server with Berth's kinds and the agent's account; `None` if there can be none here, which is said.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start() -> Option<Self> {
        Self::start_with(&Options { controllers: false, ..Options::default() })
    }

    /// The same with the controllers and the scheduler of Kubernetes, so that Deployments and their like have pods.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start_with_controllers() -> Option<Self> {
        let flags = |flags: &[&str]| flags.iter().map(|&flag| flag.to_owned()).collect();
        Self::start_with(&Options {
            address: None,
            controllers: true,
            scheduler: true,
            // Pods that nobody runs need no account, and their namespaces are used the moment they are made.
            apiserver_flags: flags(&["--disable-admission-plugins=ServiceAccount"]),
            // What makes and ends pods, and no more: above all nobody who takes a node for dead on a busy machine.
            controller_manager_flags: flags(&[CONTROLLERS, "--kube-api-qps=400", "--kube-api-burst=800"]),
            scheduler_flags: flags(&["--kube-api-qps=400", "--kube-api-burst=800"]),
        })
    }

    fn start_with(options: &Options) -> Option<Self> {
        let plane = or_skip(ControlPlane::start(options))?;
        let crds = succeed(Command::new(binaries::berth()).arg("crds"));
        plane.apply(&crds).unwrap();
        plane.kubectl_ok(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"]).unwrap();
        plane.apply(NAMESPACE).unwrap();
        plane.apply(RBAC).unwrap();
        plane.apply(POLICY).unwrap();
        plane.apply(CONTROLLER_RBAC).unwrap();
        // Without a controller manager nobody makes the account that every pod of a namespace has.
        plane.apply("{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: default}}").unwrap();
        let dir = plane.dir().join("world");
        std::fs::create_dir(&dir).unwrap();
        Some(Self { plane, dir })
    }

    /// The one world of this test program, which all its tests share, each in its [corner](crate::Corner). It ends with
    /// the program.
    #[must_use]
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<World>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// Applies a manifest.
    ///
    /// # Panics
    /// If the server refuses it.
    #[track_caller]
    pub fn apply(&self, yaml: &str) {
        self.plane.apply(yaml).unwrap();
    }

    /// Makes a pool.
    ///
    /// # Panics
    /// If the server refuses it.
    #[track_caller]
    pub fn pool(&self, name: &str, spec: &Value) {
        let pool =
            json!({"apiVersion": "berth.io/v1alpha1", "kind": "IPPool", "metadata": {"name": name}, "spec": spec});
        self.apply(&pool.to_string());
    }

    /// Makes nodes.
    ///
    /// # Panics
    /// If the server refuses them.
    pub fn nodes(&self, names: &[&str]) {
        let node = |name: &&str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        self.list(&names.iter().map(node).collect::<Vec<_>>());
    }

    /// Says of a node whether it is ready: `True`, `False` or `Unknown`, as its kubelet or the lack of it would.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn node_is(&self, name: &str, ready: &str) {
        let patch = json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}}).to_string();
        self.plane.kubectl_ok(&["patch", "node", name, "--subresource=status", "--type=merge", "-p", &patch]).unwrap();
    }

    /// A controller, with the rights it has when it is installed.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn controller(&self, replica: &str, args: &[&str]) -> Controller {
        self.controller_seeing(replica, args, &[])
    }

    /// The same, which sees files in the place of others.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn controller_seeing(&self, replica: &str, args: &[&str], files: &[Instead]) -> Controller {
        let kubeconfig = self.plane.kubeconfig_for_service_account("berth-system", "berth-controller", None).unwrap();
        Controller::start(replica, &kubeconfig, (&self.dir, files), args)
    }

    /// One field of an object, as `kubectl -o jsonpath` prints it.
    ///
    /// # Panics
    /// If there is no such object.
    #[track_caller]
    #[must_use]
    pub fn field(&self, object: &str, path: &str) -> String {
        self.plane.kubectl_ok(&["get", object, "--ignore-not-found", "-o", &format!("jsonpath={{{path}}}")]).unwrap()
    }

    fn list(&self, items: &[Value]) {
        self.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string());
    }

    /// Makes pods of the namespace `default` on a node, and reads their UIDs.
    ///
    /// # Panics
    /// If the server refuses them.
    #[must_use]
    pub fn pods(&self, node: &str, names: &[String], annotations: &Value) -> Vec<Pod> {
        self.make_pods(node, names, &json!({"annotations": annotations}))
    }

    /// Makes one pod of a ReplicaSet, as a Deployment of that name makes it.
    ///
    /// # Panics
    /// If the server refuses it.
    #[must_use]
    pub fn pod_of(&self, node: &str, deployment: &str, number: u32, annotations: &Value) -> Pod {
        let (name, uid) = (format!("{deployment}-5d4f"), format!("uid-of-{deployment}"));
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": uid, "controller": true});
        let labels = json!({"pod-template-hash": "5d4f"});
        let metadata = json!({"annotations": annotations, "labels": labels, "ownerReferences": [owner]});
        self.make_pods(node, &[format!("{name}-x{number}")], &metadata).remove(0)
    }

    fn make_pods(&self, node: &str, names: &[String], metadata: &Value) -> Vec<Pod> {
        let pod = |name: &String| {
            let mut metadata = metadata.clone();
            metadata["name"] = json!(name);
            metadata["namespace"] = json!("default");
            json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": metadata,
                "spec": {"nodeName": node, "containers": [{"name": "c", "image": "none"}]},
            })
        };
        self.list(&names.iter().map(pod).collect::<Vec<_>>());
        let path = "jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{'\\n'}{end}";
        let selector = format!("--field-selector=spec.nodeName={node}");
        let listed = self.plane.kubectl_ok(&["get", "pods", &selector, "-o", path]).unwrap();
        let uid = |name: &String| {
            let of = |line: &str| line.split_once(' ').filter(|(own, _)| own == name).map(|(_, uid)| uid.to_owned());
            listed.lines().find_map(of).unwrap_or_else(|| panic!("pod {name} is not there: {listed}"))
        };
        let pods = names.iter().map(|name| Pod {
            namespace: "default".to_owned(),
            name: name.clone(),
            uid: uid(name),
            node: node.to_owned(),
        });
        pods.collect()
    }

    /// Makes one pod.
    ///
    /// # Panics
    /// If the server refuses it.
    #[must_use]
    pub fn pod(&self, node: &str, name: &str, annotations: &Value) -> Pod {
        self.pods(node, &[name.to_owned()], annotations).remove(0)
    }

    /// Makes one pod with this metadata.
    ///
    /// # Panics
    /// If the server refuses it.
    #[must_use]
    pub fn make_pod(&self, node: &str, name: &str, metadata: &Value) -> Pod {
        self.make_pods(node, &[name.to_owned()], metadata).remove(0)
    }

    /// Deletes a pod at once.
    ///
    /// # Panics
    /// If that fails.
    pub fn delete_pod(&self, pod: &Pod) {
        let args = ["delete", "pod", &pod.name, "-n", &pod.namespace, "--force", "--grace-period=0"];
        self.plane.kubectl_ok(&args).unwrap();
    }

    /// The agent of a node, with the rights it has when it is installed.
    ///
    /// # Panics
    /// If it does not come up.
    #[must_use]
    pub fn agent(&self, node: &str) -> Agent {
        self.agent_with(node, &[])
    }

    /// The same with more arguments.
    ///
    /// # Panics
    /// If it does not come up.
    #[must_use]
    pub fn agent_with(&self, node: &str, arguments: &[&str]) -> Agent {
        let kubeconfig = self.plane.kubeconfig_for_service_account("berth-system", "berth-agent", Some(node)).unwrap();
        let agent = Agent::new(node, &kubeconfig, &self.dir.join(node)).with(arguments, json!({}));
        agent.start();
        agent
    }

    /// A file with this text, for a process to read; its path.
    ///
    /// # Panics
    /// If it cannot be written.
    #[must_use]
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.dir.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    }

    /// Where files of agents go.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The blocks as the API server has them: name and how many addresses are in use.
    ///
    /// # Panics
    /// If they cannot be listed.
    #[must_use]
    pub fn blocks(&self) -> Vec<(String, u64)> {
        let list = self.plane.kubectl_ok(&["get", "ipblocks", "-o", "json"]).unwrap();
        let list: Value = serde_json::from_str(&list).unwrap();
        let row = |item: &Value| {
            let name = item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            (name, item["spec"]["used"].as_u64().unwrap_or_default())
        };
        list["items"].as_array().unwrap().iter().map(row).collect()
    }

    /// Checks that blocks and pods tell the same story.
    ///
    /// # Panics
    /// With what `berth check` found.
    #[track_caller]
    pub fn check(&self) {
        succeed(Command::new(binaries::berth()).args(["check", "--kubeconfig"]).arg(self.plane.kubeconfig()));
    }

    /// How many addresses are in use; leases and the tickets of quotas are none.
    #[must_use]
    pub fn used(&self) -> u64 {
        let is_address = |name: &str| !name.contains("--2fleases") && !name.starts_with("quota--2f");
        self.blocks().iter().filter(|(name, _)| is_address(name)).map(|(_, used)| used).sum()
    }
}
