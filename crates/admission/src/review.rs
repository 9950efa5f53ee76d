//! One request of the API server, and what is known, to an answer.
//!
//! An object is refused for its own faults only, and an edit only for what it makes worse: one that mends a part of
//! what is wrong passes, and so does everything that leaves the spec alone (labels, finalizers). Otherwise two pools
//! that came to overlap could neither be edited nor deleted.

use berth_core::addr::RangeSet;
use berth_core::error::Error;
use berth_core::ipam::{Breach, Config, Fault, Ipam, in_use, subnet_faults};
use berth_core::model::{POOL_OBJECT, Pool, Subnet};
use berth_dialects::native::Claim;
use berth_dialects::spiderpool::{self, settings::Conf};
use berth_dialects::{Lowered, Object, lower};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What is known of a cluster, as of one instant.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// All blocks, configured with all objects ([`berth_dialects::Verdicts::config`]).
    pub ipam: &'a Ipam,
    /// All claims.
    pub claims: &'a [Claim],
}

/// Who has a view of a cluster. It is asked on every request, so looking must be cheap: a lock, and no copies.
pub trait Cluster: Send + Sync + 'static {
    /// Looks at everything at once.
    fn with<R>(&self, look: impl FnOnce(&View<'_>) -> R) -> R;

    /// The UID that a SpiderSubnet has at this moment, unless it is on its way out or cannot be asked for.
    fn subnet_uid(&self, name: &str) -> Option<String>;
}

/// What differs from cluster to cluster.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The user name of the controller, who alone changes the ranges of pools that it makes for applications. If there
    /// is none, everybody may.
    pub controller: Option<String>,
    /// Spiderpool's switches.
    pub spiderpool: Conf,
}

/// What an API server asks, as far as it matters here.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Names the question.
    pub uid: String,
    /// What is to be done.
    pub operation: Operation,
    /// Who wants it.
    #[serde(default)]
    pub user_info: User,
    /// The object as it would be; null if it is to be deleted.
    #[serde(default)]
    pub object: Value,
    /// The object as it is; null if it is to be made.
    #[serde(default)]
    pub old_object: Value,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// Make it.
    Create,
    /// Change it.
    Update,
    /// Delete it.
    Delete,
    /// Nothing that is stored.
    Connect,
}

/// Who wants it.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct User {
    /// The user name.
    #[serde(default)]
    pub username: String,
}

/// The envelope of a request.
#[derive(Clone, Debug, Deserialize)]
pub struct Asked {
    /// The request.
    pub request: Request,
}

/// Whether it may be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// Why not.
    #[serde(skip)]
    pub refused: Option<Error>,
    /// What should be known though it is done.
    pub warnings: Vec<String>,
}

impl Answer {
    /// The answer to the question of a name, as an API server reads it.
    #[must_use]
    pub fn to_json(&self, uid: &str) -> Value {
        let mut response = json!({ "uid": uid, "allowed": self.refused.is_none() });
        if !self.warnings.is_empty() {
            response["warnings"] = json!(self.warnings);
        }
        if let Some(error) = &self.refused {
            let names = error.names();
            let reason = if names.http == 409 { "Conflict" } else { "Invalid" };
            response["status"] = json!({ "code": names.http, "reason": reason, "message": error.to_string() });
        }
        json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response })
    }
}

/// Answers a request.
#[must_use]
pub fn review(request: &Request, view: &View<'_>, options: &Options) -> Answer {
    let (old, new) = (Object::of_cluster(&request.old_object), Object::of_cluster(&request.object));
    let mut warnings = Vec::new();
    let verdict = match (request.operation, &old, &new) {
        (Operation::Create, _, Some(new)) => lower(new)
            .and_then(|lowered| options.spiderpool.admits(new, &lowered))
            .and_then(|()| made(new, view, &mut warnings)),
        (Operation::Update, Some(old), Some(new)) if old.spec != new.spec => {
            let is_controller = options.controller.as_ref().is_none_or(|own| *own == request.user_info.username);
            let allowed = if is_controller { Ok(()) } else { for_everybody(old, new, request) };
            allowed.and_then(|()| changed(old, new, view, &mut warnings))
        }
        (Operation::Delete, Some(old), _) => may_go(old, view),
        // Nothing changes that matters, or it is of no kind that is looked at.
        _ => Ok(()),
    };
    Answer { refused: verdict.err(), warnings }
}

fn made(new: &Object, view: &View<'_>, warnings: &mut Vec<String>) -> Result<(), Error> {
    let config = view.ipam.config();
    match lower(new)? {
        Lowered::Pool(pool) => {
            let pool = within_subnet(pool, config);
            unless(&[], pool_faults(new, &pool, config), warnings)?;
            let other = config.pools.get(&pool.name).filter(|other| other.object != pool.object);
            fault(other.map(|other| name_taken(&pool.title(), &other.title())))?;
            fault(spiderpool::askew(&pool, config))?;
            fault(config.pool_overlap(&pool, &addresses(&pool)))
        }
        Lowered::Subnet(subnet) => {
            unless(&[], subnet_faults(&subnet), warnings)?;
            let other = config.subnets.get(&subnet.name).filter(|other| other.object != subnet.object);
            fault(other.map(|other| name_taken(&subnet.title(), &other.title())))?;
            fault(config.subnet_overlap(&subnet))?;
            fault(clash(&subnet, None, config))
        }
        Lowered::Reservation(_) => Ok(()),
        Lowered::Claim(claim) => unclaimed(&claim, &[], view),
    }
}

fn changed(before: &Object, after: &Object, view: &View<'_>, warnings: &mut Vec<String>) -> Result<(), Error> {
    spiderpool::keeps_identity(before, after)?;
    let old = lower(before);
    let new = match lower(after) {
        Ok(new) => new,
        // It made no sense before either, so nothing gets worse.
        Err(_) if old.is_err() => return Ok(()),
        Err(error) => return Err(error),
    };
    let Ok(old) = old else { return made(after, view, warnings) };
    let config = view.ipam.config();
    match (old, new) {
        (Lowered::Pool(old), Lowered::Pool(new)) => {
            let (old, new) = (within_subnet(old, config), within_subnet(new, config));
            unless(&pool_faults(before, &old, config), pool_faults(after, &new, config), warnings)?;
            if old.ranges.is_empty() {
                fault(spiderpool::askew(&new, config))?;
            }
            let gained =
                if old.network == new.network { addresses(&new).difference(&addresses(&old)) } else { addresses(&new) };
            fault(config.pool_overlap(&new, &gained))?;
            let mut next = config.clone();
            if has_no_addresses(&new) {
                next.pools.remove(&new.name);
            } else {
                next.pools.insert(new.name.clone(), new);
            }
            view.ipam.keeps(&old, old.subnet.as_ref().and_then(|name| config.subnets.get(name)), &next)
        }
        (Lowered::Subnet(old), Lowered::Subnet(new)) => {
            unless(&subnet_faults(&old), subnet_faults(&new), warnings)?;
            if (&old.network, old.cidr) != (&new.network, new.cidr) {
                fault(config.subnet_overlap(&new))?;
            }
            fault(clash(&new, Some(&old), config))?;
            let mut next = config.clone();
            next.subnets.insert(new.name.clone(), new);
            // Its gateway is left out of its pools.
            cut_from(&old, view).try_for_each(|pool| view.ipam.keeps(pool, Some(&old), &next))
        }
        (Lowered::Claim(old), Lowered::Claim(new)) => unclaimed(&new, &old.group.addresses, view),
        _ => Ok(()),
    }
}

/// Whether an object may be deleted: nobody depends on it. Whoever takes the finalizer off asks the same.
///
/// # Errors
/// [`Error::InUse`] names some of those that do.
pub fn may_go(object: &Object, view: &View<'_>) -> Result<(), Error> {
    // What makes no sense has nothing in use.
    let Ok(lowered) = lower(object) else { return Ok(()) };
    let config = view.ipam.config();
    match lowered {
        Lowered::Pool(pool) => {
            let mut next = config.clone();
            next.pools.remove(&pool.name);
            view.ipam.keeps(&pool, pool.subnet.as_ref().and_then(|name| config.subnets.get(name)), &next)
        }
        Lowered::Subnet(subnet) => in_use(object.title(), cut_from(&subnet, view).map(Pool::title)),
        Lowered::Reservation(reservation) => view.ipam.frees(&reservation, &object.title()),
        Lowered::Claim(claim) => {
            let users = view.ipam.active_of_identity(&claim.identity);
            in_use(object.title(), users.into_iter().map(|(address, holder)| format!("{address} by {holder}")))
        }
    }
}

fn cut_from<'a>(subnet: &Subnet, view: &View<'a>) -> impl Iterator<Item = &'a Pool> {
    let name = subnet.name.clone();
    view.ipam.config().pools.values().filter(move |pool| pool.subnet.as_ref() == Some(&name))
}

fn addresses(pool: &Pool) -> RangeSet {
    pool.ranges.iter().copied().collect()
}

fn fault(fault: Option<Fault>) -> Result<(), Error> {
    fault.map_or(Ok(()), |fault| Err(spiderpool::translate(fault).into()))
}

/// A pool that names no subnet is of the one around it.
fn within_subnet(mut pool: Pool, config: &Config) -> Pool {
    let around = || config.subnet_around(&pool).map(|subnet| subnet.name.clone());
    pool.subnet = pool.subnet.clone().or_else(around);
    pool
}

/// Requests name a pool or a subnet, whatever its kind, so kinds share one space of names.
fn name_taken(object: &str, other: &str) -> Fault {
    let reason = format!("{other} has that name; choose another");
    Fault { breach: Breach::Field, object: object.to_owned(), field: "metadata.name".to_owned(), reason }
}

/// A pool of another system may be made first and get its addresses later.
fn has_no_addresses(pool: &Pool) -> bool {
    pool.ranges.is_empty() && pool.object != POOL_OBJECT
}

fn pool_faults(object: &Object, pool: &Pool, config: &Config) -> Vec<Fault> {
    if has_no_addresses(pool) {
        return spiderpool::faults_without_addresses(object, pool, config);
    }
    config.pool_faults(pool)
}

/// That a subnet which says what addresses pools may have does not leave to them what they have.
fn clash(subnet: &Subnet, before: Option<&Subnet>, config: &Config) -> Option<Fault> {
    let own = config.pools.values().filter(|pool| subnet.available.is_some() && pool.refused.is_none());
    spiderpool::clash(subnet, before, own)
}

/// Refuses for the first fault that was not there before.
fn unless(before: &[Fault], now: Vec<Fault>, warnings: &mut Vec<String>) -> Result<(), Error> {
    for fault in now {
        if before.iter().any(|known| (known.breach, &known.field) == (fault.breach, &fault.field)) {
            continue;
        }
        if fault.breach == Breach::NoSubnet {
            // Not refused: it may have been made a moment ago, or come right after, as in one file with both.
            warnings.push(format!("{}; until then the pool gives out nothing", Error::from(fault)));
            continue;
        }
        return Err(spiderpool::translate(fault).into());
    }
    Ok(())
}

/// Whether nobody else claims the addresses that a claim asks for, apart from those it has asked for before.
fn unclaimed(claim: &Claim, before: &[std::net::IpAddr], view: &View<'_>) -> Result<(), Error> {
    let gained = || claim.group.addresses.iter().filter(|address| !before.contains(address));
    let others = view.claims.iter().filter(|other| other.identity != claim.identity);
    let mut others = others.filter(|other| other.group.network() == claim.group.network());
    let taken = others.find_map(|other| Some((gained().find(|a| other.group.addresses.contains(a))?, other)));
    let Some((address, other)) = taken else { return Ok(()) };
    let field = format!("IPClaim \"{}/{}\", spec.addresses", claim.namespace, claim.name);
    let reason = format!("{address} is claimed by IPClaim \"{}/{}\"", other.namespace, other.name);
    Err(Error::Invalid { field, reason })
}

/// What nobody but the controller may change: a pool that is made for an application follows its replicas, and what is
/// on its way out stays as it is.
fn for_everybody(old: &Object, new: &Object, request: &Request) -> Result<(), Error> {
    if old.api_version.starts_with(spiderpool::GROUP) && !request.old_object["metadata"]["deletionTimestamp"].is_null()
    {
        let reason = "it is being deleted and goes as soon as nothing of it is in use; make another object";
        return Err(Error::Invalid { field: format!("{}, spec", old.title()), reason: reason.to_owned() });
    }
    let written = old.spec.get("application").is_some_and(|application| !application.is_null());
    let made_for = written || matches!(lower(old), Ok(Lowered::Pool(pool)) if pool.application.is_some());
    let same = |field: &&&str| old.spec.get(**field) == new.spec.get(**field);
    match ["ranges", "application", "ips", "podAffinity"].iter().find(|field| made_for && !same(field)) {
        None => Ok(()),
        Some(field) => {
            let reason = "the pool is sized by Berth for its application; change the application, or delete the pool";
            Err(Error::Invalid { field: format!("{}, spec.{field}", old.title()), reason: reason.to_owned() })
        }
    }
}
