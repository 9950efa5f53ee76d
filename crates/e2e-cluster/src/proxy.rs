//! A way to the API server that fails when it is told to.
//!
//! It stands between one client (an agent, a controller) and the real server: the client's kubeconfig points here, on
//! loopback and without TLS, and every request goes on to the server with the client's own token. A [rule](Proxy::rule)
//! looks at each request and says what shall become of it, so that a test can crash the client at any write, lose an
//! answer whose write was made, answer with an error, or let a request wait. Watches can be frozen, so that the client's
//! view grows old, and the whole way can be cut.

use berth_kube::requests::Call;
use futures::{Stream, StreamExt, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::future::pending;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

/// A request that came by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `get`, `list`, `watch`, `create`, `update`, `patch` or `delete`.
    pub verb: &'static str,
    /// Such as `ipblocks`, or `ipclaims/status`.
    pub resource: String,
    /// The object's name, where the path has it.
    pub name: String,
    /// How many writes there were until this one, itself included.
    pub writes: usize,
}

impl Seen {
    /// Whether it changes something.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self.verb, "create" | "update" | "patch" | "delete")
    }
}

/// What becomes of a request that does not simply go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server never sees it; this is the answer.
    Answer(u16),
    /// The server never sees it; the connection ends.
    Refuse,
    /// The server never sees it, and no answer ever comes.
    Swallow,
    /// It reaches the server; the connection ends without the answer.
    LoseAnswer,
    /// It reaches the server; no answer ever comes.
    SwallowAnswer,
    /// The process is killed, and the server never sees it.
    KillBefore(Pid),
    /// It reaches the server, and the process is killed before it hears of it.
    KillAfter(Pid),
    /// It waits until [`Proxy::release`], and goes on then.
    Hold,
    /// It reaches the server at once; the answer waits until [`Proxy::release`], and is old by then.
    HoldAnswer,
}

type Rule = Box<dyn FnMut(&Seen) -> Option<Fault> + Send>;
type Anything = UnsyncBoxBody<Bytes, Broken>;

/// Ends a connection.
#[derive(Debug)]
struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the proxy was told to break this")
    }
}

impl std::error::Error for Broken {}

/// How the way is right now.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    cut: bool,
    frozen: bool,
    /// Counts releases of what is held.
    released: u64,
}

struct Shared {
    client: Client,
    rule: Mutex<Option<Rule>>,
    seen: Mutex<Vec<Seen>>,
    way: watch::Sender<Way>,
}

/// A way to the API server; it ends when it is dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    // Never waited for: a request may hang in it.
    runtime: Option<Runtime>,
}

impl Proxy {
    /// A way to the server of a kubeconfig, with the rights that it has.
    ///
    /// # Panics
    /// If there can be none.
    #[must_use]
    pub fn start(kubeconfig: &Path) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("proxy").enable_all().build().unwrap();
        let (client, listener) = runtime.block_on(async {
            let file = Kubeconfig::read_from(kubeconfig).unwrap();
            let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
            // What the client is to see is what the server says.
            config.default_retry = false;
            (Client::try_from(config).unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap())
        });
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            client,
            rule: Mutex::default(),
            seen: Mutex::default(),
            way: watch::Sender::new(Way::default()),
        });
        runtime.spawn(accept(listener, shared.clone()));
        Self { address, shared, runtime: Some(runtime) }
    }

    /// Where clients find the server.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on this decides what becomes of requests; those it has no fault for go through.
    ///
    /// # Panics
    /// If an earlier rule did.
    pub fn rule(&self, rule: impl FnMut(&Seen) -> Option<Fault> + Send + 'static) {
        *self.shared.rule.lock().unwrap() = Some(Box::new(rule));
    }

    /// From now on everything goes through.
    ///
    /// # Panics
    /// If a rule did.
    pub fn no_rule(&self) {
        *self.shared.rule.lock().unwrap() = None;
    }

    /// Lets go on what a rule holds.
    pub fn release(&self) {
        self.shared.way.send_modify(|way| way.released += 1);
    }

    /// Nothing gets through, and every connection ends: the server is down, as far as the client can tell.
    pub fn cut(&self) {
        self.shared.way.send_modify(|way| way.cut = true);
    }

    /// Ends [`Self::cut`].
    pub fn mend(&self) {
        self.shared.way.send_modify(|way| way.cut = false);
    }

    /// Watches stand still: what they would tell is held back, not lost.
    pub fn freeze_watches(&self) {
        self.shared.way.send_modify(|way| way.frozen = true);
    }

    /// Ends [`Self::freeze_watches`].
    pub fn thaw_watches(&self) {
        self.shared.way.send_modify(|way| way.frozen = false);
    }

    /// Everything that came by so far.
    ///
    /// # Panics
    /// If a rule did.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// How many writes came by so far.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.seen().last().map_or(0, |seen| seen.writes)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        tokio::spawn(connection(stream, shared.clone()));
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let mut way = shared.way.subscribe();
    let answer = service_fn(move |request| answer(shared.clone(), request));
    let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
    tokio::select! {
        _ = served => {}
        _ = way.wait_for(|way| way.cut) => {}
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Anything>, Broken> {
    let seen = note(&shared, &request);
    let fault = shared.rule.lock().unwrap().as_mut().and_then(|rule| rule(&seen));
    match fault {
        None | Some(Fault::LoseAnswer | Fault::SwallowAnswer | Fault::KillAfter(_) | Fault::HoldAnswer) => {}
        Some(Fault::Answer(code)) => return Ok(refusal(code)),
        Some(Fault::Refuse) => return Err(Broken),
        Some(Fault::Swallow) => return pending().await,
        Some(Fault::KillBefore(pid)) => return kill(pid),
        Some(Fault::Hold) => released(&shared).await,
    }
    let response = forward(&shared.client, request).await?;
    if fault == Some(Fault::HoldAnswer) {
        released(&shared).await;
    }
    match fault {
        Some(Fault::LoseAnswer) => Err(Broken),
        Some(Fault::SwallowAnswer) => pending().await,
        Some(Fault::KillAfter(pid)) => kill(pid),
        _ if seen.verb == "watch" => {
            let way = shared.way.subscribe();
            Ok(response.map(|body| StreamBody::new(thawed(body, way)).boxed_unsync()))
        }
        _ => Ok(response.map(|body| body.map_err(|_| Broken).boxed_unsync())),
    }
}

async fn released(shared: &Shared) {
    let mut way = shared.way.subscribe();
    let before = way.borrow().released;
    let _ = way.wait_for(|way| way.released > before).await;
}

fn note(shared: &Shared, request: &Request<Incoming>) -> Seen {
    let call = Call::of(request.method(), request.uri());
    let writes = usize::from(call.is_write());
    let Call { verb, resource, name } = call;
    let mut all = shared.seen.lock().unwrap();
    let seen = Seen { verb, resource, name, writes: all.last().map_or(0, |last| last.writes) + writes };
    all.push(seen.clone());
    seen
}

async fn forward(client: &Client, request: Request<Incoming>) -> Result<Response<Body>, Broken> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
    let mut onward = Request::builder().method(parts.method).uri(parts.uri);
    // Who asks and where the server is, the client to it knows best.
    for (name, value) in parts.headers.iter().filter(|(name, _)| !["host", "authorization"].contains(&name.as_str())) {
        onward = onward.header(name, value);
    }
    client.send(onward.body(Body::from(body)).map_err(|_| Broken)?).await.map_err(|_| Broken)
}

/// What a watch tells, when watches are not frozen.
fn thawed(body: Body, way: watch::Receiver<Way>) -> impl Stream<Item = Result<Frame<Bytes>, Broken>> + Send {
    stream::unfold((BodyStream::new(body), way), |(mut frames, mut way)| async move {
        let frame = frames.next().await?;
        way.wait_for(|way| !way.frozen).await.ok()?;
        Some((frame.map_err(|_| Broken), (frames, way)))
    })
}

fn kill<T>(pid: Pid) -> Result<T, Broken> {
    // It may be gone already.
    let _ = kill_process(pid, Signal::KILL);
    Err(Broken)
}

/// An error as the API server words it.
fn refusal(code: u16) -> Response<Anything> {
    let message = format!("the proxy was told to answer {code}");
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code});
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = hyper::StatusCode::from_u16(code).unwrap();
    response.headers_mut().insert("content-type", hyper::header::HeaderValue::from_static("application/json"));
    response
}
