//! What is left to do when nobody is there any more who would take finalizers off.

use crate::guard::{FINALIZER, RESERVATION};
use anyhow::Context;
use berth_admission::registration::Registration;
use berth_core::model::{POOL_OBJECT, SUBNET_OBJECT};
use berth_dialects::crd::WEBHOOK;
use berth_dialects::spiderpool;
use berth_kube::objects::resource_of;
use berth_kube::{Cluster, Connect};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::json;

/// Takes the registrations of the webhook away, which nobody serves any more, and Berth's finalizers off its objects, so
/// that they can be deleted; how many had one. Addresses, pools and everything else stay.
///
/// # Errors
/// If a registration cannot be deleted, or an object cannot be listed or changed.
pub fn uninstall(to: &Connect) -> anyhow::Result<usize> {
    let cluster = Cluster::connect(to)?;
    let registration = Registration::new(cluster.client(), WEBHOOK);
    cluster.wait(async move { registration.remove().await }).context("delete the registrations of the webhook")?;
    let mut changed = 0;
    let spider = [spiderpool::POOL, spiderpool::SUBNET].map(|kind| (kind, spiderpool::FINALIZER));
    let own = [POOL_OBJECT, SUBNET_OBJECT, RESERVATION].map(|kind| (kind, FINALIZER));
    for (kind, finalizer) in own.into_iter().chain(spider) {
        let api: Api<DynamicObject> = Api::all_with(cluster.client().clone(), &resource_of(kind));
        let listed = match cluster.wait(api.list_metadata(&ListParams::default())) {
            // Without definitions there are no objects.
            Err(error) if error.status() == Some(404) => continue,
            listed => listed.with_context(|| format!("list {kind} objects"))?,
        };
        for object in listed.items {
            let (name, all) =
                (object.metadata.name.unwrap_or_default(), object.metadata.finalizers.unwrap_or_default());
            let others: Vec<&String> = all.iter().filter(|own| *own != finalizer).collect();
            if others.len() == all.len() {
                continue;
            }
            let metadata = json!({"resourceVersion": object.metadata.resource_version, "finalizers": others});
            let patch = Patch::Merge(json!({ "metadata": metadata }));
            match cluster.wait(api.patch_metadata(&name, &PatchParams::default(), &patch)) {
                Err(error) if error.status() != Some(404) => {
                    return Err(error).with_context(|| format!("take the finalizer off {kind} {name:?}; try again"));
                }
                _ => changed += 1,
            }
        }
    }
    Ok(changed)
}
