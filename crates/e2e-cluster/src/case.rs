//! One case on a [stage](Stage): a [corner](Corner) with a namespace and nodes of its own, in which workloads run.

use crate::agent::Agent;
use crate::corner::Corner;
use crate::stage::Stage;
use crate::world::Pod;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
    PropagationPolicy,
};
use serde_json::{Value, json};
use std::future::Future;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

/// The kinds of Berth.
pub const BERTH: &str = "berth.io/v1alpha1";

/// One case: its own namespace, nodes, pools and addresses.
pub struct Case<'s> {
    /// The stage it is on.
    pub stage: &'s Stage,
    /// The namespace of its workloads.
    pub namespace: String,
    agents: Mutex<Vec<Arc<Agent>>>,
    corner: Corner<'s>,
}

impl<'s> Deref for Case<'s> {
    type Target = Corner<'s>;

    fn deref(&self) -> &Corner<'s> {
        &self.corner
    }
}

/// A pod as the server has it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Which.
    pub pod: Pod,
    /// Its phase.
    pub phase: String,
    /// Whether it is being deleted.
    pub ending: bool,
    /// What its kubelet says it has.
    pub addresses: Vec<IpAddr>,
}

impl Case<'static> {
    /// A case on the stage of this test program; `None` if there can be none here, which is said.
    #[must_use]
    pub fn begin() -> Option<Self> {
        Stage::shared().map(Case::on)
    }
}

impl<'s> Case<'s> {
    /// A case on a stage.
    ///
    /// # Panics
    /// If its namespace cannot be made.
    #[must_use]
    pub fn on(stage: &'s Stage) -> Self {
        let corner = Corner::of(&stage.world);
        let namespace = format!("c{}", corner.number);
        let case = Self { stage, namespace, agents: Mutex::default(), corner };
        case.make_namespace(&case.namespace, &json!({}));
        case
    }

    /// Makes another namespace.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn make_namespace(&self, name: &str, metadata: &Value) {
        let mut metadata = metadata.clone();
        metadata["name"] = json!(name);
        self.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}));
    }

    /// A new node that is ready, with an agent and a kubelet.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn node(&self, name: &str, labels: &Value) -> Arc<Agent> {
        let agent = self.node_without_kubelet(name, labels);
        self.stage.kubelets.join(&agent);
        agent
    }

    /// A new node that is ready, with an agent: the test itself calls the plugin.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn node_without_kubelet(&self, name: &str, labels: &Value) -> Arc<Agent> {
        let uid = self.node_object(name, labels);
        let name = self.name(name);
        let kubeconfig = self.kubeconfig(&name, &uid);
        let agent = Arc::new(Agent::new(&name, &kubeconfig, &self.world.dir().join(&name)));
        agent.start();
        self.agents.lock().unwrap().push(agent.clone());
        agent
    }

    /// A new node that is ready, and on which nobody does anything; its UID.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn node_object(&self, name: &str, labels: &Value) -> String {
        let name = self.name(name);
        let mut labels = labels.clone();
        labels["case"] = json!(self.namespace);
        // What the scheduler spreads pods by.
        labels["kubernetes.io/hostname"] = json!(name);
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
        let api = self.api("v1", "Node", None);
        let made = self.wait(api.create(&PostParams::default(), &serde_json::from_value(node).unwrap()));
        let room = json!({"cpu": "1000", "memory": "1000Gi", "pods": "5000"});
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}], "capacity": room, "allocatable": room}});
        self.wait(api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)));
        // It is ready: what a controller takes off that is not here.
        self.wait(api.patch(&name, &PatchParams::default(), &Patch::Merge(&json!({"spec": {"taints": null}}))));
        made.metadata.uid.unwrap()
    }

    /// Says of a node whether it is ready: `True`, `False` or `Unknown`.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn node_condition(&self, node: &str, ready: &str) {
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}});
        self.wait(self.api("v1", "Node", None).patch_status(node, &PatchParams::default(), &Patch::Merge(&status)));
    }

    /// Keeps new pods from a node.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn cordon(&self, node: &str) {
        let spec = json!({"spec": {"unschedulable": true}});
        self.wait(self.api("v1", "Node", None).patch(node, &PatchParams::default(), &Patch::Merge(&spec)));
    }

    /// Objects of a kind: in a namespace, or in none.
    #[must_use]
    pub fn api(&self, api_version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let plural = format!("{}s", kind.to_lowercase());
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), &plural);
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    fn api_of(&self, object: &Value) -> Api<DynamicObject> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (version, kind) = (text(&object["apiVersion"]).unwrap(), text(&object["kind"]).unwrap());
        self.api(&version, &kind, text(&object["metadata"]["namespace"]).as_deref())
    }

    /// Makes or changes an object, or says why the server does not.
    ///
    /// # Errors
    /// The server's words.
    ///
    /// # Panics
    /// If the server cannot be asked.
    pub fn try_apply(&self, object: &Value) -> Result<Value, String> {
        let name = object["metadata"]["name"].as_str().unwrap();
        let (api, force) = (self.api_of(object), PatchParams::apply("test").force());
        let mut answer = Err(String::new());
        self.until("the webhook to answer", || {
            answer = api.patch(name, &force, &Patch::Apply(object)).await_on(self);
            !matches!(&answer, Err(words) if words.contains("failed calling webhook"))
        });
        answer.map(|object| serde_json::to_value(object).unwrap())
    }

    /// Makes or changes an object.
    ///
    /// # Panics
    /// If the server refuses it.
    #[track_caller]
    pub fn apply(&self, object: &Value) -> Value {
        self.try_apply(object).unwrap()
    }

    /// Makes or changes an object of Berth, named and numbered for this corner, or says why not.
    ///
    /// # Errors
    /// The server's words.
    ///
    /// # Panics
    /// If the server cannot be asked.
    pub fn try_berth(&self, kind: &str, name: &str, spec: &Value) -> Result<Value, String> {
        let spec: Value = serde_json::from_str(&self.here(&spec.to_string())).unwrap();
        self.try_apply(&json!({"apiVersion": BERTH, "kind": kind, "metadata": {"name": self.name(name)}, "spec": spec}))
    }

    /// Makes or changes an object of Berth, named and numbered for this corner.
    ///
    /// # Panics
    /// If the server refuses it.
    #[track_caller]
    pub fn berth(&self, kind: &str, name: &str, spec: &Value) {
        self.try_berth(kind, name, spec).unwrap();
    }

    /// Makes or changes an object of Berth, which must be refused in these words.
    ///
    /// # Panics
    /// If it is not.
    #[track_caller]
    pub fn berth_refused(&self, kind: &str, name: &str, spec: &Value, words: &str) {
        let said = self.try_berth(kind, name, spec).unwrap_err();
        assert!(said.contains(&self.here(words)), "{words:?} is not in {said}");
    }

    /// An object of Berth of this corner, if it is there.
    #[must_use]
    pub fn get_berth(&self, kind: &str, name: &str) -> Option<Value> {
        self.get(BERTH, kind, None, &self.name(name))
    }

    /// An object, if it is there.
    ///
    /// # Panics
    /// If the server cannot be asked.
    #[must_use]
    pub fn get(&self, api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Option<Value> {
        let found = self.wait(self.api(api_version, kind, namespace).get_opt(name));
        found.map(|object| serde_json::to_value(object).unwrap())
    }

    /// All objects of Berth of a kind, of whatever corner.
    ///
    /// # Panics
    /// If the server cannot be asked.
    #[must_use]
    pub fn list_berth(&self, kind: &str) -> Vec<Value> {
        let list = self.wait(self.api(BERTH, kind, None).list(&ListParams::default()));
        list.items.into_iter().map(|object| serde_json::to_value(object).unwrap()).collect()
    }

    /// Writes nonsense into the status of an object of Berth.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn spoil_status(&self, kind: &str, name: &str, status: &Value) {
        let patch = json!({ "status": status });
        self.wait(self.api(BERTH, kind, None).patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)));
    }

    /// How many objects of a kind there are in the namespace of the case.
    ///
    /// # Errors
    /// The server's words.
    pub fn try_list(&self, api_version: &str, kind: &str) -> Result<usize, String> {
        let api = self.api(api_version, kind, Some(&self.namespace));
        api.list(&ListParams::default()).await_on(self).map(|list| list.items.len())
    }

    /// Deletes an object and, by and by, what belongs to it.
    ///
    /// # Errors
    /// The server's words.
    pub fn try_delete(&self, api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Result<(), String> {
        let all = DeleteParams { propagation_policy: Some(PropagationPolicy::Background), ..DeleteParams::default() };
        self.api(api_version, kind, namespace).delete(name, &all).await_on(self).map(drop)
    }

    /// Deletes an object of Berth of this corner.
    ///
    /// # Errors
    /// The server's words.
    pub fn delete_berth(&self, kind: &str, name: &str) -> Result<(), String> {
        self.try_delete(BERTH, kind, None, &self.name(name))
    }

    /// Makes a pod on a node.
    ///
    /// # Panics
    /// If the server refuses it.
    #[must_use]
    pub fn pod_on(&self, agent: &Agent, namespace: &str, name: &str, metadata: &Value) -> Pod {
        let (mut metadata, node) = (metadata.clone(), agent.node().to_owned());
        (metadata["name"], metadata["namespace"]) = (json!(name), json!(namespace));
        let spec = json!({"nodeName": node, "containers": [{"name": "c", "image": "none"}]});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        let made = self.wait(self.api_of(&pod).create(&PostParams::default(), &serde_json::from_value(pod).unwrap()));
        Pod { namespace: namespace.to_owned(), name: name.to_owned(), uid: made.metadata.uid.unwrap(), node }
    }

    /// Deletes a pod at once, whatever its containers do.
    ///
    /// # Panics
    /// If the server cannot be asked.
    pub fn force_delete(&self, pod: &Pod) {
        let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        // Somebody may have been quicker.
        let _ = self.api("v1", "Pod", Some(&pod.namespace)).delete(&pod.name, &at_once).await_on(self);
    }

    /// Pods of a namespace; of an application, if it is named.
    ///
    /// # Panics
    /// If the server cannot be asked.
    #[must_use]
    pub fn pods_of(&self, namespace: &str, app: Option<&str>) -> Vec<Seen> {
        let all = ListParams::default();
        let list = app.map_or(all.clone(), |app| all.labels(&format!("app={app}")));
        let seen = |object: DynamicObject| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let ips = object.data["status"]["podIPs"].as_array().into_iter().flatten();
            Seen {
                pod: Pod {
                    namespace: namespace.to_owned(),
                    name: object.metadata.name.unwrap_or_default(),
                    uid: object.metadata.uid.unwrap_or_default(),
                    node: text(&object.data["spec"]["nodeName"]),
                },
                phase: text(&object.data["status"]["phase"]),
                ending: object.metadata.deletion_timestamp.is_some(),
                addresses: ips.map(|ip| text(&ip["ip"]).parse().unwrap()).collect(),
            }
        };
        self.wait(self.api("v1", "Pod", Some(namespace)).list(&list)).items.into_iter().map(seen).collect()
    }

    /// Ends what is left of the case.
    fn end(&self) {
        for agent in self.agents.lock().unwrap().iter() {
            self.stage.kubelets.stop(agent.node());
        }
        let background =
            DeleteParams { propagation_policy: Some(PropagationPolicy::Background), ..DeleteParams::default() };
        for kind in ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob"] {
            let version = if kind.ends_with("Job") { "batch/v1" } else { "apps/v1" };
            let api = self.api(version, kind, Some(&self.namespace));
            let _ = self.runtime.block_on(api.delete_collection(&background, &ListParams::default()));
        }
        let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        let pods = self.api("v1", "Pod", Some(&self.namespace));
        let _ = self.runtime.block_on(pods.delete_collection(&at_once, &ListParams::default()));
    }
}

impl Drop for Case<'_> {
    /// Leaves little that others would have to look at.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end();
        }
    }
}

/// A call of the server that it may refuse.
trait AwaitOn<T> {
    fn await_on(self, case: &Case<'_>) -> Result<T, String>;
}

impl<T, F: Future<Output = kube::Result<T>>> AwaitOn<T> for F {
    fn await_on(self, case: &Case<'_>) -> Result<T, String> {
        match case.runtime.block_on(self) {
            Ok(answer) => Ok(answer),
            Err(kube::Error::Api(refusal)) => Err(refusal.message.clone()),
            Err(error) => panic!("{error}"),
        }
    }
}
