//! Told to stop, for processes without an async runtime of their own.

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A flag that is set when the process is asked to end.
///
/// # Errors
/// If signals cannot be listened for.
pub fn stop_on_signal() -> anyhow::Result<Arc<AtomicBool>> {
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("listen for signals")?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = stop.clone();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if signals.forever().next().is_some() {
            stopping.store(true, Ordering::SeqCst);
        }
    })?;
    Ok(stop)
}
