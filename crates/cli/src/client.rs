//! HTTP: one request, one answer, or the problem in its place.

use crate::Result;
use crate::error::{Error, Problem};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;
use ureq::http::{Method, Request, Response, header};
use ureq::{Agent, Body};

/// A list of a million addresses takes a while; a daemon that hangs must still not hang its user for ever.
const TIMEOUT: Duration = Duration::from_secs(60);
/// A million addresses, a few hundred bytes each.
const MAX_ANSWER: u64 = 1 << 30;

/// The daemon, as seen from here.
pub(crate) struct Client {
    server: String,
    agent: Agent,
}

/// Parameters of a request; those without a value are left out.
pub(crate) type Query<'a> = [(&'a str, Option<&'a str>)];

impl Client {
    pub(crate) fn new(server: &str) -> Result<Self> {
        let server = server.trim_end_matches('/');
        let server = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
        if !server.starts_with("http://") {
            let hint = "the daemon speaks plain HTTP on its own machine; reach another machine through an SSH tunnel";
            return Err(Error::Usage { message: format!("--server {server}: only http:// is supported"), hint });
        }
        // A proxy in the environment is for the world outside, not for a daemon on this machine.
        let config = Agent::config_builder().http_status_as_error(false).proxy(None).timeout_global(Some(TIMEOUT));
        Ok(Self { server, agent: config.build().into() })
    }

    pub(crate) fn get(&self, path: &[&str], query: &Query<'_>) -> Result<Value> {
        self.send(Method::GET, path, query, None)
    }

    pub(crate) fn delete(&self, path: &[&str], query: &Query<'_>) -> Result<Value> {
        self.send(Method::DELETE, path, query, None)
    }

    pub(crate) fn post(&self, path: &[&str], body: &impl Serialize) -> Result<Value> {
        let body = serde_json::to_string(body).map_err(|error| self.odd(&error))?;
        self.send(Method::POST, path, &[], Some(("application/json", body)))
    }

    /// Sends manifests as they were written.
    pub(crate) fn post_yaml(&self, path: &[&str], query: &Query<'_>, body: String) -> Result<Value> {
        self.send(Method::POST, path, query, Some(("application/yaml", body)))
    }

    /// Reads an answer as what it should be.
    pub(crate) fn read<T: DeserializeOwned>(&self, answer: Value) -> Result<T> {
        serde_json::from_value(answer).map_err(|error| self.odd(&error))
    }

    fn send(&self, method: Method, path: &[&str], query: &Query<'_>, body: Option<(&str, String)>) -> Result<Value> {
        let target = target(path, query);
        let what = format!("{method} {target}");
        let (content_type, body) = body.unwrap_or(("application/json", String::new()));
        let response = Request::builder()
            .method(method)
            .uri(format!("{}{target}", self.server))
            .header(header::CONTENT_TYPE, content_type)
            .body(body)
            .map_err(|error| self.odd(&format!("{what}: {error}")))
            .and_then(|request| self.agent.run(request).map_err(|error| self.unreachable(&error)))?;
        self.answer(&what, response)
    }

    fn answer(&self, what: &str, mut response: Response<Body>) -> Result<Value> {
        let status = response.status();
        let text = response.body_mut().with_config().limit(MAX_ANSWER).read_to_string();
        let text = text.map_err(|error| self.unreachable(&error))?;
        if status.is_success() {
            return serde_json::from_str(&text).map_err(|error| self.odd(&format!("{what}: {error}")));
        }
        match serde_json::from_str::<Problem>(&text) {
            Ok(problem) => Err(Error::Refused(Box::new(problem))),
            Err(_) => Err(self.odd(&format!("{what}: {status}"))),
        }
    }

    fn unreachable(&self, error: &ureq::Error) -> Error {
        let reason = match error {
            ureq::Error::Io(error) => error.to_string(),
            other => other.to_string(),
        };
        Error::Unreachable { server: self.server.clone(), reason }
    }

    fn odd(&self, reason: &impl ToString) -> Error {
        Error::Protocol { server: self.server.clone(), reason: reason.to_string() }
    }
}

/// `/v1alpha1/objects/pools/blue?namespace=web`.
fn target(path: &[&str], query: &Query<'_>) -> String {
    let mut target = "/v1alpha1".to_owned();
    for segment in path {
        target.push('/');
        encode(segment, &mut target);
    }
    let given = query.iter().filter_map(|(name, value)| value.map(|value| (name, value)));
    for (i, (name, value)) in given.enumerate() {
        target.push(if i == 0 { '?' } else { '&' });
        target.push_str(name);
        target.push('=');
        encode(value, &mut target);
    }
    target
}

/// Percent-encodes everything but what stands for itself in paths and queries alike.
fn encode(text: &str, into: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => into.push(char::from(byte)),
            _ => into.push_str(&format!("%{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_type_cannot_leave_its_place_in_the_url() {
        let query = [("namespace", Some("a&b=c")), ("node", None), ("since", Some("2026-01-01T00:00:00+01:00"))];
        assert_eq!(
            target(&["objects", "../pools", "fd00::1/64"], &query),
            "/v1alpha1/objects/..%2Fpools/fd00::1%2F64?namespace=a%26b%3Dc&since=2026-01-01T00:00:00%2B01:00"
        );
    }

    #[test]
    fn a_server_may_be_named_in_short() {
        for typed in ["127.0.0.1:8090", "http://127.0.0.1:8090", "http://127.0.0.1:8090/"] {
            assert_eq!(Client::new(typed).unwrap().server, "http://127.0.0.1:8090");
        }
        assert_eq!(Client::new("https://berth").err().map(|error| error.exit_code()), Some(2));
    }
}
