//! Debian packages that tests need, installed when they are missing and we may.

use crate::sh;
use anyhow::Result;
use std::path::Path;

/// A package, and a file that shows it is there.
pub(crate) struct Package(&'static str, &'static str);

/// The reference plugins: host-local, bridge, ptp, macvlan.
pub(crate) const CNI_PLUGINS: Package = Package("containernetworking-plugins", "/usr/lib/cni/host-local");
/// What the tests beside the reference, in real networks and with a real container runtime need.
pub(crate) const PACKAGES: [Package; 7] = [
    CNI_PLUGINS,
    Package("podman", "/usr/bin/podman"),
    Package("runc", "/usr/sbin/runc"),
    Package("busybox-static", "/bin/busybox"),
    Package("iptables", "/usr/sbin/iptables"),
    Package("iproute2", "/sbin/ip"),
    Package("iputils-ping", "/bin/ping"),
];
/// What nodes of a cluster need besides what is built: a kubelet finds a container runtime, plugins and a way to mount.
pub(crate) const NODE_PACKAGES: [Package; 7] = [
    CNI_PLUGINS,
    // It would like to be started by systemd; nobody here depends on that.
    Package("containerd", "/usr/bin/containerd"),
    Package("runc", "/usr/sbin/runc"),
    Package("busybox-static", "/bin/busybox"),
    Package("iproute2", "/sbin/ip"),
    Package("mount", "/bin/mount"),
    Package("util-linux", "/usr/bin/setpriv"),
];
/// Counts system calls; the benchmark does without if it must.
pub(crate) const STRACE: Package = Package("strace", "/usr/bin/strace");

/// Installs what is missing. Returns why it could not, if it could not: the caller decides what that means.
pub(crate) fn ensure(packages: &[Package]) -> Result<Option<String>> {
    let missing: Vec<_> = packages.iter().filter(|package| !Path::new(package.1).exists()).map(|p| p.0).collect();
    if missing.is_empty() {
        return Ok(None);
    }
    let names = missing.join(" ");
    if !sh::installed("apt-get") {
        return Ok(Some(format!("missing {names}, and there is no apt-get to install them with")));
    }
    if !rustix::process::geteuid().is_root() {
        return Ok(Some(format!("missing {names}; run as root, or: sudo apt-get install {names}")));
    }
    // Lists may be stale or absent in a fresh container; without network, what is cached may still do.
    let update = sh::run(&mut apt(&["update", "-q"]));
    let install = sh::run(apt(&["install", "-q", "-y", "--no-install-recommends"]).args(&missing));
    match update.and(install) {
        Ok(()) => Ok(None),
        Err(err) => Ok(Some(format!("cannot install {names}: {err:#}"))),
    }
}

fn apt(args: &[&str]) -> std::process::Command {
    let mut apt = sh::command("apt-get", args);
    apt.env("DEBIAN_FRONTEND", "noninteractive");
    apt
}
