//! HTTPS, with a certificate that is changed while it runs: connections that are there keep theirs, new ones get the
//! new one.

use crate::certificates::Pair;
use crate::defaulting::complete;
use crate::review::{self, Asked, Cluster, Options, review};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tracing::debug;

/// A request carries an object twice, and the server's notes on who wrote what.
const MOST_BYTES: usize = 4 << 20;
/// An API server waits for three seconds.
const PATIENCE: Duration = Duration::from_secs(3);
/// API servers are few, and keep their connections.
const MOST_CONNECTIONS: usize = 256;
/// Who is being answered when the server ends is answered.
const FAREWELL: Duration = Duration::from_secs(5);

/// The certificate that new connections are shown.
#[derive(Default)]
pub struct Resolver(RwLock<Option<Arc<CertifiedKey>>>);

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

/// A certificate that cannot be shown.
#[derive(Debug, thiserror::Error)]
#[error("the certificate cannot be served: {0}")]
pub struct NoCertificate(String);

impl Resolver {
    /// Shows this certificate from now on.
    ///
    /// # Errors
    /// If it is none; then the last one is shown.
    pub fn show(&self, pair: &Pair) -> Result<(), NoCertificate> {
        let wrong = |error: &dyn fmt::Display| NoCertificate(error.to_string());
        let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).map_err(|e| wrong(&e))?;
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).map_err(|e| wrong(&e))?;
        let key = CertifiedKey::from_der(vec![certificate], key, &ring::default_provider()).map_err(|e| wrong(&e))?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(key));
        Ok(())
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Shared<C> {
    cluster: C,
    options: Options,
}

/// Answers API servers until `end` comes, and then those who have asked already.
///
/// # Errors
/// If TLS cannot be set up.
pub async fn serve<C: Cluster>(
    listener: TcpListener,
    resolver: Arc<Resolver>,
    cluster: C,
    options: Options,
    end: impl Future<Output = ()>,
) -> io::Result<()> {
    let tls = ServerConfig::builder_with_provider(ring::default_provider().into());
    let tls = tls.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    let acceptor = TlsAcceptor::from(Arc::new(tls.with_no_client_auth().with_cert_resolver(resolver)));
    let router = Router::new()
        .route("/validate", post(validate::<C>))
        .route("/default", post(default::<C>))
        .route("/healthz", get(|| async { "ok" }))
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .layer(middleware::from_fn(in_time))
        .with_state(Arc::new(Shared { cluster, options }));
    let (places, running) = (Arc::new(Semaphore::new(MOST_CONNECTIONS)), GracefulShutdown::new());
    let mut end = std::pin::pin!(end);
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { break };
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // Out of file descriptors, or the client has left: neither is helped by ending.
                Err(error) => {
                    debug!(%error, "a connection was not accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = &mut end => break,
        };
        let (acceptor, router, watcher) = (acceptor.clone(), router.clone(), running.watcher());
        tokio::spawn(async move {
            if let Some(tls) = greet(&acceptor, stream).await {
                let mut http = hyper::server::conn::http1::Builder::new();
                http.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(120));
                let connection = http.serve_connection(TokioIo::new(tls), TowerToHyperService::new(router));
                if let Err(error) = watcher.watch(connection).await {
                    debug!(%error, "a connection ended");
                }
            }
            drop(place);
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(FAREWELL, running.shutdown()).await;
    Ok(())
}

/// The handshake. Who does not finish it in time must not keep a place.
async fn greet(acceptor: &TlsAcceptor, stream: TcpStream) -> Option<tokio_rustls::server::TlsStream<TcpStream>> {
    match tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(tls)) => Some(tls),
        Ok(Err(error)) => {
            debug!(%error, "no handshake");
            None
        }
        Err(_) => None,
    }
}

/// A body that trickles in must not keep a place either.
async fn in_time(request: Request, next: Next) -> Response {
    let answer = tokio::time::timeout(PATIENCE, next.run(request)).await;
    answer.unwrap_or_else(|_| StatusCode::REQUEST_TIMEOUT.into_response())
}

async fn validate<C: Cluster>(State(shared): State<Arc<Shared<C>>>, Json(asked): Json<Asked>) -> Response {
    answer(asked, move |request| {
        let answer = shared.cluster.with(|view| review(request, view, &shared.options));
        if let Some(error) = &answer.refused {
            debug!(%error, operation = ?request.operation, "refused");
        }
        answer.to_json(&request.uid)
    })
    .await
}

async fn default<C: Cluster>(State(shared): State<Arc<Shared<C>>>, Json(asked): Json<Asked>) -> Response {
    answer(asked, move |request| complete(request, &shared.cluster)).await
}

/// On a thread that may wait: what is known may be behind a lock, or the server may have to be asked for the rest, and the
/// threads that requests come in on are those that bring its answers.
async fn answer(asked: Asked, how: impl FnOnce(&review::Request) -> Value + Send + 'static) -> Response {
    match tokio::task::spawn_blocking(move || how(&asked.request)).await {
        Ok(answer) => Json(answer).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
