//! Which of several replicas writes.
//!
//! The others keep their copies warm and take over within seconds. The lease only spares them doing everything twice:
//! that no address is given twice rests on compare-and-swap, and a leader that was paused and does not know yet that it
//! is none any more loses its writes there.

use anyhow::bail;
use berth_kube::Cluster;
use berth_kube::connect::CallError;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, PostParams};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tracing::{debug, info};

/// How long a lease is good for that is not renewed.
const DURATION: Duration = Duration::from_secs(15);
/// How long a leader that cannot renew goes on: less than others wait.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the lease is looked at.
const PACE: Duration = Duration::from_secs(2);

/// Whether this replica may write.
#[derive(Clone)]
pub(crate) struct Seat(Arc<Inner>);

struct Inner {
    start: Instant,
    /// Until when it leads, in milliseconds since the start.
    until: AtomicU64,
}

impl Seat {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner { start: Instant::now(), until: AtomicU64::new(0) }))
    }

    /// Whether this replica leads at this moment. Also true to a process that was paused: what counts is the clock.
    pub(crate) fn leads(&self) -> bool {
        self.0.start.elapsed().as_millis() < u128::from(self.0.until.load(Ordering::SeqCst))
    }

    fn hold_until(&self, until: Instant) {
        let millis = until.saturating_duration_since(self.0.start).as_millis();
        self.0.until.store(u64::try_from(millis).unwrap_or(u64::MAX), Ordering::SeqCst);
    }
}

/// The lease as it was last seen.
struct Seen {
    holder: String,
    transitions: i32,
    version: Option<String>,
    /// Since when it has been as it is, by the own clock: other machines' clocks are not believed.
    since: Instant,
}

#[derive(Debug, PartialEq, Eq)]
enum Move {
    Take,
    Renew,
    Wait,
}

fn next(seen: Option<&Seen>, me: &str, now: Instant) -> Move {
    match seen {
        Some(seen) if seen.holder == me => Move::Renew,
        Some(seen) if !seen.holder.is_empty() && now.duration_since(seen.since) < DURATION => Move::Wait,
        _ => Move::Take,
    }
}

/// Stands for election until told to stop.
///
/// # Errors
/// If it led and does not any more: the process is to end, so that nothing half-done goes on.
pub(crate) fn stand(
    cluster: &Cluster,
    namespace: &str,
    me: &str,
    seat: &Seat,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let api: Api<Lease> = Api::namespaced(cluster.client().clone(), namespace);
    let mut seen: Option<Seen> = None;
    let mut renewed: Option<Instant> = None;
    while !stop.load(Ordering::SeqCst) {
        let now = Instant::now();
        match round(cluster, &api, me, &mut seen, now) {
            Ok(true) => {
                if renewed.is_none() {
                    info!(replica = me, "leading");
                }
                renewed = Some(now);
                seat.hold_until(now + PATIENCE);
            }
            Ok(false) if renewed.is_some() => bail!("another replica leads now"),
            Ok(false) => {}
            Err(error) => debug!(%error, "cannot reach the lease"),
        }
        if renewed.is_some_and(|renewed| renewed.elapsed() >= PATIENCE) {
            bail!("the lease could not be renewed for {} seconds", PATIENCE.as_secs());
        }
        for _ in 0..20 {
            if !stop.load(Ordering::SeqCst) {
                thread::sleep(PACE / 20);
            }
        }
    }
    if renewed.is_some() {
        seat.hold_until(Instant::now());
        // Whoever waits need not wait for the lease to run out.
        let _ = write(cluster, &api, "", seen.as_ref());
    }
    Ok(())
}

/// Looks at the lease and takes or renews it; whether this replica has it.
fn round(
    cluster: &Cluster,
    api: &Api<Lease>,
    me: &str,
    seen: &mut Option<Seen>,
    now: Instant,
) -> Result<bool, CallError> {
    let found = cluster.wait(api.get_opt(NAME))?;
    let version = found.as_ref().and_then(|lease| lease.metadata.resource_version.clone());
    match found.and_then(|lease| lease.spec) {
        None => *seen = None,
        Some(_) if seen.as_ref().is_some_and(|seen| seen.version == version) => {}
        Some(spec) => {
            let (holder, transitions) = (spec.holder_identity.unwrap_or_default(), spec.lease_transitions.unwrap_or(0));
            *seen = Some(Seen { holder, transitions, version, since: now });
        }
    }
    if next(seen.as_ref(), me, now) == Move::Wait {
        return Ok(false);
    }
    match write(cluster, api, me, seen.as_ref()) {
        Ok(lease) => {
            let spec = lease.spec.unwrap_or_default();
            let version = lease.metadata.resource_version;
            *seen = Some(Seen {
                holder: me.to_owned(),
                transitions: spec.lease_transitions.unwrap_or(0),
                version,
                since: now,
            });
            Ok(true)
        }
        // Another was quicker; the next look tells who.
        Err(error) if matches!(error.status(), Some(404 | 409)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The lease's name.
const NAME: &str = "berth-controller";

fn write(cluster: &Cluster, api: &Api<Lease>, holder: &str, seen: Option<&Seen>) -> Result<Lease, CallError> {
    let now = MicroTime(jiff::Timestamp::now());
    let fresh = seen.is_none_or(|seen| seen.holder != holder);
    let transitions = seen.map_or(0, |seen| seen.transitions) + i32::from(fresh && seen.is_some());
    let spec = LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
        acquire_time: fresh.then(|| now.clone()),
        renew_time: Some(now),
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    };
    let version = seen.and_then(|seen| seen.version.clone());
    let metadata =
        ObjectMeta { name: Some(NAME.to_owned()), resource_version: version.clone(), ..ObjectMeta::default() };
    let lease = Lease { metadata, spec: Some(spec) };
    match version {
        Some(_) => cluster.wait(api.replace(NAME, &PostParams::default(), &lease)),
        None => cluster.wait(api.create(&PostParams::default(), &lease)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_taken_when_nobody_has_it_or_nobody_renews_it() {
        let since = Instant::now();
        let seen = |holder: &str| Seen { holder: holder.to_owned(), transitions: 0, version: None, since };
        assert_eq!(next(None, "me", since), Move::Take);
        assert_eq!(next(Some(&seen("")), "me", since), Move::Take);
        assert_eq!(next(Some(&seen("me")), "me", since), Move::Renew);
        assert_eq!(next(Some(&seen("other")), "me", since + DURATION / 2), Move::Wait);
        assert_eq!(next(Some(&seen("other")), "me", since + DURATION), Move::Take);
    }

    #[test]
    fn a_seat_ends_by_itself() {
        let seat = Seat::new();
        assert!(!seat.leads());
        seat.hold_until(Instant::now() + Duration::from_secs(60));
        assert!(seat.leads());
        seat.hold_until(Instant::now());
        assert!(!seat.leads());
    }
}
