//! BCSNetIP: what became of each address of a BCSNetPool. Made from state, never applied.

use super::NetPool;
use crate::duration::GoDuration;
use crate::object::{Metadata, Object};
use berth_core::block::{Slot, State};
use berth_core::time::Time;
use serde::Serialize;
use serde_json::{Value, json};
use std::net::IpAddr;

/// The status of an address. The documentation calls its state `status`, the code `phase`: both are there.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    status: &'static str,
    phase: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    host: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    fixed: bool,
    #[serde(rename = "containerID", skip_serializing_if = "String::is_empty")]
    container_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pod_primary_key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pod_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pod_namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    update_time: Option<String>,
    #[serde(rename = "fixedIPExpiredTime", skip_serializing_if = "Option::is_none")]
    fixed_ip_expired_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_duration: Option<String>,
}

impl NetPool {
    /// The BCSNetIP of every address of the pool, in the order of the list.
    pub fn net_ips(&self, slot_of: impl Fn(IpAddr) -> Option<Slot>) -> impl Iterator<Item = Object> {
        self.available_ips.iter().map(move |&ip| self.net_ip(ip, slot_of(ip)))
    }

    /// The BCSNetIP of an address.
    #[must_use]
    pub fn net_ip(&self, ip: IpAddr, slot: Option<Slot>) -> Object {
        let status = Status::of(slot);
        let labels = [("pool", self.name.clone()), ("fixed-ip", status.fixed.to_string())];
        Object {
            api_version: self.api_version.clone(),
            kind: "BCSNetIP".to_owned(),
            metadata: Metadata {
                name: ip.to_string(),
                labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
                ..Metadata::default()
            },
            spec: json!({ "pool": self.name, "net": self.net, "mask": self.mask, "gateway": self.gateway }),
            status: serde_json::to_value(status).ok().filter(Value::is_object),
        }
    }
}

impl Status {
    fn of(slot: Option<Slot>) -> Self {
        let Some(Slot { state, since, until, holder, .. }) = slot else {
            return Self { status: "Available", phase: "Available", ..Self::default() };
        };
        let phase = match state {
            State::Active => "Active",
            State::Released => "Available",
            State::Held | State::Quarantined => "Reserved",
        };
        let holder = holder.unwrap_or_default();
        let is_pod = !holder.pod.is_empty();
        Self {
            status: phase,
            phase,
            host: holder.node,
            fixed: holder.sticky.is_some(),
            container_id: holder.id,
            pod_primary_key: if is_pod { format!("{}/{}", holder.namespace, holder.pod) } else { String::new() },
            pod_name: holder.pod,
            pod_namespace: holder.namespace,
            update_time: timestamp(since),
            fixed_ip_expired_time: until.and_then(timestamp),
            keep_duration: holder.sticky.and_then(|sticky| sticky.keep).map(|keep| GoDuration(keep).to_string()),
        }
    }
}

/// RFC 3339, to the second, as Kubernetes writes it. `None` past the year 9999.
fn timestamp(time: Time) -> Option<String> {
    let seconds = i64::try_from(time.as_secs()).ok()?;
    jiff::Timestamp::from_second(seconds).ok().map(|timestamp| timestamp.to_string())
}
