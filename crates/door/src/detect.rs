//! What is to be found out on the wire about addresses that were given out, and what follows from what was found.
//!
//! The plugin does the asking, since it stands at the wire. An ADD whose addresses are of a pool with `detect` is answered
//! with questions; if the answers are good, and there was nothing to ask ahead for others, nothing more is said.

use crate::words::{Host, Planned, result};
use berth_core::detect::{Conflicts, GatewayCheck, QUARANTINE};
use berth_core::error::Error;
use berth_core::holder::Attachment;
use berth_core::ipam::{Given, Outcome, Reason, Request};
use berth_wire::protocol::{AddRequest, Candidate, Detect, Findings, Response, Stranger, Timing};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracing::{debug, warn};

/// How many addresses that come next are asked for along with one that is needed now.
const AHEAD: usize = 8;
/// For how long nobody's answer counts. A stranger that comes later than that is found by asking again.
const QUIET_FOR: Duration = Duration::from_secs(30);
/// How many addresses are remembered.
const REMEMBERED: usize = 4096;

/// The addresses for which nobody answered lately.
#[derive(Debug, Default)]
pub struct Quiet(Mutex<HashMap<(String, IpAddr), Instant>>);

impl Quiet {
    fn lock(&self) -> MutexGuard<'_, HashMap<(String, IpAddr), Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, network: &str, addresses: &[IpAddr]) {
        let mut quiet = self.lock();
        quiet.retain(|_, since| since.elapsed() < QUIET_FOR);
        let room = REMEMBERED.saturating_sub(quiet.len());
        quiet.extend(addresses.iter().take(room).map(|&address| ((network.to_owned(), address), Instant::now())));
    }

    fn knows(&self, network: &str, address: IpAddr) -> bool {
        self.lock().get(&(network.to_owned(), address)).is_some_and(|since| since.elapsed() < QUIET_FOR)
    }

    /// Whether nobody answered lately; that is good for one holder only.
    fn take(&self, network: &str, address: IpAddr) -> bool {
        self.lock().remove(&(network.to_owned(), address)).is_some_and(|since| since.elapsed() < QUIET_FOR)
    }
}

/// The answer to an ADD that was served.
pub(crate) fn respond<H: Host>(host: &H, outcome: Outcome) -> Response {
    match questions(host, &outcome.given) {
        None => Response::Ok(result(outcome)),
        Some(detect) => Response::Detect { result: result(outcome), detect: Box::new(detect) },
    }
}

/// What is to be found out; nothing if no pool wants to know anything.
fn questions<H: Host>(host: &H, given: &[Given]) -> Option<Detect> {
    let mut detect = Detect::default();
    for (given, detection) in given.iter().filter_map(|given| Some((given, given.detect?))) {
        let address = given.address();
        let timing = match detection.conflicts {
            Conflicts::Ignore => None,
            Conflicts::Fast => Some(Timing::Fast),
            Conflicts::Rfc5227 => Some(Timing::Rfc5227),
        };
        if let Some(timing) = timing {
            detect.announce.push(address);
            if !host.quiet().take(&given.network, address) {
                let fixed = matches!(given.reason, Reason::Requested | Reason::KeptForHolder);
                detect.addresses.push(Candidate { address, fixed });
                detect.timing = detect.timing.max(timing);
                let next = host.engine().upcoming(&given.pool, host.node(), AHEAD);
                detect.ahead.extend(next.into_iter().filter(|&next| !host.quiet().knows(&given.network, next)));
            }
        }
        let gateway = given.gateway.filter(|_| detection.gateway != GatewayCheck::Ignore);
        // The gateway itself may be a container.
        detect.gateways.extend(gateway.filter(|&gateway| gateway != address));
    }
    if detect.timing == Timing::Rfc5227 {
        // There, others that ask for an address count as users of it, and several nodes may ask ahead for the same.
        detect.ahead.clear();
    }
    detect.gateways.sort_unstable();
    detect.gateways.dedup();
    let is_empty = detect.addresses.is_empty() && detect.gateways.is_empty() && detect.announce.is_empty();
    (!is_empty).then_some(detect)
}

/// Answers a plugin that has looked.
///
/// # Errors
/// If the container cannot start: a stranger has an address that nothing can stand in for, nothing else is left, or a
/// gateway that must be there is not. The runtime says DEL then, as after any ADD that failed.
pub(crate) fn answer<H: Host>(host: &H, add: AddRequest, findings: &Findings, stamp: u64) -> Result<Response, Error> {
    host.observe_wire(findings);
    let key = add.attachment.clone();
    if !findings.reason.is_empty() {
        warn!(
            container = key.container,
            interface = key.ifname,
            reason = findings.reason,
            "nothing was asked on the wire"
        );
    }
    let (networks, held) = host.engine().read(|ipam| {
        let key = Attachment { network: &key.network, id: &key.container, ifname: &key.ifname };
        (ipam.networks_of(key), ipam.of_attachment(key))
    });
    let is_good = findings.strangers.is_empty() && findings.silent.is_empty();
    // What the container is about to use is asked for again when the next one gets it.
    let quiet: Vec<IpAddr> =
        findings.quiet.iter().copied().filter(|address| !is_good || !held.contains(address)).collect();
    networks.iter().for_each(|network| host.quiet().remember(network, &quiet));
    if is_good {
        return Ok(Response::Done);
    }
    let Planned { requests, note } = host.plan(add)?;
    // What was given along to other interfaces is theirs to ask about.
    let Some(request) = requests.into_iter().next() else { return Ok(Response::Done) };
    for Stranger { address, hardware, .. } in &findings.strangers {
        warn!(%address, hardware, container = key.container, interface = key.ifname, "a stranger uses an address");
    }
    if let Some(stranger) = findings.strangers.iter().find(|stranger| is_irreplaceable(stranger, &request, &held)) {
        let by = format!("a stranger at {}, who was seen on the wire", stranger.hardware);
        return Err(Error::AddressTaken { address: stranger.address, by });
    }
    let strangers: Vec<IpAddr> = findings.strangers.iter().map(|stranger| stranger.address).collect();
    let replaced = host.engine().transact(move |context| {
        let until = context.now.after(QUARANTINE);
        context.replace(&request, &strangers, until, stamp)
    })?;
    debug!(addresses = ?replaced.quarantined, "set apart");
    let outcome = replaced.outcome.inspect_err(|error| host.refused(error))?;
    let mut outcomes = [outcome];
    host.finish(note, &mut outcomes)?;
    let [outcome] = outcomes;
    for given in &outcome.given {
        let Some(gateway) = given.gateway.filter(|gateway| findings.silent.contains(gateway)) else { continue };
        warn!(%gateway, pool = given.pool, container = key.container, "a gateway does not answer");
        if given.detect.is_some_and(|detection| detection.gateway == GatewayCheck::Require) {
            return Err(Error::GatewaySilent { gateway, pool: given.pool.clone() });
        }
    }
    Ok(respond(host, outcome))
}

/// Whether the holder has this address and wants no other: it asked for it, or it is kept for it.
fn is_irreplaceable(stranger: &Stranger, request: &Request, held: &[IpAddr]) -> bool {
    let asked = request.groups.iter().any(|group| group.addresses.contains(&stranger.address));
    held.contains(&stranger.address) && (stranger.fixed || asked || request.holder.sticky.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_once_and_in_its_network() {
        let quiet = Quiet::default();
        let address: IpAddr = [10, 0, 0, 1].into();
        quiet.remember("blue", &[address]);
        assert!(quiet.knows("blue", address) && !quiet.knows("red", address));
        assert!(!quiet.take("red", address));
        assert!(quiet.take("blue", address));
        assert!(!quiet.take("blue", address), "the next holder asks again");
    }

    #[test]
    fn memory_is_bounded() {
        let quiet = Quiet::default();
        for n in 0..2 * u32::try_from(REMEMBERED).unwrap() {
            quiet.remember("blue", &[std::net::Ipv4Addr::from_bits(n).into()]);
        }
        assert_eq!(quiet.lock().len(), REMEMBERED);
    }
}
