//! What the API server and etcd counted, by kind of object, so that nothing hides.

use anyhow::{Context, Result};
use berth_cluster::ControlPlane;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Besides Berth's own kinds, what its agents look at.
const OTHERS: [&str; 3] = ["pods", "nodes", "namespaces"];

/// Counters at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    /// Requests by resource, verb and status.
    requests: BTreeMap<(String, String, String), f64>,
    answered: f64,
    watch_events: f64,
    watch_bytes: f64,
    etcd_bytes: f64,
}

/// What happened between two moments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spent {
    requests: BTreeMap<(String, String, String), f64>,
    /// Bytes of answers to reads and writes.
    pub(crate) answered: f64,
    /// Events sent to watchers of Berth's kinds.
    pub(crate) watch_events: f64,
    /// And their bytes.
    pub(crate) watch_bytes: f64,
    /// Bytes that etcd received.
    pub(crate) etcd_bytes: f64,
}

impl Counters {
    /// As of now.
    pub(crate) fn read(plane: &ControlPlane) -> Result<Self> {
        let mut counters = Self::default();
        for line in plane.kubectl_ok(&["get", "--raw", "/metrics"])?.lines() {
            let Some((name, labels, value)) = sample(line) else { continue };
            let label = |key: &str| label(labels, key);
            let own =
                label("group") == "berth.io" || (label("group").is_empty() && OTHERS.contains(&label("resource")));
            match name {
                "apiserver_request_total" if own => {
                    let key = (label("resource").to_owned(), label("verb").to_owned(), label("code").to_owned());
                    *counters.requests.entry(key).or_default() += value;
                }
                "apiserver_response_sizes_sum" if own && label("verb") != "WATCH" => counters.answered += value,
                "apiserver_watch_events_total" if label("group") == "berth.io" => counters.watch_events += value,
                "apiserver_watch_events_sizes_sum" if label("group") == "berth.io" => counters.watch_bytes += value,
                _ => {}
            }
        }
        for line in fetch(plane.etcd_url())?.lines() {
            if let Some(("etcd_network_client_grpc_received_bytes_total", _, value)) = sample(line) {
                counters.etcd_bytes += value;
            }
        }
        Ok(counters)
    }

    /// What happened since an earlier moment.
    pub(crate) fn since(&self, before: &Self) -> Spent {
        let earlier = |key: &(String, String, String)| before.requests.get(key).copied().unwrap_or(0.0);
        let requests = self.requests.iter().map(|(key, value)| (key.clone(), value - earlier(key)));
        Spent {
            requests: requests.filter(|(_, value)| *value > 0.0).collect(),
            answered: self.answered - before.answered,
            watch_events: self.watch_events - before.watch_events,
            watch_bytes: self.watch_bytes - before.watch_bytes,
            etcd_bytes: self.etcd_bytes - before.etcd_bytes,
        }
    }
}

impl Spent {
    fn sum(&self, wanted: impl Fn(&str, &str) -> bool) -> f64 {
        self.requests
            .iter()
            .filter(|((_, verb, code), _)| wanted(verb, code))
            .map(|(_, value)| value)
            .sum::<f64>()
            .max(0.0)
    }

    /// GET and LIST.
    pub(crate) fn reads(&self) -> f64 {
        self.sum(|verb, _| matches!(verb, "GET" | "LIST"))
    }

    /// Everything that changes something or tries to.
    pub(crate) fn writes(&self) -> f64 {
        self.sum(|verb, _| matches!(verb, "POST" | "PUT" | "PATCH" | "APPLY" | "DELETE"))
    }

    /// Writes that came too late.
    pub(crate) fn conflicts(&self) -> f64 {
        self.sum(|verb, code| verb != "GET" && matches!(code, "409" | "404"))
    }

    /// Each kind of request, e.g. `ipblocks PUT 200: 41`.
    pub(crate) fn in_words(&self) -> String {
        let word = |((resource, verb, code), count): (&(String, String, String), &f64)| match code.as_str() {
            "200" | "201" => format!("{resource} {verb} {count}"),
            _ => format!("{resource} {verb} ({code}) {count}"),
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
fn fetch(url: &str) -> Result<String> {
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).with_context(|| format!("cannot reach etcd at {url}"))?;
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
