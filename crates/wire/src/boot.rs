//! The boot this machine is in, and the clock that orders what happens in it.
//!
//! A plugin process and the daemon have no common clock but the kernel's. `CLOCK_BOOTTIME` never jumps and counts
//! suspended time, so a stamp from it says which of two requests began first; the boot ID says whether two stamps may
//! be compared at all.

use rustix::time::{ClockId, clock_gettime};
use std::io;

/// Nanoseconds since the machine booted.
#[must_use]
pub fn stamp() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// The kernel's identifier of this boot, a UUID in text.
///
/// # Errors
/// If `/proc` is not mounted.
pub fn id() -> io::Result<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(text.trim_ascii().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_never_go_back() {
        let first = stamp();
        assert!(first > 0);
        assert!(stamp() >= first);
    }

    #[test]
    fn the_boot_has_one_id() {
        let text = id().unwrap();
        assert_eq!(text.len(), 36, "{text:?} is a UUID");
        assert_eq!(text, id().unwrap());
    }
}
