//! Who takes part.

use super::call::{Target, Verb, addresses, container_id};
use super::leases;
use crate::{dist, test};
use anyhow::{Context, Result, ensure};
use berth_conformance::daemon::Daemon;
use serde_json::json;
use std::collections::HashSet;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const HOST_LOCAL: &str = "/usr/lib/cni/host-local";
const NETWORK: &str = "bench";
const SUBNET: &str = "10.0.0.0/8";

/// A plugin with a state of its own.
pub(super) struct Contestant {
    pub(super) name: &'static str,
    program: PathBuf,
    stdin: String,
    state: State,
    /// Containers already used.
    next: AtomicU64,
    /// Addresses of containers that stay.
    held: HashSet<IpAddr>,
}

enum State {
    /// None: it does nothing.
    Floor,
    /// host-local's directory.
    Directory(PathBuf),
    /// A daemon, stopped at the end.
    Daemon { _running: Daemon },
}

/// The index of the reference, to which others are compared.
pub(super) const REFERENCE: usize = 0;
/// The index of the program that does nothing.
pub(super) const FLOOR: usize = 1;

/// Builds and prepares everyone; the reference and the floor come first. All states lie in one file system.
pub(super) fn all(dir: &Path) -> Result<Vec<Contestant>> {
    let plugin = dist::plugin()?;
    Ok(vec![
        Contestant::in_directory("host-local", PathBuf::from(HOST_LOCAL), dir),
        Contestant::floor(&plugin, dir)?,
        Contestant::in_directory("daemonless", test::installed_as_host_local(&plugin)?, dir),
        Contestant::through_daemon(plugin, &dist::daemon()?, dir)?,
    ])
}

impl Contestant {
    fn new(name: &'static str, program: PathBuf, ipam: &serde_json::Value, state: State) -> Self {
        let config = json!({"cniVersion": "1.0.0", "name": NETWORK, "type": "bridge", "ipam": ipam});
        Self { name, program, stdin: config.to_string(), state, next: AtomicU64::new(0), held: HashSet::new() }
    }

    fn in_directory(name: &'static str, program: PathBuf, dir: &Path) -> Self {
        let data = dir.join(name);
        let ipam = json!({"type": "host-local", "dataDir": data, "ranges": [[{"subnet": SUBNET}]]});
        Self::new(name, program, &ipam, State::Directory(data))
    }

    /// Its binary lies beside the plugin's: executing from another file system costs something else.
    fn floor(plugin: &Path, dir: &Path) -> Result<Self> {
        let (source, program) = (dir.join("floor.c"), plugin.with_file_name("floor"));
        fs::write(&source, "int main(void) { return 0; }\n")?;
        dist::compile_static_c(&source, &program)?;
        // The same words on stdin as the others, so that feeding it costs the same.
        let ipam = json!({"type": "host-local", "dataDir": dir, "ranges": [[{"subnet": SUBNET}]]});
        Ok(Self::new("floor", program, &ipam, State::Floor))
    }

    fn through_daemon(plugin: PathBuf, berth: &Path, dir: &Path) -> Result<Self> {
        let pool = format!(
            "apiVersion: berth.io/v1alpha1\nkind: IPPool\nmetadata: {{name: bench}}\nspec: {{ranges: [\"{SUBNET}\"]}}\n"
        );
        let running = Daemon::start(berth, &dir.join("daemon"), &pool)?;
        let ipam = json!({"type": "berth-cni", "socket": running.socket(), "pools": ["bench"]});
        Ok(Self::new("daemon", plugin, &ipam, State::Daemon { _running: running }))
    }

    /// What to call.
    pub(super) fn target(&self) -> Target<'_> {
        Target { program: &self.program, stdin: self.stdin.as_bytes() }
    }

    /// Whether ADD answers with addresses.
    pub(super) fn allocates(&self) -> bool {
        !matches!(self.state, State::Floor)
    }

    /// The addresses that no ADD may give now.
    pub(super) fn held(&self) -> HashSet<IpAddr> {
        self.held.clone()
    }

    /// A container nobody has heard of.
    pub(super) fn container(&self) -> String {
        container_id(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Brings the number of leases held by others to `count`, which never falls, and makes one call to warm up.
    pub(super) fn prepare(&mut self, count: u32) -> Result<()> {
        match &self.state {
            State::Floor => {}
            State::Directory(data) => {
                // From nothing: the state a contestant built around its leases must not outlive them.
                if data.exists() {
                    fs::remove_dir_all(data).with_context(|| format!("cannot empty {}", data.display()))?;
                }
                self.held = leases::fill(&data.join(NETWORK), count)?.into_iter().collect();
            }
            State::Daemon { .. } => {
                while self.held.len() < count as usize {
                    let (_, result) = self.target().call(Verb::Add, &self.container())?;
                    self.held.extend(addresses(&result)?);
                }
            }
        }
        let container = self.container();
        self.target().call(Verb::Add, &container)?;
        self.target().call(Verb::Del, &container)?;
        Ok(())
    }

    /// Fails if more, or fewer, than `count` leases are left. A daemon's are not counted from outside.
    pub(super) fn check_leaks(&self, count: u32) -> Result<()> {
        if let State::Directory(data) = &self.state {
            let left = leases::count(&data.join(NETWORK))?;
            ensure!(left == count as usize, "{}: {left} leases are left where {count} were held before", self.name);
        }
        Ok(())
    }
}
