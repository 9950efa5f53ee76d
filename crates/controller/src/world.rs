//! Everything the controller knows: blocks in an engine, configured objects and the rest in mirrors.

use crate::facts::{Mirrors, Record, SpiderMirrors};
use crate::guard::{FINALIZER, RESERVATION};
use berth_core::block::BlockKey;
use berth_core::model::{POOL_OBJECT, SUBNET_OBJECT};
use berth_dialects::native::Claim;
use berth_dialects::spiderpool::settings::Conf;
use berth_dialects::{Lowered, Object, lower, spiderpool};
use berth_engine::Engine;
use berth_kube::endpoints::Endpoints;
use berth_kube::objects::Objects;
use berth_kube::store::Touched;
use berth_kube::watch::{Bell, Mirror};
use berth_kube::{Cluster, KubeStore};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The name under which the controller writes blocks.
const WRITER: &str = "berth-controller";

/// What is known of the cluster.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) engine: Engine<KubeStore>,
    pub(crate) objects: Objects,
    pub(crate) mirrors: Mirrors,
    pub(crate) endpoints: Endpoints,
    spider: OnceLock<SpiderMirrors>,
    /// Spiderpool's switches.
    pub(crate) spiderpool: Conf,
    /// Rings when anything changes.
    pub(crate) bell: Bell,
    configured: Mutex<Configured>,
}

/// What is in force.
#[derive(Default)]
struct Configured {
    version: u64,
    claims: Arc<Vec<Claim>>,
}

impl World {
    /// Reads everything as of now, and follows it from there.
    pub(crate) fn open(cluster: &Cluster, spiderpool: &Conf) -> anyhow::Result<Self> {
        let bell = Bell::default();
        let mirrors = Mirrors::new(cluster, &bell);
        let objects = Objects::open(cluster)?;
        mirrors.wait_for_sync()?;
        let store = KubeStore::of_cluster(cluster.clone(), WRITER);
        let (mut config, version) = objects.config();
        spiderpool.apply(&mut config);
        let engine = Engine::open(store, config, berth_server::seed(), berth_server::now)?;
        let endpoints = Endpoints::new(cluster);
        let configured = Mutex::new(Configured { version, claims: claims(&objects) });
        let spider = OnceLock::new();
        let (cluster, spiderpool) = (cluster.clone(), spiderpool.clone());
        Ok(Self { cluster, engine, objects, mirrors, endpoints, spider, spiderpool, bell, configured })
    }

    /// What there is of Spiderpool's kinds, from the moment that they are installed.
    pub(crate) fn spider(&self) -> Option<&SpiderMirrors> {
        let installed = self.objects.has(spiderpool::POOL);
        installed.then(|| self.spider.get_or_init(|| SpiderMirrors::new(&self.cluster, &self.bell)))
    }

    /// Pools, subnets and reservations without their specs: kind, what keeps them while they are in use, and the copies.
    pub(crate) fn guarded(&self) -> Vec<(&'static str, &'static str, &Mirror<Record>)> {
        let own = [
            (POOL_OBJECT, FINALIZER, &self.mirrors.pools),
            (SUBNET_OBJECT, FINALIZER, &self.mirrors.subnets),
            (RESERVATION, FINALIZER, &self.mirrors.reservations),
        ];
        let spider = self.spider().into_iter().flat_map(|own| {
            [
                (spiderpool::POOL, spiderpool::FINALIZER, &own.pools),
                (spiderpool::SUBNET, spiderpool::FINALIZER, &own.subnets),
            ]
        });
        own.into_iter().chain(spider).collect()
    }

    /// Collects the blocks that change from now on.
    pub(crate) fn touched(&self) -> Touched {
        self.engine.with_store(|store| store.touched(&self.bell))
    }

    /// Takes in what the watches have told since.
    pub(crate) fn refresh(&self) {
        let mut configured = self.lock();
        if self.objects.wait(configured.version, Duration::ZERO) {
            let (mut config, version) = self.objects.config();
            self.spiderpool.apply(&mut config);
            self.engine.configure(config);
            *configured = Configured { version, claims: claims(&self.objects) };
        }
        drop(configured);
        // A transaction of nothing takes in the changes that were told.
        let _ = self.engine.transact(|_| Ok(()));
    }

    /// The version of the configuration that is in force.
    pub(crate) fn configured(&self) -> u64 {
        self.lock().version
    }

    /// All claims.
    pub(crate) fn claims(&self) -> Arc<Vec<Claim>> {
        self.lock().claims.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Configured> {
        self.configured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every block.
    pub(crate) fn blocks(&self) -> Vec<BlockKey> {
        self.engine.read(|ipam| ipam.blocks().map(|(key, _)| key.clone()).collect())
    }
}

fn claims(objects: &Objects) -> Arc<Vec<Claim>> {
    let claim = |object: &Arc<Object>| match lower(object) {
        Ok(Lowered::Claim(claim)) => Some(claim),
        _ => None,
    };
    Arc::new(objects.all().iter().filter_map(claim).collect())
}
