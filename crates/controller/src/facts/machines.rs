//! KubeVirt's virtual machines, where it is installed: whether one that is away comes back.
//!
//! What runs is a VirtualMachineInstance, whose pods come and go; a VirtualMachine of the same name makes it anew. As long
//! as either is there, and not on its way out, the address is kept. Where the kinds are not there or cannot be read,
//! nothing is known, and that keeps too.

use berth_core::reclaim::Keeper;
use berth_dialects::native::pod::{KUBEVIRT, MACHINE};
use berth_kube::Cluster;
use berth_kube::connect::CallError;
use berth_kube::watch::{Bell, Changes, Key, Mirror};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::discovery;
use kube::runtime::watcher::Config;
use std::collections::BTreeSet;

/// The kind of what makes instances.
const MAKER: &str = "VirtualMachine";

/// Where the kinds are served, whatever their version.
pub(super) struct Served {
    instances: ApiResource,
    makers: ApiResource,
}

impl Served {
    /// Asks the server. `None` if it has not both of them.
    ///
    /// # Errors
    /// If it cannot be asked.
    pub(super) fn find(cluster: &Cluster) -> Result<Option<Self>, CallError> {
        let group = match cluster.wait(discovery::group(cluster.client(), KUBEVIRT)) {
            Ok(group) => group,
            Err(error) if error.status().is_none() => return Err(error),
            Err(_) => return Ok(None),
        };
        let of = |kind: &str| group.recommended_kind(kind).map(|(resource, _)| resource);
        Ok(of(MACHINE).zip(of(MAKER)).map(|(instances, makers)| Self { instances, makers }))
    }

    /// Whether a machine comes back, as the server says now.
    pub(super) fn ask(&self, cluster: &Cluster, namespace: &str, name: &str) -> Keeper {
        let get = |resource: &ApiResource| {
            let api: Api<DynamicObject> = Api::namespaced_with(cluster.client().clone(), namespace, resource);
            cluster.wait(api.get_opt(name)).map(|found| found.is_some_and(|object| stays(&object)))
        };
        match (get(&self.instances), get(&self.makers)) {
            (Ok(true), _) | (_, Ok(true)) => Keeper::Wanted,
            (Ok(false), Ok(false)) => Keeper::NotWanted,
            _ => Keeper::Unknown,
        }
    }
}

/// Copies of both kinds: whether each object stays.
pub(crate) struct Machines {
    instances: Mirror<bool>,
    makers: Mirror<bool>,
    changes: [Changes; 2],
}

impl Machines {
    /// Begins to follow them.
    pub(super) fn new(cluster: &Cluster, served: &Served, bell: &Bell) -> Self {
        let follow = |kind: &str, resource: &ApiResource| {
            let api: Api<DynamicObject> = Api::all_with(cluster.client().clone(), resource);
            Mirror::new(cluster, (kind, api), Config::default(), bell, |object| Some(stays(&object)))
        };
        let (instances, makers) = (follow(MACHINE, &served.instances), follow(MAKER, &served.makers));
        let changes = [instances.changes(), makers.changes()];
        Self { instances, makers, changes }
    }

    /// Waits until both have been listed once.
    pub(crate) fn wait_for_sync(&self) -> Result<(), CallError> {
        self.instances.wait_for_sync()?;
        self.makers.wait_for_sync()
    }

    /// Whether a machine comes back.
    pub(super) fn will_return(&self, namespace: &str, name: &str) -> Keeper {
        if !self.instances.is_synced() || !self.makers.is_synced() {
            return Keeper::Unknown;
        }
        let stays = |mirror: &Mirror<bool>| mirror.get(namespace, name).is_some_and(|stays| *stays);
        if stays(&self.instances) || stays(&self.makers) { Keeper::Wanted } else { Keeper::NotWanted }
    }

    /// The machines that something has happened to since this was last asked.
    pub(crate) fn changed(&self) -> BTreeSet<Key> {
        self.changes.iter().flat_map(Changes::take).collect()
    }
}

/// Whether an object of either kind is not on its way out: it is not being deleted, and has not ended for good.
fn stays(object: &DynamicObject) -> bool {
    let ended = matches!(object.data["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    object.metadata.deletion_timestamp.is_none() && !ended
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_machine_stays_until_it_is_deleted_or_has_ended() {
        let stays = |meta: serde_json::Value, status: serde_json::Value| {
            let object = json!({"apiVersion": "kubevirt.io/v1", "kind": MACHINE, "metadata": meta, "status": status});
            stays(&serde_json::from_value(object).unwrap())
        };
        for (phase, expected) in [("Running", true), ("Scheduling", true), ("Succeeded", false), ("Failed", false)] {
            assert_eq!(stays(json!({"name": "vm"}), json!({"phase": phase})), expected, "{phase}");
        }
        assert!(stays(json!({"name": "vm"}), json!(null)), "a VirtualMachine says something else");
        assert!(!stays(
            json!({"name": "vm", "deletionTimestamp": "2026-01-01T00:00:00Z"}),
            json!({"phase": "Running"})
        ));
    }
}
