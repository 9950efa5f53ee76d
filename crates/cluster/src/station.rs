//! Somebody in the underlay who is no node and whom nobody told Berth of: a router, a printer, a server with an address of
//! its own.

use crate::error::Result;
use crate::process::{Process, mortal, run, until};
use crate::underlay::Underlay;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A network namespace with one interface in the underlay; gone when dropped.
#[derive(Debug)]
pub struct Station {
    /// Sleeps in the namespace, which goes with it.
    sleeper: Process,
}

impl Station {
    /// Somebody with these addresses and their prefix lengths on `eth0`. The name has at most eight letters, and no two in
    /// one underlay have the same.
    ///
    /// # Errors
    /// If the interface or an address cannot be made.
    pub fn new(underlay: &Underlay, name: &str, addresses: &[&str]) -> Result<Self> {
        let mut command = mortal("unshare");
        command.args(["--net", "--", "sleep", "1000000000"]);
        let mut sleeper = Process::start(name, command, Path::new("/dev/null"))?;
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        until("a network namespace", || {
            sleeper.check()?;
            let (own, theirs) = (namespace("self"), namespace(&sleeper.pid().to_string()));
            Ok(if theirs.is_some() && theirs != own { Ok(()) } else { Err("it is still ours".to_owned()) })
        })?;
        underlay.cable(name, "eth0", sleeper.pid())?;
        let station = Self { sleeper };
        for address in addresses {
            station.ip(&format!("addr add {address} dev eth0"))?;
        }
        station.ip("link set lo up")?;
        station.ip("link set eth0 up")?;
        Ok(station)
    }

    /// Makes it a router.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn forward(&self) -> Result<()> {
        run(self.command("sh").args(["-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])).map(drop)
    }

    /// Runs `ip` in its namespace, with arguments between blanks.
    ///
    /// # Errors
    /// With what it said.
    pub fn ip(&self, arguments: &str) -> Result<String> {
        run(self.command("ip").args(arguments.split(' ')))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.sleeper.pid())).arg("--").arg(program);
        command
    }
}
