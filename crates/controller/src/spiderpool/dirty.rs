//! What may have to be written anew: pools and subnets to which something has happened, and no others.

use berth_core::ipam::Config;
use berth_core::model::{Pool, Subnet};
use berth_dialects::spiderpool::{POOL, SUBNET};
use std::collections::BTreeSet;

/// Names of pools and subnets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Dirty {
    pub(super) pools: BTreeSet<String>,
    pub(super) subnets: BTreeSet<String>,
}

impl Dirty {
    /// Adds what another configuration changes.
    pub(super) fn add_changes(&mut self, before: &Config, after: &Config) {
        let subnets = differing(&before.subnets, &after.subnets, |subnet: &Subnet| subnet.object == SUBNET);
        let pools = differing(&before.pools, &after.pools, |pool: &Pool| pool.object == POOL);
        // How many addresses a pool has depends on what is reserved.
        let reserved_otherwise = before.reservations != after.reservations;
        for pool in after.pools.values().filter(|pool| pool.object == POOL) {
            if reserved_otherwise || pool.subnet.as_ref().is_some_and(|subnet| subnets.contains(subnet)) {
                self.pools.insert(pool.name.clone());
            }
        }
        for config in [before, after] {
            let of_pools = pools.iter().filter_map(|name| config.pools.get(name)?.subnet.clone());
            self.subnets.extend(of_pools);
        }
        self.pools.extend(pools);
        self.subnets.extend(subnets);
    }
}

/// The names under which there is something else than before.
fn differing<T: PartialEq>(
    before: &std::collections::BTreeMap<String, T>,
    after: &std::collections::BTreeMap<String, T>,
    is_own: impl Fn(&T) -> bool,
) -> BTreeSet<String> {
    let differs = |name: &&String| before.get(*name) != after.get(*name);
    let is_own = |name: &&String| [before, after].iter().any(|all| all.get(*name).is_some_and(&is_own));
    before.keys().chain(after.keys()).filter(differs).filter(is_own).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_dialects::{Object, lower_all};
    use serde_json::{Value, json};

    fn config(objects: &[(&str, &str, Value)]) -> Config {
        let object = |(kind, name, spec): &(&str, &str, Value)| -> Object {
            let value = json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": kind,
                "metadata": {"name": name}, "spec": spec});
            serde_json::from_value(value).unwrap()
        };
        let objects: Vec<Object> = objects.iter().map(object).collect();
        lower_all(objects.iter()).unwrap()
    }

    fn changed(before: &Config, after: &Config) -> (Vec<String>, Vec<String>) {
        let mut dirty = Dirty::default();
        dirty.add_changes(before, after);
        (dirty.pools.into_iter().collect(), dirty.subnets.into_iter().collect())
    }

    #[test]
    fn an_edit_touches_what_it_bears_upon() {
        let subnet = |gateway: &str| {
            ("SpiderSubnet", "s", json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.10-10.0.0.99"], "gateway": gateway}))
        };
        let pool = |name: &'static str, net: &str, last: u8| {
            let ips = format!("10.0.{net}.10-10.0.{net}.{last}");
            ("SpiderIPPool", name, json!({"subnet": format!("10.0.{net}.0/24"), "ips": [ips]}))
        };
        let reserved = ("SpiderReservedIP", "r", json!({"ips": ["10.0.1.11"]}));
        let (a, b) = (pool("a", "0", 20), pool("b", "1", 20));
        let before = config(&[subnet("10.0.0.1"), a.clone(), b.clone()]);
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(changed(&before, &before), (names(&[]), names(&[])));
        let larger = config(&[subnet("10.0.0.1"), pool("a", "0", 21), b.clone()]);
        assert_eq!(changed(&before, &larger), (names(&["a"]), names(&["s"])));
        let moved = config(&[subnet("10.0.0.2"), a.clone(), b.clone()]);
        assert_eq!(changed(&before, &moved), (names(&["a"]), names(&["s"])));
        let gone = config(&[subnet("10.0.0.1"), a.clone()]);
        assert_eq!(changed(&before, &gone), (names(&["b"]), names(&[])));
        let less = config(&[subnet("10.0.0.1"), a, b, reserved]);
        assert_eq!(changed(&before, &less), (names(&["a", "b"]), names(&[])));
    }
}
