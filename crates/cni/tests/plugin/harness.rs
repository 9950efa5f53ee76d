//! Runs the plugin, and plays the daemon.

use berth_wire::protocol::{Request, Response, read_frame, write_frame};
use serde_json::Value;
use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What one run of the plugin left behind.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {:?}", self.stdout))
    }

    /// Checks that it failed with this code, and returns the message and the details.
    #[track_caller]
    pub(crate) fn failed(&self, code: u32) -> (String, String) {
        let json = self.json();
        assert_eq!(self.code, 1, "{}", self.stdout);
        assert_eq!(json["code"], code, "{}", self.stdout);
        assert!(json["cniVersion"].is_string(), "{}", self.stdout);
        let text = |key: &str| json[key].as_str().unwrap_or_default().to_owned();
        assert!(!text("msg").is_empty());
        (text("msg"), text("details"))
    }

    /// Checks that it succeeded and printed nothing.
    #[track_caller]
    pub(crate) fn silent(&self) {
        assert_eq!((self.code, self.stdout.as_str()), (0, ""), "stderr: {}", self.stderr);
    }
}

/// A directory for a socket, and the plugin configured to use it.
pub(crate) struct Host {
    dir: tempfile::TempDir,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("berth.sock")
    }

    pub(crate) fn queued(&self) -> Vec<Request> {
        let files = berth_wire::queue::list(&berth_wire::queue::beside(&self.socket())).unwrap();
        files.iter().map(|file| berth_wire::queue::read(file).unwrap().unwrap()).collect()
    }

    /// A configuration of a version with more keys in `ipam` and beside it, each beginning with a comma.
    pub(crate) fn config(&self, version: &str, ipam: &str, more: &str) -> String {
        let socket = self.socket();
        format!(
            r#"{{"cniVersion":"{version}","name":"net1","type":"x","ipam":{{"type":"berth-cni","socket":{socket:?}{ipam}}}{more}}}"#
        )
    }

    /// Answers the next requests, one connection each, with these responses; `None` hangs up. Returns the requests.
    pub(crate) fn daemon(&self, responses: Vec<Option<Response>>) -> JoinHandle<Vec<Request>> {
        serve(UnixListener::bind(self.socket()).unwrap(), responses)
    }
}

/// Answers one request on each of the next connections. A plugin that does not come makes the test fail, not hang.
pub(crate) fn serve(listener: UnixListener, responses: Vec<Option<Response>>) -> JoinHandle<Vec<Request>> {
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let deadline = Instant::now() + Duration::from_secs(20);
        let accept = || {
            loop {
                match listener.accept() {
                    Ok((stream, _)) => return stream,
                    Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
                    Err(error) => panic!("nobody asks: {error}"),
                }
            }
        };
        responses.into_iter().map(|response| answer(accept(), response)).collect()
    })
}

/// Reads one request and answers it, or hangs up.
pub(crate) fn answer(mut stream: UnixStream, response: Option<Response>) -> Request {
    stream.set_nonblocking(false).unwrap();
    let request = read_frame(&mut stream).unwrap();
    if let Some(response) = response {
        write_frame(&mut stream, &response).unwrap();
    }
    request
}

/// One call of the plugin with a whole environment, parts of which may be replaced (an empty value unsets).
pub(crate) struct Plugin {
    program: PathBuf,
    environment: Vec<(String, String)>,
}

impl Plugin {
    pub(crate) fn new(verb: &str) -> Self {
        let environment = [
            ("CNI_COMMAND", verb),
            ("CNI_CONTAINERID", "c1"),
            ("CNI_NETNS", "/run/netns/none"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_PATH", "/opt/cni/bin"),
        ];
        let environment = environment.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Self { program: env!("CARGO_BIN_EXE_berth-cni").into(), environment: environment.into() }
    }

    pub(crate) fn under(mut self, program: &Path) -> Self {
        self.program = program.to_owned();
        self
    }

    pub(crate) fn env(mut self, key: &str, value: &str) -> Self {
        self.environment.retain(|(name, _)| name != key);
        if !value.is_empty() {
            self.environment.push((key.to_owned(), value.to_owned()));
        }
        self
    }

    pub(crate) fn run(self, stdin: impl AsRef<[u8]>) -> Ran {
        let mut child = Command::new(&self.program)
            .env_clear()
            .envs(self.environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The plugin may have given up before it has read everything.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_ref());
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran {
            code: output.status.code().expect("the plugin was not killed"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}
