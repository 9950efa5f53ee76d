//! Manifests: applied all or none, listed with their status, deleted when nothing depends on them.

use crate::claims;
use crate::node::{Node, now, seed};
use berth_core::block::Slot;
use berth_core::error::Error;
use berth_core::ipam::{Config, Ipam};
use berth_core::model::DEFAULT_NETWORK;
use berth_core::time::Time;
use berth_dialects::{Lowered, Object, bcs, kinds, lower, lower_all, native};
use berth_store::{FileMedium, Journal, Medium, ObjectKey};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Marks the pool that a daemon without any configuration offers.
const EXAMPLE: &str = "berth.io/example";

const BCS_POOL: &str = "BCSNetPool";
const BCS_IP: &str = "BCSNetIP";

/// What became of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Applied {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace, if the kind has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// `created`, `configured`, `unchanged` or `deleted`.
    pub action: &'static str,
}

impl Applied {
    fn new(object: &Object, action: &'static str) -> Self {
        let berth_dialects::Metadata { name, namespace, .. } = object.metadata.clone();
        Self { kind: object.kind.clone(), name, namespace, action }
    }
}

type Objects = BTreeMap<ObjectKey, Object>;

fn key(object: &Object) -> ObjectKey {
    let namespace = object.metadata.namespace.clone().unwrap_or_default();
    (object.kind.clone(), namespace, object.metadata.name.clone())
}

fn stored<M: Medium>(journal: &Journal<M>) -> Result<Objects, Error> {
    let read = |(key, json): (&ObjectKey, &Vec<u8>)| {
        let object = serde_json::from_slice(json);
        let broken = |error| Error::Store(format!("{} {:?} cannot be read: {error}", key.0, key.2));
        Ok((key.clone(), object.map_err(broken)?))
    };
    journal.objects().iter().map(read).collect()
}

/// What the stored objects configure.
pub(crate) fn configuration(journal: &Journal<FileMedium>) -> Result<Config, Error> {
    lower_all(stored(journal)?.values())
}

/// What shall be written.
struct Plan {
    changes: Vec<Change>,
    results: Vec<Applied>,
}

/// An object before and after; absent before it is made and after it is deleted.
struct Change {
    key: ObjectKey,
    before: Option<Object>,
    after: Option<Object>,
}

impl Node {
    /// Applies objects, all or none. Applying what is there already changes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] names object, field and fix; [`Error::InUse`] the holders.
    pub fn apply(&self, objects: &[Object], dry_run: bool) -> Result<Vec<Applied>, Error> {
        let objects = objects.to_vec();
        self.engine.reconfigure(
            dry_run,
            move |journal, ipam| {
                let mut all = stored(journal)?;
                let mut plan = Plan { changes: Vec::new(), results: Vec::new() };
                step_aside(&mut all, &objects, ipam, &mut plan);
                for object in &objects {
                    admit_bcs(all.get(&key(object)), Some(object), ipam)?;
                    put(&mut all, object, &mut plan)?;
                }
                Ok((lower_all(all.values())?, plan))
            },
            |context, plan| {
                for change in &plan.changes {
                    if let Some(object) = &change.after {
                        claims::bind(context, change.before.as_ref(), object, &self.name)?;
                    }
                }
                Ok(plan.results.clone())
            },
            save,
        )
    }

    /// Deletes one object.
    ///
    /// # Errors
    /// [`Error::InUse`] names the holders that depend on it.
    pub fn delete(&self, kind: &str, namespace: &str, name: &str) -> Result<Applied, Error> {
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        self.engine.reconfigure(
            false,
            move |journal, ipam| {
                let mut all = stored(journal)?;
                let object = all.remove(&key).ok_or_else(|| not_found(&key.0, &key.2))?;
                admit_bcs(Some(&object), None, ipam)?;
                admit_subnet(&object, all.values())?;
                let results = vec![Applied::new(&object, "deleted")];
                let changes = vec![Change { key, before: Some(object), after: None }];
                Ok((lower_all(all.values())?, Plan { changes, results }))
            },
            |context, plan| {
                for object in plan.changes.iter().filter_map(|change| change.before.as_ref()) {
                    if let Some(claim) = claims::read(object)? {
                        claims::unbind(context, object, &claim)?;
                    }
                }
                Ok(plan.results[0].clone())
            },
            save,
        )
    }

    /// The objects of a kind with their status, in order of name.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn list(&self, kind: &kinds::KindInfo, namespace: Option<&str>) -> Result<Vec<Object>, Error> {
        if kind.kind == BCS_IP {
            return self.bcs_addresses();
        }
        let all = self.engine.with_store(|journal| stored(journal))?;
        let wanted = all.into_iter().filter(|((own, in_namespace, _), _)| {
            own == kind.kind && namespace.is_none_or(|namespace| !kind.namespaced || namespace == in_namespace)
        });
        wanted.map(|(_, object)| self.with_status(object)).collect()
    }

    /// One object with its status.
    ///
    /// # Errors
    /// If there is none.
    pub fn get(&self, kind: &kinds::KindInfo, namespace: Option<&str>, name: &str) -> Result<Object, Error> {
        if kind.derived {
            let mut all = self.list(kind, namespace)?.into_iter();
            return all.find(|object| object.metadata.name == name).ok_or_else(|| not_found(kind.kind, name));
        }
        self.with_status(self.stored(kind.kind, namespace.unwrap_or_default(), name)?)
    }

    /// One object as it was applied.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn stored(&self, kind: &str, namespace: &str, name: &str) -> Result<Object, Error> {
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        let json = self.engine.with_store(|journal| journal.objects().get(&key).cloned());
        let json = json.ok_or_else(|| not_found(kind, name))?;
        serde_json::from_slice(&json).map_err(|error| Error::Store(format!("{kind} {name:?} cannot be read: {error}")))
    }

    fn with_status(&self, mut object: Object) -> Result<Object, Error> {
        let now = now();
        object.status = match lower(&object)? {
            Lowered::Pool(pool) => {
                let usage = self.engine.read(|ipam| ipam.pool_usage(&pool.name, now)).unwrap_or_default();
                Some(if object.kind == BCS_POOL {
                    bcs::NetPool::read(&object)?.status(&usage)
                } else {
                    native::pool_status(&pool, &usage)
                })
            }
            Lowered::Subnet(subnet) => {
                let usage = self.engine.read(|ipam| ipam.subnet_usage(&subnet.name, now));
                usage.map(|usage| native::subnet_status(&usage))
            }
            Lowered::Reservation(_) => None,
            Lowered::Claim(claim) => {
                let addresses = self.engine.read(|ipam| ipam.of_identity(&claim.identity));
                Some(native::claim_status(&addresses))
            }
        };
        Ok(object)
    }

    /// One record per address of every BCS pool, as BCS shows them.
    fn bcs_addresses(&self) -> Result<Vec<Object>, Error> {
        let pools = self.bcs_pools()?;
        Ok(self.engine.read(|ipam| pools.iter().flat_map(|pool| pool.net_ips(|ip| slot_of(ipam, ip))).collect()))
    }

    /// The BCS pools, in order of name.
    ///
    /// # Errors
    /// If an object cannot be read.
    pub fn bcs_pools(&self) -> Result<Vec<bcs::NetPool>, Error> {
        let all = self.engine.with_store(|journal| stored(journal))?;
        all.values().filter(|object| object.kind == BCS_POOL).map(bcs::NetPool::read).collect()
    }

    /// Offers a small pool where Berth is new; whether it did.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn offer_example(&self) -> Result<bool, Error> {
        if !self.new {
            return Ok(false);
        }
        let mut object = Object {
            api_version: native::API_VERSIONS[0].to_owned(),
            kind: "IPPool".to_owned(),
            spec: serde_json::json!({ "ranges": ["10.77.0.0/24"] }),
            ..Object::default()
        };
        object.metadata.name = "example".to_owned();
        object.metadata.annotations.insert(EXAMPLE.to_owned(), "true".to_owned());
        self.apply(&[object], false).map(|_| true)
    }
}

/// A slot of the default network, which BCS pools are in.
fn slot_of(ipam: &Ipam, address: IpAddr) -> Option<Slot> {
    ipam.slots_of(DEFAULT_NETWORK, address).next().map(|(_, _, view)| view.to_slot())
}

/// BCS' own words for a pool that would lose an address in use.
fn admit_bcs(old: Option<&Object>, next: Option<&Object>, ipam: &Ipam) -> Result<(), Error> {
    let read = |object: Option<&Object>| object.filter(|o| o.kind == BCS_POOL).map(bcs::NetPool::read).transpose();
    match (read(old)?, read(next)?) {
        (Some(old), next) => old.check_change(next.as_ref(), |ip| slot_of(ipam, ip)),
        (None, _) => Ok(()),
    }
}

/// A subnet that pools are cut from stays.
fn admit_subnet<'a>(object: &Object, others: impl Iterator<Item = &'a Object>) -> Result<(), Error> {
    let Lowered::Subnet(subnet) = lower(object)? else { return Ok(()) };
    let mut users = Vec::new();
    for other in others {
        if let Lowered::Pool(pool) = lower(other)?
            && pool.subnet.as_ref() == Some(&subnet.name)
        {
            users.push(other.title());
        }
    }
    if users.is_empty() { Ok(()) } else { Err(Error::InUse { object: object.title(), holders: users.join(", ") }) }
}

/// The example pool makes room for the first real one, unless someone uses it.
fn step_aside(all: &mut Objects, incoming: &[Object], ipam: &Ipam, plan: &mut Plan) {
    let is_pool = |object: &Object| matches!(object.kind.as_str(), "IPPool" | BCS_POOL);
    let is_example = |object: &Object| object.metadata.annotations.contains_key(EXAMPLE);
    if !incoming.iter().any(|object| is_pool(object) && !is_example(object) && object.metadata.name != "example") {
        return;
    }
    let idle = |name: &str| {
        let usage = ipam.pool_usage(name, now()).unwrap_or_default();
        usage.in_use.is_zero() && usage.held.is_zero() && usage.quarantined.is_zero()
    };
    let examples = all.iter().filter(|(key, object)| is_example(object) && idle(&key.2)).map(|(key, _)| key.clone());
    let examples: Vec<ObjectKey> = examples.collect();
    for key in examples {
        let before = all.remove(&key);
        plan.changes.push(Change { key, before, after: None });
    }
}

/// Puts one object over what is there.
fn put(all: &mut Objects, incoming: &Object, plan: &mut Plan) -> Result<(), Error> {
    // What a dialect cannot lower is refused here, with the object's own name in the message.
    lower(incoming)?;
    let key = key(incoming);
    let known = all.get(&key);
    let same = |old: &Object| {
        let (a, b) = (&old.metadata, &incoming.metadata);
        old.spec == incoming.spec && a.labels == b.labels && a.annotations == b.annotations
    };
    if known.is_some_and(same) {
        plan.results.push(Applied::new(incoming, "unchanged"));
        return Ok(());
    }
    let mut object = Object { status: None, ..incoming.clone() };
    let (old, meta) = (known.map(|old| &old.metadata), &mut object.metadata);
    let respecified = known.is_some_and(|old| old.spec != incoming.spec);
    meta.uid = Some(old.and_then(|old| old.uid.clone()).unwrap_or_else(new_uid));
    meta.creation_timestamp =
        Some(old.and_then(|old| old.creation_timestamp.clone()).unwrap_or_else(|| rfc3339(now())));
    meta.generation = Some(old.and_then(|old| old.generation).unwrap_or(1) + u64::from(respecified));
    let last = all.values().filter_map(|o| o.metadata.resource_version.as_ref()?.parse::<u64>().ok()).max();
    meta.resource_version = Some((last.unwrap_or(0) + 1).to_string());
    plan.results.push(Applied::new(&object, if known.is_some() { "configured" } else { "created" }));
    let before = all.insert(key.clone(), object.clone());
    plan.changes.push(Change { key, before, after: Some(object) });
    Ok(())
}

fn save(journal: &mut Journal<FileMedium>, plan: Plan) -> Result<(), Error> {
    let encode = |object: &Object| serde_json::to_vec(object).map_err(|error| Error::Store(error.to_string()));
    let changes = plan.changes.into_iter().map(|c| Ok((c.key, c.after.as_ref().map(encode).transpose()?)));
    let changes: Vec<(ObjectKey, Option<Vec<u8>>)> = changes.collect::<Result<_, Error>>()?;
    if changes.is_empty() {
        return Ok(());
    }
    journal.write_objects(&changes).map_err(|error| Error::Store(error.to_string()))
}

pub(crate) fn not_found(kind: &str, name: &str) -> Error {
    match kind {
        "IPPool" | BCS_POOL => Error::UnknownPool(name.to_owned()),
        "IPClaim" => Error::UnknownClaim(name.to_owned()),
        _ => Error::NotFound { kind: kind.to_owned(), name: name.to_owned() },
    }
}

pub(crate) fn rfc3339(time: Time) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map(|t| t.to_string()).unwrap_or_default()
}

/// A random UUID (version 4).
fn new_uid() -> String {
    let bits = u128::from(seed()) << 64 | u128::from(seed());
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
