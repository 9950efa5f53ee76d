//! Requests that wait for the lock, and their answers.

use crate::Context;
use berth_core::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A request and a place for its answer, with the type of the answer hidden.
trait Request: Send + Sync {
    fn run(&self, context: &mut Context<'_>) -> bool;
    fn deliver(&self);
    fn fail(&self, error: &Error);
}

struct Typed<R, F> {
    request: Mutex<F>,
    answer: Mutex<Answer<R>>,
}

enum Answer<R> {
    Waiting,
    /// Decided, but not yet in the store.
    Decided(Result<R, Error>),
    Given(Result<R, Error>),
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
    }

    fn fail(&self, error: &Error) {
        *lock(&self.answer) = Answer::Given(Err(error.clone()));
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

/// A caller's side of its request.
pub(crate) struct Ticket<R, F> {
    typed: Arc<Typed<R, F>>,
}

impl<R, F> Ticket<R, F> {
    pub(crate) fn is_answered(&self) -> bool {
        matches!(*lock(&self.typed.answer), Answer::Given(_))
    }

    pub(crate) fn answer(self) -> Result<R, Error> {
        match std::mem::replace(&mut *lock(&self.typed.answer), Answer::Waiting) {
            Answer::Given(result) => result,
            Answer::Waiting | Answer::Decided(_) => Err(Error::Store("the request was lost; try again".to_owned())),
        }
    }
}

/// The requests that nobody runs yet.
#[derive(Default)]
pub(crate) struct Waiting(Mutex<Vec<Job>>);

impl Waiting {
    pub(crate) fn join<R, F>(&self, request: F) -> Ticket<R, F>
    where
        R: Send + 'static,
        F: FnMut(&mut Context<'_>) -> Result<R, Error> + Send + 'static,
    {
        let typed = Arc::new(Typed { request: Mutex::new(request), answer: Mutex::new(Answer::Waiting) });
        lock(&self.0).push(Job(typed.clone()));
        Ticket { typed }
    }

    pub(crate) fn take(&self) -> Vec<Job> {
        std::mem::take(&mut *lock(&self.0))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
