//! Taking over addresses that another allocator gave out.

use super::{Answer, Problem, blocking};
use crate::node::Node;
use axum::Json;
use axum::extract::State;
use axum_extra::extract::WithRejection;
use berth_core::error::Error;
use berth_core::holder::{Attachment, Holder, Kind};
use berth_core::ipam::{Group, Request};
use berth_core::model::Subject;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::Arc;
use utoipa::ToSchema;

/// More leases than this in one request would hold everyone else up.
const MAX_LEASES: usize = 1000;

/// One address that someone has.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lease {
    /// The address.
    #[schema(value_type = String)]
    address: IpAddr,
    /// The container that has it.
    container: String,
    /// Its interface.
    #[serde(default)]
    ifname: String,
    /// Since when; for the record only.
    #[serde(default)]
    #[expect(dead_code, reason = "accepted so that callers may say it")]
    since: Option<String>,
}

/// Addresses to take over.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Import {
    /// The allocator they come from; for the record only.
    #[serde(default)]
    #[expect(dead_code, reason = "accepted so that callers may say it")]
    source: String,
    /// The CNI network they were given out in.
    cni_network: String,
    /// The pools they belong to; any if left out.
    #[serde(default)]
    pools: Vec<String>,
    /// Say what would be done, and do nothing.
    #[serde(default)]
    dry_run: bool,
    /// The addresses.
    leases: Vec<Lease>,
}

/// What cannot be taken over.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Refused {
    /// The address.
    #[schema(value_type = String)]
    address: IpAddr,
    /// Why not.
    reason: String,
}

/// What was taken over.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(crate) struct Imported {
    /// Taken over now.
    #[schema(value_type = Vec<String>)]
    imported: Vec<IpAddr>,
    /// Recorded for that very container already.
    #[schema(value_type = Vec<String>)]
    known: Vec<IpAddr>,
    /// Left alone.
    refused: Vec<Refused>,
}

/// Takes over addresses that containers already have.
#[utoipa::path(post, path = "/v1alpha1/import", tag = "addresses", request_body = Import,
    responses((status = 200, body = Imported), (status = 422, body = Problem)))]
pub(crate) async fn import(
    State(node): State<Arc<Node>>,
    WithRejection(Json(body), _): WithRejection<Json<Import>, Problem>,
) -> Answer<Imported> {
    if body.leases.len() > MAX_LEASES {
        let reason = format!("{} leases at once; send at most {MAX_LEASES} in a request", body.leases.len());
        return Err(Error::Invalid { field: "leases".to_owned(), reason }.into());
    }
    blocking(&node, move |node| {
        let name = node.name.clone();
        node.engine.transact(move |context| {
            let (mut answer, start) = (Imported::default(), context.ipam.savepoint());
            for lease in &body.leases {
                let key = Attachment { network: &body.cni_network, id: &lease.container, ifname: &lease.ifname };
                if context.ipam.of_attachment(key).contains(&lease.address) {
                    answer.known.push(lease.address);
                    continue;
                }
                match context.ipam.adopt(&request(&body, lease, &name), context.now, context.entropy) {
                    Ok(_) => answer.imported.push(lease.address),
                    Err(error) => answer.refused.push(Refused { address: lease.address, reason: error.to_string() }),
                }
            }
            if body.dry_run {
                context.ipam.rollback_to(start);
            }
            Ok(Json(answer))
        })
    })
    .await
}

fn request(body: &Import, lease: &Lease, node: &str) -> Request {
    let holder = Holder {
        kind: Kind::Container,
        network: body.cni_network.clone(),
        id: lease.container.clone(),
        ifname: lease.ifname.clone(),
        ..Holder::default()
    };
    let group = Group { pools: body.pools.clone(), addresses: vec![lease.address], ..Group::default() };
    let subject = Subject { node: node.to_owned(), ..Subject::default() };
    Request { holder, subject, groups: vec![group] }
}
