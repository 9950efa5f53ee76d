//! Copies of what the API server has, kept up to date.
//!
//! A [`Mirror`] lists a kind of object, from the quorum and never from a cache that may lag behind, and watches it from
//! there. It keeps of each object what its reader asked for and no more. A thread that works on several mirrors gives
//! them one [`Bell`], sleeps on that, and asks each for the keys that have changed.

use crate::connect::{CallError, Cluster, PATIENCE};
use crate::fold::Fold;
pub use crate::fold::Key;
use futures::StreamExt;
use kube::runtime::watcher::{self, Event, InitialListStrategy, ListSemantic};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;
use tracing::{debug, warn};

/// Tells a thread that something has changed; several mirrors may share one.
#[derive(Clone, Debug, Default)]
pub struct Bell(Arc<(Mutex<u64>, Condvar)>);

impl Bell {
    /// How often it has rung.
    #[must_use]
    pub fn rung(&self) -> u64 {
        *lock(&self.0.0)
    }

    /// Rings it, e.g. because a thread that waits shall stop.
    pub fn ring(&self) {
        *lock(&self.0.0) += 1;
        self.0.1.notify_all();
    }

    /// Waits until it has rung more often than `heard`, or for so long; how often it has rung.
    #[must_use]
    pub fn wait(&self, heard: u64, at_most: Duration) -> u64 {
        let waited = self.0.1.wait_timeout_while(lock(&self.0.0), at_most, |rung| *rung == heard);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// What is kept of the objects of a kind. Clones are of one mirror; the watch ends with the last of them.
pub struct Mirror<T> {
    kept: Arc<Kept<T>>,
    _watch: Arc<Watch>,
}

impl<T> Clone for Mirror<T> {
    fn clone(&self) -> Self {
        Self { kept: self.kept.clone(), _watch: self._watch.clone() }
    }
}

struct Watch(AbortHandle);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Kept<T> {
    state: Mutex<State<T>>,
    told: Condvar,
    bell: Bell,
}

struct State<T> {
    fold: Fold<T>,
    version: u64,
    /// Why there is no list yet.
    failure: Option<kube::Error>,
    listeners: Vec<Weak<Mutex<BTreeSet<Key>>>>,
}

/// The keys that have changed since they were last taken.
#[derive(Clone, Debug)]
pub struct Changes(Arc<Mutex<BTreeSet<Key>>>);

impl Changes {
    /// The keys of all objects that came, went or changed; each once, however often it did.
    #[must_use]
    pub fn take(&self) -> BTreeSet<Key> {
        std::mem::take(&mut *lock(&self.0))
    }
}

impl<T: PartialEq + Send + Sync + 'static> Mirror<T> {
    /// Begins to follow a kind, or what `select` leaves of it. `keep` says what is kept of an object, if anything.
    #[must_use]
    pub fn new<K>(
        cluster: &Cluster,
        (what, api): (&str, Api<K>),
        select: watcher::Config,
        bell: &Bell,
        keep: impl Fn(K) -> Option<T> + Send + 'static,
    ) -> Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        // A cache may be behind what was read elsewhere, and what it has not heard of would count as gone.
        let consistent = watcher::Config {
            list_semantic: ListSemantic::MostRecent,
            initial_list_strategy: InitialListStrategy::ListWatch,
            ..select
        };
        let state = State { fold: Fold::default(), version: 0, failure: None, listeners: Vec::new() };
        let kept = Arc::new(Kept { state: Mutex::new(state), told: Condvar::new(), bell: bell.clone() });
        let told = kept.clone();
        let entry = move |object: K| (key_of(&object), keep(object));
        let watch =
            cluster.spawn(follow(what.to_owned(), watcher::watcher(api, consistent), move |event| match event {
                Ok(event) => told.take_in(projected(event, &entry)),
                Err(error) => told.failed(error),
            }));
        Self { kept, _watch: Arc::new(Watch(watch)) }
    }

    /// Waits until the first list is complete.
    ///
    /// # Errors
    /// Why it is not, as soon as that is known. The list is tried again all the same.
    pub fn wait_for_sync(&self) -> Result<(), CallError> {
        let until = Instant::now() + PATIENCE;
        let mut state = lock(&self.kept.state);
        loop {
            if state.fold.is_complete() {
                return Ok(());
            }
            if let Some(error) = state.failure.take() {
                return Err(CallError::Failed(Box::new(error)));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(CallError::TimedOut);
            }
            state = self.kept.told.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether there was a complete list: before that, what is not here may be there all the same.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        lock(&self.kept.state).fold.is_complete()
    }

    /// What is kept of one object.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.with(|objects| objects.get(&Key::new(namespace, name)).cloned())
    }

    /// Counts changes; 0 before the first list is complete.
    #[must_use]
    pub fn version(&self) -> u64 {
        lock(&self.kept.state).version
    }

    /// What is kept of all objects at one moment, and the version of it.
    #[must_use]
    pub fn snapshot(&self) -> (BTreeMap<Key, Arc<T>>, u64) {
        let state = lock(&self.kept.state);
        (state.fold.objects().clone(), state.version)
    }

    /// Looks at what is kept without copying it; the watch waits meanwhile.
    pub fn with<R>(&self, look: impl FnOnce(&BTreeMap<Key, Arc<T>>) -> R) -> R {
        look(lock(&self.kept.state).fold.objects())
    }

    /// Collects what changes from now on, and to begin with everything that is there.
    #[must_use]
    pub fn changes(&self) -> Changes {
        let mut state = lock(&self.kept.state);
        let changed: Arc<Mutex<BTreeSet<Key>>> = Arc::new(Mutex::new(state.fold.objects().keys().cloned().collect()));
        state.listeners.push(Arc::downgrade(&changed));
        Changes(changed)
    }
}

impl<T: PartialEq> Kept<T> {
    fn take_in(&self, event: Event<(Key, Option<T>)>) {
        let mut state = lock(&self.state);
        let was_complete = state.fold.is_complete();
        let changes = state.fold.take_in(event);
        if changes.is_empty() && state.fold.is_complete() == was_complete {
            return;
        }
        state.version += 1;
        state.listeners.retain(|listener| {
            let Some(changed) = listener.upgrade() else { return false };
            lock(&changed).extend(changes.iter().map(|change| change.key.clone()));
            true
        });
        drop(state);
        self.told.notify_all();
        self.bell.ring();
    }

    fn failed(&self, error: watcher::Error) {
        let failure = match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => error,
            watcher::Error::WatchError(status) => kube::Error::Api(status),
            watcher::Error::NoResourceVersion => return,
        };
        let mut state = lock(&self.state);
        if !state.fold.is_complete() {
            state.failure = Some(failure);
            self.told.notify_all();
        }
    }
}

pub(crate) fn key_of<K: Resource>(object: &K) -> Key {
    let meta = object.meta();
    Key::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

/// The event with what is kept in place of the object.
pub(crate) fn projected<K, E>(event: Event<K>, entry: impl Fn(K) -> E) -> Event<E> {
    match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(entry(object)),
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(entry(object)),
        Event::Delete(object) => Event::Delete(entry(object)),
    }
}

/// Feeds every event to `handle`, and starts again whatever happens.
pub(crate) async fn follow<K>(
    what: String,
    stream: impl futures::Stream<Item = Result<Event<K>, watcher::Error>> + Send,
    mut handle: impl FnMut(Result<Event<K>, watcher::Error>),
) {
    let mut stream = std::pin::pin!(stream);
    let mut failures = 0u32;
    // The stream itself lists anew after an error; it never ends.
    while let Some(event) = stream.next().await {
        let Err(error) = &event else {
            failures = 0;
            handle(event);
            continue;
        };
        failures += 1;
        match failures {
            1 => debug!(what, %error, "the watch broke and is begun anew"),
            _ => warn!(what, %error, failures, "cannot watch"),
        }
        handle(event);
        tokio::time::sleep(Duration::from_millis(200 << failures.min(5))).await;
    }
}

/// What a thread that panicked left behind is whole: every change here is made in one step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
