//! IPEndpoint and IPClaim objects, as an agent writes them: derived from blocks, and how the address of a sticky holder
//! is found again on another node.

use crate::connect::{CallError, Cluster};
use crate::objects::resource_of;
use berth_dialects::native::endpoint::EndpointSpec;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Object, PostParams, Preconditions};
use kube::core::NotUsed;
use serde_json::Value;
use std::net::IpAddr;

/// How often a write is tried that another's keeps forestalling.
const ATTEMPTS: usize = 8;

/// What a pod holds, as the API server has it.
pub type EndpointObject = Object<EndpointSpec, NotUsed>;

/// Where IPEndpoints are.
#[must_use]
pub fn endpoint_resource() -> ApiResource {
    resource_of("IPEndpoint")
}

/// Where IPClaims are.
#[must_use]
pub fn claim_resource() -> ApiResource {
    resource_of("IPClaim")
}

/// The objects of a cluster that say what sticky holders have.
#[derive(Clone)]
pub struct Endpoints {
    cluster: Cluster,
    endpoints: ApiResource,
    claims: ApiResource,
}

/// A claim as the server has it now.
#[derive(Clone, Debug)]
pub struct BoundClaim {
    /// The addresses it is bound to; none before its first use.
    pub addresses: Vec<IpAddr>,
    object: DynamicObject,
}

impl Endpoints {
    /// The objects of a cluster.
    #[must_use]
    pub fn new(cluster: &Cluster) -> Self {
        Self { cluster: cluster.clone(), endpoints: endpoint_resource(), claims: claim_resource() }
    }

    fn endpoints(&self, namespace: &str) -> Api<EndpointObject> {
        Api::namespaced_with(self.cluster.client().clone(), namespace, &self.endpoints)
    }

    /// What the pod of a name holds, or held when it was last here.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub fn read(&self, namespace: &str, pod: &str) -> Result<Option<EndpointSpec>, CallError> {
        let found = self.cluster.wait(self.endpoints(namespace).get_opt(pod))?;
        Ok(found.map(|object| object.spec))
    }

    /// The records that a node wrote: namespace, pod, what it holds.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub fn of_node(&self, node: &str) -> Result<Vec<(String, String, EndpointSpec)>, CallError> {
        let api: Api<EndpointObject> = Api::all_with(self.cluster.client().clone(), &self.endpoints);
        let own = ListParams::default().fields(&format!("spec.node={node}"));
        let found = self.cluster.wait(api.list(&own))?;
        let row = |object: EndpointObject| {
            let (namespace, name) = (object.metadata.namespace, object.metadata.name);
            (namespace.unwrap_or_default(), name.unwrap_or_default(), object.spec)
        };
        Ok(found.items.into_iter().map(row).collect())
    }

    /// Records what a pod holds, beside the interfaces that it has already. What a pod of the same name held that came
    /// before is replaced.
    ///
    /// # Errors
    /// If it is not recorded.
    pub fn record(&self, namespace: &str, pod: &str, held: &EndpointSpec) -> Result<(), CallError> {
        let api = self.endpoints(namespace);
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let found = self.cluster.wait(api.get_opt(pod))?;
            let mut spec = found.as_ref().map(|object| object.spec.clone()).filter(|spec| spec.uid == held.uid);
            let spec = spec.get_or_insert_with(|| held.clone());
            spec.node.clone_from(&held.node);
            spec.owner.clone_from(&held.owner);
            for interface in &held.interfaces {
                match spec.interfaces.iter_mut().find(|known| known.name == interface.name) {
                    Some(known) => known.clone_from(interface),
                    None => spec.interfaces.push(interface.clone()),
                }
            }
            if found.as_ref().is_some_and(|object| object.spec == *spec) {
                return Ok(());
            }
            let mut object = EndpointObject::new(pod, &self.endpoints, spec.clone());
            object.metadata.namespace = Some(namespace.to_owned());
            let post = PostParams::default();
            let written = match found {
                None => self.cluster.wait(api.create(&post, &object)),
                Some(found) => {
                    object.metadata.resource_version = found.metadata.resource_version;
                    self.cluster.wait(api.replace(pod, &post, &object))
                }
            };
            match written {
                Ok(_) => return Ok(()),
                Err(error) if matches!(error.status(), Some(404 | 409)) => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or(CallError::TimedOut))
    }

    /// Removes the record of a pod, unless another pod of that name has come meanwhile.
    ///
    /// # Errors
    /// If it may still be there.
    pub fn remove(&self, namespace: &str, pod: &str, uid: &str) -> Result<(), CallError> {
        let api = self.endpoints(namespace);
        let Some(found) = self.cluster.wait(api.get_opt(pod))?.filter(|object| object.spec.uid == uid) else {
            return Ok(());
        };
        let only_if = Preconditions { resource_version: found.metadata.resource_version, uid: None };
        let params = DeleteParams { preconditions: Some(only_if), ..DeleteParams::default() };
        match self.cluster.wait(api.delete(pod, &params)) {
            Err(error) if !matches!(error.status(), Some(404 | 409)) => Err(error),
            _ => Ok(()),
        }
    }

    /// A claim as the server has it now; `None` if there is none.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub fn claim(&self, namespace: &str, name: &str) -> Result<Option<BoundClaim>, CallError> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.cluster.client().clone(), namespace, &self.claims);
        let found = self.cluster.wait(api.get_opt(name))?;
        Ok(found.map(|object| {
            let listed = object.data["status"]["addresses"].as_array().into_iter().flatten();
            let address = |value: &Value| value.as_str()?.split('/').next()?.parse().ok();
            BoundClaim { addresses: listed.filter_map(address).collect(), object }
        }))
    }

    /// Binds a claim; false if it changed since it was read, so that another may have bound it.
    ///
    /// # Errors
    /// If it is not known to be bound.
    pub fn bind(&self, mut claim: BoundClaim, status: Value) -> Result<bool, CallError> {
        let namespace = claim.object.metadata.namespace.clone().unwrap_or_default();
        let name = claim.object.metadata.name.clone().unwrap_or_default();
        let api: Api<DynamicObject> = Api::namespaced_with(self.cluster.client().clone(), &namespace, &self.claims);
        claim.object.data["status"] = status;
        match self.cluster.wait(api.replace_status(&name, &PostParams::default(), &claim.object)) {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.status(), Some(404 | 409)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
