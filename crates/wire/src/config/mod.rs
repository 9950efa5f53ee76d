//! The network configuration on stdin, as an IPAM plugin sees it.
//!
//! The runtime hands over the whole configuration of the plugin above, of which `ipam` is one key. [`NetConf::parse`]
//! reads the name and the version; the rest is read by the verb that needs it, so that DEL and GC work with a
//! configuration that ADD would refuse.

mod ipam;
mod object;
mod requested;
mod spiderpool;
mod uplink;

pub use ipam::{DEFAULT_SOCKET, Ipam};
pub use object::Object;
pub use requested::{Requested, parse_address};
pub use uplink::Uplink;

use crate::cni::{AddResult, Error, code};
use crate::env::{check_container, check_ifname, is_identifier};
use crate::protocol::Live;
use crate::result;
use serde_json::value::RawValue;
use std::path::PathBuf;

/// The longest configuration read. Real ones are a few hundred bytes; prevResult may add a few thousand.
pub const MAX_LEN: usize = 1 << 20;

/// A network configuration.
#[derive(Clone, Debug)]
pub struct NetConf<'a> {
    /// `name`: the network that attachments belong to.
    pub name: String,
    /// `cniVersion` as written; 0.1.0 if it is not.
    pub cni_version: String,
    object: Object<'a>,
}

impl<'a> NetConf<'a> {
    /// Reads the bytes of stdin.
    ///
    /// # Errors
    /// [`code::DECODING_FAILURE`] if they are not a JSON object with a text for a name, [`code::INVALID_CONFIG`] if
    /// the name is missing or has other characters than a network name may have.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let undecodable = |why: &dyn std::fmt::Display| {
            Error::new(code::DECODING_FAILURE, format!("error unmarshall network config: {why}"))
        };
        let text = std::str::from_utf8(bytes).map_err(|error| undecodable(&error))?;
        let object: Object<'a> = serde_json::from_str(text).map_err(|error| undecodable(&error))?;
        let field = |key: &str| {
            let text = object.get(key).map(|raw| serde_json::from_str::<String>(raw.get())).transpose();
            text.map(Option::unwrap_or_default).map_err(|error| undecodable(&format_args!("{key}: {error}")))
        };
        let name = field("name")?;
        if name.is_empty() {
            return Err(Error::new(code::INVALID_CONFIG, "missing network name"));
        }
        if !is_identifier(&name) {
            let error = Error::new(code::INVALID_CONFIG, "invalid characters found in network name");
            return Err(error.hint(name));
        }
        let version = field("cniVersion")?;
        let cni_version = if version.is_empty() { "0.1.0".to_owned() } else { version };
        Ok(Self { name, cni_version, object })
    }

    /// `ipam.type`, if there is one. Mistakes are left for [`NetConf::ipam`] to report.
    #[must_use]
    pub fn ipam_type(&self) -> Option<String> {
        self.object.read::<Object<'_>>("ipam", "ipam").ok()??.read("type", "ipam.type").ok()?
    }

    /// `type`, if it is there: the main plugin that makes the interface.
    #[must_use]
    pub fn main_type(&self) -> Option<String> {
        self.object.read("type", "type").ok()?
    }

    /// Where the daemon listens: all that DEL, CHECK and GC need of `ipam`.
    ///
    /// # Errors
    /// [`code::INVALID_CONFIG`] if `ipam` is not an object or the path is not an absolute one.
    pub fn socket(&self) -> Result<PathBuf, Error> {
        let ipam: Object<'_> = self.object.read("ipam", "ipam")?.unwrap_or_default();
        ipam::socket(&ipam)
    }

    /// All of `ipam`, in Berth's own keys or, with the type of its plugin, in Spiderpool's.
    ///
    /// # Errors
    /// [`code::INVALID_CONFIG`] if it is missing or wrong, [`code::UNSUPPORTED_FIELD`] for a key Berth does not know.
    pub fn ipam(&self) -> Result<Ipam, Error> {
        let missing = || Error::new(code::INVALID_CONFIG, "IPAM config missing 'ipam' key");
        let ipam: Object<'_> = self.object.read("ipam", "ipam")?.ok_or_else(missing)?;
        match ipam.read::<String>("type", "ipam.type")?.as_deref() {
            Some(spiderpool::TYPE) => spiderpool::read(&ipam),
            _ => Ipam::read(&ipam),
        }
    }

    /// The addresses and ranges asked for in `args.cni` and `runtimeConfig`.
    ///
    /// # Errors
    /// [`code::INVALID_CONFIG`] naming the field.
    pub fn requested(&self) -> Result<Requested, Error> {
        Requested::read(&self.object)
    }

    /// What the interface is put on.
    ///
    /// # Errors
    /// [`code::INVALID_CONFIG`] naming the field.
    pub fn uplink(&self) -> Result<Uplink, Error> {
        Uplink::read(&self.object)
    }

    /// `prevResult`: what an earlier ADD answered.
    ///
    /// # Errors
    /// [`code::INVALID_CONFIG`] naming the field.
    pub fn prev_result(&self) -> Result<Option<AddResult>, Error> {
        self.object.get("prevResult").map(|raw| result::parse(raw.get())).transpose()
    }

    /// The attachments that GC must leave alone. `None` if the runtime did not say, which must free nothing.
    ///
    /// The specification's tag 1.1.0 and its text spell the key differently and libcni writes both, so both are read.
    /// If they differ, an attachment in either is valid: freeing too little is mended by the next GC.
    ///
    /// # Errors
    /// [`code::INVALID_CONFIG`] if any entry is not a whole attachment, since a misread list frees live addresses.
    pub fn valid_attachments(&self) -> Result<Option<Vec<Live>>, Error> {
        let mut valid = None;
        for key in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
            if self.object.get(key).is_none() {
                continue;
            }
            let all = valid.get_or_insert_with(Vec::new);
            for (index, entry) in self.object.list::<Object<'_>>(key, key)?.into_iter().enumerate() {
                let part = |name: &str| entry.read::<String>(name, &format!("{key}[{index}].{name}"));
                let live = Live {
                    container: part("containerID")?.unwrap_or_default(),
                    ifname: part("ifname")?.unwrap_or_default(),
                };
                check_container(&live.container)
                    .and_then(|()| check_ifname(&live.ifname))
                    .map_err(|error| object::invalid(&format!("{key}[{index}]"), &error))?;
                if !all.contains(&live) {
                    all.push(live);
                }
            }
        }
        Ok(valid)
    }

    /// The raw value of a top-level key, for dialects with keys of their own.
    #[must_use]
    pub fn raw(&self, key: &str) -> Option<&'a RawValue> {
        self.object.get(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<NetConf<'_>, Error> {
        NetConf::parse(text.as_bytes())
    }

    #[test]
    fn the_least_configuration() {
        let conf = parse(r#"{"name": "a.b-c_1"}"#).unwrap();
        assert_eq!((conf.name.as_str(), conf.cni_version.as_str()), ("a.b-c_1", "0.1.0"));
        assert_eq!(conf.socket(), Ok(PathBuf::from(DEFAULT_SOCKET)));
        assert_eq!(conf.ipam().unwrap_err().msg, "IPAM config missing 'ipam' key");
        assert_eq!((conf.prev_result(), conf.valid_attachments(), conf.ipam_type()), (Ok(None), Ok(None), None));
        assert_eq!(conf.requested(), Ok(Requested::default()));
    }

    #[test]
    fn what_is_no_configuration_is_refused() {
        for (text, code, msg) in [
            ("", 6, "error unmarshall network config"),
            ("{", 6, "error unmarshall network config"),
            ("[]", 6, "error unmarshall network config"),
            ("{\"name\":\"a\"} x", 6, "error unmarshall network config"),
            (r#"{"name": 5}"#, 6, "error unmarshall network config: name"),
            (r#"{"name": "a", "cniVersion": 5}"#, 6, "error unmarshall network config: cniVersion"),
            ("{}", 7, "missing network name"),
            (r#"{"name": null}"#, 7, "missing network name"),
            (r#"{"name": "-a"}"#, 7, "invalid characters found in network name"),
            (r#"{"name": "a/../b"}"#, 7, "invalid characters found in network name"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.code, code, "{text}");
            assert!(error.msg.starts_with(msg), "{text} gave {:?}", error.msg);
        }
        assert_eq!(NetConf::parse(b"{\"name\":\"\xff\"}").unwrap_err().code, 6);
    }

    #[test]
    fn gc_tells_nothing_from_nobody() {
        let of = |keys: &str| parse(&format!(r#"{{"name":"n"{keys}}}"#)).unwrap().valid_attachments();
        let live = |container: &str, ifname: &str| Live { container: container.into(), ifname: ifname.into() };
        assert_eq!(of(""), Ok(None));
        assert_eq!(of(r#","cni.dev/valid-attachments":null,"cni.dev/attachments":null"#), Ok(None));
        assert_eq!(of(r#","cni.dev/attachments":[]"#), Ok(Some(vec![])));
        let a = r#"[{"containerID":"a","ifname":"eth0"}]"#;
        let b = r#"[{"containerID":"a","ifname":"eth0"},{"containerID":"b","ifname":"eth0"}]"#;
        for key in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
            assert_eq!(of(&format!(",{key:?}:{a}")), Ok(Some(vec![live("a", "eth0")])), "{key}");
        }
        assert_eq!(
            of(&format!(r#","cni.dev/attachments":{b},"cni.dev/valid-attachments":{a}"#)),
            Ok(Some(vec![live("a", "eth0"), live("b", "eth0")])),
            "an attachment in either list is valid"
        );
    }

    #[test]
    fn gc_refuses_a_list_it_cannot_read_whole() {
        for entries in [
            "5",
            "[null]",
            r#"[{"containerID":"a"}]"#,
            r#"[{"ifname":"eth0"}]"#,
            r#"[{"containerID":"","ifname":"eth0"}]"#,
            r#"[{"containerID":["a"],"ifname":"eth0"}]"#,
        ] {
            let text = format!(r#"{{"name":"n","cni.dev/valid-attachments":{entries}}}"#);
            let error = parse(&text).unwrap().valid_attachments().unwrap_err();
            assert_eq!(error.code, code::INVALID_CONFIG, "{entries}");
            assert!(error.msg.contains("cni.dev/valid-attachments"), "{}", error.msg);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>()) {
            let _ = NetConf::parse(&bytes);
        }

        #[test]
        fn any_json_is_read_or_refused(
            key in "ipam|runtimeConfig|args|prevResult|cni.dev/attachments",
            inner in "socket|pools|ips|ipRanges|cni|routes|dns|families|ip4",
            value in r#"(\[|\{|"[a-z0-9./:-]{0,9}"|[0-9]{1,3}|null|,|:|\]|\}){0,12}"#,
        ) {
            for text in [
                format!(r#"{{"name":"n","{key}":{value}}}"#),
                format!(r#"{{"name":"n","{key}":{{"{inner}":{value}}}}}"#),
                format!(r#"{{"name":"n","{key}":{{"{inner}":[{value}]}}}}"#),
            ] {
                if let Ok(conf) = parse(&text) {
                    let _ = (conf.ipam(), conf.socket(), conf.requested(), conf.prev_result());
                    let _ = conf.valid_attachments();
                }
            }
        }
    }
}
