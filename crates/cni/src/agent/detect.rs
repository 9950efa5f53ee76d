//! Before addresses are used: does a stranger use them, and is the gateway there?
//!
//! The daemon says what to find out, the wire is asked, and only what is not as hoped is told to the daemon, which may then
//! give other addresses. Whatever is found wrong is looked at a second time before it is believed: the interface of a
//! container that has just gone answers for a moment longer than its address is recorded.

use super::unexpected;
use crate::stdio;
use berth_probe::{Heard, Schedule, Wire};
use berth_wire::cni::{AddResult, Error, code};
use berth_wire::config::NetConf;
use berth_wire::env::Invocation;
use berth_wire::protocol::{AddRequest, Detect, Findings, Op, Response, Stranger, Timing};
use std::io;
use std::net::IpAddr;

/// How many times other addresses are asked for. Each time the next eight are looked at too, so this many times in vain
/// means that the pool and the wire have little to do with each other.
const ROUNDS: u32 = 8;

/// The container's interface, or why nobody can be asked there.
pub(super) fn wire(invocation: &Invocation, conf: &NetConf<'_>) -> Result<Wire, String> {
    if conf.main_type().as_deref() == Some("ipvlan") {
        return Err("the kernel hands answers to an ipvlan interface to its parent".to_owned());
    }
    Wire::open(&invocation.netns, &invocation.ifname).map_err(|error| error.to_string())
}

/// Looks until the addresses can be used. `ask` tells the daemon something.
pub(super) fn settle(
    mut result: AddResult,
    mut detect: Box<Detect>,
    add: &AddRequest,
    wire: &Result<Wire, String>,
    stamp: u64,
    ask: impl Fn(Op) -> Result<Response, Error>,
) -> Result<AddResult, Error> {
    let ifname = &add.attachment.ifname;
    let mut seen: Vec<Stranger> = Vec::new();
    for _ in 0..ROUNDS {
        let looked = wire
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|wire| look(wire, &detect, stamp).map_err(|error| format!("cannot ask on {ifname}: {error}")));
        let findings = looked.unwrap_or_else(|reason| Findings { reason, ..Findings::default() });
        let is_news = !findings.are_good() || !detect.ahead.is_empty();
        seen.extend(findings.strangers.iter().cloned());
        let (is_grave, reason) =
            (!findings.strangers.is_empty() || !findings.silent.is_empty(), findings.reason.clone());
        let answer = if is_news { Some(ask(Op::Detected { add: add.clone(), findings })) } else { None };
        let is_used = |result: &AddResult| result.ips.iter().any(|ip| seen.iter().any(|one| one.address == ip.address));
        match answer {
            Some(Ok(Response::Detect { result: other, detect: next })) if other.ips != result.ips => {
                (result, detect) = (other, next);
                continue;
            }
            // Others, of a pool that wants to know nothing.
            Some(Ok(Response::Ok(other))) if !is_used(&other) => return Ok(other),
            Some(Ok(Response::Error(error)) | Err(error)) if is_grave => return Err(with_strangers(error, &seen)),
            _ if is_used(&result) => return Err(unexpected()),
            // The daemon was only told; that it did not hear is no reason to fail.
            _ => {}
        }
        match wire {
            Ok(wire) if reason.is_empty() => wire.announce(&detect.announce).unwrap_or_else(|error| {
                note(&format!("cannot announce the addresses of {ifname}: {error}"));
            }),
            _ => note(&format!("addresses of {ifname} are used without asking who else does: {reason}")),
        }
        return Ok(result);
    }
    let error =
        Error::new(code::TRY_AGAIN, format!("strangers use the addresses that were given, {ROUNDS} times in a row"));
    Err(with_strangers(error.hint("see what else is on this wire, and whether the pool is meant for it"), &seen))
}

/// Asks for everything at once; what is bad is asked for again.
fn look(wire: &Wire, detect: &Detect, stamp: u64) -> io::Result<Findings> {
    let candidates = || detect.addresses.iter().map(|candidate| candidate.address).chain(detect.ahead.iter().copied());
    let all: Vec<IpAddr> = candidates().chain(detect.gateways.iter().copied()).collect();
    let schedule = match detect.timing {
        Timing::Fast => Schedule::fast(),
        // Microseconds since boot in a process that was just started: nobody on the wire knows or shares them.
        Timing::Rfc5227 => Schedule::rfc5227(stamp.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
    };
    let mut heard = wire.ask(&all, &schedule)?;
    let is_heard = |heard: &[Heard], address: IpAddr| heard.iter().any(|one| one.address == address);
    let is_bad = |&address: &IpAddr| is_heard(&heard, address) != detect.gateways.contains(&address);
    let bad: Vec<IpAddr> = all.iter().copied().filter(is_bad).collect();
    if !bad.is_empty() {
        heard.retain(|one| !bad.contains(&one.address));
        heard.extend(wire.ask(&bad, &Schedule::again())?);
    }
    let stranger = |address: IpAddr| {
        let one = heard.iter().find(|one| one.address == address)?;
        let fixed = detect.addresses.iter().any(|candidate| candidate.address == address && candidate.fixed);
        Some(Stranger { address, hardware: one.by.to_string(), fixed })
    };
    Ok(Findings {
        strangers: candidates().filter_map(stranger).collect(),
        silent: detect.gateways.iter().copied().filter(|&gateway| !is_heard(&heard, gateway)).collect(),
        quiet: candidates().filter(|&address| !is_heard(&heard, address)).collect(),
        reason: String::new(),
    })
}

/// Who was seen belongs into the message: it is what whoever reads it looks for.
fn with_strangers(mut error: Error, seen: &[Stranger]) -> Error {
    if !seen.is_empty() {
        let seen: Vec<String> = seen.iter().map(|one| format!("{} at {}", one.address, one.hardware)).collect();
        error.msg = format!("{}; strangers on the wire: {}", error.msg, seen.join(", "));
    }
    error
}

fn note(text: &str) {
    let _ = stdio::write(rustix::stdio::stderr(), format!("berth-cni: {text}\n").as_bytes());
}
