//! The shape of the daemon's answers, as far as people are shown it. Fields that are unknown here are passed over, so
//! that an older command line reads a newer daemon.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A list of anything.
#[derive(Deserialize)]
pub(crate) struct Items<T> {
    pub(crate) items: Vec<T>,
}

/// What became of an address.
#[derive(Deserialize)]
pub(crate) struct Address {
    pub(crate) address: IpAddr,
    #[serde(default)]
    pub(crate) unit: String,
    #[serde(default)]
    pub(crate) network: String,
    #[serde(default)]
    pub(crate) pool: Option<String>,
    pub(crate) state: String,
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
    pub(crate) holder: Option<Holder>,
}

impl Address {
    /// `10.77.0.5`, or the prefix where a prefix is what is given out.
    pub(crate) fn title(&self) -> String {
        prefix(self.address, &self.unit).map_or_else(|| self.address.to_string(), str::to_owned)
    }
}

/// Who has an address. Empty strings stand for what does not apply.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Holder {
    pub(crate) kind: String,
    pub(crate) network: String,
    pub(crate) id: String,
    pub(crate) ifname: String,
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) uid: String,
    pub(crate) node: String,
    pub(crate) identity: String,
    pub(crate) keep: String,
}

impl Holder {
    /// `pod web/nginx-0`, `container 0123456789ab`, `printer`: short enough for a column.
    pub(crate) fn title(&self) -> String {
        match self.kind.as_str() {
            _ if !self.pod.is_empty() => format!("pod {}/{}", self.namespace, self.pod),
            "named" => self.id.clone(),
            _ => format!("container {}", self.short_id()),
        }
    }

    /// Runtimes show the first twelve digits of a container's ID. Names are shown whole.
    pub(crate) fn short_id(&self) -> String {
        let shown = if self.kind == "named" { usize::MAX } else { 12 };
        self.id.chars().take(shown).collect()
    }
}

/// Why an address may be missing from those free. Counts are decimal digits, since they may pass 2^64.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Usage {
    pub(crate) capacity: String,
    pub(crate) in_use: String,
    pub(crate) held: String,
    pub(crate) cooling: String,
    pub(crate) quarantined: String,
    pub(crate) reserved: String,
    pub(crate) free: String,
}

impl Usage {
    /// The part in use, and the part that is not in use but not free either. Of an empty pool both are nothing.
    pub(crate) fn parts(&self) -> (f64, f64) {
        let number = |digits: &str| digits.parse::<f64>().unwrap_or(0.0);
        let capacity = number(&self.capacity).max(1.0);
        let away = [&self.held, &self.cooling, &self.quarantined, &self.reserved];
        (number(&self.in_use) / capacity, away.into_iter().map(|digits| number(digits)).sum::<f64>() / capacity)
    }
}

/// How full everything is.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct UsageReport {
    pub(crate) pools: Vec<UsageRow>,
    pub(crate) subnets: Vec<UsageRow>,
    pub(crate) networks: Vec<UsageRow>,
}

/// How full one thing is.
#[derive(Deserialize)]
pub(crate) struct UsageRow {
    pub(crate) name: String,
    pub(crate) network: Option<String>,
    pub(crate) family: Option<String>,
    /// Prefix length of what a pool gives out.
    pub(crate) unit: Option<u8>,
    pub(crate) usage: Usage,
}

/// What to give out, and to whom.
#[derive(Serialize)]
pub(crate) struct AllocateRequest {
    pub(crate) holder: HolderRef,
    pub(crate) pools: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) network: Option<String>,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) families: Vec<&'static str>,
    pub(crate) count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) claim: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) keep: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<&'static str, BTreeMap<String, String>>,
}

/// Who asks.
#[derive(Serialize)]
pub(crate) struct HolderRef {
    pub(crate) kind: &'static str,
    pub(crate) id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
}

/// What was given out.
#[derive(Deserialize)]
pub(crate) struct Allocated {
    #[serde(default)]
    pub(crate) addresses: Vec<Allocation>,
}

/// One address that was given out.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Allocation {
    pub(crate) address: IpAddr,
    #[serde(default)]
    pub(crate) unit: String,
    pub(crate) prefix_length: Option<u8>,
    pub(crate) gateway: Option<IpAddr>,
    pub(crate) pool: String,
    #[serde(default)]
    pub(crate) network: String,
    #[serde(default)]
    pub(crate) reason: String,
}

impl Allocation {
    /// `10.77.0.5`, or the prefix that was given out.
    pub(crate) fn name(&self) -> String {
        prefix(self.address, &self.unit).map_or_else(|| self.address.to_string(), str::to_owned)
    }

    /// `10.77.0.5/16`, as an interface is configured with it, or the prefix that was given out.
    pub(crate) fn title(&self) -> String {
        match (prefix(self.address, &self.unit), self.prefix_length) {
            (Some(prefix), _) => prefix.to_owned(),
            (None, Some(length)) => format!("{}/{length}", self.address),
            (None, None) => self.address.to_string(),
        }
    }
}

/// The unit, if it is more than one address.
fn prefix(address: IpAddr, unit: &str) -> Option<&str> {
    let whole = if address.is_ipv4() { "/32" } else { "/128" };
    Some(unit).filter(|unit| !unit.is_empty() && !unit.ends_with(whole))
}
