//! The HTTP API: one file per group of routes.

mod addresses;
mod bcs;
mod import;
mod leases;
mod listener;
mod objects;
mod openapi;
mod overview;
mod problem;
mod shape;

pub use addresses::explanation;
pub use openapi::openapi_json;

use crate::node::Node;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use berth_core::error::Error;
use listener::Bounded;
use problem::Problem;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tracing::{debug, warn};

/// The largest body taken: enough for thousands of objects.
const MAX_BODY: usize = 4 << 20;

/// How many connections are served at once; those beyond wait in the listening queue of the system.
const MAX_CONNECTIONS: usize = 256;

/// A connection on which nothing moves for this long is closed, so that silent ones do not keep others out.
const IDLE: Duration = Duration::from_secs(60);

/// Serves until told to stop.
pub(crate) async fn serve(listener: TcpListener, node: Arc<Node>, mut told: watch::Receiver<bool>) {
    let stop = async move {
        let _ = told.wait_for(|stop| *stop).await;
    };
    let listener = Bounded::new(listener, MAX_CONNECTIONS, IDLE);
    if let Err(error) = axum::serve(listener, router(node)).with_graceful_shutdown(stop).await {
        warn!(%error, "the HTTP API stopped");
    }
}

fn router(node: Arc<Node>) -> Router {
    let v1 = Router::new()
        .route("/apply", post(objects::apply))
        .route("/objects/{kind}", get(objects::list))
        .route("/objects/{kind}/{name}", get(objects::get).delete(objects::delete))
        .route("/addresses", get(addresses::list).post(addresses::allocate).delete(addresses::release_many))
        .route("/addresses/{address}", get(addresses::show).delete(addresses::release))
        .route("/addresses/{address}/history", get(addresses::history))
        .route("/explain", post(addresses::explain))
        .route("/quarantine", post(addresses::quarantine))
        .route("/import", post(import::import))
        .route("/leases", get(leases::list))
        .route("/leases/{range}", delete(leases::give_back))
        .route("/usage", get(overview::usage))
        .route("/check", get(overview::check));
    let bcs = Router::new()
        .route("/allocator", post(bcs::allocate).delete(bcs::release))
        .route("/allocator/host/{host}", delete(bcs::release_host));
    Router::new()
        .nest("/v1alpha1", v1)
        .nest("/netservicecontroller/v1", bcs)
        .route("/openapi.json", get(openapi::document))
        .route("/healthz", get(overview::healthy))
        .route("/readyz", get(overview::ready))
        .route("/metrics", get(overview::metrics))
        .fallback(unknown_route)
        .method_not_allowed_fallback(unknown_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn(refuse_strangers))
        .with_state(node)
}

async fn unknown_route(method: Method, uri: axum::http::Uri) -> Problem {
    let detail = format!("there is no {method} {}", uri.path());
    Problem::new(StatusCode::NOT_FOUND, "unknown-route", detail).hint("see /openapi.json")
}

async fn unknown_method(method: Method, uri: axum::http::Uri) -> Problem {
    let detail = format!("{} does not take {method}", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "unknown-method", detail).hint("see /openapi.json")
}

async fn refuse_strangers(request: Request, next: Next) -> Response {
    match stranger(request.headers()) {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    }
}

/// A web page that a browser on this machine shows can reach loopback, under a name of its own, or with a form that it
/// sends here; both are refused.
fn stranger(headers: &HeaderMap) -> Option<Problem> {
    let header = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let host = header(HOST).unwrap_or("localhost");
    let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit())).map_or(host, |h| h.0);
    let name = name.trim_start_matches('[').trim_end_matches(']');
    if name != "localhost" && name.parse::<IpAddr>().is_err() {
        let detail = format!("the Host header names {name:?}; ask by address or as localhost");
        let problem = Problem::new(StatusCode::MISDIRECTED_REQUEST, "foreign-host", detail);
        return Some(problem.hint("use http://localhost or http://127.0.0.1"));
    }
    let origin = header(ORIGIN).filter(|origin| origin.strip_prefix("http://") != Some(host))?;
    let detail = format!("a page of {origin:?} sent this, which is not this server");
    let problem = Problem::new(StatusCode::FORBIDDEN, "foreign-origin", detail);
    Some(problem.hint("ask from a program, or from a page that this server serves"))
}

/// The answer of a handler: JSON, or a problem document.
type Answer<T> = Result<Json<T>, Problem>;

/// Runs work that may wait for the disk on a thread where that holds up nobody.
async fn blocking<R: Send + 'static>(
    node: &Arc<Node>,
    work: impl FnOnce(&Node) -> Result<R, Error> + Send + 'static,
) -> Result<R, Problem> {
    let node = node.clone();
    match tokio::task::spawn_blocking(move || work(&node)).await {
        Ok(result) => result.map_err(|error| {
            match error.names().http {
                500.. => warn!(%error, "a request failed"),
                _ => debug!(%error, "a request was refused"),
            }
            Problem::from(error)
        }),
        Err(_) => {
            let detail = "the request could not be finished; see the log of the daemon";
            Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail.to_owned()))
        }
    }
}
