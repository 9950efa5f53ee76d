//! What a plugin answered, whatever the version it was asked in.

use crate::plugin::Output;
use serde_json::Value;

/// The three ways a call can end.
#[derive(Clone, Debug)]
pub enum Answer {
    /// It succeeded, with what it printed.
    Success(Vec<u8>),
    /// It failed as the specification wants.
    Error {
        /// The code.
        code: u64,
        /// The message.
        msg: String,
    },
    /// It failed without saying so in JSON.
    Crash(String),
}

impl Answer {
    /// Reads the outcome of a process.
    #[must_use]
    pub fn of(output: &Output) -> Self {
        if output.status == Some(0) {
            return Self::Success(output.stdout.clone());
        }
        let parsed: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        match (parsed["code"].as_u64(), parsed["msg"].as_str()) {
            (Some(code), Some(msg)) if !msg.is_empty() => Self::Error { code, msg: msg.to_owned() },
            _ => {
                let first = output.stderr.lines().next().unwrap_or("nothing on stderr");
                Self::Crash(format!("exit status {:?}, no CNI error on stdout; stderr: {first}", output.status))
            }
        }
    }
}

/// The result of an ADD with the differences between versions taken away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Addresses with prefix lengths.
    pub ips: Vec<String>,
    /// Their gateways; empty text where there is none.
    pub gateways: Vec<String>,
    /// Routes, sorted, as `dst` or `dst via gw`.
    pub routes: Vec<String>,
    /// Resolver settings.
    pub dns: Value,
}

impl Addresses {
    /// Reads a result of either shape.
    #[must_use]
    pub fn of(result: &Value) -> Self {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut addresses = Self { dns: result["dns"].clone(), ..Self::default() };
        let mut routes = list(&result["routes"]);
        for ip in list(&result["ips"]) {
            addresses.ips.push(text(&ip["address"]));
            addresses.gateways.push(text(&ip["gateway"]));
        }
        for ip in [&result["ip4"], &result["ip6"]].into_iter().filter(|ip| ip.is_object()) {
            addresses.ips.push(text(&ip["ip"]));
            addresses.gateways.push(text(&ip["gateway"]));
            routes.extend(list(&ip["routes"]));
        }
        addresses.routes = routes
            .iter()
            .map(|route| match route["gw"].as_str() {
                Some(gw) => format!("{} via {gw}", text(&route["dst"])),
                None => text(&route["dst"]),
            })
            .collect();
        addresses.routes.sort();
        if addresses.dns.is_null() {
            addresses.dns = Value::Object(serde_json::Map::new());
        }
        addresses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_shapes_read_alike() {
        let old = json!({"ip4": {"ip": "10.0.0.2/24", "gateway": "10.0.0.1", "routes": [{"dst": "0.0.0.0/0"}]}});
        let new = json!({"ips": [{"address": "10.0.0.2/24", "gateway": "10.0.0.1"}], "dns": {},
                         "routes": [{"dst": "0.0.0.0/0"}]});
        assert_eq!(Addresses::of(&old), Addresses::of(&new));
    }

    #[test]
    fn a_panic_is_a_crash() {
        let output = Output { status: Some(2), stdout: vec![], stderr: "panic: oh".into() };
        assert!(matches!(Answer::of(&output), Answer::Crash(text) if text.contains("panic: oh")));
    }
}
