//! The `ipam` section in the keys of Spiderpool's plugin, for configurations with `type: spiderpool`.
//!
//! | key | |
//! |---|---|
//! | `default_ipv4_ippool`, `default_ipv6_ippool` | pools for pods that say nothing |
//! | `clean_gateway` | neither gateway nor default route |
//! | `log_level`, `log_file_path`, `log_file_max_size`, `log_file_max_age`, `log_file_max_count` | no effect: Berth's plugin keeps no log, its agent does |
//! | `ipam_unix_socket_path` | no effect: it names the socket of spiderpool-agent; `socket` names Berth's, `waitSeconds` says how long to wait for it |
//! | `match_master_subnet` | only pools whose subnet the NIC has an address in that the interface is put on: see [`super::Uplink`] |

use super::ipam::{self, Ipam, OTHERS, unsupported};
use super::object::{Object, invalid};
use crate::cni::Error;

/// `ipam.type` of such a configuration.
pub(super) const TYPE: &str = "spiderpool";

/// What has an effect here.
const KNOWN: [&str; 6] =
    ["default_ipv4_ippool", "default_ipv6_ippool", "clean_gateway", "match_master_subnet", "socket", "waitSeconds"];
/// What is for Spiderpool's own plugin, and may be there.
const WITHOUT_EFFECT: [&str; 6] = [
    "ipam_unix_socket_path",
    "log_level",
    "log_file_path",
    "log_file_max_size",
    "log_file_max_age",
    "log_file_max_count",
];

pub(super) fn read(object: &Object<'_>) -> Result<Ipam, Error> {
    let known =
        |key: &str| KNOWN.iter().chain(&WITHOUT_EFFECT).chain(&OTHERS).any(|name| name.eq_ignore_ascii_case(key));
    if let Some((key, value)) = object.entries().find(|(key, _)| !known(key)) {
        return Err(unsupported(key, value).hint(format!("for type {TYPE} there are {}", KNOWN.join(", "))));
    }
    let flag = |key: &str| Ok::<bool, Error>(object.read(key, &format!("ipam.{key}"))?.unwrap_or_default());
    let mut pools: Vec<String> = object.list("default_ipv4_ippool", "ipam.default_ipv4_ippool")?;
    pools.extend(object.list::<String>("default_ipv6_ippool", "ipam.default_ipv6_ippool")?);
    if let Some(at) = pools.iter().position(String::is_empty) {
        return Err(invalid(&format!("ipam.default_ipv4_ippool, ipam.default_ipv6_ippool [{at}]"), &"names no pool"));
    }
    Ok(Ipam {
        socket: ipam::socket(object)?,
        wait_seconds: ipam::wait_seconds(object)?,
        pools,
        clean_gateway: flag("clean_gateway")?,
        match_uplink: flag("match_master_subnet")?,
        ..Ipam::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Ipam, Error> {
        super::read(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn the_configuration_that_spiderpools_guides_show_is_taken() {
        let ipam = read(
            r#"{"type": "spiderpool", "log_level": "DEBUG", "log_file_path": "/var/log/spidernet/spiderpool.log",
                "log_file_max_size": "100", "log_file_max_age": "30", "log_file_max_count": 7,
                "ipam_unix_socket_path": "/var/run/spidernet/spiderpool.sock", "match_master_subnet": false,
                "default_ipv4_ippool": ["default-v4", "b*"], "default_ipv6_ippool": ["default-v6"], "clean_gateway": true}"#,
        )
        .unwrap();
        assert_eq!(ipam.pools, ["default-v4", "b*", "default-v6"]);
        assert!(ipam.clean_gateway && !ipam.match_uplink);
        assert!(read(r#"{"type": "spiderpool", "match_master_subnet": true}"#).unwrap().match_uplink);
        assert_eq!(ipam.socket, std::path::Path::new(super::super::DEFAULT_SOCKET));
        let least = read(r#"{"type": "spiderpool"}"#).unwrap();
        assert!(least.pools.is_empty() && !least.clean_gateway);
    }

    #[test]
    fn mistakes_name_the_field() {
        for (text, part) in [
            (r#"{"default_ipv4_ippool": "a"}"#, "ipam.default_ipv4_ippool"),
            (r#"{"default_ipv6_ippool": [""]}"#, "names no pool"),
            (r#"{"clean_gateway": "yes"}"#, "ipam.clean_gateway"),
            (r#"{"match_master_subnet": "true"}"#, "ipam.match_master_subnet"),
            (r#"{"default_ipv4_pool": ["a"]}"#, "default_ipv4_pool"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.msg.contains(part), "{text} gave {:?}", error.msg);
        }
    }
}
