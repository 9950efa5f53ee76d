//! How an agent finds and trusts the API server.

use crate::requests::Requests;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::AbortHandle;

/// A call that takes longer has failed: whoever waits for it is told to try again.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// How often a server that did not answer is asked whether it is back.
const PROBE: Duration = Duration::from_millis(300);
/// What it is asked for: something that it must ask its own store for, without which it is of no use.
const SOMETHING_STORED: &str = "/apis/berth.io/v1alpha1/ipblocks?limit=1";

/// Where the API server is.
#[derive(Clone, Debug, Default)]
pub struct Connect {
    /// A kubeconfig; without one, the service account of the pod.
    pub kubeconfig: Option<PathBuf>,
    /// The server's URL, in place of the kubeconfig's or the environment's: an agent runs before kube-proxy does.
    pub server: Option<String>,
}

impl Connect {
    /// The cluster that kubectl would talk to: of the given kubeconfig, of `KUBECONFIG`, of `~/.kube/config`, and else that
    /// of the pod. In a pod of Berth's own that is at the address which the pod was told, as for whatever else runs there:
    /// the server's Service may not be reachable.
    #[must_use]
    pub fn as_kubectl(given: Option<PathBuf>) -> Self {
        let of_environment = || std::env::var_os("KUBECONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
        let of_home = || {
            let path = PathBuf::from(std::env::var_os("HOME")?).join(".kube/config");
            path.exists().then_some(path)
        };
        let kubeconfig = given.or_else(of_environment).or_else(of_home);
        let told = || std::env::var("BERTH_API_SERVER").ok().filter(|url| !url.is_empty());
        let server = if kubeconfig.is_none() { told() } else { None };
        Self { kubeconfig, server }
    }
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig is no good.
    #[error("kubeconfig {}: {source}", path.display())]
    Kubeconfig {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        source: kube::config::KubeconfigError,
    },
    /// Not in a pod.
    #[error("no service account here ({0}); give --kubeconfig, or run in a pod")]
    NotInCluster(kube::config::InClusterError),
    /// The URL is none.
    #[error("--api-server {url:?}: {reason}; write it as https://HOST:PORT")]
    Server {
        /// What was given.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// The client could not be made.
    #[error("cannot make a client for the API server: {0}")]
    Client(Box<kube::Error>),
    /// No runtime.
    #[error("cannot start the runtime: {0}")]
    Runtime(std::io::Error),
}

/// A connection to the API server, for synchronous callers.
///
/// Once a call got no answer, further calls fail at once until the server answers again: nobody queues behind a server
/// that is down. Whether it is back is found out in the background.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    handle: Handle,
    down: Arc<AtomicBool>,
    requests: Requests,
    // Dropped last, and never on one of its own threads.
    _runtime: Arc<Owned>,
}

struct Owned(Option<Runtime>);

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Cluster {
    /// Makes a client; does not talk to the server yet.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(to: &Connect) -> Result<Self, ConnectError> {
        let threads = Builder::new_multi_thread().worker_threads(2).thread_name("kube").enable_all().build();
        let runtime = threads.map_err(ConnectError::Runtime)?;
        let requests = Requests::default();
        let client = runtime.block_on(client(to, &requests))?;
        let handle = runtime.handle().clone();
        Ok(Self { client, handle, down: Arc::default(), requests, _runtime: Arc::new(Owned(Some(runtime))) })
    }

    /// The asynchronous client.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// What was asked of the server so far.
    #[must_use]
    pub const fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Waits for a call, but not for ever.
    ///
    /// # Errors
    /// What the call says, that it took too long, or that the server is known to be down.
    pub fn wait<T>(&self, call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, CallError> {
        if self.down.load(Ordering::SeqCst) {
            return Err(CallError::Down);
        }
        let result = self.handle.block_on(async {
            match tokio::time::timeout(PATIENCE, call).await {
                Ok(result) => result.map_err(|error| CallError::Failed(Box::new(error))),
                Err(_) => Err(CallError::TimedOut),
            }
        });
        if result.as_ref().is_err_and(CallError::is_silence) {
            self.watch_for_return();
        }
        result
    }

    /// Asks in the background until the server answers.
    fn watch_for_return(&self) {
        if self.down.swap(true, Ordering::SeqCst) {
            return;
        }
        let (client, down) = (self.client.clone(), self.down.clone());
        self.handle.spawn(async move {
            loop {
                tokio::time::sleep(PROBE).await;
                let Ok(request) = http::Request::get(SOMETHING_STORED).body(Vec::new()) else { return };
                let answer = tokio::time::timeout(Duration::from_secs(2), client.request_text(request)).await;
                // Also a refusal will do, but no word of a server that has nobody to ask itself.
                let answered = match answer {
                    Ok(Err(kube::Error::Api(status))) => status.code < 500,
                    Ok(answer) => answer.is_ok(),
                    Err(_) => false,
                };
                if answered {
                    return down.store(false, Ordering::SeqCst);
                }
            }
        });
    }

    /// Does something that needs the runtime to be at hand, such as making a listener of it.
    pub fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        let _here = self.handle.enter();
        work()
    }

    /// Runs something in the background for as long as this connection lives, or until it is told to end.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.handle.spawn(task).abort_handle()
    }
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// What the server or the way to it says.
    #[error("{}", reason(.0))]
    Failed(Box<kube::Error>),
    /// The server did not answer a moment ago, and is not asked again before it does.
    #[error("the API server does not answer")]
    Down,
    /// Nothing came back in time.
    #[error("the API server did not answer within {} seconds", PATIENCE.as_secs())]
    TimedOut,
}

impl CallError {
    /// The HTTP status, if the server answered.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Failed(error) => status(error),
            Self::TimedOut | Self::Down => None,
        }
    }

    /// Whether nothing was heard of the server. What came and cannot be read is an answer too.
    fn is_silence(&self) -> bool {
        match self {
            Self::Failed(error) => !matches!(**error, kube::Error::Api(_) | kube::Error::SerdeError(_)),
            Self::TimedOut | Self::Down => true,
        }
    }
}

pub(crate) fn status(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// The error without the layers around it.
fn reason(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return format!("the API server says: {}", status.message);
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    format!("the API server cannot be reached: {cause}")
}

async fn client(to: &Connect, requests: &Requests) -> Result<Client, ConnectError> {
    let mut config = match &to.kubeconfig {
        Some(path) => {
            let wrong = |source| ConnectError::Kubeconfig { path: path.clone(), source };
            let file = Kubeconfig::read_from(path).map_err(wrong)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(wrong)?
        }
        None => Config::incluster().map_err(ConnectError::NotInCluster)?,
    };
    if let Some(url) = &to.server {
        let wrong = |reason: String| ConnectError::Server { url: url.clone(), reason };
        config.cluster_url = url.parse().map_err(|error| wrong(format!("{error}")))?;
        if config.cluster_url.host().is_none() {
            return Err(wrong("names no host".to_owned()));
        }
    }
    config.connect_timeout = Some(Duration::from_secs(3));
    let builder = ClientBuilder::try_from(config).map_err(|error| ConnectError::Client(Box::new(error)))?;
    Ok(builder.with_layer(requests).build())
}
