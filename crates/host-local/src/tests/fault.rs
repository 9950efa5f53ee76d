//! Failing system calls, counted per thread.

use super::Effect;
use rustix::io::Errno;
use std::cell::Cell;

/// Which calls fail.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plan {
    /// None.
    Never,
    /// The n-th call only.
    Once(usize),
    /// The n-th and every later one: the process is dead.
    Dead(usize),
    /// From the n-th on, every call that needs room.
    Full(usize),
}

thread_local! {
    static PLAN: Cell<Plan> = const { Cell::new(Plan::Never) };
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

/// Runs `work` under the plan and says how many calls it made.
pub(crate) fn with<T>(plan: Plan, work: impl FnOnce() -> T) -> (T, usize) {
    PLAN.set(plan);
    CALLS.set(0);
    let outcome = work();
    PLAN.set(Plan::Never);
    (outcome, CALLS.get())
}

pub(super) fn point(effect: Effect) -> rustix::io::Result<()> {
    let call = CALLS.get();
    CALLS.set(call + 1);
    match PLAN.get() {
        Plan::Once(n) if call == n => Err(Errno::NOSPC),
        Plan::Dead(n) if call >= n => Err(Errno::IO),
        Plan::Full(n) if call >= n && effect == Effect::Grow => Err(Errno::NOSPC),
        _ => Ok(()),
    }
}
