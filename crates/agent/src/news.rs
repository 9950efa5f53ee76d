//! What is configured, put in force as it changes, and told to requests that wait for it.
//!
//! A pod may be here before the pool of its application is, or before the pool has grown for it. Its ADD waits for the
//! change itself, not for the next try of the kubelet, which comes after seconds.

use crate::agent::Agent;
use berth_core::addr::Range;
use berth_core::error::Error;
use berth_core::ipam::Config;
use berth_dialects::native::pod::Applications;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long an ADD waits for a pool before it is refused: much less than a kubelet has patience for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(8);

/// What requests may wait for.
#[derive(Default)]
pub(crate) struct News {
    known: Mutex<Known>,
    changed: Condvar,
}

#[derive(Default)]
struct Known {
    /// Counts whatever happens.
    count: u64,
    applications: Arc<Applications>,
    /// The ranges of each application's pool, and when they changed.
    pools: HashMap<String, (Vec<Range>, u64)>,
    /// When an address was last given back on this node.
    released: u64,
    closed: bool,
}

impl News {
    /// The pools of applications.
    pub(crate) fn applications(&self) -> Arc<Applications> {
        self.lock().applications.clone()
    }

    /// This is in force now.
    pub(crate) fn configured(&self, config: &Config) {
        let applications = Arc::new(Applications::of(config));
        let mut known = self.lock();
        known.count += 1;
        let count = known.count;
        let before = std::mem::take(&mut known.pools);
        let own = config.pools.values().filter(|pool| pool.application.is_some());
        known.pools = own
            .map(|pool| {
                let unchanged = before.get(&pool.name).filter(|(ranges, _)| *ranges == pool.ranges);
                (pool.name.clone(), (pool.ranges.clone(), unchanged.map_or(count, |(_, since)| *since)))
            })
            .collect();
        known.applications = applications;
        self.changed.notify_all();
    }

    /// An address was given back.
    pub(crate) fn released(&self) {
        let mut known = self.lock();
        known.count += 1;
        known.released = known.count;
        self.changed.notify_all();
    }

    /// Nobody is to wait any longer.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Counts whatever happens.
    pub(crate) fn count(&self) -> u64 {
        self.lock().count
    }

    /// Waits until something happens after `seen`, or for so long; whether it has.
    pub(crate) fn wait(&self, seen: u64, at_most: Duration) -> bool {
        let idle = |known: &mut Known| known.count == seen && !known.closed;
        let waited = self.changed.wait_timeout_while(self.lock(), at_most, idle);
        let known = waited.unwrap_or_else(PoisonError::into_inner).0;
        known.count != seen && !known.closed
    }

    /// When something last happened that may help who was refused for this reason; `None` if waiting does not help.
    pub(crate) fn outlook(&self, error: &Error) -> Option<u64> {
        let known = self.lock();
        match error {
            Error::PoolPending { .. } => Some(known.count),
            Error::PoolExhausted { pools, .. } => {
                let grown = pools.iter().filter_map(|pool| known.pools.get(pool)).map(|(_, since)| *since).max();
                grown.map(|grown| grown.max(known.released))
            }
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts what is configured in force as it changes, until told to stop. A thread of its own: nothing that is slow may come
/// between a pool and those who wait for it.
pub(crate) fn follow(agent: &Agent, mut version: u64, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        if agent.objects.wait(version, Duration::from_millis(200)) {
            let (mut config, current) = agent.objects.config();
            agent.spiderpool.set_pools(&mut config);
            agent.engine.configure(config.clone());
            // Only now: who is told goes to the engine at once.
            agent.news.configured(&config);
            version = current;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::apps::Application;
    use berth_core::model::Pool;

    fn config(range: &str) -> Config {
        let application = Some(Application { namespace: "shop".into(), ..Application::default() });
        let pool = Pool { application, ..Pool::new("own", vec![range.parse().unwrap()]) };
        let plain = Pool::new("plain", vec!["10.9.0.0/24".parse().unwrap()]);
        Config { pools: [("own".into(), pool), ("plain".into(), plain)].into(), ..Config::default() }
    }

    fn exhausted(pool: &str) -> Error {
        Error::PoolExhausted { pools: vec![pool.into()], cooling: 0, next_free: None }
    }

    #[test]
    fn only_a_change_of_its_own_pool_concerns_who_found_it_full() {
        let news = News::default();
        news.configured(&config("10.0.0.1"));
        let seen = news.count();
        let concerns = |error: &Error| news.outlook(error).is_some_and(|at| at > seen);
        news.configured(&config("10.0.0.1"));
        assert!(!concerns(&exhausted("own")), "it is as it was");
        assert!(concerns(&Error::PoolPending { application: "a".into(), interface: "b".into(), subnets: "c".into() }));
        news.configured(&config("10.0.0.1-10.0.0.2"));
        assert!(concerns(&exhausted("own")));
        assert_eq!(news.outlook(&exhausted("plain")), None, "nobody makes it grow");
        let seen = news.count();
        news.released();
        assert!(news.outlook(&exhausted("own")).unwrap() > seen);
    }

    #[test]
    fn who_waits_is_woken_by_news_and_by_the_end() {
        let news = News::default();
        let seen = news.count();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| news.wait(seen, Duration::from_secs(60)));
            news.released();
            assert!(waiting.join().unwrap());
            let waiting = scope.spawn(|| news.wait(news.count(), Duration::from_secs(60)));
            news.close();
            assert!(!waiting.join().unwrap());
        });
    }
}
