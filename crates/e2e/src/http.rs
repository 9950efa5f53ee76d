//! A client that sees every header and can misbehave. One connection per request.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where a daemon's HTTP API listens.
#[derive(Clone, Copy, Debug)]
pub struct Http {
    /// Its address.
    pub address: SocketAddr,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// Status line and headers, as they came.
    pub head: String,
    /// The body.
    pub body: String,
}

impl Http {
    /// GET.
    #[must_use]
    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, "", "")
    }

    /// POST of JSON.
    #[must_use]
    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, "Content-Type: application/json\r\n", &body.to_string())
    }

    /// DELETE.
    #[must_use]
    pub fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, "", "")
    }

    /// Applies manifests.
    #[must_use]
    pub fn apply(&self, manifests: &str) -> Reply {
        self.send("POST", "/v1alpha1/apply", "Content-Type: application/yaml\r\n", manifests)
    }

    /// Sends any method with more headers, each with its line end.
    #[must_use]
    pub fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Reply {
        let host = if headers.contains("Host:") { String::new() } else { format!("Host: {}\r\n", self.address) };
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\n{host}Connection: close\r\nContent-Length: {length}\r\n");
        self.raw(format!("{head}{headers}\r\n{body}").as_bytes())
    }

    /// Sends bytes, and reads until the daemon hangs up.
    ///
    /// # Panics
    /// If nothing listens, or what comes back is not HTTP.
    #[must_use]
    pub fn raw(&self, bytes: &[u8]) -> Reply {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        exchange(stream, bytes)
    }
}

/// Sends JSON, or nothing if it is null, to whoever listens on a unix socket.
///
/// # Panics
/// If nothing listens, or what comes back is not HTTP.
#[must_use]
pub fn over_unix(socket: &Path, method: &str, path: &str, body: &Value) -> Reply {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let head = format!("{method} {path} HTTP/1.1\r\nHost: unix\r\nConnection: close\r\n");
    let head = format!("{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
    exchange(stream, format!("{head}{body}").as_bytes())
}

fn exchange(mut stream: impl Read + Write, bytes: &[u8]) -> Reply {
    // A daemon that has seen enough may answer before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let text = String::from_utf8(answer).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("not HTTP: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Reply { status: status.expect("a status line"), head: head.to_ascii_lowercase(), body: body.to_owned() }
}

impl Reply {
    /// The body, which must be JSON.
    ///
    /// # Panics
    /// If it is not.
    #[track_caller]
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {} {}", self.status, self.body))
    }

    /// The body of a success.
    ///
    /// # Panics
    /// If it is something else.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        self.json()
    }

    /// The problem document of a failure with this status and short name. Whatever it is, it says what to do next.
    ///
    /// # Panics
    /// If it is something else.
    #[track_caller]
    pub fn problem(&self, status: u16, slug: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        assert!(self.head.contains("content-type: application/problem+json"), "{}", self.head);
        let problem = self.json();
        assert_eq!(problem["type"], format!("urn:berth:problem:{slug}"), "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        assert_eq!(problem["title"], slug.replace('-', " "), "{problem}");
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{problem}");
        assert!(problem["exitCode"].as_u64().is_some_and(|code| (1..256).contains(&code)), "{problem}");
        problem
    }

    /// What each object of an `apply` became: `created pool-a, unchanged pool-b`.
    ///
    /// # Panics
    /// If it was refused.
    #[track_caller]
    #[must_use]
    pub fn actions(&self) -> String {
        let answer = self.ok();
        let action = |result: &Value| format!("{} {}", text(&result["action"]), text(&result["name"]));
        answer["results"].as_array().unwrap().iter().map(action).collect::<Vec<_>>().join(", ")
    }
}

/// A JSON text without its quotes.
///
/// # Panics
/// If it is not a text.
#[track_caller]
#[must_use]
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}
