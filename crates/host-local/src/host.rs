//! What proves that a lease is of an earlier boot.

use crate::index::Slot;
use crate::lease::Held;
use crate::owner::Owner;
use crate::sys;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::time::ClockId;
use std::collections::HashMap;

const SECOND: i64 = 1_000_000_000;
/// How far two clocks may differ and still agree. Leases written this close to the boot are given the benefit of the
/// doubt.
const TOLERANCE: i64 = 5 * SECOND;

/// The machine, as far as leases depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    /// The boot we are in. `None` if the kernel does not tell; then nothing is ever proven to be of another one.
    pub(crate) boot: Option<u64>,
    /// When this boot began, by the clock that stamps files, if that can be known.
    pub(crate) booted: fn() -> Option<i64>,
}

impl Host {
    pub(crate) fn this() -> Self {
        Self { boot: berth_wire::boot::id().ok().and_then(|id| tag(&id)), booted }
    }

    /// Whether a file whose inode last changed at `changed` is certainly older than this boot.
    pub(crate) fn predates(booted: Option<i64>, changed: i64) -> bool {
        booted.is_some_and(|booted| changed < booted - TOLERANCE)
    }
}

/// What is known about the age of a network's leases.
pub(crate) struct Ages {
    boot: Option<u64>,
    booted: Option<i64>,
    indexed: HashMap<(u128, Held), u64>,
}

impl Ages {
    /// What a machine knows by its clocks and by an index.
    pub(crate) fn new(host: Host, index: &[Slot]) -> Self {
        let indexed = index.iter().map(|slot| ((slot.owner, slot.held), slot.boot)).collect();
        Self { boot: host.boot, booted: (host.booted)(), indexed }
    }

    /// Whether a lease is certainly of an earlier boot: the index names this very file in an entry of another boot, or
    /// it does not know the file, and the file is older than this boot by clocks that agree.
    pub(crate) fn is_dead(&self, owner: &Owner, lease: Held) -> bool {
        match self.indexed.get(&(owner.hash(), lease)) {
            Some(&boot) => self.boot.is_some_and(|now| now != boot),
            None => Host::predates(self.booted, lease.changed),
        }
    }
}

/// The first 64 bits of the boot's UUID: enough to tell one boot from the few before it.
fn tag(id: &str) -> Option<u64> {
    let digits: String = id.chars().filter(|&c| c != '-').take(16).collect();
    u64::from_str_radix(&digits, 16).ok()
}

/// The kernel makes the root of `/dev` (devtmpfs) first thing in a boot, so its birth is the moment of the boot on the
/// clock that stamps files. It only counts while that clock still agrees with the time since boot: if someone has set
/// it in between, ages on the two sides of that cannot be compared.
fn booted() -> Option<i64> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let is_devtmpfs = is_devtmpfs_on_dev(&mounts);
    let born = statx(CWD, "/dev", AtFlags::empty(), StatxFlags::BTIME).ok()?;
    let known = StatxFlags::from_bits_retain(born.stx_mask).contains(StatxFlags::BTIME);
    let born = born.stx_btime.tv_sec.checked_mul(SECOND)?.checked_add(born.stx_btime.tv_nsec.into())?;
    let expected = sys::now(ClockId::Realtime) - sys::now(ClockId::Boottime);
    (is_devtmpfs && known && (born - expected).abs() <= TOLERANCE).then_some(born)
}

/// Whether what is mounted last on `/dev`, and so is seen there, is the kernel's own.
fn is_devtmpfs_on_dev(mountinfo: &str) -> bool {
    let on_dev = |line: &&str| line.split(' ').nth(4) == Some("/dev");
    let kind = |line: &str| line.split_once(" - ").and_then(|(_, rest)| rest.split(' ').next().map(str::to_owned));
    mountinfo.lines().rfind(on_dev).and_then(kind).as_deref() == Some("devtmpfs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boots_are_told_apart_by_their_uuid() {
        assert_eq!(tag("f5a45309-f81f-4559-8a91-2e9b0375a6f0"), Some(0xf5a4_5309_f81f_4559));
        assert_eq!(tag(""), None);
        assert_eq!(tag("not a boot id at all"), None);
    }

    #[test]
    fn only_the_topmost_devtmpfs_counts() {
        let devtmpfs = "22 1 0:5 / /dev rw,relatime shared:2 - devtmpfs devtmpfs rw,size=1k";
        let tmpfs = "30 22 0:26 / /dev rw - tmpfs tmpfs rw";
        let other = "31 22 0:27 / /dev/shm rw - tmpfs tmpfs rw";
        assert!(is_devtmpfs_on_dev(devtmpfs));
        assert!(is_devtmpfs_on_dev(&format!("{devtmpfs}\n{other}")));
        assert!(!is_devtmpfs_on_dev(&format!("{devtmpfs}\n{tmpfs}")));
        assert!(!is_devtmpfs_on_dev(other));
    }

    #[test]
    fn the_moment_of_the_boot_lies_before_now_if_known() {
        if let Some(booted) = booted() {
            assert!(booted < sys::now(ClockId::Realtime));
        }
    }

    #[test]
    fn doubt_keeps_a_lease() {
        assert!(!Host::predates(None, 0));
        assert!(!Host::predates(Some(100 * SECOND), 95 * SECOND));
        assert!(Host::predates(Some(100 * SECOND), 95 * SECOND - 1));
    }
}
