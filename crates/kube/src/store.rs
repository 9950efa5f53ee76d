//! The block store over the API server: what is answered is written there first.

use crate::blocks::{BlockObject, Blocks, decode, is_closed, is_wanted, nodes};
use crate::connect::{CallError, Cluster};
use crate::fold::Fold;
use crate::watch::{Bell, follow, key_of, lock, projected};
use berth_core::block::{Block, BlockKey};
use berth_store::{Batch, BlockStore, BlockWrite, Revision, StoreError, Stored, Written};
use futures::future::{join_all, try_join_all};
use kube::runtime::watcher::{self, Event};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How quick a write is thought to be at least, and how long one that lost waits at most.
const QUICK: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(1);

/// Blocks in the API server, as one node sees them, or as somebody does who watches all.
#[derive(Clone)]
pub struct KubeStore {
    cluster: Cluster,
    blocks: Blocks,
    /// Whose blocks are watched; all if it is nobody's.
    node: Option<String>,
    news: Arc<Mutex<News>>,
    /// How long the last write took.
    pace: Duration,
}

/// What the watch has said since it was last asked.
#[derive(Default)]
struct News {
    changed: Vec<Stored>,
    /// Blocks that the watch lost sight of, because this node has no holder in them any more. Nothing of its own can be in
    /// them, and a write of one that has changed meets a conflict; but they are read when there is time.
    lost_sight: BTreeSet<BlockKey>,
    /// Blocks of which a write failed half-way: this node may have holders in them that it knows nothing of.
    doubtful: BTreeSet<BlockKey>,
    /// Blocks in which this node has holders, and of which it cannot be read which.
    closed: BTreeSet<BlockKey>,
    /// Blocks of leases of which somebody needs one to be opened, and nobody has yet.
    wanted: BTreeSet<BlockKey>,
    listeners: Vec<Touched>,
}

/// The blocks that have changed since they were last taken.
#[derive(Clone, Default)]
pub struct Touched {
    keys: Arc<Mutex<BTreeSet<BlockKey>>>,
    bell: Bell,
}

impl Touched {
    /// Takes them; each once, however often it changed.
    #[must_use]
    pub fn take(&self) -> BTreeSet<BlockKey> {
        std::mem::take(&mut *lock(&self.keys))
    }
}

impl KubeStore {
    /// The store of a node, which is told of changes to blocks in which it has holders.
    #[must_use]
    pub fn new(cluster: Cluster, node: &str) -> Self {
        let blocks = Blocks::new(cluster.client().clone(), node);
        let watched = watcher::Config::default().labels(&Blocks::of_node(node));
        Self::watching(cluster, blocks, Some(node.to_owned()), watched)
    }

    /// The store of somebody who is told of changes to all blocks, and writes in this name.
    #[must_use]
    pub fn of_cluster(cluster: Cluster, writer: &str) -> Self {
        let blocks = Blocks::new(cluster.client().clone(), writer);
        Self::watching(cluster, blocks, None, watcher::Config::default())
    }

    fn watching(cluster: Cluster, blocks: Blocks, node: Option<String>, watched: watcher::Config) -> Self {
        let news: Arc<Mutex<News>> = Arc::default();
        let stream = watcher::watcher(blocks.api().clone(), watched);
        let told = news.clone();
        // What is in a block is kept by the engine; here it is enough to know which ones the watch has in sight.
        let mut in_sight: Fold<BlockKey> = Fold::default();
        cluster.spawn(follow("IPBlock".to_owned(), stream, move |event| {
            let Ok(event) = event else { return };
            let mut news = lock(&told);
            let entry = |object: BlockObject| {
                let (key, wanted) = (key_of(&object), is_wanted(&object));
                (key, decode(&object), wanted)
            };
            let event = projected(event, entry);
            if let Event::Apply((_, Some(stored), wanted)) | Event::InitApply((_, Some(stored), wanted)) = &event {
                if *wanted {
                    news.wanted.insert(stored.0.clone());
                } else {
                    news.wanted.remove(&stored.0);
                }
                if is_closed(&stored.1) {
                    news.closed.insert(stored.0.clone());
                } else {
                    news.closed.remove(&stored.0);
                }
                news.touch(&stored.0);
                news.changed.push(stored.clone());
            }
            let event = projected(event, |(key, stored, _)| (key, stored.map(|(block, ..)| block)));
            // Gone, or only without a holder of this node: the watch does not tell which, a list even less.
            let gone = in_sight.take_in(event).into_iter().filter(|change| change.after.is_none());
            for key in gone.filter_map(|change| change.before) {
                news.touch(&key);
                news.closed.remove(&*key);
                news.wanted.remove(&*key);
                news.lost_sight.insert((*key).clone());
            }
        }));
        Self { cluster, blocks, node, news, pace: QUICK }
    }
}

impl News {
    fn touch(&self, key: &BlockKey) {
        for listener in &self.listeners {
            lock(&listener.keys).insert(key.clone());
            listener.bell.ring();
        }
    }
}

impl KubeStore {
    /// Collects the blocks that change from now on, and rings the bell for each.
    #[must_use]
    pub fn touched(&self, bell: &Bell) -> Touched {
        let touched = Touched { bell: bell.clone(), ..Touched::default() };
        lock(&self.news).listeners.push(touched.clone());
        touched
    }

    /// Tells whoever has leases in a block that this node needs addresses.
    ///
    /// # Errors
    /// If it is not known to be told.
    pub fn want(&self, key: &BlockKey) -> Result<bool, CallError> {
        self.cluster.wait(self.blocks.want(key))
    }

    /// The blocks in which nothing is in use.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub fn list_empty(&self) -> Result<Vec<BlockKey>, CallError> {
        let empty = self.cluster.wait(self.blocks.list_empty())?;
        Ok(empty.into_iter().map(|(key, ..)| key).collect())
    }

    /// The blocks of leases of which somebody needs one to be opened, as far as the watch has told. Who has nothing to give
    /// now may have later.
    #[must_use]
    pub fn wanted(&self) -> Vec<BlockKey> {
        lock(&self.news).wanted.iter().cloned().collect()
    }

    /// A lease of these blocks was opened: it takes a moment until the watch tells that nobody needs one any more.
    pub fn met(&self, keys: &[BlockKey]) {
        lock(&self.news).wanted.retain(|key| !keys.contains(key));
    }

    /// Whether it is not known if the last write of a block was made.
    #[must_use]
    pub fn doubts(&self, key: &BlockKey) -> bool {
        lock(&self.news).doubtful.contains(key)
    }

    /// Writes blocks that nobody waits for, of what this node leases; an answer for each, in order. One that is not answered
    /// is simply tried again.
    #[must_use]
    pub fn write_behind(&self, writes: &[BlockWrite]) -> Vec<Result<Written, CallError>> {
        let one = |write| self.cluster.wait(self.blocks.write_leased(write));
        writes.iter().map(one).collect()
    }
}

impl BlockStore for KubeStore {
    fn list(&mut self) -> Result<Vec<Stored>, StoreError> {
        self.cluster.wait(self.blocks.list(None)).map_err(|error| unreachable(&error))
    }

    fn list_own(&mut self) -> Result<Vec<Stored>, StoreError> {
        let own = self.node.as_deref().map(Blocks::of_node);
        self.cluster.wait(self.blocks.list(own.as_deref())).map_err(|error| unreachable(&error))
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn read(&mut self, keys: &[BlockKey]) -> Result<Vec<(Block, Revision)>, StoreError> {
        let reads = keys.iter().map(|key| self.blocks.read(key));
        let found = self.cluster.wait(try_join_all(reads)).map_err(|error| unreachable(&error))?;
        let mut news = lock(&self.news);
        news.doubtful.retain(|key| !keys.contains(key));
        news.lost_sight.retain(|key| !keys.contains(key));
        Ok(found)
    }

    fn write(&mut self, batch: Batch<'_>) -> Result<Vec<Written>, StoreError> {
        {
            // Nothing is built on a block whose last write may or may not be there: it is read again first.
            let news = lock(&self.news);
            if batch.blocks.iter().any(|write| news.doubtful.contains(&write.key)) {
                return Ok(vec![Written::Conflict; batch.blocks.len()]);
            }
        }
        let began = Instant::now();
        let writes = batch.blocks.iter().map(|write| self.blocks.write(write));
        let written = self.cluster.wait(async { Ok(join_all(writes).await) });
        self.pace = began.elapsed();
        let written = written.and_then(|written| {
            let failed = |error| CallError::Failed(Box::new(error));
            written.into_iter().map(|result| result.map_err(failed)).collect::<Result<Vec<_>, _>>()
        });
        written.map_err(|error| {
            // Any of them may have been written all the same: they are read before anything is built on them.
            if !matches!(error, CallError::Down) {
                lock(&self.news).doubtful.extend(batch.blocks.iter().map(|write| write.key.clone()));
            }
            unreachable(&error)
        })
    }

    fn waits(&self, _durable: bool) -> bool {
        true
    }

    fn changed(&mut self) -> Result<Vec<Stored>, StoreError> {
        let (mut changed, lost_sight, doubtful) = {
            let mut news = lock(&self.news);
            let News { changed, lost_sight, doubtful, .. } = &mut *news;
            (std::mem::take(changed), std::mem::take(lost_sight), std::mem::take(doubtful))
        };
        if doubtful.is_empty() && lost_sight.is_empty() {
            return Ok(changed);
        }
        let keys: Vec<BlockKey> = doubtful.union(&lost_sight).cloned().collect();
        match self.read(&keys) {
            Ok(found) => {
                changed.extend(keys.into_iter().zip(found).map(|(key, (block, revision))| (key, block, revision)));
            }
            // They stay in doubt. What needs none of them goes on: it must not wait for a server that is down.
            Err(_) => {
                let mut news = lock(&self.news);
                news.doubtful.extend(doubtful);
                news.lost_sight.extend(lost_sight);
            }
        }
        Ok(changed)
    }

    fn follows(&self, _key: &BlockKey, block: &Block) -> bool {
        // What the watch selects.
        self.node.as_ref().is_none_or(|node| nodes(block).contains(node))
    }

    fn is_unsure(&self) -> bool {
        let news = lock(&self.news);
        !news.doubtful.is_empty() || !news.closed.is_empty()
    }

    fn give_way(&mut self, attempt: u32) {
        // The longer others were quicker, the more of them there are; and who waits less than a write takes meets the same
        // ones again.
        let most = (self.pace.max(QUICK) * (1 << attempt.min(5))).min(LONGEST);
        let random = RandomState::new().build_hasher().finish();
        std::thread::sleep(most.mul_f64((random >> 11) as f64 / (1u64 << 53) as f64));
    }
}

fn unreachable(error: &CallError) -> StoreError {
    match error.status() {
        // The server understood and refused: trying again does not help.
        Some(status @ (400 | 401 | 403 | 404 | 413 | 422)) => StoreError::Refused { status, reason: error.to_string() },
        _ => StoreError::Unreachable(error.to_string()),
    }
}
