//! Addresses whose users are gone come back; addresses of living pods never do.
//!
//! An event (a pod, a node, a claim, a block that changed) leads to the blocks it concerns, those are judged slot by
//! slot with what the mirrors know, and what may come back is suspected. Once that has been so for the time of its class,
//! it is judged again from the mirrors, then from the API server itself, and the very slot that was judged is freed by
//! compare-and-swap. An audit of everything, now and then, finds what an event was missed for.

mod suspects;

use crate::events::{Events, Reason};
use crate::facts::{Fresh, Look, about};
use crate::index::Index;
use crate::leader::Seat;
use crate::metrics::Metrics;
use crate::world::World;
use berth_core::block::{BlockKey, Slot, State};
use berth_core::error::Error;
use berth_core::ipam::{Ipam, Lease};
use berth_core::reclaim::{Class, Node, Times, Verdict, again_at, judge};
use berth_core::time::Time;
use berth_kube::store::Touched;
use berth_kube::watch::Changes;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use suspects::{Suspect, Suspects};
use tracing::{debug, info, warn};

/// How many blocks are written at once.
const BLOCKS_AT_ONCE: usize = 16;
/// How often it is looked whether KubeVirt has been installed.
const SEEK: Duration = Duration::from_secs(20);
/// How long apart two looks are when it is done by hand.
const TWO_LOOKS: Duration = Duration::from_secs(5);

/// The reclaimer: what it remembers between two looks.
pub(crate) struct Reclaim {
    world: Arc<World>,
    events: Events,
    metrics: Arc<Metrics>,
    times: Times,
    audit: Duration,
    index: Index,
    suspects: Suspects,
    /// When blocks are to be looked at again, whatever happens.
    alarms: BTreeMap<BlockKey, Time>,
    /// Leases of nodes that are gone, and since when.
    leases: HashMap<(String, String), Instant>,
    /// Whether that may have changed: a node came or went, a lease was given or returned.
    leases_changed: bool,
    audited: Option<Instant>,
    /// When it was last looked whether virtual machines can be followed.
    machines_sought: Option<Instant>,
    blocks: Touched,
    pods: Changes,
    nodes: Changes,
    namespaces: Changes,
    sets: Changes,
    claims: Changes,
}

impl Reclaim {
    pub(crate) fn new(
        world: Arc<World>,
        (events, metrics): (Events, Arc<Metrics>),
        (times, audit): (Times, Duration),
    ) -> Self {
        let mirrors = &world.mirrors;
        Self {
            blocks: world.touched(),
            pods: mirrors.pods.changes(),
            nodes: mirrors.nodes.changes(),
            namespaces: mirrors.namespaces.changes(),
            sets: mirrors.sets.changes(),
            claims: mirrors.claims.changes(),
            index: Index::default(),
            suspects: Suspects::default(),
            alarms: BTreeMap::new(),
            leases: HashMap::new(),
            leases_changed: true,
            audited: None,
            machines_sought: None,
            world,
            events,
            metrics,
            times,
            audit,
        }
    }

    /// One round; how long the next may wait if nothing happens.
    pub(crate) fn round(&mut self, seat: &Seat) -> Duration {
        let now = Instant::now();
        self.seek_machines(now);
        let touched = self.touched(now);
        self.look(&touched, now);
        self.metrics.suspected(&self.suspects.count());
        if seat.leads() {
            self.free_due(now);
            self.end_leases(now);
        }
        let next_audit = self.audited.map_or(Duration::ZERO, |last| self.audit.saturating_sub(last.elapsed()));
        let leases = self.times.of(Class::NodeGone).filter(|_| !self.leases.is_empty());
        let due = self.suspects.next_due(&self.times, now).into_iter().chain(leases).min().unwrap_or(next_audit);
        let alarm = self.alarms.values().min().map_or(next_audit, |at| at.since(berth_server::now()));
        // What is due but could not be freed is tried again, though not at once.
        due.min(next_audit).min(alarm).max(Duration::from_millis(500))
    }

    /// Follows virtual machines from when one has an address; whoever has none need not know that there are such things.
    fn seek_machines(&mut self, now: Instant) {
        let mirrors = &self.world.mirrors;
        let lately = self.machines_sought.is_some_and(|at| now.duration_since(at) < SEEK);
        if mirrors.machines().is_none() && !lately && self.index.has_machines() {
            self.machines_sought = Some(now);
            mirrors.find_machines(&self.world.cluster, &self.world.bell);
        }
    }

    /// The blocks that something has happened to, or to whoever has addresses in them.
    fn touched(&mut self, now: Instant) -> BTreeSet<BlockKey> {
        let mut keys = self.blocks.take();
        self.world.refresh();
        let audit = self.audited.is_none_or(|last| now.duration_since(last) >= self.audit);
        if audit {
            keys.extend(self.world.blocks());
            self.audited = Some(now);
        }
        self.world.engine.read(|ipam| {
            for key in &keys {
                self.index.put(key, ipam.block(key));
            }
        });
        let rung = berth_server::now();
        keys.extend(self.alarms.iter().filter(|(_, at)| **at <= rung).map(|(key, _)| key.clone()));
        self.leases_changed |= keys.iter().any(|key| key.plane.leases_of().is_some());
        let index = &self.index;
        for key in self.pods.take() {
            keys.extend(index.of_pod(&key.namespace, &key.name).cloned());
        }
        for key in self.nodes.take() {
            self.leases_changed = true;
            keys.extend(index.of_node(&key.name).cloned());
        }
        for key in self.namespaces.take() {
            keys.extend(index.of_namespace(&key.name).cloned());
        }
        for key in self.claims.take() {
            keys.extend(index.of_claim(&key.namespace, &key.name).cloned());
        }
        if let Some(machines) = self.world.mirrors.machines() {
            for key in machines.changed() {
                keys.extend(index.of_machine(&key.namespace, &key.name).cloned());
            }
        }
        for key in self.sets.take() {
            keys.extend(index.of_stateful(&key.namespace, &key.name).cloned());
        }
        keys
    }

    /// Judges the slots of these blocks by what the mirrors know.
    fn look(&mut self, keys: &BTreeSet<BlockKey>, now: Instant) {
        let world = &self.world;
        let found: Vec<(BlockKey, Judged)> = world.engine.read(|ipam| {
            let judged = |key: &BlockKey| (key.clone(), judge_block(&world.mirrors, ipam, key, berth_server::now()));
            keys.iter().map(judged).collect()
        });
        for (key, Judged { suspects, again_at }) in found {
            self.suspects.look(&key, suspects, now);
            match again_at {
                Some(at) => drop(self.alarms.insert(key, at)),
                None => drop(self.alarms.remove(&key)),
            }
        }
    }

    /// Frees what has been suspected for long enough and is still what it was, by all accounts.
    fn free_due(&mut self, now: Instant) {
        let due = self.suspects.due(&self.times, now);
        if due.is_empty() {
            return;
        }
        // A second look at the mirrors, then one at the server.
        let keys: BTreeSet<BlockKey> = due.iter().map(|suspect| suspect.key.clone()).collect();
        self.look(&keys, now);
        let due = self.suspects.due(&self.times, now);
        let fresh = match Fresh::new(&self.world.cluster, &self.world.mirrors, due.len()) {
            Ok(fresh) => fresh,
            Err(error) => return debug!(%error, "cannot ask about pods; nothing is freed"),
        };
        let (confirmed, refuted): (Vec<Suspect>, Vec<Suspect>) =
            due.into_iter().partition(|suspect| confirm(&self.world, &fresh, suspect));
        self.suspects.refute(&refuted, now);
        let mut by_block: BTreeMap<BlockKey, Vec<Suspect>> = BTreeMap::new();
        for suspect in confirmed {
            by_block.entry(suspect.key.clone()).or_default().push(suspect);
        }
        let blocks: Vec<Vec<Suspect>> = by_block.into_values().collect();
        for some in blocks.chunks(BLOCKS_AT_ONCE) {
            let some = some.concat();
            match free(&self.world, some.clone()) {
                Ok(freed) => {
                    self.tell(some.iter().zip(freed).filter_map(|(suspect, address)| Some((suspect, address?))));
                    self.settle_tickets(&some);
                }
                Err(error) => warn!(%error, "could not free what may come back; it is tried again"),
            }
        }
    }

    /// What counted against quotas on nodes that are gone counts no more: nobody else puts it in order there.
    fn settle_tickets(&self, freed: &[Suspect]) {
        let gone = |suspect: &&Suspect| matches!(suspect.class, Class::NodeGone | Class::NodeOutOfService);
        let holders = freed.iter().filter(gone).filter_map(|suspect| suspect.judged.holder.as_ref());
        let nodes: BTreeSet<&str> = holders.map(|holder| holder.node.as_str()).collect();
        for node in nodes {
            if let Err(error) = self.world.engine.settle_tickets(node) {
                warn!(%error, node, "could not put the tickets of quotas in order");
            }
        }
    }

    fn tell<'a>(&self, freed: impl Iterator<Item = (&'a Suspect, IpAddr)>) {
        let mut by_pool: BTreeMap<(String, Class), Vec<String>> = BTreeMap::new();
        for (suspect, address) in freed {
            self.metrics.reclaimed(suspect.class);
            let who = suspect.judged.holder.as_ref().map(ToString::to_string).unwrap_or_default();
            info!(%address, holder = who, class = suspect.class.name(), "an address came back: {}", suspect.class.because());
            let pools = self.world.engine.read(|ipam| ipam.pools_of(&suspect.key, suspect.slot));
            for pool in pools {
                by_pool.entry((pool, suspect.class)).or_default().push(format!("{address} of {who}"));
            }
            self.forget_endpoint(&suspect.judged);
        }
        for ((pool, class), addresses) in by_pool {
            let more = addresses.len().saturating_sub(5);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let first = addresses.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
            self.events.pool(&pool, Reason::Reclaimed, format!("{first}{more}: {}", class.because()));
        }
    }

    /// The record of a pod that is gone goes with its addresses, unless they are kept for it.
    fn forget_endpoint(&self, judged: &Slot) {
        let Some(holder) = judged.holder.as_ref().filter(|holder| !holder.pod.is_empty()) else { return };
        let kept = holder.sticky.is_some() && judged.state == State::Active;
        let name = holder.lasting_name();
        let known = self.world.mirrors.endpoints.get(&holder.namespace, name);
        let Some(known) = known.filter(|known| holder.uid.is_empty() || known.uid == holder.uid) else { return };
        if kept {
            return;
        }
        if let Err(error) = self.world.endpoints.remove(&holder.namespace, name, &known.uid) {
            debug!(%error, pod = name, "cannot remove the endpoint of a pod that is gone");
        }
    }

    /// Leases of nodes that are gone become anybody's.
    fn end_leases(&mut self, now: Instant) {
        let Some(time) = self.times.of(Class::NodeGone) else { return };
        if !std::mem::take(&mut self.leases_changed) && self.leases.is_empty() {
            return;
        }
        let world = &self.world;
        let leases: Vec<Lease> = world.engine.read(|ipam| {
            let pools: Vec<String> =
                ipam.pools().filter(|pool| pool.lending.is_some()).map(|p| p.name.clone()).collect();
            pools.iter().flat_map(|pool| ipam.leases(pool)).collect()
        });
        let gone: Vec<Lease> =
            leases.into_iter().filter(|lease| world.mirrors.node(&lease.node) == Node::Gone).collect();
        let key = |lease: &Lease| (lease.pool.clone(), lease.prefix.to_string());
        self.leases.retain(|known, _| gone.iter().any(|lease| key(lease) == *known));
        for lease in gone {
            let since = *self.leases.entry(key(&lease)).or_insert(now);
            if now.duration_since(since) < time {
                continue;
            }
            match Fresh::new(&world.cluster, &world.mirrors, 1) {
                Ok(fresh) if fresh.node(&lease.node) == Node::Gone => {}
                _ => continue,
            }
            // What is in use in it comes back one by one, when each is due. What is kept may stay for ever, and then it is
            // nobody's alone, which its blocks must say before the lease ends.
            let (opened, ended) = (lease.clone(), lease.clone());
            let opened = world.engine.transact(move |context| {
                let waits = context.ipam.is_used(&opened);
                if !waits {
                    context.ipam.record_lease_anew(&opened);
                }
                Ok(!waits)
            });
            let outcome = opened.and_then(|opened| match opened {
                false => Ok(false),
                true => world.engine.transact(move |context| {
                    let waits = context.ipam.is_used(&ended);
                    if waits { Ok(false) } else { context.ipam.end_lease(&ended, context.now).map(|()| true) }
                }),
            });
            match outcome {
                Ok(false) => {}
                Ok(true) => {
                    info!(lease = %lease.prefix, node = lease.node, "the lease of a node that is gone has ended");
                    let message = format!("{} was leased to node {}, which is gone", lease.prefix, lease.node);
                    self.events.pool(&lease.pool, Reason::LeaseEnded, message);
                }
                Err(error) => debug!(%error, "could not end a lease; it is tried again"),
            }
        }
    }
}

/// Whether the server says the same as the mirrors. The slot is not read again: freeing compares it.
fn confirm(world: &World, fresh: &Fresh<'_>, suspect: &Suspect) -> bool {
    let lessee = world.engine.read(|ipam| ipam.lessee_of(&suspect.key, suspect.slot));
    // Not under the engine's lock: the server may take its time.
    let facts = about(fresh, &suspect.judged, lessee.as_deref());
    let verdict = judge(&suspect.judged, &facts, berth_server::now());
    let same = matches!(verdict, Verdict::Free(class) | Verdict::Forget(class) if class == suspect.class);
    if !same {
        debug!(block = %suspect.key, slot = suspect.slot, ?verdict, "the server knows better; kept");
    }
    same
}

/// Frees the very slots that were judged; which addresses came back.
fn free(world: &World, suspects: Vec<Suspect>) -> Result<Vec<Option<IpAddr>>, Error> {
    world.engine.transact(move |context| {
        let one = |Suspect { key, slot, judged, only_forget, .. }: &Suspect| {
            if *only_forget {
                context.ipam.keep_no_longer(key, *slot, judged);
                return None;
            }
            context.ipam.reclaim(key, *slot, judged, context.now)
        };
        Ok(suspects.iter().map(one).collect())
    })
}

/// What is to be made of a block.
#[derive(Default)]
struct Judged {
    suspects: Vec<Suspect>,
    /// When it is to be judged again, whatever happens.
    again_at: Option<Time>,
}

fn judge_block(look: &impl Look, ipam: &Ipam, key: &BlockKey, now: Time) -> Judged {
    let mut judged = Judged::default();
    // Who leases what is another question.
    let Some(block) = ipam.block(key).filter(|_| key.plane.leases_of().is_none()) else { return judged };
    for (slot, view) in block.slots().filter(|(_, view)| view.state != State::Released) {
        let (known, lessee) = (view.to_slot(), ipam.lessee_of(key, slot));
        let facts = about(look, &known, lessee.as_deref());
        judged.again_at = judged.again_at.into_iter().chain(again_at(&known, &facts, now)).min();
        let (class, only_forget) = match judge(&known, &facts, now) {
            Verdict::Keep(_) => continue,
            Verdict::Free(class) => (class, false),
            Verdict::Forget(class) => (class, true),
        };
        judged.suspects.push(Suspect { key: key.clone(), slot, judged: known, class, only_forget });
    }
    judged
}

/// What would come back now, whatever its time, and why; freed unless it is only asked for. A class that never comes back
/// by itself does not come back this way either: who types a command has not looked at the node.
///
/// # Errors
/// If the server cannot be asked.
pub(crate) fn now(world: &World, dry_run: bool) -> anyhow::Result<serde_json::Value> {
    let keys = world.blocks();
    let mut index = Index::default();
    world.engine.read(|ipam| keys.iter().for_each(|key| index.put(key, ipam.block(key))));
    if index.has_machines() {
        world.mirrors.find_machines(&world.cluster, &world.bell);
        if let Some(machines) = world.mirrors.machines()
            && let Err(error) = machines.wait_for_sync()
        {
            debug!(%error, "cannot tell which virtual machines there are; what is kept for them stays");
        }
    }
    let look = || -> Vec<Suspect> {
        world.refresh();
        world.engine.read(|ipam| {
            let suspects = |key| judge_block(&world.mirrors, ipam, key, berth_server::now()).suspects;
            keys.iter().flat_map(suspects).collect()
        })
    };
    let first = look();
    if !dry_run && !first.is_empty() {
        std::thread::sleep(TWO_LOOKS);
    }
    let fresh = Fresh::new(&world.cluster, &world.mirrors, first.len())?;
    let both = look().into_iter().filter(|suspect| first.contains(suspect));
    let may = |suspect: &Suspect| dry_run || suspect.class.usual().is_some();
    let confirmed: Vec<Suspect> = both.filter(|suspect| may(suspect) && confirm(world, &fresh, suspect)).collect();
    let row = |suspect: &Suspect| {
        let address = suspect.key.plane.addr(suspect.key.unit(suspect.slot));
        let holder = suspect.judged.holder.as_ref().map(ToString::to_string).unwrap_or_default();
        serde_json::json!({
            "network": &*suspect.key.plane.network,
            "address": address,
            "holder": holder,
            "class": suspect.class.name(),
            "because": suspect.class.because(),
            "after": suspect.class.usual().map_or_else(|| "never".to_owned(), |time| format!("{}s", time.as_secs())),
        })
    };
    let mut rows = Vec::new();
    for some in confirmed.chunks(BLOCKS_AT_ONCE) {
        let freed = if dry_run { vec![None; some.len()] } else { free(world, some.to_vec())? };
        let kept = |(suspect, freed): (&Suspect, Option<IpAddr>)| {
            (dry_run || suspect.only_forget || freed.is_some()).then(|| row(suspect))
        };
        rows.extend(some.iter().zip(freed).filter_map(kept));
    }
    Ok(serde_json::json!({ "addresses": rows }))
}
