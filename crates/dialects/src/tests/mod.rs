mod application;
mod bcs;
mod manifests;
mod native;
mod pod;
mod pod_annotations;
mod pod_attachments;
mod spiderpool;
mod spiderpool_beside;
mod spiderpool_export;
mod spiderpool_pod;
mod verdicts;
mod workload;

use crate::{Object, parse_manifests};

/// The only object of a manifest.
fn object(manifest: &str) -> Object {
    let mut objects = parse_manifests(manifest).unwrap_or_else(|error| panic!("{error}\n{manifest}"));
    assert_eq!(objects.len(), 1);
    objects.remove(0)
}

/// An object of a native kind with this spec.
fn native(kind: &str, name: &str, spec: &str) -> String {
    format!("apiVersion: berth.io/v1alpha1\nkind: {kind}\nmetadata:\n  name: {name}\nspec: {spec}\n")
}
