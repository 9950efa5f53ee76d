//! OpenKruise's CloneSet as far as an address manager can tell: the kind with its `scale` subresource, and what its
//! controller does. The pods are real, and Kubernetes' own garbage collector ends them with their owner.

use crate::Lab;
use serde_json::{Value, json};
use std::io::Write;
use std::process::Stdio;

/// Lets the server know the kind.
///
/// # Panics
/// If it refuses it.
pub fn define(lab: &Lab) {
    let version = json!({"name": "v1alpha1", "served": true, "storage": true,
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    lab.apply(&json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "clonesets.apps.kruise.io"},
        "spec": {"group": "apps.kruise.io", "scope": "Namespaced",
            "names": {"kind": "CloneSet", "plural": "clonesets", "singular": "cloneset"}, "versions": [version]}}));
    lab.kubectl("wait --for=condition=Established --timeout=30s crd clonesets.apps.kruise.io");
}

/// Does once what OpenKruise's controller does all the time: makes the pods that are missing from the template, ends those
/// that are too many, and says how many there are.
///
/// # Panics
/// If the server refuses something.
#[track_caller]
pub fn reconcile(lab: &Lab, name: &str) {
    let set: Value = serde_json::from_str(&lab.kubectl(&format!("get cloneset {name} -o json"))).unwrap();
    let (uid, wanted) = (&set["metadata"]["uid"], set["spec"]["replicas"].as_u64().unwrap());
    let mut own = lab.get("pods");
    own.retain(|pod| {
        pod["metadata"]["ownerReferences"][0]["uid"] == *uid && pod["metadata"]["deletionTimestamp"].is_null()
    });
    let there = own.len() as u64;
    let owner = json!({"apiVersion": set["apiVersion"], "kind": set["kind"], "name": name, "uid": uid,
        "controller": true, "blockOwnerDeletion": true});
    let mut pod = set["spec"]["template"].clone();
    (pod["apiVersion"], pod["kind"]) = (json!("v1"), json!("Pod"));
    pod["metadata"]["generateName"] = json!(format!("{name}-"));
    pod["metadata"]["ownerReferences"] = json!([owner]);
    for _ in there..wanted {
        create(lab, &pod);
    }
    for pod in own.iter().skip(usize::try_from(wanted).unwrap()) {
        lab.kubectl(&format!("delete pod {} --wait=false", pod["metadata"]["name"].as_str().unwrap()));
    }
    let status = json!({"status": {"replicas": wanted}});
    lab.kubectl(&format!("patch cloneset {name} --subresource status --type merge --patch {status}"));
}

/// Creates an object that the server gives a name: nobody can apply one.
#[track_caller]
fn create(lab: &Lab, object: &Value) {
    let mut command = lab.cluster.control_plane().kubectl_command();
    command.args(["create", "--filename", "-"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(object.to_string().as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "the server refused {object}");
}
