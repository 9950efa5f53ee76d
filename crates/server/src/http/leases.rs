//! Runs of pools that are lent to nodes: listed, and taken back.

use super::{Answer, Problem, blocking};
use crate::node::{Node, now};
use crate::objects::rfc3339;
use axum::Json;
use axum::extract::{Path, Query, State};
use axum_extra::extract::WithRejection;
use berth_core::addr::Cidr;
use berth_core::error::Error;
use berth_core::ipam::{Ipam, Lease};
use berth_core::model::DEFAULT_NETWORK;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    /// Only this network.
    network: Option<String>,
    /// Only this pool.
    pool: Option<String>,
    /// Only what this node has.
    node: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Network {
    /// The network; `default` if left out.
    network: Option<String>,
}

/// A run of a pool that is lent to a node.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeaseShape {
    /// The network.
    network: String,
    /// What is lent.
    range: String,
    /// The pool it is of.
    pool: String,
    /// Who has it.
    node: String,
    /// Since when.
    since: String,
    /// How many of its addresses are in use, held or quarantined, as a decimal string.
    in_use: String,
    /// How many it has, as a decimal string.
    size: String,
}

impl LeaseShape {
    fn new(ipam: &Ipam, network: &str, lease: &Lease) -> Self {
        let (in_use, size) = ipam.lease_usage(lease);
        Self {
            network: network.to_owned(),
            range: lease.prefix.to_string(),
            pool: lease.pool.clone(),
            node: lease.node.clone(),
            since: rfc3339(lease.since),
            in_use: in_use.to_string(),
            size: size.to_string(),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Leases {
    /// The leases, in order of pool and address.
    items: Vec<LeaseShape>,
}

/// What is lent, and to whom.
#[utoipa::path(get, path = "/v1alpha1/leases", tag = "leases", params(Filter), responses((status = 200, body = Leases)))]
pub(crate) async fn list(
    State(node): State<Arc<Node>>,
    WithRejection(Query(filter), _): WithRejection<Query<Filter>, Problem>,
) -> Answer<Leases> {
    let items = blocking(&node, move |node| {
        Ok(node.engine.read(|ipam| {
            let fits = |wanted: &Option<String>, own: &str| wanted.as_deref().is_none_or(|wanted| wanted == own);
            let pools = ipam.pools().filter(|pool| fits(&filter.pool, &pool.name));
            let pools = pools.filter(|pool| fits(&filter.network, &pool.network));
            let lent = pools.flat_map(|pool| ipam.leases(&pool.name).into_iter().map(move |lease| (pool, lease)));
            let own = lent.filter(|(_, lease)| fits(&filter.node, &lease.node));
            own.map(|(pool, lease)| LeaseShape::new(ipam, &pool.network, &lease)).collect()
        }))
    });
    Ok(Json(Leases { items: items.await? }))
}

/// Takes back a run in which nothing is in use. The node takes another one when it needs it.
#[utoipa::path(delete, path = "/v1alpha1/leases/{range}", tag = "leases",
    params(("range" = String, Path, description = "What was lent, as a CIDR; its slash is written %2F"), Network),
    responses((status = 200, body = LeaseShape), (status = 404, body = Problem),
        (status = 409, body = Problem, description = "Something in it is in use")))]
pub(crate) async fn give_back(
    State(node): State<Arc<Node>>,
    WithRejection(Path(range), _): WithRejection<Path<String>, Problem>,
    WithRejection(Query(query), _): WithRejection<Query<Network>, Problem>,
) -> Answer<LeaseShape> {
    let unreadable = |reason: berth_core::addr::ParseError| {
        let reason = format!("{reason}; write e.g. 10.77.4.0/26, as `berth leases` shows it");
        Error::Invalid { field: "range".to_owned(), reason }
    };
    let range: Cidr = range.parse().map_err(unreadable)?;
    let network = query.network.unwrap_or_else(|| DEFAULT_NETWORK.to_owned());
    let name = format!("{range} in network {network}");
    let returned = blocking(&node, move |node| {
        node.engine.transact(move |context| {
            let pools = context.ipam.pools().filter(|pool| *pool.network == *network);
            let lent = pools.flat_map(|pool| context.ipam.leases(&pool.name));
            let Some(lease) = lent.into_iter().find(|lease| lease.prefix == range) else { return Ok(None) };
            let shape = LeaseShape::new(context.ipam, &network, &lease);
            context.ipam.return_lease(&lease, now())?;
            Ok(Some(shape))
        })
    });
    let absent = || {
        let problem = Problem::from(Error::NotFound { kind: "lease".to_owned(), name });
        problem.hint("`berth leases` lists what is lent, and in which network")
    };
    returned.await?.map(Json).ok_or_else(absent)
}
