//! A node with one data directory, and what the tests do on it.

mod concurrency;
mod faults;
mod mixed;
mod plugin;
mod reboot;
mod right;

use crate::host::Host;
use crate::index::Index;
use crate::lease;
use crate::owner::Owner;
use crate::{Call, Command, run_on, sys};
use berth_wire::cni::{AddResult, Error};
use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(super) const BOOT: u64 = 1;

/// A machine in a given boot that cannot tell when the boot began.
pub(super) fn host(boot: u64) -> Host {
    Host { boot: Some(boot), booted: || None }
}

pub(super) struct Node {
    root: TempDir,
    pub(super) host: Host,
    /// The keys of `ipam` besides `dataDir`.
    pub(super) ipam: String,
    /// Further keys of the configuration.
    pub(super) extra: String,
    pub(super) version: &'static str,
    pub(super) network: &'static str,
}

impl Node {
    pub(super) fn new(ipam: &str) -> Self {
        Self::in_root(tempfile::tempdir().unwrap(), ipam)
    }

    /// A node for tests that need thousands of them: in memory, where there is such a place.
    pub(super) fn scratch(ipam: &str) -> Self {
        let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        Self::in_root(root, ipam)
    }

    fn in_root(root: TempDir, ipam: &str) -> Self {
        let (ipam, extra) = (ipam.to_owned(), String::new());
        Self { root, host: host(BOOT), ipam, extra, version: "1.1.0", network: "mynet" }
    }

    /// A node whose only range set is this subnet.
    pub(super) fn subnet(subnet: &str) -> Self {
        Self::new(&format!(r#""subnet":"{subnet}""#))
    }

    pub(super) fn config(&self) -> String {
        let (version, network, data, ipam, extra) =
            (self.version, self.network, self.root.path().display(), &self.ipam, &self.extra);
        format!(
            r#"{{"cniVersion":"{version}","name":"{network}","type":"ptp",
                "ipam":{{"type":"host-local","dataDir":"{data}",{ipam}}}{extra}}}"#
        )
    }

    pub(super) fn call(&self, command: Command, container: &str, stamp: u64) -> Result<Option<AddResult>, Error> {
        self.call_with(command, container, "eth0", "", stamp)
    }

    pub(super) fn call_with(
        &self,
        command: Command,
        container: &str,
        ifname: &str,
        args: &str,
        stamp: u64,
    ) -> Result<Option<AddResult>, Error> {
        let config = self.config();
        run_on(self.host, command, &Call { config: config.as_bytes(), container, ifname, args, stamp })
    }

    pub(super) fn add_result(&self, container: &str) -> Result<AddResult, Error> {
        self.call(Command::Add, container, u64::MAX).map(Option::unwrap)
    }

    /// The addresses of an ADD, or its message.
    pub(super) fn add(&self, container: &str) -> Result<Vec<String>, String> {
        texts(self.add_result(container))
    }

    pub(super) fn add_args(&self, container: &str, args: &str) -> Result<Vec<String>, String> {
        texts(self.call_with(Command::Add, container, "eth0", args, u64::MAX).map(Option::unwrap))
    }

    pub(super) fn del(&self, container: &str) {
        assert_eq!(self.call(Command::Del, container, 0), Ok(None));
    }

    pub(super) fn dir(&self) -> PathBuf {
        self.root.path().join(self.network)
    }

    pub(super) fn own(&self) -> PathBuf {
        self.root.path().join(".berth").join(self.network)
    }

    /// Writes a file of host-local by hand.
    pub(super) fn put(&self, name: &str, content: &str) {
        fs::create_dir_all(self.dir()).unwrap();
        fs::write(self.dir().join(name), content).unwrap();
    }

    pub(super) fn content(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.dir().join(name)).ok()
    }

    /// The leases on disk, by address.
    pub(super) fn leases(&self) -> BTreeMap<String, String> {
        leases(&self.dir())
    }

    /// Asserts that the next call will believe the index, and that the index is right.
    pub(super) fn assert_sealed(&self) {
        let (outcome, calls) = sys::fault::with(sys::fault::Plan::Never, || self.call(Command::Check, "nobody", 0));
        assert!(outcome.is_err());
        assert!(calls <= 10, "{calls} calls: the directory was read");
        self.assert_indexed();
    }

    /// Asserts that the index holds exactly the leases on disk.
    pub(super) fn assert_indexed(&self) {
        let index = Index::open(&sys::open_dir(&self.own()).unwrap(), self.host.boot.unwrap(), 1).unwrap();
        let mut indexed: Vec<_> = index.load().unwrap().iter().map(|slot| (slot.held.address, slot.owner)).collect();
        indexed.sort_unstable();
        let lease = |(address, content): (String, String)| {
            (address.parse::<IpAddr>().unwrap(), Owner::parse(content.as_bytes()).unwrap().hash())
        };
        let mut leases: Vec<_> = self.leases().into_iter().map(lease).collect();
        leases.sort_unstable();
        assert_eq!(indexed, leases);
    }
}

pub(super) fn leases(dir: &Path) -> BTreeMap<String, String> {
    let Ok(dir) = sys::open_dir(dir) else { return BTreeMap::new() };
    let owner = |file: lease::File| file.owner.map_or(String::new(), |owner| owner.content().to_owned());
    let scan = lease::scan(&dir).unwrap();
    scan.files.into_iter().map(|(address, file)| (address.to_string(), owner(file))).collect()
}

pub(super) fn texts(result: Result<AddResult, Error>) -> Result<Vec<String>, String> {
    let text = |ip: &berth_wire::cni::Ip| format!("{}/{}", ip.address, ip.prefix_len);
    result.map(|result| result.ips.iter().map(text).collect()).map_err(|error| error.msg)
}

/// `Ok` with these addresses, to compare with.
pub(super) fn got<const N: usize>(addresses: [&str; N]) -> Result<Vec<String>, String> {
    Ok(addresses.map(str::to_owned).to_vec())
}
