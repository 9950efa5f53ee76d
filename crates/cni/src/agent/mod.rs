//! Asking the daemon: one connection, one request, one answer.

mod add;
mod connection;
mod del;
mod detect;
mod uplink;

pub(crate) use add::add;
pub(crate) use del::del;

use berth_wire::cni::{Error, code};
use berth_wire::config::NetConf;
use berth_wire::env::Invocation;
use berth_wire::protocol::{Attachment, Op, Request, Response, StatusRequest};
use connection::{PATIENCE, ask};

/// CHECK: does the attachment still hold what ADD gave it?
pub(crate) fn check(stamp: u64, invocation: &Invocation, conf: &NetConf<'_>) -> Result<(), Error> {
    let missing = || Error::new(code::INVALID_CONFIG, "Required prevResult missing");
    let prev = conf.prev_result()?.ok_or_else(missing)?;
    let addresses = prev.ips.iter().map(|ip| ip.address).collect();
    let op = Op::Check { attachment: attachment(invocation, conf), addresses };
    done(ask(&conf.socket()?, &Request::new(stamp, op), PATIENCE).map_err(|gone| gone.error(code::TRY_AGAIN))?)
}

/// GC: release what no listed attachment holds. A runtime that lists nothing at all has not said that nothing is left.
pub(crate) fn gc(stamp: u64, conf: &NetConf<'_>) -> Result<(), Error> {
    let Some(valid) = conf.valid_attachments()? else { return Ok(()) };
    let op = Op::Gc { network: conf.name.clone(), valid };
    done(ask(&conf.socket()?, &Request::new(stamp, op), PATIENCE).map_err(|gone| gone.error(code::TRY_AGAIN))?)
}

/// STATUS: could ADD be served?
pub(crate) fn status(stamp: u64, conf: &NetConf<'_>) -> Result<(), Error> {
    let ipam = conf.ipam()?;
    let wanted = StatusRequest {
        domain: ipam.network,
        pools: ipam.pools,
        families: ipam.families,
        ranges: conf.requested()?.ranges,
        claim: ipam.claim,
    };
    let request = Request::new(stamp, Op::Status(wanted));
    done(ask(&ipam.socket, &request, PATIENCE).map_err(|gone| gone.error(code::UNAVAILABLE))?)
}

fn attachment(invocation: &Invocation, conf: &NetConf<'_>) -> Attachment {
    Attachment {
        network: conf.name.clone(),
        container: invocation.container.clone(),
        ifname: invocation.ifname.clone(),
    }
}

fn done(response: Response) -> Result<(), Error> {
    match response {
        Response::Done => Ok(()),
        Response::Error(error) => Err(error),
        Response::Ok(_) | Response::Detect { .. } => Err(unexpected()),
    }
}

fn unexpected() -> Error {
    Error::new(code::INTERNAL, "the Berth daemon answered another question than was asked")
        .hint("install berth-cni and berth of the same release")
}
