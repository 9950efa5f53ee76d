//! Kinds of workloads that are not Kubernetes' own, as OpenKruise and others have them. There is no controller of them
//! here: a test makes and ends their pods as one would.

use crate::case::Case;
use serde_json::{Value, json};

/// Their API version.
pub const THIRD_PARTY: &str = "apps.example.io/v1alpha1";
/// Their kinds, and whether they have a `scale` subresource.
const KINDS: [(&str, bool); 3] = [("CloneSet", true), ("StatefulSet", true), ("Plain", false)];

impl Case<'_> {
    /// Lets the server know the kinds, and Berth's controller read them, as an administrator would.
    ///
    /// # Panics
    /// If the server refuses them.
    pub fn know_third_party(&self) {
        for (kind, scale) in KINDS {
            let plural = format!("{}s", kind.to_lowercase());
            let paths = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
            let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
            let mut version = json!({"name": "v1alpha1", "served": true, "storage": true, "schema": schema});
            if scale {
                version["subresources"] = json!({"status": {}, "scale": paths});
            }
            let names = json!({"kind": kind, "plural": plural, "singular": kind.to_lowercase()});
            self.apply(&json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{plural}.apps.example.io")},
                "spec": {"group": "apps.example.io", "scope": "Namespaced", "names": names, "versions": [version]}}));
        }
        let rules = json!([{"apiGroups": ["apps.example.io"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]);
        let rights = "rbac.authorization.k8s.io/v1";
        self.apply(
            &json!({"apiVersion": rights, "kind": "ClusterRole", "metadata": {"name": "third-party"}, "rules": rules}),
        );
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "third-party"});
        let account = json!({"kind": "ServiceAccount", "name": "berth-controller", "namespace": "berth-system"});
        self.apply(&json!({"apiVersion": rights, "kind": "ClusterRoleBinding", "metadata": {"name": "third-party"},
            "roleRef": role, "subjects": [account]}));
        let served = |kind: &str| self.try_list(THIRD_PARTY, kind).is_ok();
        self.until("the kinds to be served", || KINDS.iter().all(|(kind, _)| served(kind)));
    }

    /// Makes or changes a workload of a third party; what its pods say of their owner.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn run_third_party(&self, kind: &str, name: &str, replicas: usize, annotations: &Value) -> Value {
        let template = self.template(name, annotations);
        let made = self.apply(&json!({"apiVersion": THIRD_PARTY, "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"replicas": replicas, "template": template}}));
        let uid = &made["metadata"]["uid"];
        json!([{"apiVersion": THIRD_PARTY, "kind": kind, "name": name, "uid": uid, "controller": true}])
    }

    /// Does what a controller of numbered pods does, once: makes what is missing and ends what is too much. Pods that are
    /// on their way out are waited for: whether all is as it should be.
    ///
    /// # Panics
    /// If the server refuses something.
    pub fn reconcile_numbered(&self, name: &str, owner: &Value, replicas: usize, annotations: &Value) -> bool {
        let (there, mut done) = (self.pods_of(&self.namespace, Some(name)), true);
        let names: Vec<String> = (0..replicas).map(|i| format!("{name}-{i}")).collect();
        for seen in &there {
            if !names.contains(&seen.pod.name) {
                done = false;
                if !seen.ending {
                    self.end_pod(&seen.pod);
                }
            }
        }
        for pod in names.iter().filter(|name| there.iter().all(|seen| seen.pod.name != **name)) {
            done = false;
            let mut object = self.template(name, annotations);
            object["apiVersion"] = json!("v1");
            object["kind"] = json!("Pod");
            (object["metadata"]["name"], object["metadata"]["namespace"]) = (json!(pod), json!(self.namespace));
            object["metadata"]["ownerReferences"] = owner.clone();
            self.apply(&object);
        }
        done && there.iter().all(|seen| !seen.ending)
    }
}
