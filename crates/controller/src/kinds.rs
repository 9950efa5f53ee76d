//! Kinds of workloads that Kubernetes does not bring along, as the server tells of them.

use berth_kube::Cluster;
use berth_kube::connect::CallError;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::discovery::{self, Scope};

/// A kind whose objects are in namespaces.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) resource: ApiResource,
    /// Whether its objects say how many pods there are to be by a subresource of their own.
    pub(crate) scales: bool,
}

/// Finds out about a kind; `None` if its objects are in no namespace.
///
/// # Errors
/// If the server does not know it, which may be for the moment only, or cannot be asked.
pub(crate) fn find(cluster: &Cluster, api_version: &str, kind: &str) -> Result<Option<Found>, CallError> {
    let (resource, own) = cluster.wait(discovery::pinned_kind(cluster.client(), &gvk(api_version, kind)))?;
    let scales = own.subresources.iter().any(|(own, _)| own.plural.rsplit('/').next() == Some("scale"));
    Ok((own.scope == Scope::Namespaced).then_some(Found { resource, scales }))
}

/// How many pods an object is to have, by its `scale`.
///
/// # Errors
/// If it may not be read, or the object does not say.
pub(crate) fn scale(cluster: &Cluster, api: &Api<DynamicObject>, name: &str) -> Result<i32, CallError> {
    let scale = cluster.wait(api.get_scale(name))?;
    // The server leaves out a zero, and refuses to tell what an object does not say.
    Ok(scale.spec.and_then(|spec| spec.replicas).unwrap_or(0))
}

pub(crate) fn gvk(api_version: &str, kind: &str) -> GroupVersionKind {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    GroupVersionKind::gvk(group, version, kind)
}
