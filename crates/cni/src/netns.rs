//! Network namespaces: is the one given really the container's?

use berth_wire::cni::{Error, code};
use berth_wire::env::Invocation;
use std::path::Path;

/// Refuses to attach the namespace that the plugin itself runs in: an address given to it would be the host's.
///
/// Other plugins look after they have allocated and leave the address behind; here it comes first. A path that cannot
/// be looked at is not the plugin's own namespace, and the plugin above is in a better place to complain about it.
///
/// # Errors
/// [`code::INVALID_NETNS`], unless the runtime overrides it.
pub(crate) fn check(invocation: &Invocation) -> Result<(), Error> {
    if invocation.netns_override || !is_own(&invocation.netns) {
        return Ok(());
    }
    let msg = "plugin's netns and netns from CNI_NETNS should not be the same";
    Err(Error::new(code::INVALID_NETNS, msg).hint("set CNI_NETNS_OVERRIDE=1 if this is meant"))
}

fn is_own(path: &Path) -> bool {
    let Ok(given) = rustix::fs::stat(path) else { return false };
    // The namespace of the process would do, but a runtime may have set that of the calling thread alone.
    let Ok(own) = rustix::fs::stat("/proc/thread-self/ns/net") else { return false };
    (given.st_dev, given.st_ino) == (own.st_dev, own.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_namespace_is_the_own_namespace() {
        assert!(is_own(Path::new("/proc/self/ns/net")));
        assert!(!is_own(Path::new("/proc/self/ns/mnt")));
        assert!(!is_own(Path::new("/does/not/exist")));
        assert!(!is_own(Path::new("")));
    }
}
