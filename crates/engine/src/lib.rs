//! Runs the pure core over a block store.
//!
//! Requests that arrive while another is being written wait together and share the next write (group commit): one of
//! them runs everything that is waiting, writes once, and hands out all the answers. No thread of its own, so a lone
//! request pays for no hand-over.
//!
//! A request is a closure over the state machine. It may run more than once: when the store says that others changed
//! the same blocks, those are read again and every request of the batch is decided anew.

mod batch;
mod call;
mod inner;
mod look;

pub use call::{Call, Done};

use batch::Waiting;
use berth_core::block::BlockKey;
use berth_core::error::Error;
use berth_core::holder::Attachment;
use berth_core::ipam::{Config, Doubt, Entropy, Ipam, Mark, Outcome, Replaced, Request, Stamp, Tombstones, Wish};
use berth_core::time::Time;
use berth_store::{BlockStore, StoreError};
use inner::Inner;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a request works on.
pub struct Context<'a> {
    /// The state machine.
    pub ipam: &'a mut Ipam,
    /// Deletions of a moment ago: an older ADD that arrives after one leaves nothing behind.
    pub deletions: &'a mut Tombstones,
    /// ADDs of a moment ago: an older DEL that arrives after one takes nothing back.
    pub additions: &'a mut Tombstones,
    /// Which of both this batch brought; they are written with its changes.
    stamps: &'a mut Vec<Stamp>,
    /// Randomness.
    pub entropy: &'a mut Entropy,
    /// The time.
    pub now: Time,
    /// 0 at first; more if other writers were quicker.
    pub attempt: u32,
    /// What refusals rest on that others may have changed meanwhile.
    in_doubt: &'a mut Doubt,
    /// Whether somebody may hold what is not known here, after a write that may or may not have reached the store.
    unsure: bool,
}

/// The allocator of one store.
pub struct Engine<S> {
    inner: Mutex<Inner<S>>,
    waiting: Waiting,
    clock: Box<dyn Fn() -> Time + Send + Sync>,
    before_waiting: fn(),
}

impl<S: BlockStore> Engine<S> {
    /// An engine over what the store has, with this configuration in force.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn open(
        store: S,
        config: Config,
        seed: u64,
        clock: impl Fn() -> Time + Send + Sync + 'static,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            inner: Mutex::new(Inner::open(store, config, seed)?),
            waiting: Waiting::default(),
            clock: Box::new(clock),
            before_waiting: || {},
        })
    }

    /// Has this called in a thread that is about to wait, for the store or for another thread's batch.
    #[must_use]
    pub fn before_waiting(mut self, call: fn()) -> Self {
        self.before_waiting = call;
        self.lock().before_waiting = call;
        self
    }

    /// The engine's time.
    #[must_use]
    pub fn now(&self) -> Time {
        (self.clock)()
    }

    /// Runs a request, together with whatever else is waiting. When this returns, its changes are in the store.
    ///
    /// # Errors
    /// Those of the request, which then has changed nothing; or those of the store.
    pub fn transact<R: Send + 'static>(
        &self,
        request: impl FnMut(&mut Context<'_>) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        self.waiting.answer(request, |batch| self.lock().run(batch, self.now()), self.before_waiting)
    }

    /// Looks at the state.
    pub fn read<R>(&self, look: impl FnOnce(&Ipam) -> R) -> R {
        look(&self.lock().ipam)
    }

    /// What a request would get, and why; changes nothing.
    pub fn explain(&self, request: &Request) -> (berth_core::ipam::Trace, Result<Outcome, Error>) {
        let inner = &mut *self.lock();
        // The answer must not change what the next real request draws.
        let mut entropy = inner.entropy.clone();
        inner.ipam.explain(request, self.now(), &mut entropy)
    }

    /// The next addresses that a pool would give to a node, as far as that can be told; changes nothing.
    pub fn upcoming(&self, pool: &str, node: &str, count: usize) -> Vec<IpAddr> {
        let inner = &mut *self.lock();
        inner.roll_back();
        let mut entropy = inner.entropy.clone();
        inner.ipam.upcoming(pool, node, count, self.now(), &mut entropy)
    }

    /// Uses the store directly, e.g. for its counters; no request runs meanwhile.
    pub fn with_store<R>(&self, work: impl FnOnce(&mut S) -> R) -> R {
        work(&mut self.lock().store)
    }

    /// Puts another configuration in force, in one step with what follows from it.
    ///
    /// `plan` says, from the store and the state, what shall be in force; `follow` then changes blocks under the new
    /// configuration (binds claims, releases what is no longer kept); `save` makes the new objects durable. If any of
    /// them fails, everything is as before. With `dry_run` it is so in any case.
    ///
    /// # Errors
    /// [`Error::Invalid`] or [`Error::InUse`] if the configuration is refused; those of the closures and of the store.
    pub fn reconfigure<P, R>(
        &self,
        dry_run: bool,
        plan: impl FnOnce(&mut S, &Ipam) -> Result<(Config, P), Error>,
        follow: impl FnOnce(&mut Context<'_>, &P) -> Result<R, Error>,
        save: impl FnOnce(&mut S, P) -> Result<(), Error>,
    ) -> Result<R, Error> {
        let inner = &mut *self.lock();
        inner.roll_back();
        let (config, planned) = plan(&mut inner.store, &inner.ipam)?;
        inner.ipam.admits(&config)?;
        let before = inner.ipam.config().clone();
        inner.ipam.configure(config);
        let now = self.now();
        let result = follow(&mut inner.context(now, 0), &planned);
        let saved = match &result {
            Ok(_) if !dry_run => save(&mut inner.store, planned),
            _ => {
                inner.roll_back();
                inner.ipam.configure(before);
                return result;
            }
        };
        if let Err(error) = saved {
            inner.roll_back();
            inner.ipam.configure(before);
            return Err(error);
        }
        // The objects are in force now. If their blocks cannot be written, a claim stays unbound and is bound later.
        match inner.write_once() {
            Ok(true) => result,
            Ok(false) => Err(Error::RetriesExhausted),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads blocks of a shared store anew, e.g. because somebody who comes from elsewhere has something there.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn look_at(&self, keys: &[BlockKey]) -> Result<(), Error> {
        let inner = &mut *self.lock();
        inner.roll_back();
        Ok(inner.reload(keys)?)
    }

    /// Puts the tickets in order by which a node stays within quotas: what a crash, a lost race or a move to another node
    /// left behind. See [`Ipam::settle_tickets`].
    ///
    /// # Errors
    /// If they cannot be read or written; nothing is given back then.
    pub fn settle_tickets(&self, node: &str) -> Result<(), Error> {
        let (unsettled, unsure) = {
            let inner = &mut *self.lock();
            inner.roll_back();
            (inner.ipam.unsettled_tickets(node), inner.store.is_unsure())
        };
        if unsure {
            let reason = "what a write that got no answer has changed is not known until the store answers";
            return Err(Error::Unreachable(reason.to_owned()));
        }
        if !unsettled.is_empty() {
            self.look_at(&unsettled)?;
        }
        let node = node.to_owned();
        self.transact(move |context| {
            context.ipam.settle_tickets(&node, context.now);
            Ok(())
        })
    }

    /// Puts a configuration in force that was decided elsewhere: nobody is asked whether it fits. No address is freed
    /// by it.
    pub fn configure(&self, config: Config) {
        let inner = &mut *self.lock();
        inner.roll_back();
        inner.ipam.configure(config);
    }

    /// Runs calls that arrived together in one transaction; an answer for each, in order. One that is refused changes
    /// nothing and hinders no other, nor does one that needs what cannot be reached.
    pub fn run_all(&self, calls: Vec<Call>) -> Vec<Result<Done, Error>> {
        if calls.is_empty() {
            return Vec::new();
        }
        let count = calls.len();
        let calls: Vec<call::Running> = calls.into_iter().map(call::Running::from).collect();
        let calls = Arc::new(Mutex::new(calls));
        let all = calls.clone();
        let done = self.transact(move |context| {
            let mut calls = all.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(calls.iter_mut().map(|call| call.run(context)).collect())
        });
        match done {
            Ok(done) => done,
            Err(Error::Unreachable(_)) if count > 1 => {
                let calls = std::mem::take(&mut *calls.lock().unwrap_or_else(PoisonError::into_inner));
                let alone = |mut call: call::Running| self.transact(move |context| call.run_again(context));
                calls.into_iter().map(alone).collect()
            }
            Err(error) => vec![Err(error); count],
        }
    }

    /// Gives out what is asked for. `stamp` is when the request was started, on the clock that deletions use.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn allocate(&self, request: Request, stamp: Option<u64>) -> Result<Outcome, Error> {
        let mut call = call::Running::from(Call::Add { requests: vec![request], stamp });
        self.transact(move |context| call.run(context)).map(Done::given)
    }

    /// Takes back everything an attachment has; any number of times, known or not.
    ///
    /// # Errors
    /// Only those of the store.
    pub fn release(&self, network: &str, id: &str, ifname: &str, stamp: Option<u64>) -> Result<Vec<IpAddr>, Error> {
        let (network, id, ifname) = (network.to_owned(), id.to_owned(), ifname.to_owned());
        let mut call = call::Running::from(Call::Del { network, id, ifname, stamp });
        self.transact(move |context| call.run(context)).map(Done::taken)
    }

    fn lock(&self) -> MutexGuard<'_, Inner<S>> {
        // If a request panicked, what it left is undone before the next batch runs.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Context<'_> {
    /// Gives out what is asked for, unless a later deletion of the same attachment has been seen.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn allocate(&mut self, request: &Request, stamp: Option<u64>) -> Result<Outcome, Error> {
        if let Some(at) = stamp {
            let mark = Mark::from(request.holder.attachment());
            if self.deletions.supersede(mark, at) {
                return Err(Error::Superseded(request.holder.id.clone()));
            }
            self.additions.bury(mark, at);
            self.stamps.push(Stamp { wish: Wish::Add, mark, at });
        }
        let outcome = self.ipam.allocate(request, self.now, self.entropy);
        self.doubt(request, outcome.as_ref().err());
        outcome
    }

    /// Gives an attachment others for those of its addresses that strangers use, unless a later deletion of it has been
    /// seen. See [`Ipam::replace`].
    ///
    /// # Errors
    /// [`Error::Superseded`]; why there are no others is in the answer, because the strangers are remembered all the same.
    pub fn replace(
        &mut self,
        request: &Request,
        strangers: &[IpAddr],
        until: Time,
        stamp: u64,
    ) -> Result<Replaced, Error> {
        if self.deletions.supersede(Mark::from(request.holder.attachment()), stamp) {
            return Err(Error::Superseded(request.holder.id.clone()));
        }
        let replaced = self.ipam.replace(request, strangers, until, self.now, self.entropy);
        self.doubt(request, replaced.outcome.as_ref().err());
        Ok(replaced)
    }

    /// Whether a request like this could be served; changes nothing, not even what the next one draws. See
    /// [`Ipam::could_serve`].
    ///
    /// # Errors
    /// Those of [`Self::allocate`], and as sure as those are.
    pub fn could_serve(&mut self, request: &Request) -> Result<(), Error> {
        let served = self.ipam.could_serve(request, self.now, &mut self.entropy.clone());
        self.doubt(request, served.as_ref().err());
        served
    }

    fn doubt(&mut self, request: &Request, refusal: Option<&Error>) {
        if let Some(error) = refusal {
            self.in_doubt.of_refusal(self.ipam, request, error);
        }
    }

    /// Takes back everything an attachment has, and what was given along to its container and never asked for; both are
    /// remembered as deleted. A runtime that gives up on a container after its first interface says nothing of the rest.
    pub fn release(&mut self, key: Attachment<'_>, stamp: Option<u64>) -> Vec<IpAddr> {
        if !self.bury(key, stamp) {
            return Vec::new();
        }
        let mut taken = self.ipam.release(key, self.now);
        for other in self.ipam.awaited(key.id) {
            if self.bury(other.attachment(), stamp) {
                taken.extend(self.ipam.release(other.attachment(), self.now));
            }
        }
        taken
    }

    /// Remembers a deletion; false if a later ADD has been seen.
    fn bury(&mut self, key: Attachment<'_>, stamp: Option<u64>) -> bool {
        let Some(at) = stamp else { return true };
        let mark = Mark::from(key);
        if self.additions.supersede(mark, at) {
            return false;
        }
        self.deletions.bury(mark, at);
        self.stamps.push(Stamp { wish: Wish::Del, mark, at });
        true
    }
}
