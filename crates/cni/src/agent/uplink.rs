//! Which NICs of the node an interface is put on.

use berth_wire::cni::{Error, code};
use berth_wire::config::Uplink;
use std::path::Path;

/// Where the kernel shows its devices.
pub(super) const SYSFS: &str = "/sys";

/// The names of the NICs; none if the configuration does not say.
///
/// # Errors
/// [`code::INVALID_CONFIG`] if the device is no virtual function, or none of this node.
pub(super) fn nics(uplink: Uplink, sysfs: &Path) -> Result<Vec<String>, Error> {
    match uplink {
        Uplink::Nic(name) => Ok(vec![name]),
        Uplink::Device(id) => parents(&id, sysfs),
        Uplink::Unknown => Ok(Vec::new()),
    }
}

/// The NICs of the physical function that a virtual one is of.
fn parents(id: &str, sysfs: &Path) -> Result<Vec<String>, Error> {
    let dir = sysfs.join("bus/pci/devices").join(id).join("physfn/net");
    let names = std::fs::read_dir(&dir).and_then(|entries| {
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<std::io::Result<Vec<_>>>()
    });
    let mut names = names.map_err(|error| {
        let msg =
            format!("ipam.match_master_subnet: which NIC device {id} is of is not known: {}: {error}", dir.display());
        Error::new(code::INVALID_CONFIG, msg)
            .hint("deviceID is to be a virtual function of this node; or leave the key out")
    })?;
    names.sort();
    if names.is_empty() {
        let msg =
            format!("ipam.match_master_subnet: device {id} is of no NIC of this node: {} is empty", dir.display());
        return Err(
            Error::new(code::INVALID_CONFIG, msg).hint("see whether the driver of the physical function is loaded")
        );
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::create_dir_all;

    #[test]
    fn a_virtual_function_is_on_the_nic_of_its_physical_one() {
        let sysfs = tempfile::tempdir().unwrap();
        let device =
            |id: &str, rest: &str| create_dir_all(sysfs.path().join("bus/pci/devices").join(id).join(rest)).unwrap();
        device("0000:3b:00.2", "physfn/net/ens1f0");
        device("0000:3b:00.3", "physfn/net");
        device("0000:3b:00.0", "net/ens1f0");
        let of = |id: &str| nics(Uplink::Device(id.to_owned()), sysfs.path());
        assert_eq!(of("0000:3b:00.2"), Ok(vec!["ens1f0".to_owned()]));
        for (id, part) in [
            ("0000:3b:00.3", "is of no NIC of this node"),
            ("0000:3b:00.0", "which NIC device 0000:3b:00.0 is of is not known"),
            ("0000:ff:00.0", "which NIC device 0000:ff:00.0 is of is not known"),
        ] {
            let error = of(id).unwrap_err();
            assert!(error.msg.contains(part) && !error.details.is_empty(), "{error:?}");
        }
    }

    #[test]
    fn a_name_is_taken_as_it_is() {
        assert_eq!(nics(Uplink::Nic("bond0".to_owned()), Path::new("/")), Ok(vec!["bond0".to_owned()]));
        assert_eq!(nics(Uplink::Unknown, Path::new("/")), Ok(Vec::new()));
    }
}
