//! The unix socket of spiderpool-agent: HTTP and JSON, for plugins and tools that speak to it.
//!
//! | module | what it is |
//! |---|---|
//! | [`words`] | what is said there |
//! | [`routes`] | what it comes to in the words of Berth's own socket |
//! | [`coordinator`] | how the coordinator plugin is to set up a pod, from the SpiderCoordinator |
//!
//! There is one allocator behind both sockets. An attachment that was made here is one of the CNI network
//! [`words::NETWORK`], since its callers do not say which network they are in.

mod coordinator;
mod routes;
mod words;

use crate::agent::Agent;
use anyhow::Context;
use axum::Router;
use axum::routing::get;
use berth_kube::Cluster;
use routes::State;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use tokio::net::UnixListener;
use tracing::{info, warn};

/// Listens, and answers for as long as the connection to the cluster lives.
pub(crate) fn serve(path: &Path, agent: Arc<Agent>, cluster: &Cluster) -> anyhow::Result<()> {
    let dir = path.parent().context("--spiderpool-socket names no directory")?;
    fs::create_dir_all(dir).with_context(|| format!("make the directory {}", dir.display()))?;
    // What an agent left behind that was killed. This node's lock is ours, so nobody listens on it but a stranger.
    if fs::symlink_metadata(path).is_ok_and(|known| known.file_type().is_socket()) {
        fs::remove_file(path).with_context(|| format!("remove the old socket {}", path.display()))?;
    }
    let listener = cluster.enter(|| UnixListener::bind(path));
    let listener = listener.with_context(|| format!("listen on {}", path.display()))?;
    let state = State { agent, cluster: cluster.clone() };
    let api = Router::new()
        .route("/ipam/healthy", get(|| async {}))
        .route("/ipam/ip", axum::routing::post(routes::add).delete(routes::del))
        .route("/ipam/ips", axum::routing::post(routes::add_all).delete(routes::del_all))
        .route("/workloadendpoint", get(routes::endpoint))
        .route("/coordinator/config", get(routes::coordinator))
        .route("/runtime/startup", get(|| async {}))
        .route("/runtime/readiness", get(|| async {}))
        .route("/runtime/liveness", get(|| async {}))
        .with_state(state);
    info!(socket = %path.display(), "speaking Spiderpool");
    cluster.spawn(async move {
        if let Err(error) = axum::serve(listener, Router::new().nest("/v1", api)).await {
            warn!(%error, "the socket for Spiderpool's plugins is closed");
        }
    });
    Ok(())
}
