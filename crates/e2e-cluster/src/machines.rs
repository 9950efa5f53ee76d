//! Virtual machines, as KubeVirt has them: a VirtualMachine makes a VirtualMachineInstance of its name, and that has pods of
//! ever new names. There is no KubeVirt here: a test makes and ends them as it would.

use crate::agent::Agent;
use crate::case::Case;
use crate::world::Pod;
use serde_json::{Value, json};

/// Their API version.
pub const KUBEVIRT: &str = "kubevirt.io/v1";
/// What runs.
pub const INSTANCE: &str = "VirtualMachineInstance";
/// What makes it.
pub const MAKER: &str = "VirtualMachine";

/// The definitions of both kinds; nothing is asked of what they say.
#[must_use]
pub fn definitions() -> [Value; 2] {
    [INSTANCE, MAKER].map(|kind| {
        let plural = format!("{}s", kind.to_lowercase());
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let names = json!({"kind": kind, "plural": plural, "singular": kind.to_lowercase()});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.kubevirt.io")},
            "spec": {"group": "kubevirt.io", "scope": "Namespaced", "names": names, "versions": [version]}})
    })
}

/// What the pods of an instance say of their owner.
#[must_use]
pub fn owner(instance: &Value) -> Value {
    let (name, uid) = (&instance["metadata"]["name"], &instance["metadata"]["uid"]);
    json!([{"apiVersion": KUBEVIRT, "kind": INSTANCE, "name": name, "uid": uid, "controller": true}])
}

impl Case<'_> {
    /// Lets the server know the kinds.
    ///
    /// # Panics
    /// If the server refuses them.
    pub fn know_machines(&self) {
        definitions().iter().for_each(|definition| drop(self.apply(definition)));
        let served = |kind: &str| self.try_list(KUBEVIRT, kind).is_ok();
        self.until("the kinds to be served", || served(INSTANCE) && served(MAKER));
    }

    /// Makes an object of one of the kinds.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn make_machine(&self, kind: &str, name: &str) -> Value {
        let status = if kind == INSTANCE { json!({"phase": "Running"}) } else { json!({}) };
        self.apply(&json!({"apiVersion": KUBEVIRT, "kind": kind, "status": status,
            "metadata": {"name": name, "namespace": self.namespace}}))
    }

    /// Deletes an object of one of the kinds.
    ///
    /// # Panics
    /// If it is not there.
    pub fn end_machine(&self, kind: &str, name: &str) {
        self.try_delete(KUBEVIRT, kind, Some(&self.namespace), name).unwrap();
        self.until("it to be gone", || self.get(KUBEVIRT, kind, Some(&self.namespace), name).is_none());
    }

    /// Makes the pod of an instance; of a migration, if that is named.
    ///
    /// # Panics
    /// If the server refuses it.
    #[must_use]
    pub fn launcher(
        &self,
        agent: &Agent,
        instance: &Value,
        tail: &str,
        annotations: &Value,
        migration: Option<&str>,
    ) -> Pod {
        let name = format!("virt-launcher-{}-{tail}", instance["metadata"]["name"].as_str().unwrap());
        let mut annotations = annotations.clone();
        if let Some(migration) = migration {
            annotations["kubevirt.io/migrationJobName"] = json!(migration);
        }
        let metadata = json!({"annotations": annotations, "ownerReferences": owner(instance)});
        self.pod_on(agent, &self.namespace, &name, &metadata)
    }
}
