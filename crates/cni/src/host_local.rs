//! Standing in for host-local: no daemon, host-local's configuration, host-local's directory.

use berth_host_local::{Call, Command};
use berth_wire::cni::{AddResult, Error};
use berth_wire::config::NetConf;
use berth_wire::env::{Invocation, Verb};
use std::path::Path;

const NAME: &str = "host-local";

/// Whether the plugin is to act as host-local: it is installed under that name, or the configuration is for it.
pub(crate) fn is_meant(program: &Path, conf: &NetConf<'_>) -> bool {
    program.file_name().is_some_and(|name| name == NAME) || conf.ipam_type().is_some_and(|kind| kind == NAME)
}

/// Carries out one verb; only ADD has a result.
pub(crate) fn run(stamp: u64, invocation: &Invocation, config: &[u8]) -> Result<Option<AddResult>, Error> {
    let command = match invocation.verb {
        Verb::Add => Command::Add,
        Verb::Del => Command::Del,
        Verb::Check => Command::Check,
        Verb::Gc => Command::Gc,
        Verb::Status => Command::Status,
        Verb::Version => return Ok(None),
    };
    let Invocation { container, ifname, args, .. } = invocation;
    berth_host_local::run(command, &Call { config, container, ifname, args, stamp })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_or_the_type_decides() {
        let host_local = br#"{"name":"n","ipam":{"type":"host-local"}}"#.as_slice();
        let berth = br#"{"name":"n","ipam":{"type":"berth-cni"}}"#.as_slice();
        let bare = br#"{"name":"n"}"#.as_slice();
        for (program, config, expected) in [
            ("/opt/cni/bin/host-local", berth, true),
            ("host-local", bare, true),
            ("/opt/cni/bin/berth-cni", host_local, true),
            ("/opt/cni/bin/berth-cni", berth, false),
            ("/opt/cni/bin/berth-cni", bare, false),
            ("/opt/host-local/berth-cni", bare, false),
            ("", bare, false),
        ] {
            assert_eq!(is_meant(Path::new(program), &NetConf::parse(config).unwrap()), expected, "{program}");
        }
    }
}
