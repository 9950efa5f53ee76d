//! What the agent counts, under the names that spiderpool-agent documents: dashboards and alerts go on to work. They are
//! served beside Berth's own while Spiderpool's kinds or its socket are in use.

use berth_core::error::code;
use berth_wire::cni;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Those of Spiderpool, and some below: allocation takes milliseconds.
const BUCKETS: [f64; 13] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.3, 0.5, 1.0, 3.0, 5.0, 7.0, 10.0, 15.0];

type Seconds = Gauge<f64, AtomicU64>;

/// The counters.
pub(crate) struct Aliases {
    registry: Registry,
    allocation: Side,
    release: Side,
    no_pool: Counter,
    used_out: Counter,
}

/// What is counted of allocation and of release alike.
struct Side {
    counts: Counter,
    failures: Counter,
    retries_exhausted: Counter,
    internal: Counter,
    durations: Histogram,
    average: Seconds,
    most: Seconds,
    least: Seconds,
    latest: Seconds,
    so_far: Mutex<SoFar>,
}

#[derive(Default)]
struct SoFar {
    count: f64,
    sum: f64,
    least: f64,
    most: f64,
}

impl Side {
    fn new(registry: &mut Registry, what: &str, word: &str) -> Self {
        let counter = |registry: &mut Registry, name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(format!("{what}_{name}"), help.replace('%', word), counter.clone());
            counter
        };
        let counts = counter(registry, "counts", "% requests, as Spiderpool counts them");
        let failures = counter(registry, "failure_counts", "% requests that failed");
        let retries_exhausted =
            counter(registry, "err_retries_exhausted_counts", "% requests that were to be tried again");
        let internal =
            counter(registry, "err_internal_counts", "% requests that failed for a reason of the node's own");
        let durations = Histogram::new(BUCKETS);
        registry.register(
            format!("{what}_duration_seconds"),
            format!("Time of {} requests", word.to_lowercase()),
            durations.clone(),
        );
        let mut gauge = |name: &str, help: &str| {
            let gauge = Seconds::default();
            registry.register(format!("{what}_{name}_duration_seconds"), help.replace('%', word), gauge.clone());
            gauge
        };
        Self {
            counts,
            failures,
            retries_exhausted,
            internal,
            durations,
            average: gauge("average", "% requests: average time since the start"),
            most: gauge("max", "% requests: longest time since the start"),
            least: gauge("min", "% requests: shortest time since the start"),
            latest: gauge("latest", "% requests: time of the last one"),
            so_far: Mutex::default(),
        }
    }

    fn observe(&self, refusal: Option<u32>, took: Duration) {
        let took = took.as_secs_f64();
        self.counts.inc();
        if refusal.is_some() {
            self.failures.inc();
        }
        match refusal {
            Some(cni::code::TRY_AGAIN) => {
                self.retries_exhausted.inc();
            }
            Some(cni::code::IO_FAILURE | cni::code::INTERNAL) => {
                self.internal.inc();
            }
            _ => {}
        }
        self.durations.observe(took);
        self.latest.set(took);
        let mut so_far = self.so_far.lock().unwrap_or_else(PoisonError::into_inner);
        let SoFar { count, sum, least, most } = &mut *so_far;
        *least = if *count == 0.0 { took } else { least.min(took) };
        (*count, *sum, *most) = (*count + 1.0, *sum + took, most.max(took));
        self.average.set(*sum / *count);
        self.least.set(*least);
        self.most.set(*most);
    }
}

impl Default for Aliases {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("spiderpool_ipam");
        let allocation = Side::new(&mut registry, "allocation", "Allocation");
        let (no_pool, used_out) = (Counter::default(), Counter::default());
        registry.register(
            "allocation_err_no_available_pool_counts",
            "Allocation requests that no pool was there for",
            no_pool.clone(),
        );
        registry.register(
            "allocation_err_ip_used_out_counts",
            "Allocation requests whose pools had no address left",
            used_out.clone(),
        );
        let release = Side::new(&mut registry, "release", "Release");
        Self { registry, allocation, release, no_pool, used_out }
    }
}

impl Aliases {
    /// Counts a request, with the CNI code if it was refused.
    pub(crate) fn observe(&self, verb: &str, refusal: Option<u32>, took: Duration) {
        match verb {
            "add" => self.allocation.observe(refusal, took),
            "del" => self.release.observe(refusal, took),
            _ => return,
        }
        match refusal {
            Some(code::NO_QUALIFIED_POOL | code::UNKNOWN_POOL) => {
                self.no_pool.inc();
            }
            Some(code::POOL_EXHAUSTED) => {
                self.used_out.inc();
            }
            _ => {}
        }
    }

    /// All of them behind others, in Prometheus' text format.
    pub(crate) fn append_to(&self, others: &str) -> String {
        let mut out = others.trim_end_matches("# EOF\n").to_owned();
        // Writing to a string cannot fail.
        let _ = encode(&mut out, &self.registry);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_under_the_documented_names() {
        let aliases = Aliases::default();
        aliases.observe("add", None, Duration::from_millis(250));
        aliases.observe("add", Some(code::POOL_EXHAUSTED), Duration::from_millis(750));
        aliases.observe("add", Some(code::NO_QUALIFIED_POOL), Duration::from_millis(500));
        aliases.observe("del", Some(cni::code::TRY_AGAIN), Duration::from_millis(1));
        aliases.observe("check", None, Duration::ZERO);
        let text = aliases.append_to("# TYPE berth_requests counter\n# EOF\n");
        for line in [
            "spiderpool_ipam_allocation_counts_total 3",
            "spiderpool_ipam_allocation_failure_counts_total 2",
            "spiderpool_ipam_allocation_err_ip_used_out_counts_total 1",
            "spiderpool_ipam_allocation_err_no_available_pool_counts_total 1",
            "spiderpool_ipam_allocation_min_duration_seconds 0.25",
            "spiderpool_ipam_allocation_max_duration_seconds 0.75",
            "spiderpool_ipam_allocation_latest_duration_seconds 0.5",
            "spiderpool_ipam_allocation_average_duration_seconds 0.5",
            "spiderpool_ipam_allocation_duration_seconds_count 3",
            "spiderpool_ipam_release_counts_total 1",
            "spiderpool_ipam_release_err_retries_exhausted_counts_total 1",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} is not in {text}");
        }
        assert!(text.starts_with("# TYPE berth_requests") && text.matches("# EOF").count() == 1);
    }
}
