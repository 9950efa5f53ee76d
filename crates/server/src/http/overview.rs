//! How full everything is, whether it is consistent, whether the daemon is well.

use super::{Answer, Problem, blocking};
use crate::node::{Node, now};
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use berth_core::addr::Family;
use berth_core::ipam::{Finding, Usage};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// How full a pool is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PoolUsage {
    name: String,
    network: String,
    /// `IPv4` or `IPv6`.
    family: String,
    /// The prefix length of what it gives out.
    unit: u8,
    /// Counts, as decimal strings.
    #[schema(value_type = Object)]
    usage: Usage,
}

/// How full a subnet is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SubnetUsage {
    name: String,
    network: String,
    /// Counts, as decimal strings.
    #[schema(value_type = Object)]
    usage: Usage,
}

/// How full a network is, per family.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NetworkUsage {
    name: String,
    /// `IPv4` or `IPv6`.
    family: String,
    /// Counts, as decimal strings.
    #[schema(value_type = Object)]
    usage: Usage,
}

/// How full everything is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Usages {
    pools: Vec<PoolUsage>,
    subnets: Vec<SubnetUsage>,
    networks: Vec<NetworkUsage>,
}

/// Utilisation per pool, subnet and network.
#[utoipa::path(get, path = "/v1alpha1/usage", tag = "overview", responses((status = 200, body = Usages)))]
pub(crate) async fn usage(State(node): State<Arc<Node>>) -> Answer<Usages> {
    let now = now();
    blocking(&node, move |node| {
        Ok(node.engine.read(|ipam| {
            let pools = ipam.pools().filter_map(|pool| {
                let (name, network) = (pool.name.clone(), pool.network.to_string());
                let (family, unit) = (pool.family.to_string(), pool.unit_len);
                Some(PoolUsage { usage: ipam.pool_usage(&name, now)?, name, network, family, unit })
            });
            let subnets = ipam.config().subnets.values().filter_map(|subnet| {
                let (name, network) = (subnet.name.clone(), subnet.network.to_string());
                Some(SubnetUsage { usage: ipam.subnet_usage(&name, now)?, name, network })
            });
            let networks = ipam.networks().into_iter().flat_map(|name| {
                [Family::V4, Family::V6].map(|family| (name.clone(), family, ipam.network_usage(&name, family, now)))
            });
            let networks = networks.filter(|(_, _, usage)| !usage.capacity.is_zero());
            let network = |(name, family, usage): (String, Family, Usage)| NetworkUsage {
                name,
                family: family.to_string(),
                usage,
            };
            Json(Usages {
                pools: pools.collect(),
                subnets: subnets.collect(),
                networks: networks.map(network).collect(),
            })
        }))
    })
    .await
}

/// What should not be.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Findings {
    /// Empty if the state is consistent.
    #[schema(value_type = Vec<Object>)]
    findings: Vec<Finding>,
}

/// Proves the state consistent, or lists what is not.
#[utoipa::path(get, path = "/v1alpha1/check", tag = "overview", responses((status = 200, body = Findings)))]
pub(crate) async fn check(State(node): State<Arc<Node>>) -> Answer<Findings> {
    blocking(&node, |node| Ok(Json(Findings { findings: node.engine.read(|ipam| ipam.check(now())) }))).await
}

/// The process is alive.
#[utoipa::path(get, path = "/healthz", tag = "overview", responses((status = 200, body = String)))]
pub(crate) async fn healthy() -> &'static str {
    "ok\n"
}

/// Requests can be served.
#[utoipa::path(get, path = "/readyz", tag = "overview",
    responses((status = 200, body = String), (status = 503, body = Problem)))]
pub(crate) async fn ready(State(node): State<Arc<Node>>) -> Result<&'static str, Problem> {
    let poisoned = blocking(&node, |node| Ok(node.engine.with_store(|j| j.poisoned().map(str::to_owned)))).await?;
    match poisoned {
        None => Ok("ok\n"),
        Some(cause) => {
            let detail = format!("the store takes no more writes: {cause}");
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", detail).hint("mend the disk, restart berth"))
        }
    }
}

/// Counters and gauges in Prometheus' text format.
#[utoipa::path(get, path = "/metrics", tag = "overview", responses((status = 200, body = String)))]
pub(crate) async fn metrics(State(node): State<Arc<Node>>) -> Result<impl IntoResponse, Problem> {
    let text = blocking(&node, |node| Ok(crate::metrics::scrape(node))).await?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text))
}
