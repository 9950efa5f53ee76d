//! The unix socket of spiderpool-agent: HTTP and JSON, for plugins and tools that speak to it.
//!
//! | module | what it is |
//! |---|---|
//! | [`routes`] | what is asked there, in the words of Berth's own socket |
//! | [`coordinator`] | how the coordinator plugin is to set up a pod, from the SpiderCoordinator |
//! | [`metrics`] | what is counted, under Spiderpool's names |
//!
//! There is one allocator behind both sockets.

mod coordinator;
mod metrics;
mod routes;

pub(crate) use metrics::Aliases;

use crate::agent::Agent;
use anyhow::Context;
use axum::Router;
use axum::routing::{get, post};
use berth_door::door;
use berth_kube::Cluster;
use routes::State;
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tracing::{info, warn};

/// The socket while nobody is answered: clients that connect wait. Its file goes with it.
pub(crate) struct Socket {
    listener: UnixListener,
    file: File,
}

/// The socket while clients are answered.
pub(crate) struct Open {
    task: AbortHandle,
    stop: oneshot::Sender<()>,
    ended: Receiver<()>,
    _file: File,
}

struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Listens, without answering yet.
pub(crate) fn listen(path: &Path) -> anyhow::Result<Socket> {
    let listener = door::listen(path).with_context(|| format!("--spiderpool-socket: listen on {}", path.display()))?;
    listener.set_nonblocking(true)?;
    Ok(Socket { listener, file: File(path.to_owned()) })
}

impl Socket {
    /// Answers those who wait and those who come.
    pub(crate) fn open(self, agent: Arc<Agent>, cluster: &Cluster) -> anyhow::Result<Open> {
        let Self { listener, file } = self;
        let listener = cluster.enter(|| tokio::net::UnixListener::from_std(listener))?;
        let api = api(State { agent, cluster: cluster.clone() });
        let (stop, stopped) = oneshot::channel::<()>();
        let (end, ended) = mpsc::channel();
        let task = cluster.spawn(async move {
            let served = axum::serve(listener, api).with_graceful_shutdown(async move {
                let _ = stopped.await;
            });
            if let Err(error) = served.await {
                warn!(%error, "the socket for Spiderpool's plugins is closed");
            }
            let _ = end.send(());
        });
        info!(socket = %file.0.display(), "speaking Spiderpool");
        Ok(Open { task, stop, ended, _file: file })
    }
}

impl Open {
    /// Stops accepting and waits for the requests under way.
    pub(crate) fn close(self, patience: Duration) {
        let _ = self.stop.send(());
        if self.ended.recv_timeout(patience).is_err() {
            self.task.abort();
        }
    }
}

fn api(state: State) -> Router {
    let api = Router::new()
        .route("/ipam/healthy", get(|| async {}))
        .route("/ipam/ip", post(routes::add).delete(routes::del))
        .route("/ipam/ips", post(routes::add).delete(routes::del_all))
        .route("/workloadendpoint", get(routes::endpoint))
        .route("/coordinator/config", get(routes::coordinator))
        .route("/runtime/startup", get(|| async {}))
        .route("/runtime/readiness", get(|| async {}))
        .route("/runtime/liveness", get(|| async {}))
        .with_state(state);
    Router::new().nest("/v1", api)
}
