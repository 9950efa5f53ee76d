//! Reading host-local's leases to take them over elsewhere.

use crate::directory::own_path;
use crate::host::{Ages, Host};
use crate::index::{self, Slot};
use crate::lease::{self, Held};
use crate::sys;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A lease of host-local.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The address.
    pub address: IpAddr,
    /// The container that holds it.
    pub container: String,
    /// Its interface; old versions of host-local did not write it.
    pub ifname: Option<String>,
    /// When the lease was written.
    pub modified: SystemTime,
    /// Whether it is certainly of an earlier boot, so that its container is gone.
    pub stale: bool,
}

/// The content of a network directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    /// The leases, by address.
    pub leases: Vec<Lease>,
    /// How many files were passed over: empty leases, which are nobody's, and names that are no address.
    pub skipped: usize,
}

/// Reads the leases in a network directory, `<data directory>/<network>`. Takes no lock and changes nothing; what the
/// plugin does at the same time may or may not be seen.
///
/// # Errors
/// If the directory or one of the leases cannot be read: half a picture would free the other half.
pub fn read_leases(dir: &Path) -> io::Result<Leases> {
    read_on(Host::this(), dir)
}

pub(crate) fn read_on(host: Host, dir: &Path) -> io::Result<Leases> {
    // The index comes first: what it says about an earlier boot stays true, but the plugin may forget it any time.
    let ages = Ages::new(host, &indexed(dir).unwrap_or_default());
    let scan = lease::scan(&sys::open_dir(dir)?)?;
    if let Some((address, errno)) = scan.unreadable.first() {
        let path = dir.join(address.to_string());
        return Err(io::Error::new(errno.kind(), format!("read {}: {errno}", path.display())));
    }
    let mut found = Leases { skipped: scan.strangers, ..Leases::default() };
    for (address, file) in scan.files {
        let Some(owner) = file.owner else {
            found.skipped += 1;
            continue;
        };
        let (container, ifname) = owner.parts();
        found.leases.push(Lease {
            address,
            container: container.to_owned(),
            ifname: ifname.map(str::to_owned),
            modified: SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(file.modified).unwrap_or(0)),
            stale: ages.is_dead(&owner, Held { address, changed: file.changed }),
        });
    }
    found.leases.sort_by_key(|lease| lease.address);
    Ok(found)
}

/// What the plugin has noted about the leases, if it ever worked here.
fn indexed(dir: &Path) -> Option<Vec<Slot>> {
    let own = sys::open_dir(&own_path(dir.parent()?, dir.file_name()?)).ok()?;
    index::peek(&own).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_read_and_garbage_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in [
            ("10.0.0.3", "c1\r\neth0"),
            ("10.0.0.2", "old"),
            ("2001:db8::2", "c1\r\neth0"),
            ("10.0.0.4", ""),
            ("notes.txt", "x"),
            ("lock", ""),
            ("last_reserved_ip.0", "10.0.0.3"),
        ] {
            std::fs::write(dir.path().join(name), content).unwrap();
        }
        std::fs::create_dir(dir.path().join("10.0.0.5")).unwrap();
        let found = read_leases(dir.path()).unwrap();
        assert_eq!(found.skipped, 3);
        let text = |lease: &Lease| format!("{} {} {:?}", lease.address, lease.container, lease.ifname);
        assert_eq!(
            found.leases.iter().map(text).collect::<Vec<_>>(),
            ["10.0.0.2 old None", "10.0.0.3 c1 Some(\"eth0\")", "2001:db8::2 c1 Some(\"eth0\")"]
        );
        assert!(found.leases.iter().all(|lease| lease.modified.elapsed().is_ok_and(|age| age.as_secs() < 60)));
        assert!(read_leases(&dir.path().join("none")).is_err());
    }
}
