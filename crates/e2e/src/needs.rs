//! What a test needs of the machine. In CI nothing may be missing; elsewhere a test says loudly that it is skipped.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

/// Something that may be missing.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// The rights to make namespaces.
    Root,
    /// A program, and the Debian package it is in.
    Program(&'static str, &'static str),
    /// A file, and the Debian package it is in.
    File(&'static str, &'static str),
}

/// `ip`.
pub const IP: Need = Need::Program("ip", "iproute2");
/// A static `busybox`, whose `ping` needs nothing else, in a container neither.
pub const BUSYBOX: Need = Need::Program("busybox", "busybox-static");
/// `podman`.
pub const PODMAN: Need = Need::Program("podman", "podman");
/// `runc`.
pub const RUNC: Need = Need::Program("runc", "runc");
/// `unshare`, `nsenter` and `setpriv`.
pub const UTIL_LINUX: Need = Need::Program("unshare", "util-linux");
/// Where Debian puts the CNI plugins.
pub const CNI_DIR: &str = "/usr/lib/cni";
/// The CNI plugins.
pub const CNI_PLUGINS: Need = Need::File("/usr/lib/cni/bridge", "containernetworking-plugins");

/// Whether all needs are met.
///
/// # Panics
/// If one is not and `CI` is `true`.
#[must_use]
pub fn met(needs: &[Need]) -> bool {
    let missing: Vec<String> = needs.iter().filter_map(|need| need.missing()).collect();
    if missing.is_empty() {
        return true;
    }
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let missing = missing.join("; ");
    assert!(env::var("CI").as_deref() != Ok("true"), "{test} cannot run: {missing}");
    eprintln!("\n*** SKIPPED {test}: {missing} ***\n");
    false
}

impl Need {
    fn missing(self) -> Option<String> {
        match self {
            Self::Root if rustix::process::geteuid().is_root() => None,
            Self::Root => Some("it must run as root".to_owned()),
            Self::Program(name, _) if runs(name) => None,
            Self::File(path, _) if Path::new(path).exists() => None,
            Self::Program(what, package) | Self::File(what, package) => {
                Some(format!("{what} is missing (apt-get install {package})"))
            }
        }
    }
}

fn runs(program: &str) -> bool {
    let arg = if program == "ip" { "-V" } else { "--help" };
    let quiet =
        Command::new(program).arg(arg).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok()
}
