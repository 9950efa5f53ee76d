//! What the main plugin puts the interface on, as far as its configuration says.

use super::object::{Object, invalid};
use crate::cni::Error;

/// What an interface is put on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uplink {
    /// `master`: a NIC of the node, e.g. with macvlan, ipvlan and vlan.
    Nic(String),
    /// `deviceID`: a device on the PCI bus, e.g. a virtual function with sriov, which is of a NIC that the node has.
    Device(String),
    /// The configuration does not say.
    Unknown,
}

impl Uplink {
    pub(super) fn read(conf: &Object<'_>) -> Result<Self, Error> {
        let runtime: Object<'_> = conf.read("runtimeConfig", "runtimeConfig")?.unwrap_or_default();
        // Whoever calls the main plugin for a pod writes the device where that plugin looks for it.
        let places = [
            (conf, "deviceID", "deviceID"),
            (conf, "pciBusID", "pciBusID"),
            (&runtime, "deviceID", "runtimeConfig.deviceID"),
        ];
        for (object, key, path) in places {
            if let Some(id) = object.read::<String>(key, path)?.filter(|id| !id.is_empty()) {
                // It becomes part of a path.
                let fits = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.');
                if id.starts_with('.') || !id.chars().all(fits) {
                    return Err(invalid(path, &format_args!("{id:?} is no address on the PCI bus, e.g. 0000:3b:00.2")));
                }
                return Ok(Self::Device(id));
            }
        }
        let master = conf.read::<String>("master", "master")?.filter(|name| !name.is_empty());
        Ok(master.map_or(Self::Unknown, Self::Nic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Uplink, Error> {
        Uplink::read(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn a_device_says_more_than_a_name() {
        let vf = Uplink::Device("0000:3b:00.2".to_owned());
        assert_eq!(read(r#"{"type": "sriov", "deviceID": "0000:3b:00.2", "master": "x"}"#), Ok(vf.clone()));
        assert_eq!(read(r#"{"deviceID": "", "runtimeConfig": {"deviceID": "0000:3b:00.2"}}"#), Ok(vf.clone()));
        assert_eq!(read(r#"{"pciBusID": "0000:3b:00.2"}"#), Ok(vf));
        assert_eq!(read(r#"{"type": "macvlan", "master": "ens1f0"}"#), Ok(Uplink::Nic("ens1f0".to_owned())));
        assert_eq!(read(r#"{"type": "bridge", "master": null}"#), Ok(Uplink::Unknown));
    }

    #[test]
    fn mistakes_name_the_field() {
        for (text, part) in [
            (r#"{"deviceID": "../../secret"}"#, "deviceID: \"../../secret\" is no address on the PCI bus"),
            (r#"{"deviceID": ".."}"#, "deviceID"),
            (r#"{"runtimeConfig": {"deviceID": 7}}"#, "runtimeConfig.deviceID"),
            (r#"{"master": 1}"#, "master"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.msg.contains(part), "{text} gave {:?}", error.msg);
        }
    }
}
