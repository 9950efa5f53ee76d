//! Starting and stopping.

use crate::agent::Agent;
use crate::ahead::Ahead;
use crate::news::{self, News};
use crate::recover::{self, Recovery};
use crate::store::ClusterStore;
use crate::sweep::{MISSING_FOR, Sweep};
use crate::{ahead, flush, scarcity, spiderpool};
use anyhow::{Context, bail};
use berth_dialects::spiderpool::POOL;
use berth_dialects::spiderpool::settings::Settings;
use berth_door::{Door, Queue, Quiet, door, networks};
use berth_engine::Engine;
use berth_kube::definitions::Definitions;
use berth_kube::endpoints::Endpoints;
use berth_kube::objects::Objects;
use berth_kube::places::Places;
use berth_kube::pods::Pods;
use berth_kube::requests::Requests;
use berth_kube::{Cluster, Connect, KubeStore};
use berth_server::{LogFormat, Metrics, serve_probes};
use berth_store::{BlockStore, Durability, FileMedium, History, Journal, StateLock, StoreError};
use berth_wire::boot;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tracing::{debug, info, warn};

/// How often the journal's news go to the API server.
const FLUSH: Duration = Duration::from_secs(1);
/// How often holders are compared with the node's pods.
const SWEEP: Duration = Duration::from_secs(15);
/// How long a block in which nothing is in use is kept: a pod that comes back soon finds it there.
const EMPTY_FOR: Duration = Duration::from_secs(600);
/// How long to wait before a start that failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// How an agent is to run.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// The node's name in the cluster.
    pub node_name: String,
    /// Where the API server is.
    pub connect: Connect,
    /// The socket for the CNI plugin.
    pub socket: PathBuf,
    /// Where the journal is kept.
    pub state_dir: PathBuf,
    /// Where `/readyz` and `/metrics` are served; `None` turns it off.
    pub listen: Option<SocketAddr>,
    /// How long a pod must have been gone before its address is freed without a DEL; the default if absent.
    pub missing_for: Option<Duration>,
    /// How long a block must have been empty before its object is deleted; the default if absent.
    pub empty_for: Option<Duration>,
    /// How old a lease must be before it is given back unused; the default if absent.
    pub idle_lease_for: Option<Duration>,
    /// How often one block is written behind the answers at most; the default if absent.
    pub write_block_every: Option<Duration>,
    /// How long an address waits for the pod it was promised to; the default if absent.
    pub promise_for: Option<Duration>,
    /// Where Spiderpool's plugins and tools are answered; `None` if nowhere.
    pub spiderpool_socket: Option<PathBuf>,
    /// What Spiderpool's switches come to.
    pub spiderpool: Settings,
    /// How log lines look.
    pub log_format: LogFormat,
    /// What is logged.
    pub log_level: String,
}

/// Runs the agent until it is told to stop.
///
/// # Errors
/// If it cannot start for a reason that does not pass.
pub fn run(options: &AgentOptions) -> anyhow::Result<()> {
    berth_server::init_logging(options.log_format, &options.log_level);
    let stop = berth_server::stop_on_signal()?;
    serve(options, &stop)
}

/// Runs the agent until `stop` is set, without touching what belongs to the process: signals and the log.
///
/// # Errors
/// If it cannot start for a reason that does not pass.
pub fn serve(options: &AgentOptions, stop: &AtomicBool) -> anyhow::Result<()> {
    let cluster = Cluster::connect(&options.connect)?;
    let _lock = lock(options)?;
    // Plugins that connect wait until the node's state is restored.
    let listener =
        door::listen(&options.socket).with_context(|| format!("--socket: listen on {}", options.socket.display()))?;
    let spiderpool = options.spiderpool_socket.as_deref().map(spiderpool::listen).transpose()?;
    let Some(opened) = open(options, &cluster, stop)? else { return Ok(()) };
    let Opened { agent, booted, version, recovery } = opened;
    let queue = Queue::beside(&options.socket);
    queue.drain(&*agent, booted);
    let door = Door::open(listener, agent.clone())?;
    let spiderpool = spiderpool.map(|socket| socket.open(agent.clone(), &cluster)).transpose()?;
    let ready = Arc::new(AtomicBool::new(true));
    if let Some(address) = options.listen {
        let (ready, counted) = (ready.clone(), agent.clone());
        let is_ready = move || match ready.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err("what this node holds is still being restored"),
        };
        let has_socket = options.spiderpool_socket.is_some();
        let scrape = move || {
            let own = counted.metrics.scrape_engine(&counted.engine);
            let speaks = has_socket || counted.objects.has(POOL);
            if speaks { counted.aliases.append_to(&own) } else { own }
        };
        let bound = serve_probes(address, is_ready, scrape);
        let bound = bound.with_context(|| format!("listen on http://{address}; choose another with --listen"))?;
        info!(health = %bound, "serving /readyz and /metrics");
    }
    info!(node = options.node_name, socket = %options.socket.display(), "ready");
    thread::scope(|scope| -> anyhow::Result<()> {
        let follow = || news::follow(&agent, version, stop);
        thread::Builder::new().name("configuration".to_owned()).spawn_scoped(scope, follow)?;
        let promise = || ahead::promise_to_new_pods(&agent, options.promise_for.unwrap_or(ahead::KEEP), stop);
        thread::Builder::new().name("ahead".to_owned()).spawn_scoped(scope, promise)?;
        chores(&agent, recovery, &queue, options, stop);
        Ok(())
    })?;
    ready.store(false, Ordering::SeqCst);
    agent.news.close();
    info!("stopping: requests under way are finished first");
    door.close(Duration::from_secs(5));
    let _ = std::fs::remove_file(&options.socket);
    if let Some(spiderpool) = spiderpool {
        spiderpool.close(Duration::from_secs(5));
    }
    // What is not written now is in the journal, for the next agent.
    flush::flush(&agent, Duration::ZERO);
    flush::tell_arrivals(&agent, Duration::ZERO);
    agent.engine.with_store(|store| store.journal().sync())?;
    info!("stopped");
    Ok(())
}

/// Every metric of an agent, with a value, in Prometheus' text format.
#[must_use]
pub fn sample_metrics() -> String {
    spiderpool::Aliases::default().append_to(&counters(&Requests::sample()).sample())
}

fn counters(requests: &Requests) -> Metrics {
    Metrics::new().with(Requests::NAME, Requests::HELP, requests.family())
}

fn lock(options: &AgentOptions) -> anyhow::Result<StateLock> {
    let dir = &options.state_dir;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.with_context(|| format!("make the state directory {}", dir.display()))?;
    Ok(StateLock::take(dir)?)
}

/// Tries until it works; `None` if told to stop meanwhile. An agent may come up before the API server does, before
/// Berth's definitions are installed and before its own node is registered: without them nobody knows what is held.
fn patiently<T, E: std::fmt::Display>(
    what: &str,
    stop: &AtomicBool,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Option<T> {
    let mut told: Option<Instant> = None;
    while !stop.load(Ordering::SeqCst) {
        match attempt() {
            Ok(value) => return Some(value),
            Err(error) => {
                if told.is_none_or(|told| told.elapsed() > Duration::from_secs(10)) {
                    told = Some(Instant::now());
                    warn!("waiting to {what}: {error}");
                }
            }
        }
        thread::sleep(AGAIN);
    }
    None
}

/// An agent that has restored what its node holds.
struct Opened {
    agent: Arc<Agent>,
    /// Whether the node has booted since it was last used.
    booted: bool,
    /// The version of the configuration that is in force.
    version: u64,
    /// What is left to be found out, if the journal was lost.
    recovery: Option<Recovery>,
}

/// Restores what this node holds.
fn open(options: &AgentOptions, cluster: &Cluster, stop: &AtomicBool) -> anyhow::Result<Option<Opened>> {
    let node = &options.node_name;
    let what = "read Berth's objects (`berth crds | kubectl apply -f -` installs their definitions)";
    let Some(objects) = patiently(what, stop, || Objects::open(cluster)) else { return Ok(None) };
    let what = format!("read node {node:?} and the namespaces");
    let Some(places) = patiently(&what, stop, || Places::open(cluster, node)) else { return Ok(None) };
    let pods = Pods::new(cluster, node);
    let mut remote = KubeStore::new(cluster.clone(), node);
    if patiently("read the blocks of this node", stop, || remote.list_own()).is_none() {
        return Ok(None);
    }
    let (journal, last_boot) = journal(options)?;
    let lost_journal = !journal.objects().contains_key(&node_key());
    let boot_id = boot::id().context("read the boot ID")?;
    let booted = last_boot.is_some_and(|last| last != boot_id);
    let store = ClusterStore::new(remote, journal, node);
    let (mut config, version) = objects.config();
    options.spiderpool.conf.apply(&mut config);
    let news = News::default();
    news.configured(&config, &options.spiderpool.conf);
    let engine = Engine::open(store, config, berth_server::seed(), berth_server::now)?;
    let engine = engine.before_waiting(door::before_waiting);
    if booted {
        let name = node.clone();
        let freed = engine.transact(move |context| Ok(context.ipam.release_dead_boot(&name, context.now)))?;
        info!(addresses = freed.len(), "the node has booted since: addresses of dead containers are free");
    }
    engine.with_store(|store| store.journal().set_boot(&boot_id))?;
    let (cidrs, metrics) = (networks::of_node(), counters(cluster.requests()));
    let (endpoints, definitions) = (Endpoints::new(cluster), Definitions::new(cluster));
    let agent = Agent {
        engine,
        objects,
        pods,
        places,
        endpoints,
        definitions,
        node: node.clone(),
        cidrs,
        metrics,
        aliases: spiderpool::Aliases::default(),
        spiderpool: options.spiderpool.conf.clone(),
        quiet: Quiet::default(),
        news,
        short_of: Mutex::default(),
        ahead: Ahead::default(),
    };
    // After a boot no container has what the status of its pod still says.
    let recovery = if booted {
        None
    } else {
        let what = "read which addresses the pods of this node have";
        let Some(recovery) = patiently(what, stop, || recover::begin(&agent, lost_journal)) else { return Ok(None) };
        recovery
    };
    if recovery.is_none() {
        agent.engine.with_store(|store| own_journal(store, node))?;
    }
    Ok(Some(Opened { agent: Arc::new(agent), booted, version, recovery }))
}

/// The journal is whole: from now on, what it does not have was never given out.
fn own_journal(store: &mut ClusterStore, node: &str) -> Result<(), StoreError> {
    store.journal().write_objects(&[(node_key(), Some(node.as_bytes().to_vec()))])
}

/// The journal, and the boot in which it was last used.
fn journal(options: &AgentOptions) -> anyhow::Result<(Journal<FileMedium>, Option<String>)> {
    let path = options.state_dir.join("agent.journal");
    let boot_id = boot::id().context("read the boot ID")?;
    let medium = FileMedium::open(&path).with_context(|| format!("open {}", path.display()))?;
    let (mut journal, opened) = Journal::open(medium, Durability::Boot, &boot_id)?;
    let history = History::new(&path).with_context(|| format!("make the audit trail beside {}", path.display()))?;
    journal.archive_to(history.dir().to_owned());
    let node = options.node_name.as_bytes();
    if journal.objects().get(&node_key()).is_some_and(|name| name != node) {
        bail!("{} is the state of another node; give --node-name or another --state-dir", path.display());
    }
    Ok((journal, opened.boot_id))
}

/// Where the journal says whose it is.
fn node_key() -> (String, String, String) {
    ("Node".to_owned(), String::new(), "own".to_owned())
}

/// What time does, and what others do: until told to stop.
fn chores(agent: &Agent, mut recovery: Option<Recovery>, queue: &Queue, options: &AgentOptions, stop: &AtomicBool) {
    let missing_for = options.missing_for.unwrap_or(MISSING_FOR);
    let empty_for = options.empty_for.unwrap_or(EMPTY_FOR);
    let idle_for = options.idle_lease_for.unwrap_or(flush::IDLE);
    let (mut sweep, mut flushed, mut swept, mut forgot) =
        (Sweep::default(), Instant::now(), Instant::now(), Instant::now());
    // Nodes that were started together need not all look at the same moment.
    let forget_every = empty_for.mul_f64(0.5 + f64::from(berth_server::seed() as u16) / f64::from(u16::MAX));
    let sweep_every = SWEEP.min(missing_for.max(Duration::from_millis(500)));
    while !stop.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(100));
        // A lease of which it is not known what is in use in it stays where it is.
        if recovery.is_none() {
            scarcity::open_wanted(agent);
        }
        flush::lend_ahead(agent);
        if flushed.elapsed() >= FLUSH {
            flushed = Instant::now();
            queue.drain(agent, false);
            let at_most_every = options.write_block_every.unwrap_or(flush::AT_MOST_EVERY);
            flush::flush(agent, at_most_every);
            flush::tell_arrivals(agent, at_most_every);
            scarcity::ask(agent);
            let now = berth_server::now();
            let name = History::archive_name(now);
            if let Err(error) = agent.engine.with_store(|store| store.journal().compact_if_worthwhile(&name)) {
                warn!(%error, "could not compact the journal");
            }
        }
        if forgot.elapsed() >= forget_every {
            forgot = Instant::now();
            flush::forget_empty(agent, empty_for);
        }
        if swept.elapsed() >= sweep_every {
            swept = Instant::now();
            sweep.look(agent, missing_for);
            if recovery.is_none() {
                flush::give_back(agent, idle_for);
            }
            if let Err(error) = agent.engine.settle_tickets(&agent.node) {
                debug!(%error, "could not put the tickets of quotas in order");
            }
            if recovery.as_mut().is_some_and(|recovery| recover::go_on(agent, recovery)) {
                match agent.engine.with_store(|store| own_journal(store, &agent.node)) {
                    Ok(()) => recovery = None,
                    Err(error) => warn!(%error, "could not write the journal"),
                }
            }
            if let Err(error) = agent.engine.transact(|context| Ok(context.ipam.sweep(context.now))) {
                warn!(%error, "could not end what has run out");
            }
        }
    }
}
