//! What the plugin asks, in the words of the engine, and the engine's answers in the words of the plugin.

use crate::node::Node;
use crate::status;
use berth_core::addr::Range;
use berth_core::error::Error;
use berth_core::holder::{Attachment, Holder, Kind};
use berth_core::ipam::{Group, Outcome, Request as CoreRequest};
use berth_core::model::Subject;
use berth_engine::{Call, Done};
use berth_wire::cni;
use berth_wire::protocol::{self, AddRequest, Op, Request, Response};
use std::net::IpAddr;
use std::time::Instant;
use tracing::{debug, warn};

/// Answers requests that arrived together, in order. Their ADDs and DELs share one write of the store.
pub(crate) fn answer_all(node: &Node, requests: Vec<Request>) -> Vec<Response> {
    let started = Instant::now();
    let mut calls: Vec<Call> = Vec::with_capacity(requests.len());
    let prepared: Vec<Prepared> = requests.into_iter().map(|request| prepare(node, request, &mut calls)).collect();
    let mut done = node.engine.run_all(calls).into_iter();
    let mut finish = |prepared: Prepared| {
        let (verb, result) = match prepared {
            Prepared::Answered(verb, result) => (verb, result),
            Prepared::Called(verb) => {
                let done = done.next().unwrap_or_else(|| Err(Error::Store("no answer; try again".to_owned())));
                (verb, done.map(respond).map_err(|error| to_cni(&error)))
            }
        };
        node.metrics.observe(verb, result.is_ok(), started.elapsed());
        match &result {
            Err(error) if error.code == cni::code::IO_FAILURE => warn!(verb, error = error.msg, "a request failed"),
            Err(error) => debug!(verb, code = error.code, error = error.msg, "a request was refused"),
            Ok(_) => {}
        }
        result.unwrap_or_else(Response::Error)
    };
    prepared.into_iter().map(&mut finish).collect()
}

/// Answers one request, e.g. from the queue.
pub(crate) fn answer(node: &Node, request: Request) -> Response {
    answer_all(node, vec![request]).pop().unwrap_or(Response::Done)
}

/// A request on its way.
enum Prepared {
    /// Answered without the engine's help, or by a transaction of its own.
    Answered(&'static str, Result<Response, cni::Error>),
    /// Among the calls.
    Called(&'static str),
}

fn prepare(node: &Node, request: Request, calls: &mut Vec<Call>) -> Prepared {
    let stamp = Some(request.stamp);
    if request.v != protocol::VERSION {
        let msg = format!("protocol version {} is not spoken here, only {}", request.v, protocol::VERSION);
        let hint = "install the berth-cni that belongs to this daemon";
        let refusal = cni::Error::new(cni::code::INCOMPATIBLE_VERSION, msg).hint(hint);
        return Prepared::Answered("unknown", Err(refusal));
    }
    match request.op {
        Op::Add(add) => match self::add(node, add) {
            Ok(request) => calls.push(Call::Add { request: Box::new(request), stamp }),
            Err(error) => return Prepared::Answered("add", Err(to_cni(&error))),
        },
        Op::Del(key) => {
            calls.push(Call::Del { network: key.network, id: key.container, ifname: key.ifname, stamp });
            return Prepared::Called("del");
        }
        Op::Check { attachment, addresses } => {
            return Prepared::Answered("check", check(node, &attachment, &addresses).map_err(|e| to_cni(&e)));
        }
        Op::Gc { network, valid } => {
            let valid: Vec<(String, String)> = valid.into_iter().map(|live| (live.container, live.ifname)).collect();
            let freed = node.engine.transact(move |context| {
                // The list is as old as the request: what was added since is not in it.
                let newer = |key: Attachment<'_>| context.additions.supersede(key, request.stamp);
                Ok(context.ipam.collect_garbage(&network, &valid, context.now, newer))
            });
            return Prepared::Answered("gc", freed.map(|_| Response::Done).map_err(|e| to_cni(&e)));
        }
        Op::Status(wanted) => return Prepared::Answered("status", status::answer(node, wanted)),
    }
    Prepared::Called("add")
}

fn respond(done: Done) -> Response {
    match done {
        Done::Given(outcome) => Response::Ok(result(outcome)),
        Done::Taken(_) => Response::Done,
    }
}

fn to_cni(error: &Error) -> cni::Error {
    let names = error.names();
    cni::Error::new(names.cni, error.to_string()).hint(names.hint)
}

/// What an ADD asks for.
fn add(node: &Node, add: AddRequest) -> Result<CoreRequest, Error> {
    let families = add.families.iter().map(|&family| family.into()).collect();
    let base = Group { pools: add.pools, network: add.domain, families, ..Group::default() };
    let groups = groups(base, add.addresses, &add.ranges)?;
    let pod = add.pod.unwrap_or_else(|| protocol::Pod { namespace: String::new(), name: String::new(), uid: None });
    let mut request = CoreRequest {
        subject: Subject { namespace: pod.namespace.clone(), node: node.name.clone(), ..Subject::default() },
        holder: Holder {
            kind: Kind::Container,
            network: add.attachment.network,
            id: add.attachment.container,
            ifname: add.attachment.ifname,
            namespace: pod.namespace,
            pod: pod.name,
            uid: pod.uid.unwrap_or_default(),
            node: String::new(),
            sticky: None,
        },
        groups,
    };
    if let Some(claim) = &add.claim {
        node.use_claim(claim, &mut request)?;
    }
    Ok(request)
}

/// What an ADD asks for, in the words of the core.
pub(crate) fn groups(base: Group, addresses: Vec<IpAddr>, ranges: &[Vec<String>]) -> Result<Vec<Group>, Error> {
    if !addresses.is_empty() {
        return Ok(vec![Group { addresses, ..base }]);
    }
    if ranges.is_empty() {
        return Ok(vec![base]);
    }
    let set = |(i, set): (usize, &Vec<String>)| {
        let parse = |text: &String| {
            let reason = |error: berth_core::addr::ParseError| error.to_string();
            text.parse::<Range>().map_err(|e| Error::Invalid { field: format!("ipRanges[{i}]"), reason: reason(e) })
        };
        let within = set.iter().map(parse).collect::<Result<Vec<Range>, Error>>()?;
        Ok(Group { within, families: Vec::new(), ..base.clone() })
    };
    ranges.iter().enumerate().map(set).collect()
}

fn result(outcome: Outcome) -> cni::AddResult {
    let ip = |given: berth_core::ipam::Given| cni::Ip {
        address: given.address(),
        prefix_len: given.prefix_len,
        gateway: given.gateway,
    };
    cni::AddResult { ips: outcome.given.into_iter().map(ip).collect(), routes: outcome.routes, dns: outcome.dns }
}

fn check(node: &Node, key: &protocol::Attachment, addresses: &[IpAddr]) -> Result<Response, Error> {
    let held = node.engine.read(|ipam| {
        let (network, id, ifname) = (&key.network, &key.container, &key.ifname);
        ipam.of_attachment(Attachment { network, id, ifname })
    });
    let missing = |address: String| Error::NotHeld { container: key.container.clone(), address };
    if held.is_empty() {
        return Err(missing("any address".to_owned()));
    }
    // Another plugin of the chain may have added addresses that are none of ours.
    let ours = |address: &&IpAddr| {
        node.engine.read(|ipam| ipam.pools().any(|pool| pool.ranges.iter().any(|range| range.contains(**address))))
    };
    match addresses.iter().find(|address| !held.contains(address) && ours(address)) {
        Some(address) => Err(missing(address.to_string())),
        None if held.iter().all(|address| addresses.contains(address)) => Ok(Response::Done),
        None => Err(missing("just what ADD answered".to_owned())),
    }
}
