//! The allocator's HTTP bodies: read into requests of the core, and the core's answers put into envelopes.
//!
//! | route (under `/netservicecontroller/v1/allocator`) | in | out |
//! |---|---|---|
//! | `POST` | [`Allocation::read`], [`Allocation::request`] | [`Allocation::given`], [`Allocation::refused`] |
//! | `DELETE` | [`Release::read`], [`Release::attachment`] | [`Release::released`] |
//! | `DELETE /host/{hostip}` | [`is_on_host`] | [`host_released`] |

use super::envelope::{BAD_REQUEST, Envelope, FAILED};
use super::net_pool::NetPool;
use crate::duration::GoDuration;
use berth_core::addr::Family;
use berth_core::error::Error;
use berth_core::holder::{Attachment, Holder, Kind, Sticky};
use berth_core::ipam::{Given, Group, Request};
use berth_core::model::Subject;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::net::IpAddr;
use std::time::Duration;
use utoipa::ToSchema;

/// The CNI network that holders of this dialect are recorded under.
pub const NETWORK: &str = "bcs";

/// Why a body was not taken.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// No JSON: HTTP 400 with this text.
    Malformed(String),
    /// JSON, but not a request: HTTP 200 with this envelope.
    Refused(Envelope),
}

/// The body of `POST`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Allocation {
    /// The host the container runs on, as the pool lists it.
    #[serde(default)]
    pub host: String,
    /// Container ID. Asking again for it gives the same address.
    #[serde(default, rename = "containerID")]
    pub container_id: String,
    /// The address wanted; any if empty.
    #[serde(default)]
    pub ip_addr: String,
    /// Name of the pod.
    #[serde(default)]
    pub pod_name: String,
    /// Namespace of the pod.
    #[serde(default)]
    pub pod_namespace: String,
    /// The gateway the host sees. Read and not used, as in BCS unless `NODE_GATEWAY_POLICY` says otherwise.
    #[serde(default)]
    pub host_gateway: String,
    /// Whether the address stays with the pod.
    #[serde(default)]
    pub fixed: bool,
    /// For how long after the pod is gone, e.g. `10h`; for ever if empty.
    #[serde(default)]
    pub keep_duration: String,
}

impl Allocation {
    /// Reads the body of `POST`.
    ///
    /// # Errors
    /// What to answer instead.
    pub fn read(body: &[u8]) -> Result<Self, Failure> {
        let body: Self = read(body)?;
        require(&[&body.host, &body.container_id], &[&body.pod_namespace, &body.pod_name])?;
        Ok(body)
    }

    /// What to ask the core for: one address of the pools that have the host.
    ///
    /// # Errors
    /// The envelope to answer with if the host is in no pool, or a field cannot be read.
    pub fn request(&self, pools: &[NetPool]) -> Result<Request, Envelope> {
        let mut own: Vec<&NetPool> = pools.iter().filter(|pool| pool.hosts.contains(&self.host)).collect();
        if own.is_empty() {
            return Err(Envelope::failure(FAILED, format!("host {} does not exist in pools", self.host)));
        }
        own.retain(|pool| !pool.available_ips.is_empty());
        own.sort_by(|a, b| a.name.cmp(&b.name));
        // To the core, pools of two families mean dual stack; an answer has room for one address.
        let family = own.iter().map(|pool| Family::of(pool.net)).min().ok_or_else(|| self.exhausted())?;
        let address = self.address()?;
        let group = Group {
            pools: own.iter().map(|pool| pool.name.clone()).collect(),
            addresses: address.into_iter().collect(),
            families: vec![family],
            ..Group::default()
        };
        let subject = Subject { namespace: self.pod_namespace.clone(), node: self.host.clone(), ..Subject::default() };
        Ok(Request { holder: self.holder()?, subject, groups: vec![group] })
    }

    /// The answer if the core gave an address.
    #[must_use]
    pub fn given(&self, given: &Given) -> Envelope {
        let ip = given.address();
        let data = json!({
            "host": self.host,
            "containerID": self.container_id,
            "ipAddr": ip,
            "podName": self.pod_name,
            "podNamespace": self.pod_namespace,
            "gateway": given.gateway,
            "mask": given.prefix_len,
        });
        Envelope::success(format!("allocate IP [{ip}] for Host {} success", self.host), data)
    }

    /// The answer if the core refused.
    #[must_use]
    pub fn refused(&self, error: &Error) -> Envelope {
        match error {
            Error::PoolExhausted { .. } => self.exhausted(),
            _ if self.ip_addr.is_empty() => Envelope::failure(FAILED, error.to_string()),
            _ => Envelope::failure(FAILED, format!("update IP [{}] status failed, err {error}", self.ip_addr)),
        }
    }

    fn exhausted(&self) -> Envelope {
        let message = format!("no available IP for pod {}/{}", self.pod_namespace, self.pod_name);
        Envelope::failure(FAILED, message)
    }

    fn address(&self) -> Result<Option<IpAddr>, Envelope> {
        let written = Some(&self.ip_addr).filter(|text| !text.is_empty());
        let invalid = |_| Envelope::failure(BAD_REQUEST, format!("ipAddr {} is not a valid IP address", self.ip_addr));
        written.map(|text| text.parse()).transpose().map_err(invalid)
    }

    fn keep(&self) -> Result<Option<Duration>, Envelope> {
        let written = Some(&self.keep_duration).filter(|text| !text.is_empty());
        let keep = written.map(|text| text.parse::<GoDuration>()).transpose();
        keep.map(|keep| keep.map(|keep| keep.0))
            .map_err(|error| Envelope::failure(BAD_REQUEST, format!("invalid keepDuration: {error}")))
    }

    fn holder(&self) -> Result<Holder, Envelope> {
        let keep = self.keep()?;
        let Self { pod_namespace, pod_name, .. } = self;
        // The identity that the core gives to a pod's only interface, so that a fixed pool and a fixed request agree.
        let identity = format!("pod/{pod_namespace}/{pod_name}/");
        Ok(Holder {
            kind: Kind::Remote,
            network: NETWORK.to_owned(),
            id: self.container_id.clone(),
            namespace: pod_namespace.clone(),
            pod: pod_name.clone(),
            node: self.host.clone(),
            sticky: self.fixed.then_some(Sticky { identity, keep }),
            ..Holder::default()
        })
    }
}

/// The body of `DELETE`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Release {
    /// The host the container ran on.
    #[serde(default)]
    pub host: String,
    /// Container ID.
    #[serde(default, rename = "containerID")]
    pub container_id: String,
    /// Name of the pod.
    #[serde(default)]
    pub pod_name: String,
    /// Namespace of the pod.
    #[serde(default)]
    pub pod_namespace: String,
}

impl Release {
    /// Reads the body of `DELETE`.
    ///
    /// # Errors
    /// What to answer instead.
    pub fn read(body: &[u8]) -> Result<Self, Failure> {
        let body: Self = read(body)?;
        require(&[&body.host, &body.container_id], &[&body.pod_namespace, &body.pod_name])?;
        Ok(body)
    }

    /// Whose addresses to take back. The container alone decides: its ID is unique, the rest of the body is not.
    #[must_use]
    pub fn attachment(&self) -> Attachment<'_> {
        Attachment { network: NETWORK, id: &self.container_id, ifname: "" }
    }

    /// The answer, by what was taken back. Nothing to take back is a success: a release may come twice.
    #[must_use]
    pub fn released(&self, addresses: &[IpAddr]) -> Envelope {
        match addresses {
            [] => Envelope::success(
                format!("didn't find related BCSNetIP instance for container {}", self.container_id),
                serde_json::Value::Null,
            ),
            [ip, ..] => Envelope::success(format!("deactive IP [{ip}] success, it's available now"), json!(self)),
        }
    }
}

/// Whether a holder is a container of this dialect on the host: what `DELETE /host/{hostip}` takes back.
#[must_use]
pub fn is_on_host(holder: &Holder, host: &str) -> bool {
    holder.kind == Kind::Remote && holder.network == NETWORK && holder.node == host
}

/// The answer to `DELETE /host/{hostip}`, by what was taken back. An unknown host is one with nothing to take back.
#[must_use]
pub fn host_released(host: &str, addresses: &[IpAddr]) -> Envelope {
    Envelope::success(format!("release {} IPs of Host {host} success", addresses.len()), json!(addresses))
}

/// Fields that the dialect does not know are left alone, as the controller does.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    let lost = || Failure::Refused(Envelope::failure(BAD_REQUEST, "lost request body for allocating ip"));
    if body.trim_ascii().is_empty() {
        return Err(lost());
    }
    let read: Option<T> = serde_json::from_slice(body).map_err(|error| Failure::Malformed(error.to_string()))?;
    read.ok_or_else(lost)
}

fn require(host: &[&String], pod: &[&String]) -> Result<(), Failure> {
    for (fields, what) in [(host, "Host/ContainerID"), (pod, "PodNamespace/PodName")] {
        if fields.iter().any(|field| field.is_empty()) {
            let envelope = Envelope::failure(BAD_REQUEST, format!("lost {what} info in request"));
            return Err(Failure::Refused(envelope));
        }
    }
    Ok(())
}
