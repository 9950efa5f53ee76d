//! Who makes pods that keep their names, of kinds that Kubernetes does not bring along.
//!
//! These are not watched: few addresses are kept for pods that are away, and the server is asked when one of them is due.
//! Nothing is known of such a kind but how many pods an object of it is to have. It may number them from wherever it likes
//! and leave numbers out, so a number is taken for one that does not come back only if the others are complete.

use super::read::{Ordinals, PodFacts};
use crate::kinds;
use berth_core::reclaim::Keeper;
use berth_dialects::native::endpoint::EndpointOwner;
use berth_kube::Cluster;
use berth_kube::connect::CallError;
use k8s_openapi::api::core::v1 as api;
use kube::api::{Api, DynamicObject, ListParams};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::HashMap;

/// What the server says of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// Nothing: its kind may not be read, or is not there.
    Nothing,
    /// It is there, and nobody can tell how many pods it wants.
    There,
    /// It is gone.
    Gone,
    /// It wants so many pods.
    Wants(Ordinals),
}

impl Said {
    /// Whether a pod of this name, which is away, will be made again; `others` says how many pods the owner has.
    fn want(self, owner: &str, pod: &str, others: impl FnOnce() -> Option<i64>) -> Keeper {
        let Self::Wants(ordinals) = self else {
            return if self == Self::Gone { Keeper::NotWanted } else { Keeper::Unknown };
        };
        match ordinals.want(owner, pod) {
            Keeper::NotWanted if others().is_some_and(|others| others >= ordinals.replicas) => Keeper::NotWanted,
            Keeper::NotWanted => Keeper::Unknown,
            known => known,
        }
    }
}

/// Whether the server is to be asked about such an owner. What has no group is Kubernetes' own, e.g. the node of a mirror
/// pod; so are workloads, of which only StatefulSets have pods that keep their names.
pub(super) fn is_of_others(owner: &EndpointOwner) -> bool {
    owner.api_version.contains('/') && !owner.is_of_kubernetes()
}

type OwnerKey = (String, EndpointOwner);

/// What was asked, each thing once.
pub(super) struct Owners<'a> {
    cluster: &'a Cluster,
    said: RefCell<HashMap<OwnerKey, Said>>,
    /// Pods by namespace; `None` if they could not be listed.
    pods: RefCell<HashMap<String, Option<Vec<PodFacts>>>>,
}

impl<'a> Owners<'a> {
    pub(super) fn new(cluster: &'a Cluster) -> Self {
        Self { cluster, said: RefCell::default(), pods: RefCell::default() }
    }

    /// Whether the owner will make a pod of this name again, which is away.
    pub(super) fn want(&self, namespace: &str, owner: &EndpointOwner, pod: &str) -> Keeper {
        let key = (namespace.to_owned(), owner.clone());
        let known = self.said.borrow().get(&key).copied();
        let said = known.unwrap_or_else(|| self.ask(namespace, owner).unwrap_or(Said::Nothing));
        self.said.borrow_mut().insert(key, said);
        said.want(&owner.name, pod, || self.pods_of(namespace, owner))
    }

    fn ask(&self, namespace: &str, owner: &EndpointOwner) -> Result<Said, CallError> {
        // A kind that is not there any more tells nothing: it may be about to come back.
        let Some(kind) = kinds::find(self.cluster, &owner.api_version, &owner.kind)? else { return Ok(Said::Nothing) };
        let api: Api<DynamicObject> = Api::namespaced_with(self.cluster.client().clone(), namespace, &kind.resource);
        let Some(object) = self.cluster.wait(api.get_opt(&owner.name))? else { return Ok(Said::Gone) };
        let scale = kind.scales.then(|| kinds::scale(self.cluster, &api, &owner.name).ok()).flatten();
        let object: Value = serde_json::to_value(object).unwrap_or_default();
        Ok(Ordinals::of_any(&owner.kind, &object, scale).map_or(Said::There, Said::Wants))
    }

    /// How many pods the owner has that are there to stay.
    fn pods_of(&self, namespace: &str, owner: &EndpointOwner) -> Option<i64> {
        let mut known = self.pods.borrow_mut();
        let pods = known.entry(namespace.to_owned()).or_insert_with(|| self.list(namespace).ok());
        let own = pods.as_ref()?.iter().filter(|pod| pod.stays_with(&owner.kind, &owner.name));
        i64::try_from(own.count()).ok()
    }

    fn list(&self, namespace: &str) -> Result<Vec<PodFacts>, CallError> {
        let api: Api<api::Pod> = Api::namespaced(self.cluster.client().clone(), namespace);
        let list = self.cluster.wait(api.list(&ListParams::default()))?;
        Ok(list.items.iter().map(PodFacts::read).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(start: i64, replicas: i64) -> Said {
        Said::Wants(Ordinals { start, replicas })
    }

    #[test]
    fn what_is_not_known_of_an_owner_keeps_and_one_that_is_gone_wants_nothing() {
        for (said, keeper) in
            [(Said::Nothing, Keeper::Unknown), (Said::There, Keeper::Unknown), (Said::Gone, Keeper::NotWanted)]
        {
            for pod in ["web", "web-0", "web-x", "other"] {
                assert_eq!(said.want("web", pod, || panic!("nobody asks")), keeper, "{said:?} {pod}");
            }
        }
    }

    #[test]
    fn a_number_beyond_the_replicas_is_not_wanted_once_all_others_are_there() {
        let three = wants(0, 3);
        for pod in ["web-0", "web-2"] {
            assert_eq!(three.want("web", pod, || Some(3)), Keeper::Wanted, "{pod}");
        }
        assert_eq!(three.want("web", "web-3", || Some(3)), Keeper::NotWanted);
        assert_eq!(three.want("web", "web-3", || Some(4)), Keeper::NotWanted);
        // It counts from one, or leaves a number out, and makes the third in a moment.
        assert_eq!(three.want("web", "web-3", || Some(2)), Keeper::Unknown);
        assert_eq!(three.want("web", "web-3", || None), Keeper::Unknown);
        assert_eq!(wants(0, 0).want("web", "web-0", || Some(0)), Keeper::NotWanted);
        // One that is called like its owner, or in some other way.
        for pod in ["web", "web-x", "other-7"] {
            assert_eq!(wants(0, 0).want("web", pod, || Some(9)), Keeper::Unknown, "{pod}");
        }
        assert_eq!(wants(5, 2).want("web", "web-6", || Some(2)), Keeper::Wanted);
    }

    #[test]
    fn kubernetes_own_kinds_are_known_otherwise() {
        let owner =
            |api_version: &str| EndpointOwner { api_version: api_version.to_owned(), ..EndpointOwner::default() };
        assert!(is_of_others(&owner("apps.example.io/v1")));
        assert!(!is_of_others(&owner("apps/v1")) && !is_of_others(&owner("v1")));
    }
}
