//! What is counted, for Prometheus.

use crate::node::{Node, now};
use berth_engine::Engine;
use berth_store::BlockStore;
use berth_wire::protocol::Findings;
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    op: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Op {
    op: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolState {
    pool: String,
    network: String,
    state: &'static str,
}

type Addresses = Family<PoolState, Gauge<f64, AtomicU64>>;

/// The counters of a daemon.
pub struct Metrics {
    registry: Registry,
    requests: Family<Request, Counter>,
    seconds: Family<Op, Histogram>,
    pub(crate) queue_drained: Counter,
    strangers: Counter,
    silent_gateways: Counter,
    blind: Counter,
    addresses: Addresses,
    journal_bytes: Gauge,
    journal_frames: Gauge,
    journal_syncs: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Allocation takes microseconds: most buckets are below a millisecond.
const BUCKETS: [f64; 14] =
    [10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 100e-3, 1.0, 10.0];

impl Metrics {
    /// Counters at zero.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("berth");
        let requests: Family<Request, Counter> = Family::default();
        let seconds: Family<Op, Histogram> = Family::new_with_constructor(|| Histogram::new(BUCKETS));
        let queue_drained = Counter::default();
        let (strangers, silent_gateways, blind) = (Counter::default(), Counter::default(), Counter::default());
        let addresses = Addresses::default();
        let (journal_bytes, journal_frames, journal_syncs) = (Gauge::default(), Gauge::default(), Gauge::default());
        registry.register("requests", "Requests by operation and outcome", requests.clone());
        registry.register_with_unit("request", "Time to answer, by operation", Unit::Seconds, seconds.clone());
        registry.register("queue_drained", "Deletions that had been queued on disk", queue_drained.clone());
        registry.register("strangers", "Addresses that strangers were seen to use", strangers.clone());
        registry.register("silent_gateways", "Gateways that did not answer", silent_gateways.clone());
        registry.register("blind", "ADDs for which nothing could be asked on the wire", blind.clone());
        registry.register(
            "pool_addresses",
            "Addresses of a pool by state; units if it gives out prefixes",
            addresses.clone(),
        );
        registry.register_with_unit("journal", "Size of the journal", Unit::Bytes, journal_bytes.clone());
        registry.register("journal_frames", "Group commits in the journal since it was opened", journal_frames.clone());
        registry.register("journal_syncs", "Group commits forced to disk since it was opened", journal_syncs.clone());
        Self {
            registry,
            requests,
            seconds,
            queue_drained,
            strangers,
            silent_gateways,
            blind,
            addresses,
            journal_bytes,
            journal_frames,
            journal_syncs,
        }
    }

    /// Counts something else along with the rest.
    #[must_use]
    pub fn with(mut self, name: &str, help: &str, counted: impl Metric) -> Self {
        self.registry.register(name, help, counted);
        self
    }

    /// Counts deletions that had been queued on disk.
    pub fn drained(&self, deletions: u64) {
        self.queue_drained.inc_by(deletions);
    }

    /// Counts what a plugin found on the wire.
    pub fn observe_wire(&self, findings: &Findings) {
        self.strangers.inc_by(findings.strangers.len() as u64);
        self.silent_gateways.inc_by(findings.silent.len() as u64);
        self.blind.inc_by(u64::from(!findings.reason.is_empty()));
    }

    /// Counts a request.
    pub fn observe(&self, op: &'static str, ok: bool, took: Duration) {
        let outcome = if ok { "ok" } else { "error" };
        self.requests.get_or_create(&Request { op, outcome }).inc();
        self.seconds.get_or_create(&Op { op }).observe(took.as_secs_f64());
    }

    /// All metrics in Prometheus' text format, with how full the engine's pools are now.
    pub fn scrape_engine<S: BlockStore>(&self, engine: &Engine<S>) -> String {
        self.addresses.clear();
        let usages = engine.read(|ipam| {
            let usage = |pool: &std::sync::Arc<berth_core::model::Pool>| {
                Some((pool.name.clone(), pool.network.to_string(), ipam.pool_usage(&pool.name, now())?))
            };
            ipam.pools().filter_map(usage).collect::<Vec<_>>()
        });
        for (pool, network, usage) in usages {
            for (state, count) in usage.counts() {
                let labels = PoolState { pool: pool.clone(), network: network.clone(), state };
                self.addresses.get_or_create(&labels).set(count.as_f64());
            }
        }
        self.text()
    }

    /// Every metric, with a value, in Prometheus' text format.
    #[must_use]
    pub fn sample(&self) -> String {
        self.observe("add", true, Duration::ZERO);
        let labels = PoolState { pool: String::new(), network: String::new(), state: "free" };
        self.addresses.get_or_create(&labels).set(0.0);
        self.text()
    }

    fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut out, &self.registry);
        out
    }
}

/// All metrics in Prometheus' text format, gauges brought up to date.
pub(crate) fn scrape(node: &Node) -> String {
    let metrics = &node.metrics;
    let (bytes, frames, syncs) = node.engine.with_store(|journal| journal.counters());
    for (gauge, value) in
        [(&metrics.journal_bytes, bytes), (&metrics.journal_frames, frames), (&metrics.journal_syncs, syncs)]
    {
        gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
    }
    metrics.scrape_engine(&node.engine)
}

/// Every metric of a daemon, with a value, in Prometheus' text format.
#[must_use]
pub fn sample_metrics() -> String {
    Metrics::new().sample()
}

/// A table of the metrics in a text of Prometheus' format, for the reference.
#[must_use]
pub fn metrics_table(text: &str) -> String {
    let mut out = String::from("| metric | type | meaning |\n|---|---|---|\n");
    let typed = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("# TYPE {name} ")));
        line.unwrap_or("").to_owned()
    };
    for line in text.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
        if let Some((name, help)) = line.split_once(' ') {
            let kind = typed(name);
            let suffix = if kind == "counter" { "_total" } else { "" };
            out.push_str(&format!("| `{name}{suffix}` | {kind} | {} |\n", help.trim_end_matches('.')));
        }
    }
    out
}
