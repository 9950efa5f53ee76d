//! What runs in a [case](Case): workloads of every kind that Kubernetes has, and their pods.

use crate::case::{Case, Seen};
use crate::world::Pod;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::net::IpAddr;

/// The kinds of workloads that Kubernetes has.
pub const KINDS: [&str; 6] = ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob"];

/// The API version of a kind of workload.
#[must_use]
pub fn version_of(kind: &str) -> &'static str {
    if kind.ends_with("Job") { "batch/v1" } else { "apps/v1" }
}

impl Case<'_> {
    /// What the pods of a workload are made from: bound to the nodes of this case.
    #[must_use]
    pub fn template(&self, app: &str, annotations: &Value) -> Value {
        json!({
            "metadata": {"labels": {"app": app}, "annotations": annotations},
            "spec": {
                "nodeSelector": {"case": self.namespace}, "terminationGracePeriodSeconds": 5,
                "containers": [{"name": "c", "image": "none"}],
            },
        })
    }

    /// A workload, as it is applied.
    #[must_use]
    pub fn workload(&self, kind: &str, name: &str, replicas: u32, annotations: &Value) -> Value {
        let mut template = self.template(name, annotations);
        let selector = json!({"matchLabels": {"app": name}});
        let job = |mut template: Value| {
            template["spec"]["restartPolicy"] = json!("Never");
            json!({"completions": replicas, "parallelism": replicas, "backoffLimit": 0, "template": template})
        };
        let spec = match kind {
            "Deployment" => {
                let strategy = json!({"rollingUpdate": {"maxSurge": 1}});
                json!({"replicas": replicas, "selector": selector, "template": template, "strategy": strategy})
            }
            "StatefulSet" => json!({"replicas": replicas, "selector": selector, "template": template,
                "serviceName": name, "podManagementPolicy": "Parallel"}),
            "DaemonSet" => json!({"selector": selector, "template": template}),
            "Job" => job(template),
            // It never runs by itself: on the thirtieth of February.
            "CronJob" => json!({"schedule": "0 0 30 2 *", "jobTemplate": {"spec": job(template.take())}}),
            _ => json!({"replicas": replicas, "selector": selector, "template": template}),
        };
        let metadata = json!({"name": name, "namespace": self.namespace});
        json!({"apiVersion": version_of(kind), "kind": kind, "metadata": metadata, "spec": spec})
    }

    /// Makes or changes a workload.
    ///
    /// # Panics
    /// If the server refuses it.
    #[track_caller]
    pub fn run(&self, kind: &str, name: &str, replicas: u32, annotations: &Value) -> Value {
        self.apply(&self.workload(kind, name, replicas, annotations))
    }

    /// Says how many pods a workload shall have.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn scale(&self, kind: &str, name: &str, replicas: u32) {
        let patch = json!({"spec": {"replicas": replicas}});
        let api = self.api(version_of(kind), kind, Some(&self.namespace));
        self.wait(api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)));
    }

    /// Deletes a workload and, by and by, its pods.
    ///
    /// # Panics
    /// If the server refuses it.
    #[track_caller]
    pub fn remove(&self, kind: &str, name: &str) {
        self.try_delete(version_of(kind), kind, Some(&self.namespace), name).unwrap();
    }

    /// Waits until an application has exactly this many pods, all of which run.
    ///
    /// # Panics
    /// If that does not happen, with how things stand.
    #[track_caller]
    pub fn until_running(&self, app: &str, count: usize) -> Vec<Seen> {
        let mut pods = Vec::new();
        let all_run = |pods: &[Seen]| pods.iter().all(|seen| seen.phase == "Running" && !seen.ending);
        self.until_or(
            || format!("{count} pods of {app} to run: {:?}", self.standing(app)),
            || {
                pods = self.pods_of(&self.namespace, Some(app));
                pods.len() == count && all_run(&pods)
            },
        );
        pods
    }

    /// Waits until an application has no pods.
    ///
    /// # Panics
    /// If that does not happen, with how things stand.
    #[track_caller]
    pub fn until_gone(&self, app: &str) {
        let gone = || self.pods_of(&self.namespace, Some(app)).is_empty();
        self.until_or(|| format!("the pods of {app} to go: {:?}", self.standing(app)), gone);
    }

    /// How things stand with the pods of an application, for people.
    fn standing(&self, app: &str) -> Vec<String> {
        let line = |seen: &Seen| {
            let refusal = self.stage.kubelets.refusal(&seen.pod.uid).unwrap_or_default();
            format!("{} {} {:?} ending {} {refusal}", seen.pod.name, seen.phase, seen.addresses, seen.ending)
        };
        self.pods_of(&self.namespace, Some(app)).iter().map(line).collect()
    }

    /// Waits until a pod runs; its addresses.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn running(&self, pod: &Pod) -> Vec<IpAddr> {
        let mut addresses = Vec::new();
        self.until_or(
            || format!("{} to run: {:?}", pod.name, self.stage.kubelets.refusal(&pod.uid)),
            || {
                addresses = self.running_now(pod);
                !addresses.is_empty()
            },
        );
        addresses
    }

    /// The addresses of a pod, if it runs.
    ///
    /// # Panics
    /// If the server cannot be asked.
    #[must_use]
    pub fn running_now(&self, pod: &Pod) -> Vec<IpAddr> {
        let seen = self.pods_of(&pod.namespace, None).into_iter().find(|seen| seen.pod.uid == pod.uid);
        seen.filter(|seen| seen.phase == "Running").map(|seen| seen.addresses).unwrap_or_default()
    }

    /// Waits until a pod is refused its addresses in these words.
    ///
    /// # Panics
    /// If it is not.
    #[track_caller]
    pub fn refused(&self, pod: &Pod, words: &str) {
        let words = self.here(words);
        let refusal = || self.stage.kubelets.refusal(&pod.uid).unwrap_or_default();
        self.until_or(|| format!("{words:?} about {}, not {}", pod.name, refusal()), || refusal().contains(&words));
    }

    /// Deletes a pod, as a person does: its kubelet ends it.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn end_pod(&self, pod: &Pod) {
        self.try_delete("v1", "Pod", Some(&pod.namespace), &pod.name).unwrap();
    }
}
