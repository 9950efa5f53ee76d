//! Deployments and StatefulSets of pods that sleep.

use crate::{Lab, Pod};
use berth_cluster::BUSYBOX;
use serde_json::{Value, json};
use std::time::Instant;

/// A workload that was applied.
pub struct Workload {
    kind: &'static str,
    name: &'static str,
}

fn manifest(kind: &str, name: &str, replicas: u8, annotations: &Value) -> Value {
    let labels = json!({"app": name});
    let spread = json!([{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }]);
    json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": {
                    // Not 0: then the API server forgets a pod before its kubelet hears of it.
                    "terminationGracePeriodSeconds": 1,
                    "dnsPolicy": "Default",
                    "topologySpreadConstraints": spread,
                    "containers": [{"name": "main", "image": BUSYBOX}],
                },
            },
        },
    })
}

impl Workload {
    /// A Deployment with addresses of these pools, all of it ready.
    ///
    /// # Panics
    /// If it does not become so.
    #[track_caller]
    #[must_use]
    pub fn deployment(lab: &Lab, name: &'static str, replicas: u8, pools: &str) -> Self {
        Self::deployment_with(lab, name, replicas, &json!({"berth.io/pools": pools}))
    }

    /// A Deployment of pods with these annotations, all of it ready.
    ///
    /// # Panics
    /// If it does not become so.
    #[track_caller]
    #[must_use]
    pub fn deployment_with(lab: &Lab, name: &'static str, replicas: u8, annotations: &Value) -> Self {
        let workload = Self { kind: "deployment", name };
        workload.apply(lab, &manifest("Deployment", name, replicas, annotations), replicas);
        workload
    }

    /// A StatefulSet with addresses of these pools, all of it ready.
    ///
    /// # Panics
    /// If it does not become so.
    #[track_caller]
    #[must_use]
    pub fn stateful_set(lab: &Lab, name: &'static str, replicas: u8, pools: &str) -> Self {
        Self::stateful_set_with(lab, name, replicas, &json!({"berth.io/pools": pools}))
    }

    /// A StatefulSet of pods with these annotations, all of it ready.
    ///
    /// # Panics
    /// If it does not become so.
    #[track_caller]
    #[must_use]
    pub fn stateful_set_with(lab: &Lab, name: &'static str, replicas: u8, annotations: &Value) -> Self {
        let workload = Self { kind: "statefulset", name };
        let mut manifest = manifest("StatefulSet", name, replicas, annotations);
        manifest["spec"]["serviceName"] = json!(name);
        manifest["spec"]["podManagementPolicy"] = json!("Parallel");
        workload.apply(lab, &manifest, replicas);
        workload
    }

    #[track_caller]
    fn apply(&self, lab: &Lab, manifest: &Value, replicas: u8) {
        let began = Instant::now();
        lab.apply(manifest);
        self.wait(lab);
        eprintln!("    {replicas} pods of {} ready after {:.1} s", self.name, began.elapsed().as_secs_f64());
    }

    /// Changes how many there are, without waiting.
    ///
    /// # Panics
    /// If the server refuses it.
    #[track_caller]
    pub fn scale(&self, lab: &Lab, replicas: u8) {
        lab.kubectl(&format!("scale {}/{} --replicas {replicas}", self.kind, self.name));
    }

    /// Waits until all are ready.
    ///
    /// # Panics
    /// If they do not become so.
    #[track_caller]
    pub fn wait(&self, lab: &Lab) {
        lab.kubectl(&format!("rollout status {}/{} --timeout 180s", self.kind, self.name));
    }

    /// Its pods.
    #[must_use]
    pub fn pods(&self, lab: &Lab) -> Vec<Pod> {
        lab.pods(Some(self.name))
    }

    /// Deletes all its pods at once, without asking their kubelets.
    ///
    /// # Panics
    /// If the server refuses it.
    #[track_caller]
    pub fn force_delete_pods(&self, lab: &Lab) {
        lab.kubectl(&format!("delete pods --selector app={} --force --grace-period 0", self.name));
    }

    /// Deletes it, and waits until its pods are gone.
    ///
    /// # Panics
    /// If they stay.
    #[track_caller]
    pub fn delete(self, lab: &Lab) {
        let began = Instant::now();
        lab.kubectl(&format!("delete {}/{} --wait --timeout 180s", self.kind, self.name));
        lab.kubectl(&format!("wait --for=delete pod --selector app={} --timeout 180s", self.name));
        eprintln!("    {} gone after {:.1} s", self.name, began.elapsed().as_secs_f64());
    }
}
