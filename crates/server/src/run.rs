//! Starting, announcing, stopping.

use crate::chores;
use crate::http;
use crate::logging::{self, LogFormat};
use crate::node::Node;

use anyhow::Context;
use berth_door::{Door, Queue, door};
use berth_store::Durability;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

/// How a daemon is to run.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The socket for the CNI plugin.
    pub socket: PathBuf,
    /// Where state is kept.
    pub state_dir: PathBuf,
    /// Where the HTTP API listens; `None` turns it off.
    pub listen: Option<SocketAddr>,
    /// When writes are forced to disk.
    pub durability: Durability,
    /// How long the audit trail reaches back.
    pub audit_days: u64,
    /// How log lines look.
    pub log_format: LogFormat,
    /// What is logged, e.g. `info` or `berth_server=debug`.
    pub log_level: String,
    /// The name of this machine.
    pub node_name: String,
}

/// Runs the daemon until it is told to stop.
///
/// # Errors
/// If it cannot start; the message says what to do.
pub fn serve(options: &ServeOptions) -> anyhow::Result<()> {
    logging::init(options.log_format, &options.log_level);
    let node = Arc::new(Node::open(&options.state_dir, &options.node_name, options.durability)?);
    let example = node.offer_example()?;

    // Listen, then drain, then serve: a deletion that was queued comes before any request that could depend on it.
    let listen = door::listen(&options.socket);
    let listener = listen.with_context(|| format!("--socket: listen on {}", options.socket.display()))?;
    let queue = Arc::new(Queue::beside(&options.socket));
    queue.drain(&*node, node.booted);

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (stop, stopped) = mpsc::channel();
    let chores = {
        let (node, queue) = (node.clone(), queue.clone());
        let keep = Duration::from_secs(options.audit_days.saturating_mul(86_400));
        thread::Builder::new()
            .name("chores".to_owned())
            .spawn(move || chores::run(&node, &queue, keep, chores::ROUND, &stopped))?
    };
    let outcome = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let http = match options.listen {
            None => None,
            Some(address) => {
                let bound = tokio::net::TcpListener::bind(address).await;
                Some(bound.with_context(|| format!("listen on http://{address}; choose another with --listen"))?)
            }
        };
        let address = http.as_ref().map(tokio::net::TcpListener::local_addr).transpose()?;
        let door = Door::open(listener, node.clone())?;
        announce(options, address, example);
        let (tell, told) = tokio::sync::watch::channel(false);
        let server = http.map(|listener| tokio::spawn(http::serve(listener, node.clone(), told)));
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        info!("stopping: requests under way are finished first");
        let _ = tell.send(true);
        if let Some(server) = server {
            // A client that keeps its connection open does not keep the daemon.
            if tokio::time::timeout(Duration::from_secs(5), server).await.is_err() {
                warn!("gave up waiting for HTTP clients");
            }
        }
        tokio::task::spawn_blocking(move || door.close(Duration::from_secs(5))).await?;
        anyhow::Ok(())
    });
    drop(stop);
    let _ = chores.join();
    let _ = std::fs::remove_file(&options.socket);
    runtime.shutdown_timeout(Duration::from_secs(1));
    node.engine.with_store(berth_store::Journal::sync)?;
    info!("stopped");
    outcome
}

fn announce(options: &ServeOptions, http: Option<SocketAddr>, example: bool) {
    let listen = http.map_or_else(|| "off".to_owned(), |address| format!("http://{address}"));
    info!(socket = %options.socket.display(), http = listen, state = %options.state_dir.display(), "ready");
    if !example {
        return;
    }
    let server = match http {
        Some(address) if address.port() != 8090 => format!(" --server http://{address}"),
        _ => String::new(),
    };
    // For a person at a terminal, not for a log.
    eprintln!(
        "\nNothing is configured yet, so there is a small pool to play with: \"example\", 10.77.0.0/24.\n\
         It makes room for the first pool of your own. Try, in another terminal:\n\n  \
         berth{server} get pools\n  berth{server} allocate --holder my-first\n  berth{server} status\n"
    );
}
