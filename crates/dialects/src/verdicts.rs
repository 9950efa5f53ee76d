//! Which objects are accepted, decided after the fact.
//!
//! Admission looks at one object at a time and may be down, and two objects that are made at the same moment do not see
//! each other there. So who looks at all of them, agents and the controller alike, decides again, by age: of two that
//! overlap the older one stays, whatever order they are read in. A pool that is not accepted gives out nothing new; what
//! is in use stays and goes back as usual. As soon as what it trips over is gone, it is accepted without anybody's doing.

use crate::config::{Lowered, lower};
use crate::object::Object;
use crate::spiderpool;
use berth_core::error::Error;
use berth_core::ipam::{Breach, Config, Fault, Occupied, pool_overlap, subnet_faults, subnet_overlap};
use berth_core::model::{POOL_OBJECT, Pool, Subnet};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The condition that says whether an object is accepted.
pub const ACCEPTED: &str = "Accepted";

/// Why an object is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One word for programs: `Overlaps`, `SubnetNotFound`, `SubnetNotAccepted`, `NameTaken`, `FamilyDisabled` or `Invalid`.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
}

impl Refusal {
    fn invalid(error: &Error) -> Self {
        Self { reason: "Invalid", message: error.to_string() }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        let reason = match fault.breach {
            Breach::Overlap => "Overlaps",
            Breach::NoSubnet => "SubnetNotFound",
            Breach::Field => "Invalid",
        };
        Self { reason, message: Error::from(spiderpool::translate(fault)).to_string() }
    }
}

/// All objects, judged.
#[derive(Debug, Default)]
pub struct Verdicts<'a> {
    /// What they configure. Pools that are not accepted are there and give out nothing, so that what is in use in them
    /// is known; what does not even make sense by itself is not.
    pub config: Config,
    /// Every pool, subnet, reservation and claim, oldest first, and why it is not accepted, if so.
    pub objects: Vec<(&'a Object, Option<Refusal>)>,
}

impl<'a> Verdicts<'a> {
    /// Those that are not accepted.
    pub fn refused(&self) -> impl Iterator<Item = (&'a Object, &Refusal)> {
        self.objects.iter().filter_map(|(object, refusal)| Some((*object, refusal.as_ref()?)))
    }
}

/// Decides which objects are accepted. It is the same for everybody who has the same objects.
#[must_use]
pub fn judge<'a>(objects: impl IntoIterator<Item = &'a Object>) -> Verdicts<'a> {
    let mut objects: Vec<&Object> = objects.into_iter().collect();
    objects.sort_by_cached_key(|object| age(object));
    let mut court = Court::default();
    let lowered: Vec<(&Object, Result<Lowered, Error>)> = objects.into_iter().map(|o| (o, lower(o))).collect();
    // Subnets first: whether a pool's is there does not depend on which of the two is older.
    let standing = standing(&lowered);
    let mut subnets: Vec<Option<Refusal>> = Vec::new();
    for (at, (object, lowered)) in lowered.iter().enumerate() {
        let older = standing.iter().take_while(|(place, _)| *place < at).map(|(_, pool)| *pool);
        subnets.push(match lowered {
            Ok(Lowered::Subnet(subnet)) => court.subnet(object, subnet.clone(), older),
            _ => None,
        });
    }
    let mut verdicts = Verdicts::default();
    for ((object, lowered), subnet) in lowered.into_iter().zip(subnets) {
        let refusal = match lowered {
            Err(error) => Some(Refusal::invalid(&error)),
            Ok(Lowered::Subnet(_)) => subnet,
            Ok(Lowered::Pool(pool)) => court.pool(object, pool),
            Ok(Lowered::Reservation(reservation)) => {
                court.config.reservations.insert(reservation.name.clone(), reservation);
                None
            }
            Ok(Lowered::Claim(_)) => None,
        };
        verdicts.objects.push((object, refusal));
    }
    court.config.adopt();
    Verdicts { config: court.config, ..verdicts }
}

/// Older first. Those of one second are told apart by UID, which is as good as a coin but falls alike for everybody.
fn age(object: &Object) -> (String, String, String, String) {
    let meta = &object.metadata;
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    (text(&meta.creation_timestamp), text(&meta.uid), object.kind.clone(), meta.name.clone())
}

/// The pools of Spiderpool's that stand beside older ones of their kind, and their places by age. A pool and a subnet of
/// these kinds do not name each other: where they do not go together, the one that came later is at fault, and that may be
/// the subnet.
fn standing<'a>(lowered: &'a [(&Object, Result<Lowered, Error>)]) -> Vec<(usize, &'a Pool)> {
    let (mut taken, mut cidrs) = (Occupied::default(), BTreeSet::new());
    let own = lowered.iter().enumerate().filter_map(|(at, (_, lowered))| match lowered {
        Ok(Lowered::Pool(pool)) => Some((at, pool, spiderpool::cidr_of(pool)?)),
        _ => None,
    });
    own.filter_map(|(at, pool, cidr)| {
        let askew = cidrs.iter().any(|other| spiderpool::clashes(cidr, *other));
        if askew || taken.overlap(&pool.network, &pool.ranges).is_some() {
            return None;
        }
        cidrs.insert(cidr);
        taken.take(&pool.network, &pool.ranges, "");
        Some((at, pool))
    })
    .collect()
}

#[derive(Default)]
struct Court {
    config: Config,
    subnets: Occupied,
    pools: Occupied,
}

impl Court {
    fn subnet<'a>(
        &mut self,
        object: &Object,
        mut subnet: Subnet,
        older: impl Iterator<Item = &'a Pool>,
    ) -> Option<Refusal> {
        if self.config.subnets.contains_key(&subnet.name) {
            return Some(name_taken(object, "subnet"));
        }
        let range = [subnet.cidr.range()];
        let overlap = || {
            let (_, other, whose) = self.subnets.overlap(&subnet.network, &range)?;
            Some(subnet_overlap(&subnet, other, whose))
        };
        let clash = || spiderpool::clash(&subnet, None, older).filter(|_| subnet.object == spiderpool::SUBNET);
        let fault = subnet_faults(&subnet).into_iter().next().or_else(overlap).or_else(clash);
        subnet.refused = fault.is_some();
        if !subnet.refused {
            self.subnets.take(&subnet.network, &range, &subnet.title());
        }
        self.config.subnets.insert(subnet.name.clone(), subnet);
        fault.map(Refusal::from)
    }

    fn pool(&mut self, object: &Object, mut pool: Pool) -> Option<Refusal> {
        if self.config.pools.contains_key(&pool.name) {
            return Some(name_taken(object, "pool"));
        }
        // Pools of other systems may be made first and get their addresses later.
        if pool.ranges.is_empty() && object.kind != POOL_OBJECT {
            return None;
        }
        let around = || self.config.subnet_around(&pool).map(|subnet| subnet.name.clone());
        pool.subnet = pool.subnet.clone().or_else(around);
        let refusal = self.refusal(&pool);
        match &refusal {
            None => self.pools.take(&pool.network, &pool.ranges, &pool.title()),
            Some(refusal) => pool.refused = Some(refusal.message.clone()),
        }
        // One whose lengths fit no address cannot even be indexed, and nothing was ever given out of it.
        let lease_fits = pool.lending.is_none_or(|lending| lending.block_len <= pool.unit_len);
        if pool.unit_len <= pool.family.bits() && lease_fits {
            self.config.pools.insert(pool.name.clone(), pool);
        }
        refusal
    }

    fn refusal(&self, pool: &Pool) -> Option<Refusal> {
        if let Some(fault) = self.config.pool_faults(pool).into_iter().next() {
            return Some(fault.into());
        }
        let is_refused = |name: &&String| self.config.subnets.get(*name).is_some_and(|subnet| subnet.refused);
        if let Some(name) = pool.subnet.as_ref().filter(is_refused) {
            let message = format!("{}, spec.subnet: subnet {name:?} is not accepted", pool.title());
            return Some(Refusal { reason: "SubnetNotAccepted", message });
        }
        if let Some(fault) = spiderpool::askew(pool, &self.config) {
            return Some(fault.into());
        }
        let (range, other, whose) = self.pools.overlap(&pool.network, &pool.ranges)?;
        Some(pool_overlap(pool, range, other, whose).into())
    }
}

/// Kinds share one space of names: a request names a pool or a subnet, whatever its kind.
fn name_taken(object: &Object, what: &str) -> Refusal {
    let message = format!("{}, metadata.name: an older {what} of another kind has that name", object.title());
    Refusal { reason: "NameTaken", message }
}

/// The condition `Accepted` of an object, to be put among those of its status.
#[must_use]
pub fn condition(object: &Object, refusal: Option<&Refusal>, since: &str) -> Value {
    let (status, reason, message) = match refusal {
        None => ("True", "Accepted", ""),
        Some(refusal) => ("False", refusal.reason, refusal.message.as_str()),
    };
    json!({
        "type": ACCEPTED,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
        "observedGeneration": object.metadata.generation,
    })
}
