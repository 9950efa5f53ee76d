//! One line for each call of an IPAM plugin: what the stand-in writes and the benchmark reads.
//!
//! No dependencies: the stand-in is executed where the plugin would be, and should cost next to nothing.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

/// How the name of the stand-in begins; that of the real plugin, in the same directory, follows.
pub const PREFIX: &str = "timed-";
/// Where calls are written down.
pub const LOG: &str = "/run/ipam-calls";

/// A call that came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The plugin.
    pub plugin: String,
    /// `ADD`, `DEL` and so on.
    pub verb: String,
    /// The container's ID.
    pub container: String,
    /// When it began, since 1970.
    pub began: Duration,
    /// How long the real plugin took, from the fork to its end.
    pub took: Duration,
    /// Whether it succeeded.
    pub ok: bool,
    /// The first address in its answer.
    pub address: Option<IpAddr>,
}

impl Call {
    /// When it ended, since 1970.
    #[must_use]
    pub fn ended(&self) -> Duration {
        self.began + self.took
    }
}

impl fmt::Display for Call {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plugin, verb, container, began, took, ok, address } = self;
        write!(out, "{plugin} {verb} {container} {} {} {ok} ", began.as_nanos(), took.as_nanos())?;
        match address {
            Some(address) => write!(out, "{address}"),
            None => write!(out, "-"),
        }
    }
}

impl FromStr for Call {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let unreadable = || format!("not a call: {line:?}");
        let words: Vec<&str> = line.split(' ').collect();
        let &[plugin, verb, container, began, took, ok, address] = words.as_slice() else { return Err(unreadable()) };
        let nanos = |word: &str| word.parse().map(Duration::from_nanos).map_err(|_| unreadable());
        let address = if address == "-" { None } else { Some(address.parse().map_err(|_| unreadable())?) };
        Ok(Self {
            plugin: plugin.to_owned(),
            verb: verb.to_owned(),
            container: container.to_owned(),
            began: nanos(began)?,
            took: nanos(took)?,
            ok: ok.parse().map_err(|_| unreadable())?,
            address,
        })
    }
}

/// The first address in the result of an ADD: the value of the first member `address`, without its length. Enough for
/// what IPAM plugins print, and no parser is needed.
#[must_use]
pub fn first_address(result: &str) -> Option<IpAddr> {
    let (_, after) = result.split_once("\"address\"")?;
    after.split('"').nth(1)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let call = Call {
            plugin: "host-local".to_owned(),
            verb: "ADD".to_owned(),
            container: "c1".to_owned(),
            began: Duration::from_nanos(1_790_000_000_000_000_001),
            took: Duration::from_micros(1500),
            ok: true,
            address: Some("10.0.0.7".parse().unwrap()),
        };
        assert_eq!(call.to_string().parse(), Ok(call.clone()));
        let failed = Call { ok: false, address: None, ..call };
        assert_eq!(failed.to_string().parse(), Ok(failed));
        assert!("host-local ADD c1 1 2 true".parse::<Call>().is_err());
    }

    #[test]
    fn an_address_is_found_in_a_result() {
        let result = "{\n \"cniVersion\": \"1.0.0\",\n \"ips\": [ { \"gateway\": \"10.0.0.1\", \"address\": \"10.0.0.7/16\" } ]\n}";
        assert_eq!(first_address(result), Some("10.0.0.7".parse().unwrap()));
        assert_eq!(first_address(r#"{"ips":[{"address":"fd00::7/64"}]}"#), Some("fd00::7".parse().unwrap()));
        assert_eq!(first_address(r#"{"code": 11, "msg": "no address"}"#), None);
    }
}
