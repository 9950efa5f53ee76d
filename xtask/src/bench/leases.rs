//! host-local's directory of leases: filled beforehand, counted afterwards.

use anyhow::{Context, Result};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use super::call::container_id;

/// The first address that host-local gives out of the bench's subnet, 10.0.0.0/8.
const FIRST: u32 = u32::from_be_bytes([10, 0, 0, 2]);

/// Containers that hold the leases made here; far from those of the measured calls.
const HOLDERS: u64 = 1 << 40;

/// Writes `count` leases as host-local would have left them, and returns their addresses.
pub(super) fn fill(network: &Path, count: u32) -> Result<Vec<IpAddr>> {
    fs::create_dir_all(network).with_context(|| format!("cannot make {}", network.display()))?;
    for n in 0..count {
        let holder = format!("{}\r\neth0", container_id(HOLDERS + u64::from(n)));
        fs::write(network.join(address(n).to_string()), holder)?;
    }
    if let Some(last) = count.checked_sub(1) {
        fs::write(network.join("last_reserved_ip.0"), address(last).to_string())?;
    }
    Ok((0..count).map(|n| address(n).into()).collect())
}

/// How many leases a directory holds.
pub(super) fn count(network: &Path) -> Result<usize> {
    let mut leases = 0;
    for entry in fs::read_dir(network)? {
        leases += usize::from(entry?.file_name().to_str().is_some_and(|name| name.parse::<IpAddr>().is_ok()));
    }
    Ok(leases)
}

fn address(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(FIRST + n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_counted_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        fill(dir.path(), 300).unwrap();
        fs::write(dir.path().join("lock"), "").unwrap();
        assert_eq!(count(dir.path()).unwrap(), 300);
        assert!(dir.path().join("10.0.1.45").exists());
        assert_eq!(fs::read_to_string(dir.path().join("last_reserved_ip.0")).unwrap(), "10.0.1.45");
    }
}
