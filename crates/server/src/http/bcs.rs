//! BCS netservice's allocator: its three routes, its envelope.

use super::{Problem, blocking};
use crate::node::Node;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum_extra::extract::WithRejection;
use berth_core::error::Error;
use berth_dialects::bcs::{self, Allocation, Envelope, Failure, Release};
use std::sync::Arc;

fn request_id(headers: &HeaderMap) -> String {
    headers.get("X-Request-Id").and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned()
}

fn respond(headers: &HeaderMap, envelope: Envelope) -> Response {
    Json(envelope.with_request_id(request_id(headers))).into_response()
}

fn refuse(headers: &HeaderMap, failure: Failure) -> Response {
    match failure {
        Failure::Malformed(text) => (StatusCode::BAD_REQUEST, text).into_response(),
        Failure::Refused(envelope) => respond(headers, envelope),
    }
}

/// Gives a container of a host an address.
#[utoipa::path(post, path = "/netservicecontroller/v1/allocator", tag = "bcs", request_body = Allocation,
    responses((status = 200, body = Envelope), (status = 400, description = "The body is not JSON")))]
pub(crate) async fn allocate(
    State(node): State<Arc<Node>>,
    headers: HeaderMap,
    WithRejection(body, _): WithRejection<Bytes, Problem>,
) -> Response {
    let allocation = match Allocation::read(&body) {
        Ok(allocation) => allocation,
        Err(failure) => return refuse(&headers, failure),
    };
    let envelope = blocking(&node, move |node| {
        let pools = node.bcs_pools()?;
        let request = match allocation.request(&pools) {
            Ok(request) => request,
            Err(envelope) => return Ok(envelope),
        };
        Ok(match node.engine.allocate(request, None) {
            Ok(outcome) => match outcome.given.first() {
                Some(given) => allocation.given(given),
                None => Envelope::failed("no address was given"),
            },
            Err(error) => allocation.refused(&error),
        })
    });
    respond(&headers, envelope.await.unwrap_or_else(|_| Envelope::failed("the allocator failed; see its log")))
}

/// Takes a container's address back.
#[utoipa::path(delete, path = "/netservicecontroller/v1/allocator", tag = "bcs", request_body = Release,
    responses((status = 200, body = Envelope), (status = 400, description = "The body is not JSON")))]
pub(crate) async fn release(
    State(node): State<Arc<Node>>,
    headers: HeaderMap,
    WithRejection(body, _): WithRejection<Bytes, Problem>,
) -> Response {
    let release = match Release::read(&body) {
        Ok(release) => release,
        Err(failure) => return refuse(&headers, failure),
    };
    let envelope = blocking(&node, move |node| {
        let key = release.attachment();
        let released = node.engine.release(key.network, key.id, key.ifname, None)?;
        Ok::<_, Error>(release.released(&released))
    });
    respond(&headers, envelope.await.unwrap_or_else(|_| Envelope::failed("the allocator failed; see its log")))
}

/// Takes back everything on a host.
#[utoipa::path(delete, path = "/netservicecontroller/v1/allocator/host/{hostip}", tag = "bcs",
    params(("hostip" = String, Path)), responses((status = 200, body = Envelope)))]
pub(crate) async fn release_host(
    State(node): State<Arc<Node>>,
    Path(host): Path<String>,
    headers: HeaderMap,
) -> Response {
    let envelope = blocking(&node, move |node| {
        let name = host.clone();
        let released = node.engine.transact(move |context| {
            Ok(context.ipam.release_where(|holder| bcs::is_on_host(holder, &name), context.now))
        })?;
        Ok::<_, Error>(bcs::host_released(&host, &released))
    });
    respond(&headers, envelope.await.unwrap_or_else(|_| Envelope::failed("the allocator failed; see its log")))
}
