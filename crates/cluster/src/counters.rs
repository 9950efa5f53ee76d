//! What the API server and etcd counted, by kind of object, so that nothing hides.

use crate::control_plane::ControlPlane;
use crate::error::{Context, Result};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;

/// The group of Berth's kinds.
const BERTH: &str = "berth.io";
/// Besides Berth's own kinds, what its agents look at.
const OTHERS: [&str; 3] = ["pods", "nodes", "namespaces"];

/// The verbs of everything that changes something or tries to.
const WRITES: [&str; 5] = ["POST", "PUT", "PATCH", "APPLY", "DELETE"];

/// A kind of request.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    group: String,
    resource: String,
    verb: String,
    status: String,
}

impl Request {
    fn is_of_agents(&self) -> bool {
        self.group == BERTH || (self.group.is_empty() && OTHERS.contains(&&*self.resource))
    }
}

/// Counters at one moment.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    requests: BTreeMap<Request, f64>,
    answered: f64,
    watch_events: f64,
    watch_bytes: f64,
    etcd_bytes: f64,
    write_seconds: f64,
}

/// What happened between two moments.
#[derive(Clone, Debug, Default)]
pub struct Spent {
    requests: BTreeMap<Request, f64>,
    /// Bytes of answers to reads and writes of what agents look at.
    pub answered: f64,
    /// Events sent to watchers of Berth's kinds.
    pub watch_events: f64,
    /// And their bytes.
    pub watch_bytes: f64,
    /// Bytes that etcd received.
    pub etcd_bytes: f64,
    /// Seconds that the API server took to write objects of Berth's kinds, all writes together.
    pub write_seconds: f64,
}

impl Counters {
    /// As of now.
    ///
    /// # Errors
    /// If one of them does not answer.
    pub fn read(plane: &ControlPlane) -> Result<Self> {
        let mut counters = Self::default();
        for line in plane.kubectl_ok(&["get", "--raw", "/metrics"])?.lines() {
            let Some((name, labels, value)) = sample(line) else { continue };
            let label = |key: &str| label(labels, key);
            let request = || Request {
                group: label("group").to_owned(),
                resource: label("resource").to_owned(),
                verb: label("verb").to_owned(),
                status: label("code").to_owned(),
            };
            match name {
                // What is of no resource is discovery, health and these metrics.
                "apiserver_request_total" if !label("resource").is_empty() => {
                    *counters.requests.entry(request()).or_default() += value;
                }
                "apiserver_response_sizes_sum" if request().is_of_agents() && label("verb") != "WATCH" => {
                    counters.answered += value;
                }
                "apiserver_request_duration_seconds_sum"
                    if label("group") == BERTH && WRITES.contains(&label("verb")) =>
                {
                    counters.write_seconds += value;
                }
                "apiserver_watch_events_total" if label("group") == BERTH => counters.watch_events += value,
                "apiserver_watch_events_sizes_sum" if label("group") == BERTH => counters.watch_bytes += value,
                _ => {}
            }
        }
        let etcd = fetch(plane.etcd_url()).context(|| format!("cannot ask etcd at {}", plane.etcd_url()))?;
        for line in etcd.lines() {
            if let Some(("etcd_network_client_grpc_received_bytes_total", _, value)) = sample(line) {
                counters.etcd_bytes += value;
            }
        }
        Ok(counters)
    }

    /// What happened since an earlier moment: all requests but those of no resource.
    #[must_use]
    pub fn since(&self, before: &Self) -> Spent {
        let earlier = |key: &Request| before.requests.get(key).copied().unwrap_or(0.0);
        let requests = self.requests.iter().map(|(key, value)| (key.clone(), value - earlier(key)));
        Spent {
            requests: requests.filter(|(_, value)| *value > 0.0).collect(),
            answered: self.answered - before.answered,
            watch_events: self.watch_events - before.watch_events,
            watch_bytes: self.watch_bytes - before.watch_bytes,
            etcd_bytes: self.etcd_bytes - before.etcd_bytes,
            write_seconds: self.write_seconds - before.write_seconds,
        }
    }
}

impl Spent {
    fn only(&self, wanted: impl Fn(&Request) -> bool) -> Self {
        let requests = self.requests.iter().filter(|(request, _)| wanted(request));
        Self { requests: requests.map(|(request, value)| (request.clone(), *value)).collect(), ..self.clone() }
    }

    /// Only requests to Berth's kinds.
    #[must_use]
    pub fn of_berth(&self) -> Self {
        self.only(|request| request.group == BERTH)
    }

    /// Only requests to Berth's kinds, and to what else its agents look at. The latter are also others', where there
    /// are any.
    #[must_use]
    pub fn of_agents(&self) -> Self {
        self.only(Request::is_of_agents)
    }

    fn sum(&self, wanted: impl Fn(&str, &str) -> bool) -> f64 {
        let requests = self.requests.iter().filter(|(request, _)| wanted(&request.verb, &request.status));
        requests.map(|(_, value)| value).sum::<f64>().max(0.0)
    }

    /// GET and LIST.
    #[must_use]
    pub fn reads(&self) -> f64 {
        self.sum(|verb, _| matches!(verb, "GET" | "LIST"))
    }

    /// Everything that changes something or tries to.
    #[must_use]
    pub fn writes(&self) -> f64 {
        self.sum(|verb, _| WRITES.contains(&verb))
    }

    /// Writes that came too late.
    #[must_use]
    pub fn conflicts(&self) -> f64 {
        self.sum(|verb, code| verb != "GET" && matches!(code, "409" | "404"))
    }

    /// Each kind of request, e.g. `ipblocks PUT 200: 41`.
    #[must_use]
    pub fn in_words(&self) -> String {
        let word = |(Request { resource, verb, status, .. }, count): (&Request, &f64)| match status.as_str() {
            "200" | "201" => format!("{resource} {verb} {count}"),
            _ => format!("{resource} {verb} ({status}) {count}"),
        };
        self.requests.iter().map(word).collect::<Vec<_>>().join(", ")
    }
}

/// Name, labels and value of a line of the text format.
fn sample(line: &str) -> Option<(&str, &str, f64)> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    (!line.starts_with('#')).then_some((name, labels, value.parse().ok()?))
}

/// The value of a label; empty if it is not there. None of those that are asked for has a quote in it.
fn label<'a>(labels: &'a str, key: &str) -> &'a str {
    let mut rest = labels;
    while let Some((name, after)) = rest.split_once("=\"") {
        let Some((value, next)) = after.split_once('"') else { break };
        if name.trim_start_matches(',') == key {
            return value;
        }
        rest = next;
    }
    ""
}

/// `/metrics` of a server without TLS.
fn fetch(url: &str) -> io::Result<String> {
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_name_labels_and_a_value() {
        let line = r#"apiserver_request_total{code="409",group="berth.io",resource="ipblocks",verb="PUT"} 3"#;
        let (name, labels, value) = sample(line).unwrap();
        assert_eq!((name, value), ("apiserver_request_total", 3.0));
        assert_eq!((label(labels, "code"), label(labels, "verb"), label(labels, "scope")), ("409", "PUT", ""));
        assert_eq!(sample("etcd_x_total 1.5e+06").unwrap(), ("etcd_x_total", "", 1.5e6));
        assert!(sample("# HELP x y 1").is_none());
    }
}
