//! What a container runtime asks, as a value: several can share a transaction.

use crate::Context;
use berth_core::error::Error;
use berth_core::holder::Attachment;
use berth_core::ipam::{Outcome, Request};
use std::net::IpAddr;

/// What is asked. `stamp` is when the caller began, on a clock that its ADDs and DELs share.
#[derive(Clone, Debug)]
pub enum Call {
    /// Give out addresses.
    Add {
        /// To whom, and which: all of them or none. The first is what is asked for; the others, which are of the same
        /// container, are given along, unless the first has its addresses already.
        requests: Vec<Request>,
        /// When.
        stamp: Option<u64>,
    },
    /// Take back everything an attachment has; any number of times, known or not.
    Del {
        /// The CNI network.
        network: String,
        /// The container.
        id: String,
        /// The interface.
        ifname: String,
        /// When.
        stamp: Option<u64>,
    },
}

/// What was done.
#[derive(Clone, Debug)]
pub enum Done {
    /// An ADD was served: what was asked for, then what was given along.
    Given(Vec<Outcome>),
    /// A DEL took these back.
    Taken(Vec<IpAddr>),
}

impl Done {
    pub(crate) fn given(self) -> Outcome {
        match self {
            Self::Given(outcomes) => outcomes.into_iter().next().unwrap_or_default(),
            Self::Taken(_) => Outcome::default(),
        }
    }

    pub(crate) fn taken(self) -> Vec<IpAddr> {
        match self {
            Self::Given(_) => Vec::new(),
            Self::Taken(addresses) => addresses,
        }
    }
}

/// A call that is decided, maybe more than once.
pub(crate) struct Running {
    call: Call,
    /// For each request, whether its attachment had nothing when this was first decided.
    fresh: Vec<bool>,
    /// How many addresses each was to get when this was last decided.
    wanted: Vec<usize>,
    /// Whether that was in a transaction which failed, maybe half-way.
    failed: bool,
}

impl From<Call> for Running {
    fn from(call: Call) -> Self {
        Self { call, fresh: Vec::new(), wanted: Vec::new(), failed: false }
    }
}

impl Running {
    /// Decides it; a refusal leaves nothing behind.
    pub(crate) fn run(&mut self, context: &mut Context<'_>) -> Result<Done, Error> {
        let (savepoint, stamps) = (context.ipam.savepoint(), context.stamps.len());
        let done = self.decide(context);
        if done.is_err() {
            context.ipam.rollback_to(savepoint);
            context.stamps.truncate(stamps);
        }
        done
    }

    /// Decides it after a transaction that failed, of which something may have been written all the same.
    pub(crate) fn run_again(&mut self, context: &mut Context<'_>) -> Result<Done, Error> {
        self.failed = true;
        self.run(context)
    }

    fn decide(&mut self, context: &mut Context<'_>) -> Result<Done, Error> {
        match &self.call {
            Call::Add { requests, stamp } => {
                if self.fresh.is_empty() {
                    let fresh = |request: &Request| context.ipam.of_attachment(request.holder.attachment()).is_empty();
                    self.fresh = requests.iter().map(fresh).collect();
                }
                let (mut outcomes, before) = (Vec::with_capacity(requests.len()), std::mem::take(&mut self.wanted));
                // Who comes back for an answer gets that answer. What others of the container had meanwhile been given,
                // and given back, is not given again.
                let along = if self.fresh.first() == Some(&true) { requests.len() } else { 1 };
                for (at, (request, fresh)) in requests.iter().zip(&self.fresh).enumerate().take(along) {
                    let key = request.holder.attachment();
                    if *fresh && (context.attempt > 0 || self.failed) {
                        // Part of an earlier attempt may have reached the store before another part met a conflict. A
                        // lone address is there or not, and stays: to have another for a moment beside it would take
                        // the last one of a pool from somebody.
                        let whole = before.get(at) == Some(&1) && context.ipam.of_attachment(key).len() == 1;
                        if !whole {
                            context.ipam.release(key, context.now);
                        }
                    }
                    let outcome = context.allocate(request, *stamp).map_err(|error| match at {
                        0 => error,
                        _ => Error::Along { interface: request.holder.ifname.clone(), error: Box::new(error) },
                    })?;
                    self.wanted.push(outcome.given.len());
                    outcomes.push(outcome);
                }
                Ok(Done::Given(outcomes))
            }
            Call::Del { network, id, ifname, stamp } => {
                let taken = context.release(Attachment { network, id, ifname }, *stamp);
                if taken.is_empty() && context.unsure {
                    let reason = "whether the container holds an address is not known until the store answers";
                    return Err(Error::Unreachable(reason.to_owned()));
                }
                Ok(Done::Taken(taken))
            }
        }
    }
}
