//! What the plugin asks, in the words of the engine, and the engine's answers in the words of the plugin.

use crate::{Answer, Later, Quiet, detect};
use berth_core::addr::Range;
use berth_core::error::Error;
use berth_core::holder::Attachment;
use berth_core::ipam::{Group, Outcome, Request as CoreRequest};
use berth_engine::{Call, Done, Engine};
use berth_store::BlockStore;
use berth_wire::cni;
use berth_wire::protocol::{self, AddRequest, Findings, Op, Request, Response, StatusRequest};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tracing::{debug, warn};

/// What an ADD comes to.
pub struct Planned<N> {
    /// What is asked for; the first is what is answered, the others are served along with it.
    pub requests: Vec<CoreRequest>,
    /// What [`Host::finish`] needs to know.
    pub note: N,
}

/// What is particular to a daemon.
pub trait Host: Send + Sync {
    /// Where its blocks are.
    type Store: BlockStore;

    /// What it remembers of an ADD between planning and answering it.
    type Note;

    /// Its allocator.
    fn engine(&self) -> &Engine<Self::Store>;

    /// What an ADD comes to.
    ///
    /// # Errors
    /// If it cannot be served whatever is free.
    fn plan(&self, add: AddRequest) -> Result<Planned<Self::Note>, Error>;

    /// What is left to do when an ADD has got its addresses, before it is answered: with the first outcome; the others
    /// are what was given along.
    ///
    /// # Errors
    /// If it must not be answered; the runtime says DEL then.
    fn finish(&self, note: Self::Note, outcomes: &mut [Outcome]) -> Result<(), Error>;

    /// The node that its containers are recorded with; nothing where there is but one machine.
    fn node(&self) -> &str {
        ""
    }

    /// Answers STATUS.
    ///
    /// # Errors
    /// Why an ADD could not be served.
    fn status(&self, wanted: StatusRequest) -> Result<Response, cni::Error>;

    /// An ADD was refused; what can be done about it, others are asked to do.
    fn refused(&self, error: &Error) {
        let _ = error;
    }

    /// Whether an ADD that was refused may be worth waiting for.
    fn is_patient(&self) -> bool {
        false
    }

    /// When something last happened that may help an ADD which was refused for this reason, as a count of
    /// [news](Self::news); `None` if waiting does not help.
    fn outlook(&self, error: &Error) -> Option<u64> {
        let _ = error;
        None
    }

    /// Counts what ADDs may wait for.
    fn news(&self) -> u64 {
        0
    }

    /// Waits until there is news after `seen`, or for so long; false if there is none.
    fn wait_for_news(&self, seen: u64, at_most: Duration) -> bool {
        let _ = (seen, at_most);
        false
    }

    /// What is known of the wire.
    fn quiet(&self) -> &Quiet;

    /// A plugin looked at the wire.
    fn observe_wire(&self, findings: &Findings);

    /// A request was answered, or refused with a CNI code.
    fn observe(&self, verb: &'static str, refusal: Option<u32>, took: Duration);
}

/// Answers requests that arrived together, each in its place. Their ADDs and DELs share one write of the store.
pub fn answer_all<H: Host>(host: &H, requests: Vec<Request>) -> Vec<Answer> {
    let now = Instant::now();
    answer(host, requests.into_iter().map(|request| (request, now)).collect())
}

/// Answers requests that were put off: each as soon as what it waits for has happened, or when patience ends.
pub fn answer_later<H: Host>(host: &H, requests: Vec<Later>, patience: Duration) -> Vec<Response> {
    let until = Instant::now() + patience;
    debug!(requests = requests.len(), "requests wait for a pool");
    let mut answers: Vec<Option<Response>> = requests.iter().map(|_| None).collect();
    let mut waiting: Vec<(usize, Later)> = requests.into_iter().enumerate().collect();
    while !waiting.is_empty() {
        // Before it is looked whom the news concern: what comes after that is waited for in vain otherwise.
        let news = host.news();
        let concerned = |(_, later): &(usize, Later)| host.outlook(&later.error).is_none_or(|at| at > later.seen);
        let (ripe, rest): (Vec<_>, Vec<_>) = waiting.into_iter().partition(concerned);
        waiting = rest;
        if ripe.is_empty() {
            if !host.wait_for_news(news, until.saturating_duration_since(Instant::now())) {
                break;
            }
            continue;
        }
        let (places, ripe): (Vec<usize>, Vec<_>) = ripe.into_iter().map(|(i, l)| (i, (l.request, l.came))).unzip();
        for (place, answer) in places.into_iter().zip(answer(host, ripe)) {
            match answer {
                Answer::Now(response) => {
                    debug!("a request was answered after waiting for a pool");
                    answers[place] = Some(response);
                }
                Answer::Later(later) => waiting.push((place, *later)),
            }
        }
    }
    for (place, later) in waiting {
        let code = if let Response::Error(error) = &later.refusal { error.code } else { cni::code::INTERNAL };
        host.observe("add", Some(code), later.came.elapsed());
        answers[place] = Some(later.refusal);
    }
    answers.into_iter().flatten().collect()
}

fn answer<H: Host>(host: &H, requests: Vec<(Request, Instant)>) -> Vec<Answer> {
    let (seen, patient) = (host.news(), host.is_patient());
    let mut calls: Vec<Call> = Vec::with_capacity(requests.len());
    let prepare = |(request, came): (Request, Instant)| {
        let again = (patient && matches!(request.op, Op::Add(_))).then(|| request.clone());
        (prepare(host, request, &mut calls), again, came)
    };
    let prepared: Vec<_> = requests.into_iter().map(prepare).collect();
    let mut done = host.engine().run_all(calls).into_iter();
    let mut complete = |(prepared, again, came): (Prepared<H::Note>, Option<Request>, Instant)| {
        let refuse = |error: Error| match again.filter(|_| host.outlook(&error).is_some()) {
            Some(request) => {
                let refusal = Response::Error(to_cni(&error));
                Err(Answer::Later(Box::new(Later { request, refusal, error, seen, came })))
            }
            None => Ok(Err(to_cni(&error))),
        };
        let (verb, result) = match prepared {
            Prepared::Answered(verb, result) => (verb, Ok(result)),
            Prepared::Refused(verb, error) => (verb, refuse(error)),
            Prepared::Called(verb, note) => {
                let done = done.next().unwrap_or_else(|| Err(Error::Store("no answer; try again".to_owned())));
                let answer = done.and_then(|done| respond(host, done, note)).inspect_err(|error| host.refused(error));
                (verb, answer.map(Ok).map_or_else(refuse, Ok))
            }
        };
        let result = match result {
            Ok(result) => result,
            Err(later) => return later,
        };
        host.observe(verb, result.as_ref().err().map(|error| error.code), came.elapsed());
        match &result {
            Err(error) if error.code == cni::code::IO_FAILURE => warn!(verb, error = error.msg, "a request failed"),
            Err(error) => debug!(verb, code = error.code, error = error.msg, "a request was refused"),
            Ok(_) => {}
        }
        Answer::Now(result.unwrap_or_else(Response::Error))
    };
    prepared.into_iter().map(&mut complete).collect()
}

/// A request on its way.
enum Prepared<N> {
    /// Answered without the engine's help, or by a transaction of its own.
    Answered(&'static str, Result<Response, cni::Error>),
    /// It cannot be asked of the engine.
    Refused(&'static str, Error),
    /// Among the calls.
    Called(&'static str, Option<N>),
}

fn prepare<H: Host>(host: &H, request: Request, calls: &mut Vec<Call>) -> Prepared<H::Note> {
    let stamp = Some(request.stamp);
    if request.v != protocol::VERSION {
        let msg = format!("protocol version {} is not spoken here, only {}", request.v, protocol::VERSION);
        let hint = "install the berth-cni that belongs to this daemon";
        let refusal = cni::Error::new(cni::code::INCOMPATIBLE_VERSION, msg).hint(hint);
        return Prepared::Answered("unknown", Err(refusal));
    }
    match request.op {
        Op::Add(add) => match host.plan(add) {
            Ok(Planned { requests, note }) => {
                calls.push(Call::Add { requests, stamp });
                Prepared::Called("add", Some(note))
            }
            Err(error) => Prepared::Refused("add", error),
        },
        Op::Del(key) => {
            calls.push(Call::Del { network: key.network, id: key.container, ifname: key.ifname, stamp });
            Prepared::Called("del", None)
        }
        Op::Check { attachment, addresses } => {
            let checked = check(host.engine(), &attachment, &addresses);
            Prepared::Answered("check", checked.map_err(|error| to_cni(&error)))
        }
        Op::Gc { network, valid } => {
            let valid: Vec<(String, String)> = valid.into_iter().map(|live| (live.container, live.ifname)).collect();
            let node = host.node().to_owned();
            let freed = host.engine().transact(move |context| {
                // The list is as old as the request: what was added since is not in it.
                let newer = |key: Attachment<'_>| context.additions.supersede(key, request.stamp);
                Ok(context.ipam.collect_garbage(&network, &node, &valid, context.now, newer))
            });
            Prepared::Answered("gc", freed.map(|_| Response::Done).map_err(|error| to_cni(&error)))
        }
        Op::Status(wanted) => Prepared::Answered("status", host.status(wanted)),
        Op::Detected { add, findings } => {
            let answered = detect::answer(host, add, &findings, request.stamp);
            Prepared::Answered("detected", answered.map_err(|error| to_cni(&error)))
        }
    }
}

fn respond<H: Host>(host: &H, done: Done, note: Option<H::Note>) -> Result<Response, Error> {
    match done {
        Done::Given(mut outcomes) => {
            note.map_or(Ok(()), |note| host.finish(note, &mut outcomes))?;
            Ok(detect::respond(host, outcomes.into_iter().next().unwrap_or_default()))
        }
        Done::Taken(_) => Ok(Response::Done),
    }
}

/// An error as the plugin prints it.
#[must_use]
pub fn to_cni(error: &Error) -> cni::Error {
    let names = error.names();
    cni::Error::new(names.cni, error.to_string()).hint(names.hint)
}

/// What an ADD asks for, in the words of the core.
///
/// # Errors
/// [`Error::Invalid`] names a range that is none.
pub fn groups(base: Group, addresses: Vec<IpAddr>, ranges: &[Vec<String>]) -> Result<Vec<Group>, Error> {
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

pub(crate) fn result(outcome: Outcome) -> cni::AddResult {
    let ip = |given: berth_core::ipam::Given| cni::Ip {
        address: given.address(),
        prefix_len: given.prefix_len,
        gateway: given.gateway,
    };
    cni::AddResult { ips: outcome.given.into_iter().map(ip).collect(), routes: outcome.routes, dns: outcome.dns }
}

fn check<S: BlockStore>(
    engine: &Engine<S>,
    key: &protocol::Attachment,
    addresses: &[IpAddr],
) -> Result<Response, Error> {
    let held = engine.read(|ipam| {
        let (network, id, ifname) = (&key.network, &key.container, &key.ifname);
        ipam.of_attachment(Attachment { network, id, ifname })
    });
    let missing = |address: String| Error::NotHeld { container: key.container.clone(), address };
    if held.is_empty() {
        return Err(missing("any address".to_owned()));
    }
    // Another plugin of the chain may have added addresses that are none of ours.
    let ours = |address: &&IpAddr| {
        engine.read(|ipam| ipam.pools().any(|pool| pool.ranges.iter().any(|range| range.contains(**address))))
    };
    match addresses.iter().find(|address| !held.contains(address) && ours(address)) {
        Some(address) => Err(missing(address.to_string())),
        None if held.iter().all(|address| addresses.contains(address)) => Ok(Response::Done),
        None => Err(missing("just what ADD answered".to_owned())),
    }
}
