//! Pools of applications, as pods meet them: an application asks for subnets in its pod template, and its pods find the
//! pools that were cut for it.

use super::annotation::{self, bounded};
use super::networks::Networks;
use super::{DETECT, FIRST_INTERFACE, KEEP_POOL, POOL_SIZE, Pod, SUBNETS, spiderpool};
use crate::field::FieldError;
use crate::native::pool::detection;
use crate::object::check_name;
use crate::spiderpool::POOL;
use crate::spiderpool::settings::Conf;
use berth_core::addr::Family;
use berth_core::apps::application::group;
use berth_core::apps::{Application, Controller, Size};
use berth_core::detect::Detection;
use berth_core::error::Error;
use berth_core::ipam::Config;
use berth_core::model::Pool;
use std::collections::BTreeMap;

/// What an agent has to know of the configuration to find the pools of applications, and which pools are out of the
/// question for everybody.
#[derive(Clone, Debug, Default)]
pub struct Applications {
    /// Pools, by the namespace of their application.
    pools: BTreeMap<String, Vec<Owned>>,
    /// The family of every subnet.
    subnets: BTreeMap<String, Family>,
    /// Pools of a family that is switched off, and the reason.
    off: BTreeMap<String, String>,
    /// Spiderpool's switches.
    pub(super) conf: Conf,
}

#[derive(Clone, Debug)]
struct Owned {
    name: String,
    family: Family,
    subnet: String,
    application: Application,
}

impl Applications {
    /// Those of a configuration, with Spiderpool's switches.
    #[must_use]
    pub fn of(config: &Config, conf: &Conf) -> Self {
        let mut pools: BTreeMap<String, Vec<Owned>> = BTreeMap::new();
        for pool in config.pools.values() {
            let (Some(application), Some(subnet)) = (pool.application.clone(), pool.subnet.clone()) else { continue };
            let of_namespace = pools.entry(application.namespace.clone()).or_default();
            of_namespace.push(Owned { name: pool.name.clone(), family: pool.family, subnet, application });
        }
        let subnets = config.subnets.values().map(|subnet| (subnet.name.clone(), subnet.cidr.family())).collect();
        let reason = |pool: &Pool| Some((pool.name.clone(), conf.why_off(pool.family)?));
        let off = config.pools.values().filter(|pool| pool.object == POOL).filter_map(reason).collect();
        Self { pools, subnets, off, conf: conf.clone() }
    }

    /// Leaves out those pools that were named and are switched off. If nothing is left, it is not the default pools that
    /// were meant.
    pub(super) fn without_off(&self, names: &mut Vec<String>, what: &str) -> Result<(), Error> {
        let reason = names.iter().find_map(|name| self.off.get(name)).cloned();
        names.retain(|name| !self.off.contains_key(name));
        match reason.filter(|_| names.is_empty()) {
            Some(reason) => Err(Error::Invalid { field: what.to_owned(), reason }),
            None => Ok(()),
        }
    }

    /// The pools of a pod's application for an interface, in the order of the subnets that it asks for. There is one of
    /// every family that the subnets have, or it is not all there yet.
    pub(super) fn pools(
        &self,
        pod: &Pod,
        interface: &str,
        subnets: &[String],
        key: &str,
    ) -> Result<Vec<String>, Error> {
        let invalid = |reason: String| annotation::of_pod(FieldError::new(key, reason), pod);
        let controllers = controllers(pod);
        let Some(application) = controllers.last() else {
            return Err(invalid(
                "only pods of a controller have pools of their own; make the pod by a Deployment, a StatefulSet or the \
                 like, or name pools instead of subnets"
                    .to_owned(),
            ));
        };
        let mut missing: Vec<Family> = Vec::new();
        for name in subnets {
            let family = self.subnets.get(name);
            let family = family.ok_or_else(|| invalid(format!("subnet {name:?} does not exist; make it first")))?;
            missing.push(*family);
        }
        let here = || self.pools.get(&pod.namespace).into_iter().flatten();
        let found = |by: &[Controller]| -> Vec<&Owned> {
            let is_own =
                |owned: &&Owned| owned.application.interface == interface && owned.application.has(&pod.namespace, by);
            let of = |name: &String| here().filter(is_own).filter(|owned| owned.subnet == *name).collect::<Vec<_>>();
            subnets.iter().flat_map(of).collect()
        };
        // What is known of the pod's own controller goes before what names let one think.
        let mut own = found(&controllers[..1]);
        if own.is_empty() {
            own = found(&controllers);
        }
        missing.retain(|family| !own.iter().any(|owned| owned.family == *family));
        if !missing.is_empty() {
            return Err(Error::PoolPending {
                application: format!("{} {}/{}", application.kind, pod.namespace, application.name),
                interface: interface.to_owned(),
                subnets: subnets.join(", "),
            });
        }
        Ok(own.into_iter().map(|owned| owned.name.clone()).collect())
    }
}

/// The controller of a pod, and the one above it where Kubernetes' names tell: a Deployment's ReplicaSets are called
/// `DEPLOYMENT-HASH`, with the hash in a label of the pod, and a CronJob's Jobs `CRONJOB-MINUTES`.
pub(super) fn controllers(pod: &Pod) -> Vec<Controller> {
    let Some(owner) = pod.owners.iter().find(|owner| owner.controller && owner.kind != "Node") else {
        return Vec::new();
    };
    let group = group(&owner.api_version);
    let above = match (group, owner.kind.as_str()) {
        ("apps", "ReplicaSet") => {
            let hash = pod.labels.get("pod-template-hash").filter(|hash| !hash.is_empty());
            let name = hash.and_then(|hash| owner.name.strip_suffix(hash.as_str())?.strip_suffix('-'));
            name.map(|name| ("Deployment", name))
        }
        ("batch", "Job") => {
            let minutes = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            let split = owner.name.rsplit_once('-').filter(|(_, end)| minutes(end));
            split.map(|(name, _)| ("CronJob", name))
        }
        _ => None,
    };
    let own = Controller {
        group: group.to_owned(),
        kind: owner.kind.clone(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
    };
    let above = above.map(|(kind, name)| Controller {
        group: group.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: String::new(),
    });
    [own].into_iter().chain(above).collect()
}

/// What a pod template asks for: subnets by interface, and on what terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// The subnets asked for, in order, by interface.
    pub interfaces: Vec<(String, Vec<String>)>,
    /// How large the pools are to be.
    pub size: Option<Size>,
    /// Whether they stay when the application is gone.
    pub keep: bool,
    /// What is found out on the wire before their addresses are used; `None` leaves it to the pools.
    pub detect: Option<Detection>,
}

impl Terms {
    /// Reads the annotations of a pod template, with Spiderpool's switches.
    ///
    /// # Errors
    /// Names the annotation and the fix.
    pub fn read(annotations: &BTreeMap<String, String>, conf: &Conf) -> Result<Self, FieldError> {
        let networks = Networks::read(annotations)?;
        let mut interfaces: Vec<(String, Vec<String>)> = networks.subnets().collect();
        // The list of interfaces goes before what stands beside it, as for the pods.
        let listed = networks.entry(FIRST_INTERFACE).is_some_and(super::networks::Entry::is_wish);
        if let Some(text) = annotation::text(annotations, SUBNETS)?.filter(|_| !listed) {
            let subnets = subnets(annotation::list(text, SUBNETS)?, SUBNETS)?;
            interfaces.insert(0, (FIRST_INTERFACE.to_owned(), subnets));
        }
        let mut usual = None;
        if interfaces.is_empty() {
            interfaces = spiderpool::subnets(annotations, conf)?;
            usual = conf.usual_size();
        }
        if interfaces.is_empty() {
            return Ok(Self::default());
        }
        let (size, keep) = terms(annotations)?;
        let detect = annotation::text(annotations, DETECT)?.map(|text| detection(text, DETECT)).transpose()?;
        Ok(Self { interfaces, size: size.or(usual), keep, detect })
    }
}

/// On what terms pools are wanted.
pub(super) fn terms(annotations: &BTreeMap<String, String>) -> Result<(Option<Size>, bool), FieldError> {
    if ![POOL_SIZE, KEEP_POOL].iter().any(|key| annotations.contains_key(*key)) {
        return spiderpool::terms(annotations);
    }
    let size = annotation::text(annotations, POOL_SIZE)?.map(str::parse).transpose();
    let size = size.map_err(|reason| FieldError::new(POOL_SIZE, reason))?;
    let keep = match annotation::text(annotations, KEEP_POOL)? {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => {
            let shown: String = other.chars().take(64).collect();
            return Err(FieldError::new(KEEP_POOL, format!("{shown:?} is neither \"true\" nor \"false\"")));
        }
    };
    Ok((size, keep))
}

/// Names of subnets that stand at `path`, each one once.
pub(super) fn subnets(names: Vec<String>, path: &str) -> Result<Vec<String>, FieldError> {
    bounded(names.len(), "subnet", path)?;
    for (i, name) in names.iter().enumerate() {
        let path = format!("{path}[{i}]");
        let shown: String = name.chars().take(300).collect();
        check_name(&path, &shown, 253, true)?;
        if names[..i].contains(name) {
            return Err(FieldError::new(path, format!("{name:?} is there twice; remove one")));
        }
    }
    Ok(names)
}
