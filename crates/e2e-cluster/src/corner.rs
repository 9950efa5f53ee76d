//! A part of a world for one test, so that tests can share an API server: nodes, pools and addresses that no other test
//! has. `N` in a range is the corner's number: `10.N.0.0/24`.

use crate::agent::Agent;
use crate::world::{Pod, World};
use berth_e2e::{binaries, run};
use hyper::Request;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::future::Future;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// How long things are waited for that take a second or two on a machine that has nothing else to do.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long the API server is left alone between two questions.
const BETWEEN: Duration = Duration::from_millis(100);

/// A part of a world.
pub struct Corner<'w> {
    /// The world it is in.
    pub world: &'w World,
    pub(crate) number: u8,
    pub(crate) client: Client,
    pub(crate) runtime: Runtime,
}

/// A client of the administrator, on the runtime that it is made on.
pub(crate) async fn administrator(kubeconfig: &Path) -> Client {
    let file = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

impl<'w> Corner<'w> {
    /// A new corner of a world.
    ///
    /// # Panics
    /// If the API server cannot be reached.
    #[must_use]
    pub fn of(world: &'w World) -> Self {
        static NUMBERS: AtomicU8 = AtomicU8::new(1);
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("corner").enable_all().build().unwrap();
        let client = runtime.block_on(administrator(&world.plane.kubeconfig()));
        Self { world, number: NUMBERS.fetch_add(1, Ordering::SeqCst), client, runtime }
    }

    pub(crate) fn wait<T>(&self, call: impl Future<Output = kube::Result<T>>) -> T {
        self.runtime.block_on(call).unwrap()
    }

    fn api(&self, group: &str, kind: &str, plural: &str, namespaced: bool) -> Api<DynamicObject> {
        let version = if group.is_empty() { "v1" } else { "v1alpha1" };
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        match namespaced {
            true => Api::namespaced_with(self.client.clone(), "default", &resource),
            false => Api::all_with(self.client.clone(), &resource),
        }
    }

    fn blocks(&self) -> Api<DynamicObject> {
        self.api("berth.io", "IPBlock", "ipblocks", false)
    }

    fn create(&self, api: &Api<DynamicObject>, object: Value) -> DynamicObject {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.wait(api.create(&Default::default(), &object))
    }

    /// A text with the corner's number for `N`.
    #[must_use]
    pub fn here(&self, text: &str) -> String {
        text.replace('N', &self.number.to_string())
    }

    /// The name of something in this corner.
    #[must_use]
    pub fn name(&self, name: &str) -> String {
        format!("c{}-{name}", self.number)
    }

    /// Makes or changes a pool.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn pool(&self, name: &str, spec: &Value) {
        let spec: Value = serde_json::from_str(&self.here(&spec.to_string())).unwrap();
        let pool = json!({
            "apiVersion": "berth.io/v1alpha1", "kind": "IPPool", "metadata": {"name": self.name(name)}, "spec": spec,
        });
        let api = self.api("berth.io", "IPPool", "ippools", false);
        self.wait(api.patch(&self.name(name), &PatchParams::apply("test").force(), &Patch::Apply(&pool)));
    }

    /// Makes a claim on an address of a pool.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn claim(&self, name: &str, pool: &str) {
        let claim = json!({
            "apiVersion": "berth.io/v1alpha1", "kind": "IPClaim", "metadata": {"name": self.name(name)},
            "spec": {"pools": [self.name(pool)]},
        });
        self.create(&self.api("berth.io", "IPClaim", "ipclaims", true), claim);
    }

    /// The agent of a new node, not started, whose pods get addresses of a pool.
    ///
    /// # Panics
    /// If the node cannot be made.
    #[must_use]
    pub fn quiet_agent(&self, node: &str, pool: &str, arguments: &[&str]) -> Agent {
        let node = self.name(node);
        let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}});
        let made = self.create(&self.api("", "Node", "nodes", false), object);
        let kubeconfig = self.kubeconfig(&node, &made.metadata.uid.unwrap());
        let agent = Agent::new(&node, &kubeconfig, &self.world.dir().join(&node));
        agent.with(arguments, json!({"pools": [self.name(pool)]})).behind_proxy()
    }

    /// The agent's account with a token of a node, as the agent's pod has it there. Quicker than with kubectl.
    pub(crate) fn kubeconfig(&self, node: &str, uid: &str) -> PathBuf {
        let bound = json!({"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid});
        let wanted = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"audiences": [], "boundObjectRef": bound},
        });
        let path = "/api/v1/namespaces/berth-system/serviceaccounts/berth-agent/token";
        let request = Request::post(path).header("content-type", "application/json");
        let answer: Value = self.wait(self.client.request(request.body(wanted.to_string().into_bytes()).unwrap()));
        let plane = &self.world.plane;
        let cluster = json!({"server": plane.url(), "certificate-authority": plane.certificate_authority()});
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "c", "user": {"token": answer["status"]["token"]}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        });
        let file = self.world.dir().join(format!("{node}.kubeconfig"));
        std::fs::write(&file, config.to_string()).unwrap();
        file
    }

    /// The running agent of a new node, behind a proxy, whose pods get addresses of a pool.
    #[must_use]
    pub fn agent(&self, node: &str, pool: &str) -> Agent {
        let agent = self.quiet_agent(node, pool, &[]);
        agent.start();
        agent
    }

    /// Makes pods on the node of an agent.
    #[must_use]
    pub fn pods(&self, agent: &Agent, name: &str, count: usize) -> Vec<Pod> {
        (0..count).map(|i| self.pod(agent, &format!("{name}-{i}"), &json!({}))).collect()
    }

    /// Makes a pod on the node of an agent.
    ///
    /// # Panics
    /// If the server refuses it.
    #[must_use]
    pub fn pod(&self, agent: &Agent, name: &str, annotations: &Value) -> Pod {
        let name = self.name(name);
        let pod = self.create(
            &self.api("", "Pod", "pods", true),
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "labels": {"corner": self.number.to_string()}, "annotations": annotations},
                "spec": {"nodeName": agent.node(), "containers": [{"name": "c", "image": "none"}]},
            }),
        );
        let uid = pod.metadata.uid.unwrap();
        Pod { namespace: "default".to_owned(), name, uid, node: agent.node().to_owned() }
    }

    /// Deletes a pod at once.
    ///
    /// # Panics
    /// If that fails.
    pub fn delete_pod(&self, pod: &Pod) {
        let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        let _ = self.wait(self.api("", "Pod", "pods", true).delete(&pod.name, &at_once));
    }

    /// Tells the server what a kubelet would: that a pod is in a phase, and has these addresses.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn pod_status(&self, pod: &Pod, phase: &str, addresses: &[IpAddr]) {
        let ips: Vec<Value> = addresses.iter().map(|address| json!({"ip": address})).collect();
        let status = json!({"status": {"phase": phase, "podIP": addresses.first(), "podIPs": ips}});
        let api = self.api("", "Pod", "pods", true);
        self.wait(api.patch_status(&pod.name, &PatchParams::default(), &Patch::Merge(&status)));
    }

    /// The blocks of this corner whose names begin like this.
    fn own_blocks(&self, start: &str) -> Vec<DynamicObject> {
        let start = format!("{start}10-{}-", self.number);
        let own = |block: &DynamicObject| block.metadata.name.as_ref().is_some_and(|name| name.starts_with(&start));
        self.wait(self.blocks().list(&ListParams::default())).items.into_iter().filter(own).collect()
    }

    /// The objects of the blocks with addresses of this corner.
    #[must_use]
    pub fn block_objects(&self) -> Vec<DynamicObject> {
        self.own_blocks("default.")
    }

    /// The objects of the blocks of leases of this corner.
    #[must_use]
    pub fn lease_objects(&self) -> Vec<DynamicObject> {
        self.own_blocks("default--2fleases.")
    }

    /// Removes every block of this corner, whatever is in it.
    fn remove_blocks(&self) {
        for block in self.block_objects().into_iter().chain(self.lease_objects()) {
            let name = block.metadata.name.unwrap_or_default();
            // Somebody may have been quicker.
            let _ = self.runtime.block_on(self.blocks().delete(&name, &DeleteParams::default()));
        }
    }

    /// Puts blocks back as they were, whatever happened since: an old backup is restored.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn restore(&self, blocks: &[DynamicObject], leases: &[DynamicObject]) {
        self.remove_blocks();
        for block in blocks.iter().chain(leases) {
            let mut block = block.clone();
            (block.metadata.resource_version, block.metadata.uid, block.metadata.managed_fields) = (None, None, None);
            self.wait(self.blocks().create(&Default::default(), &block));
        }
    }

    /// Says in another node's name that it needs addresses of the leases of this corner.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn want_leases(&self) {
        let wanted = json!({"metadata": {"annotations": {"berth.io/wanted-by": "somebody"}}});
        for block in self.lease_objects() {
            let name = block.metadata.name.unwrap();
            self.wait(self.blocks().patch(&name, &PatchParams::default(), &Patch::Merge(&wanted)));
        }
    }

    /// How many addresses are in use, kept or set apart, as the API server has it.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.block_objects().iter().map(|block| block.data["spec"]["used"].as_u64().unwrap_or_default()).sum()
    }

    /// Waits until so many addresses are in use.
    ///
    /// # Panics
    /// If that does not happen.
    #[track_caller]
    pub fn until_used(&self, count: u64) {
        let mut last = 0;
        let since = Instant::now();
        while since.elapsed() < PATIENCE {
            last = self.used();
            if last == count {
                return;
            }
            std::thread::sleep(BETWEEN);
        }
        panic!("{last} addresses are in use, not {count}");
    }

    /// Waits for something that the API server is asked for: not too often.
    ///
    /// # Panics
    /// If it does not happen.
    #[track_caller]
    pub fn until(&self, what: &str, done: impl FnMut() -> bool) {
        self.until_or(|| what.to_owned(), done);
    }

    /// The same; what was waited for is told by somebody who looks at how things stand then.
    ///
    /// # Panics
    /// If it does not happen.
    #[track_caller]
    pub fn until_or(&self, what: impl Fn() -> String, mut done: impl FnMut() -> bool) {
        let since = Instant::now();
        while !done() {
            assert!(since.elapsed() < PATIENCE, "waited {PATIENCE:?} for {}", what());
            std::thread::sleep(BETWEEN);
        }
    }

    /// What `berth check` finds in this corner.
    ///
    /// # Panics
    /// If it cannot look.
    #[must_use]
    pub fn findings(&self) -> Vec<String> {
        let mut report = Value::Null;
        // On a machine with much else to do the server may be too slow for it; then it says nothing on stdout.
        self.until("`berth check` to be answered", || {
            let mut command = Command::new(binaries::berth());
            command.args(["check", "-o", "json", "--kubeconfig"]).arg(self.world.plane.kubeconfig());
            report = serde_json::from_slice(&run(&mut command).stdout).unwrap_or_default();
            report["findings"].is_array()
        });
        let findings = report["findings"].as_array().cloned().unwrap_or_default();
        let own = format!("10.{}.", self.number);
        let text = |finding: Value| format!("{}: {}", finding["object"], finding["message"]).replace('"', "");
        findings.into_iter().map(text).filter(|finding| finding.starts_with(&own)).collect()
    }

    /// Checks that blocks and pods tell the same story.
    ///
    /// # Panics
    /// With what was found.
    #[track_caller]
    pub fn check(&self) {
        assert_eq!(self.findings(), Vec::<String>::new());
    }
}

impl Drop for Corner<'_> {
    /// Leaves nothing that would make the lists of others longer.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        let own = ListParams::default().labels(&format!("corner={}", self.number));
        let _ = self.runtime.block_on(self.api("", "Pod", "pods", true).delete_collection(&at_once, &own));
        self.remove_blocks();
    }
}

/// Remembers who has which address, as a network would.
#[derive(Debug, Default)]
pub struct Live(BTreeMap<IpAddr, String>);

impl Live {
    /// A container has an address now.
    ///
    /// # Panics
    /// If another has it.
    #[track_caller]
    pub fn takes(&mut self, address: IpAddr, container: &str) {
        if let Some(other) = self.0.insert(address, container.to_owned()) {
            assert_eq!(other, container, "{address} is in use twice");
        }
    }

    /// Who has an address.
    pub(crate) fn holder(&self, address: IpAddr) -> Option<&str> {
        self.0.get(&address).map(String::as_str)
    }

    /// A container has an address now, whoever had it.
    pub(crate) fn put(&mut self, address: IpAddr, container: &str) {
        self.0.insert(address, container.to_owned());
    }

    /// A container is gone.
    pub fn leaves(&mut self, container: &str) {
        self.0.retain(|_, other| other != container);
    }
}
