//! What the controller counts, for Prometheus.

use crate::spiderpool::Counts;
use crate::world::World;
use berth_core::ipam::Usage;
use berth_core::reclaim::Class;
use berth_kube::requests::Requests;
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfClass {
    class: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPool {
    pool: String,
    network: String,
    state: &'static str,
}

type Addresses = Family<OfPool, Gauge<f64, AtomicU64>>;

/// The counters of a controller.
pub(crate) struct Metrics {
    registry: Registry,
    reclaimed: Family<OfClass, Counter>,
    suspected: Family<OfClass, Gauge>,
    status_writes: Family<OfKind, Counter>,
    leads: Gauge,
    addresses: Addresses,
}

impl Metrics {
    pub(crate) fn new(requests: &Requests) -> Self {
        let mut registry = Registry::with_prefix("berth_controller");
        let (reclaimed, suspected): (Family<OfClass, Counter>, Family<OfClass, Gauge>) = Default::default();
        let (status_writes, leads): (Family<OfKind, Counter>, Gauge) = Default::default();
        registry.register("reclaimed", "Addresses that came back though nobody gave them back", reclaimed.clone());
        registry.register("suspected", "Addresses that may come back and wait for their time", suspected.clone());
        registry.register("status_writes", "Writes of an object's status, by kind", status_writes.clone());
        registry.register("leads", "1 on the replica that writes", leads.clone());
        registry.register(Requests::NAME, Requests::HELP, requests.family());
        let addresses = Addresses::default();
        registry.register("pool_addresses", "Addresses of a pool in the whole cluster, by state", addresses.clone());
        for class in Class::ALL {
            drop(reclaimed.get_or_create(&OfClass { class: class.name() }));
            drop(suspected.get_or_create(&OfClass { class: class.name() }));
        }
        Self { registry, reclaimed, suspected, status_writes, leads, addresses }
    }

    pub(crate) fn reclaimed(&self, class: Class) {
        self.reclaimed.get_or_create(&OfClass { class: class.name() }).inc();
    }

    pub(crate) fn suspected(&self, count: &BTreeMap<Class, u64>) {
        for class in Class::ALL {
            let number = count.get(&class).copied().unwrap_or(0);
            self.suspected
                .get_or_create(&OfClass { class: class.name() })
                .set(i64::try_from(number).unwrap_or(i64::MAX));
        }
    }

    pub(crate) fn wrote_status(&self, kind: &'static str) {
        self.status_writes.get_or_create(&OfKind { kind }).inc();
    }

    pub(crate) fn leads(&self, leads: bool) {
        self.leads.set(leads.into());
    }

    /// How full a pool is.
    pub(crate) fn pool(&self, pool: &str, network: &str, usage: &Usage) {
        for (state, count) in usage.counts() {
            let labels = OfPool { pool: pool.to_owned(), network: network.to_owned(), state };
            self.addresses.get_or_create(&labels).set(count.as_f64());
        }
    }

    /// Forgets pools that are gone.
    pub(crate) fn clear_pools(&self) {
        self.addresses.clear();
    }

    /// All metrics in Prometheus' text format; those under Spiderpool's names too, where its kinds are installed.
    pub(crate) fn scrape(&self, world: Option<&World>) -> String {
        let own = self.text();
        let Some(world) = world.filter(|world| world.spider().is_some()) else { return own };
        let counts = world.engine.read(|ipam| Counts::of(ipam, berth_server::now()));
        counts.append_to(&own, self.came_back())
    }

    fn came_back(&self) -> u64 {
        Class::ALL.iter().map(|class| self.reclaimed.get_or_create(&OfClass { class: class.name() }).get()).sum()
    }

    fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut out, &self.registry);
        out
    }
}

/// Every metric of a controller, with a value, in Prometheus' text format.
#[must_use]
pub fn sample_metrics() -> String {
    let metrics = Metrics::new(&Requests::sample());
    metrics.wrote_status("IPPool");
    metrics.pool("", "", &Usage::default());
    Counts::sample().append_to(&metrics.text(), 0)
}
