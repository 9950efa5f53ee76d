//! The description of the API, generated from the handlers.

use axum::response::{IntoResponse, Response};
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(title = "Berth", description = "IP address management: pools, addresses, and who has them."),
    paths(
        super::objects::apply,
        super::objects::list,
        super::objects::get,
        super::objects::delete,
        super::addresses::list,
        super::addresses::show,
        super::addresses::allocate,
        super::addresses::release,
        super::addresses::release_many,
        super::addresses::history,
        super::addresses::explain,
        super::addresses::quarantine,
        super::import::import,
        super::leases::list,
        super::leases::give_back,
        super::overview::usage,
        super::overview::check,
        super::overview::healthy,
        super::overview::ready,
        super::overview::metrics,
        super::bcs::allocate,
        super::bcs::release,
        super::bcs::release_host,
    ),
    components(schemas(
        berth_dialects::native::PoolSpec,
        berth_dialects::native::SubnetSpec,
        berth_dialects::native::ReservationSpec,
        berth_dialects::native::ClaimSpec,
        berth_dialects::bcs::NetPoolSpec,
    )),
    tags(
        (name = "objects", description = "Pools, subnets, reservations and claims, as manifests"),
        (name = "addresses", description = "Addresses and who has them"),
        (name = "leases", description = "Runs of pools that are lent to nodes"),
        (name = "overview", description = "How full, how consistent, how well"),
        (name = "bcs", description = "BCS netservice's allocator"),
    )
)]
struct Api;

/// The OpenAPI document.
#[must_use]
pub fn openapi_json() -> String {
    Api::openapi().to_pretty_json().unwrap_or_default()
}

pub(crate) async fn document() -> Response {
    ([(axum::http::header::CONTENT_TYPE, "application/json")], openapi_json()).into_response()
}
