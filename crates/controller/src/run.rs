//! Starting and stopping.

use crate::admission::{self, WebhookOptions};
use crate::apps::Apps;
use crate::claims::Claims;
use crate::endpoints::Mender;
use crate::events::Events;
use crate::guard::Guard;
use crate::leader::{self, Seat};
use crate::metrics::Metrics;
use crate::reclaim::Reclaim;
use crate::spiderpool::Spider;
use crate::status::Status;
use crate::world::World;
use anyhow::Context;
use berth_core::reclaim::Times;
use berth_dialects::spiderpool::settings::{Conf, Settings};
use berth_kube::{Cluster, Connect};
use berth_server::{LogFormat, serve_probes};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// How a controller is to run.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// Where the API server is.
    pub connect: Connect,
    /// The namespace it is installed in, where its lease is.
    pub namespace: String,
    /// The name of this replica.
    pub replica: String,
    /// Where `/healthz`, `/readyz` and `/metrics` are served; `None` turns it off.
    pub listen: Option<SocketAddr>,
    /// Where and how the webhook is served; `None` turns it off.
    pub webhook: Option<WebhookOptions>,
    /// After how long addresses come back that nobody gives back.
    pub times: Times,
    /// How often everything is looked at, whatever has happened.
    pub audit: Duration,
    /// What Spiderpool's switches come to, beyond times.
    pub spiderpool: Settings,
    /// How log lines look.
    pub log_format: LogFormat,
    /// What is logged.
    pub log_level: String,
}

/// Runs the controller until it is told to stop.
///
/// # Errors
/// If it cannot start for a reason that does not pass, or if it led and does not any more.
pub fn run(options: &ControllerOptions) -> anyhow::Result<()> {
    berth_server::init_logging(options.log_format, &options.log_level);
    options.spiderpool.warnings.iter().for_each(|warning| warn!("{warning}"));
    serve(options, &berth_server::stop_on_signal()?)
}

/// Runs the controller until `stop` is set, without touching what belongs to the process: signals and the log.
///
/// # Errors
/// As [`run`].
pub fn serve(options: &ControllerOptions, stop: &Arc<AtomicBool>) -> anyhow::Result<()> {
    let cluster = Cluster::connect(&options.connect)?;
    let (ready, metrics) = (Arc::new(AtomicBool::new(false)), Arc::new(Metrics::new(cluster.requests())));
    let opened: Arc<OnceLock<Arc<World>>> = Arc::default();
    if let Some(address) = options.listen {
        let (is_ready, counted, opened) = (ready.clone(), metrics.clone(), opened.clone());
        let is_ready = move || match is_ready.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err("the cluster's state is still being read"),
        };
        let bound = serve_probes(address, is_ready, move || counted.scrape(opened.get().map(AsRef::as_ref)));
        let bound = bound.with_context(|| format!("listen on http://{address}; choose another with --listen"))?;
        info!(address = %bound, "serving /healthz, /readyz and /metrics");
    }
    let Some(world) = open(&cluster, &options.spiderpool.conf, stop) else { return Ok(()) };
    let (world, seat) = (Arc::new(world), Seat::new());
    let _ = opened.set(world.clone());
    let events = Events::new(&cluster, &options.replica);
    if let Some(webhook) = &options.webhook {
        admission::start(&world, &options.namespace, webhook)?;
    }
    ready.store(true, Ordering::SeqCst);
    info!(replica = options.replica, "ready");

    let told = (events.clone(), metrics.clone());
    let mut reclaim = Reclaim::new(world.clone(), told, (options.times.clone(), options.audit));
    let mut status = Status::new(world.clone(), events.clone(), metrics.clone());
    let mut claims = Claims::new(world.clone(), events.clone());
    let mut endpoints = Mender::new(world.clone(), options.audit);
    let mut apps = Apps::new(world.clone(), events.clone());
    let mut spider = Spider::new(world.clone(), events.clone());
    let mut guard = Guard::new(world.clone(), events);
    let workers = [
        work("reclaim", &world, &seat, stop, move |seat| reclaim.round(seat))?,
        work("status", &world, &seat, stop, move |seat| status.round(seat))?,
        work("apps", &world, &seat, stop, move |seat| apps.round(seat))?,
        work("spiderpool", &world, &seat, stop, move |seat| spider.round(seat))?,
        work("claims", &world, &seat, stop, move |seat| claims.round(seat))?,
        work("endpoints", &world, &seat, stop, move |seat| endpoints.round(seat))?,
        work("guard", &world, &seat, stop, move |seat| {
            metrics.leads(seat.leads());
            guard.round(seat)
        })?,
    ];
    let outcome = leader::stand(&cluster, &options.namespace, &options.replica, &seat, stop);
    stop.store(true, Ordering::SeqCst);
    ready.store(false, Ordering::SeqCst);
    world.bell.ring();
    for worker in workers {
        let _ = worker.join();
    }
    info!("stopped");
    outcome
}

/// Lets come back what has no living user, by hand; or says what that is.
///
/// # Errors
/// If the server cannot be asked.
pub fn reclaim_now(to: &Connect, dry_run: bool) -> anyhow::Result<serde_json::Value> {
    let cluster = Cluster::connect(to)?;
    let world = World::open(&cluster, &Conf::default()).context("read the cluster's state")?;
    crate::reclaim::now(&world, dry_run)
}

/// Reads the cluster's state, however long that takes; `None` if told to stop meanwhile.
fn open(cluster: &Cluster, spiderpool: &Conf, stop: &AtomicBool) -> Option<World> {
    let mut told: Option<Instant> = None;
    while !stop.load(Ordering::SeqCst) {
        match World::open(cluster, spiderpool) {
            Ok(world) => return Some(world),
            Err(error) => {
                if told.is_none_or(|told| told.elapsed() > Duration::from_secs(10)) {
                    told = Some(Instant::now());
                    warn!("waiting to read the cluster's state: {error}");
                }
            }
        }
        thread::sleep(Duration::from_secs(1));
    }
    None
}

/// A thread that works round after round, when something has changed or when its time has come.
fn work(
    name: &str,
    world: &Arc<World>,
    seat: &Seat,
    stop: &Arc<AtomicBool>,
    mut round: impl FnMut(&Seat) -> Duration + Send + 'static,
) -> anyhow::Result<thread::JoinHandle<()>> {
    let (bell, seat, stop) = (world.bell.clone(), seat.clone(), stop.clone());
    let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
        while !stop.load(Ordering::SeqCst) {
            let heard = bell.rung();
            let wait = round(&seat);
            // Who has just become the leader has things to do, though nothing has changed.
            let wait = if seat.leads() { wait } else { wait.min(Duration::from_secs(1)) };
            let _ = bell.wait(heard, wait);
            // Changes come in swarms; one round for all of them.
            thread::sleep(Duration::from_millis(50));
        }
    })?;
    Ok(thread)
}
