//! Requests that wait for each other, and their answers.
//!
//! At any time at most one thread *leads*: it runs every request that waits, its own among them, and then passes the
//! lead to one of those that came meanwhile, if any. The others sleep until they are answered or made to lead. So
//! whatever arrives during one write of the store shares the next one, and nobody overtakes. A leader whose write lost a
//! race and has to be made again takes those along that came meanwhile: the busier a block is, the fewer write it.

use crate::Context;
use berth_core::error::Error;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A request and a place for its answer, with the type of the answer hidden.
trait Request: Send + Sync {
    fn run(&self, context: &mut Context<'_>) -> bool;
    fn deliver(&self);
    fn fail(&self, error: &Error);
    fn promote(&self);
}

struct Typed<R, F> {
    request: Mutex<F>,
    answer: Mutex<Answer<R>>,
    changed: Condvar,
}

enum Answer<R> {
    Waiting,
    /// The caller is to lead.
    Lead,
    /// Decided, but not yet in the store.
    Decided(Result<R, Error>),
    Given(Result<R, Error>),
}

impl<R, F> Typed<R, F> {
    fn set(&self, answer: Answer<R>) {
        *lock(&self.answer) = answer;
        self.changed.notify_one();
    }
}

impl<R: Send, F: FnMut(&mut Context<'_>) -> Result<R, Error> + Send> Request for Typed<R, F> {
    fn run(&self, context: &mut Context<'_>) -> bool {
        let result = lock(&self.request)(context);
        let ok = result.is_ok();
        *lock(&self.answer) = Answer::Decided(result);
        ok
    }

    fn deliver(&self) {
        let mut answer = lock(&self.answer);
        if let Answer::Decided(result) = std::mem::replace(&mut *answer, Answer::Waiting) {
            *answer = Answer::Given(result);
        }
        drop(answer);
        self.changed.notify_one();
    }

    fn fail(&self, error: &Error) {
        self.set(Answer::Given(Err(error.clone())));
    }

    fn promote(&self) {
        self.set(Answer::Lead);
    }
}

/// A request of a batch.
pub(crate) struct Job(Arc<dyn Request>);

impl Job {
    /// Decides the request; whether it succeeded.
    pub(crate) fn run(&self, context: &mut Context<'_>) -> bool {
        self.0.run(context)
    }

    /// The decision is in the store: it becomes the answer.
    pub(crate) fn deliver(&self) {
        self.0.deliver();
    }

    /// The request could not be served.
    pub(crate) fn fail(&self, error: &Error) {
        self.0.fail(error);
    }
}

/// The requests that nobody runs yet, and whether someone leads.
#[derive(Default)]
pub(crate) struct Waiting(Mutex<Line>);

#[derive(Default)]
struct Line {
    jobs: Vec<Job>,
    led: bool,
}

impl Waiting {
    /// Joins the line and comes back with the answer. `lead` runs a batch; it is called if it falls to this request.
    /// `before_waiting` is called before this thread sleeps.
    pub(crate) fn answer<R, F>(&self, request: F, lead: impl Fn(&mut Led<'_>), before_waiting: fn()) -> Result<R, Error>
    where
        R: Send + 'static,
        F: FnMut(&mut Context<'_>) -> Result<R, Error> + Send + 'static,
    {
        let (request, answer) = (Mutex::new(request), Mutex::new(Answer::Waiting));
        let own = Arc::new(Typed { request, answer, changed: Condvar::new() });
        let mut line = lock(&self.0);
        line.jobs.push(Job(own.clone()));
        let mut leads = !std::mem::replace(&mut line.led, true);
        drop(line);
        if !leads {
            before_waiting();
        }
        loop {
            if leads {
                let _pass = PassOn(self);
                let jobs = self.take();
                let first = jobs.len();
                lead(&mut Led { jobs, first, line: self });
            }
            let mut answer = lock(&own.answer);
            while matches!(*answer, Answer::Waiting | Answer::Decided(_)) && !leads {
                answer = own.changed.wait(answer).unwrap_or_else(PoisonError::into_inner);
            }
            match std::mem::replace(&mut *answer, Answer::Waiting) {
                Answer::Given(result) => return result,
                Answer::Lead => leads = true,
                // Whoever leads answers every request of its batch, its own too, unless one of them panicked.
                Answer::Waiting | Answer::Decided(_) => return Err(lost()),
            }
        }
    }

    fn take(&self) -> Vec<Job> {
        std::mem::take(&mut lock(&self.0).jobs)
    }
}

/// The requests of a batch, which may become more until it is answered.
pub(crate) struct Led<'a> {
    jobs: Vec<Job>,
    /// How many there were at first.
    first: usize,
    line: &'a Waiting,
}

impl Led<'_> {
    /// All of them, in the order in which they came.
    pub(crate) fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// None of them could be served.
    pub(crate) fn fail(&self, error: &Error) {
        self.jobs.iter().for_each(|job| job.fail(error));
    }

    /// Each as a batch of its own.
    pub(crate) fn each_alone(&mut self) -> Vec<Self> {
        let line = self.line;
        std::mem::take(&mut self.jobs).into_iter().map(|job| Self { jobs: vec![job], first: 1, line }).collect()
    }

    /// Takes those along that came meanwhile.
    pub(crate) fn take_along(&mut self) {
        self.jobs.extend(self.line.take());
    }

    /// Puts those that were taken along back in line, ahead of whoever came later: what ended the patience of the first
    /// has nothing to do with theirs.
    pub(crate) fn put_back(&mut self) {
        let later = self.jobs.split_off(self.first.min(self.jobs.len()));
        lock(&self.line.0).jobs.splice(0..0, later);
    }
}

impl Drop for Led<'_> {
    /// The requests of a batch that panicked are told so.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.jobs.iter().for_each(|job| job.fail(&lost()));
        }
    }
}

fn lost() -> Error {
    Error::Store("the request was lost; try again".to_owned())
}

/// Passes the lead on when a batch is done, also if it panicked: nobody must wait for ever.
struct PassOn<'a>(&'a Waiting);

impl Drop for PassOn<'_> {
    fn drop(&mut self) {
        let mut line = lock(&self.0.0);
        match line.jobs.first() {
            Some(next) => next.0.promote(),
            None => line.led = false,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
