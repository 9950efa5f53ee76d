//! What the controller counts, under the names that spiderpool-controller documents: dashboards and alerts go on to work.
//! They are served beside Berth's own where Spiderpool's kinds are installed, and say what is so at the moment: where
//! Spiderpool adds up, a gauge.

use berth_core::addr::{Count, RangeSet};
use berth_core::ipam::Ipam;
use berth_core::time::Time;
use berth_dialects::spiderpool::{POOL, SUBNET};
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPool {
    pool: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfSubnet {
    subnet: String,
}

type Number = Gauge<f64, AtomicU64>;

/// What there is to count.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Name, addresses and free addresses of each pool.
    pools: Vec<(String, Count, Count)>,
    /// Name, pools, addresses and addresses that no pool has of each subnet.
    subnets: Vec<(String, usize, Count, Count)>,
}

impl Counts {
    pub(crate) fn of(ipam: &Ipam, now: Time) -> Self {
        let own = ipam.pools().filter(|pool| pool.object == POOL);
        let pools = own.filter_map(|pool| {
            let usage = ipam.pool_usage(&pool.name, now)?;
            Some((pool.name.clone(), usage.capacity, usage.free))
        });
        let config = ipam.config();
        let subnets = config.subnets.values().filter(|subnet| subnet.object == SUBNET).map(|subnet| {
            let own = config.pools.values().filter(|pool| pool.subnet.as_ref() == Some(&subnet.name));
            let (mut left, mut count) = (subnet.available.clone().unwrap_or_default(), 0);
            let total = left.count();
            for pool in own {
                count += 1;
                left = left.difference(&pool.ranges.iter().copied().collect::<RangeSet>());
            }
            (subnet.name.clone(), count, total, left.count())
        });
        Self { pools: pools.collect(), subnets: subnets.collect() }
    }

    /// A pool and a subnet without addresses, so that all there is has a name.
    pub(crate) fn sample() -> Self {
        let none = Count::default();
        Self { pools: vec![(String::new(), none, none)], subnets: vec![(String::new(), 0, none, none)] }
    }

    /// All of it behind other metrics, in Prometheus' text format. `reclaimed` addresses came back.
    pub(crate) fn append_to(&self, others: &str, reclaimed: u64) -> String {
        let mut registry = Registry::with_prefix("spiderpool");
        let gc: Counter = Counter::default();
        gc.inc_by(reclaimed);
        registry.register("ip_gc_counts", "Addresses that came back though nobody gave them back", gc);
        let mut total = |name: &str, help: &str, count: usize| {
            let gauge = Number::default();
            gauge.set(count as f64);
            registry.register(name, help, gauge);
        };
        total("total_ippool_counts", "SpiderIPPools", self.pools.len());
        total("total_subnet_counts", "SpiderSubnets", self.subnets.len());
        let (all, free): (Family<OfPool, Number>, Family<OfPool, Number>) = Default::default();
        for (pool, total, available) in &self.pools {
            let labels = OfPool { pool: pool.clone() };
            all.get_or_create(&labels).set(total.as_f64());
            free.get_or_create(&labels).set(available.as_f64());
        }
        registry.register("debug_ippool_total_ip_counts", "Addresses of a SpiderIPPool", all);
        registry.register("debug_ippool_available_ip_counts", "Free addresses of a SpiderIPPool", free);
        let (pools, all, free): (Family<OfSubnet, Number>, Family<OfSubnet, Number>, Family<OfSubnet, Number>) =
            Default::default();
        for (subnet, count, total, available) in &self.subnets {
            let labels = OfSubnet { subnet: subnet.clone() };
            pools.get_or_create(&labels).set(*count as f64);
            all.get_or_create(&labels).set(total.as_f64());
            free.get_or_create(&labels).set(available.as_f64());
        }
        registry.register("debug_subnet_ippool_counts", "Pools of a SpiderSubnet", pools);
        registry.register("debug_subnet_total_ip_counts", "Addresses of a SpiderSubnet", all);
        registry.register("debug_subnet_available_ip_counts", "Addresses of a SpiderSubnet that no pool has", free);
        let mut out = others.trim_end_matches("# EOF\n").to_owned();
        // Writing to a string cannot fail.
        let _ = encode(&mut out, &registry);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_dialects::{Object, lower_all};
    use serde_json::{Value, json};

    #[test]
    fn pools_and_subnets_are_counted_under_the_documented_names() {
        let object = |kind: &str, name: &str, spec: Value| -> Object {
            let value = json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": kind,
                "metadata": {"name": name}, "spec": spec});
            serde_json::from_value(value).unwrap()
        };
        let objects = [
            object("SpiderSubnet", "s", json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.10-10.0.0.19"]})),
            object("SpiderIPPool", "p", json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.10-10.0.0.13"]})),
        ];
        let mut config = lower_all(&objects).unwrap();
        config.adopt();
        let mut ipam = Ipam::new();
        ipam.configure(config);
        let text = Counts::of(&ipam, Time(0)).append_to("# EOF\n", 7);
        for line in [
            "spiderpool_ip_gc_counts_total 7",
            "spiderpool_total_ippool_counts 1.0",
            "spiderpool_debug_ippool_total_ip_counts{pool=\"p\"} 4.0",
            "spiderpool_debug_ippool_available_ip_counts{pool=\"p\"} 4.0",
            "spiderpool_debug_subnet_ippool_counts{subnet=\"s\"} 1.0",
            "spiderpool_debug_subnet_available_ip_counts{subnet=\"s\"} 6.0",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} is not in {text}");
        }
    }
}
