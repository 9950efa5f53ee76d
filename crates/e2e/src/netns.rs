//! Network namespaces that go away with the test.

use crate::{run, succeed, until};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// A named network namespace, removed when dropped. Duplicate address detection is off: a test that has just given an
/// IPv6 address uses it at once.
#[derive(Debug)]
pub struct Netns {
    name: String,
}

impl Default for Netns {
    fn default() -> Self {
        Self::new()
    }
}

impl Netns {
    /// An empty one, with loopback up.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("berth-e2e-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::SeqCst));
        succeed(Command::new("ip").args(["netns", "add", &name]));
        let netns = Self { name };
        netns.ip("link set lo up");
        for scope in ["all", "default"] {
            let off = format!("echo 0 > /proc/sys/net/ipv6/conf/{scope}/accept_dad");
            succeed(netns.command("sh").args(["-c", &off]));
        }
        netns
    }

    /// Where it can be entered.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.name)
    }

    /// A command that will run inside. Only the network is another: mounts, and so cgroups, are the machine's.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path().display())).arg(program);
        command
    }

    /// `ip` inside, with arguments between blanks; what it printed.
    #[track_caller]
    pub fn ip(&self, arguments: &str) -> String {
        succeed(self.command("ip").args(arguments.split(' ')))
    }

    /// The global addresses of an interface, with their prefix lengths; none if there is no such interface.
    ///
    /// # Panics
    /// If `ip` prints something else than it does.
    #[must_use]
    pub fn addresses(&self, interface: &str) -> Vec<String> {
        let output = run(self.command("ip").args(["-o", "addr", "show", "dev", interface, "scope", "global"]));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.split_whitespace().nth(3).unwrap().to_owned()).collect()
    }

    /// Checks that an address answers. The first packets may be lost while neighbours get to know each other.
    #[track_caller]
    pub fn ping(&self, address: &str) {
        until(&format!("{address} to answer {}", self.name), || self.try_ping(address).status.success().then_some(()));
    }

    /// Sends one packet and waits a second for the answer.
    #[must_use]
    pub fn try_ping(&self, address: &str) -> Output {
        let family = if address.contains(':') { "-6" } else { "-4" };
        run(self.command("busybox").args(["ping", family, "-c", "1", "-W", "1", address]))
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).status();
    }
}
