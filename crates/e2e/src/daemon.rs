//! `berth serve` as a process, in a directory of its own.

use crate::http::{Http, text};
use crate::plugin::Call;
use crate::{binaries, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// A directory with a daemon's socket and state, which outlives the daemon.
#[derive(Debug)]
pub struct Home {
    dir: TempDir,
    starts: AtomicU32,
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Home {
    /// An empty one. The path is short: that of a unix socket must be.
    ///
    /// # Panics
    /// If there is no room.
    #[must_use]
    pub fn new() -> Self {
        Self { dir: tempfile::Builder::new().prefix("b").tempdir_in("/tmp").unwrap(), starts: AtomicU32::new(0) }
    }

    /// A path inside.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The socket, in a directory that the daemon makes.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.path("run/berth.sock")
    }

    /// The queue of deletions.
    #[must_use]
    pub fn queue(&self) -> PathBuf {
        berth_wire::queue::beside(&self.socket())
    }

    /// `berth serve` here, on a port of its own, logging JSON.
    #[must_use]
    pub fn command(&self) -> Command {
        self.command_with("", "")
    }

    /// The same with one option another, or one more.
    #[must_use]
    pub fn command_with(&self, option: &str, value: &str) -> Command {
        let (socket, state) = (self.socket(), self.path("state"));
        let mut command = Command::new(binaries::berth());
        command.arg("serve");
        for (name, default) in [
            ("--socket", &*socket.to_string_lossy()),
            ("--state-dir", &*state.to_string_lossy()),
            ("--listen", "127.0.0.1:0"),
            ("--log-format", "json"),
            ("--node-name", "node-1"),
        ] {
            if name != option {
                command.args([name, default]);
            }
        }
        if !option.is_empty() {
            command.args([option, value]);
        }
        command
    }

    /// Starts a daemon and waits until it is ready.
    #[must_use]
    pub fn start(&self) -> Daemon {
        self.start_with(self.command())
    }

    /// Starts a daemon with these manifests applied.
    ///
    /// # Panics
    /// If they are refused.
    #[must_use]
    pub fn start_with_manifests(&self, manifests: &str) -> Daemon {
        let daemon = self.start();
        let reply = daemon.http.apply(manifests);
        assert_eq!(reply.status, 200, "{}", reply.body);
        daemon
    }

    /// Starts a daemon in a mount namespace where the machine seems to have booted under another ID.
    ///
    /// # Panics
    /// If the namespace cannot be made.
    #[must_use]
    pub fn start_in_boot(&self, boot_id: &str) -> Daemon {
        let file = self.path("boot_id");
        fs::write(&file, format!("{boot_id}\n")).unwrap();
        let plain = self.command();
        let mut command = Command::new("unshare");
        // exec: the daemon keeps the process ID that is ours to end.
        let script = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
        command.args(["--mount", "sh", "-c", script]).arg(file).arg(plain.get_program()).args(plain.get_args());
        self.start_with(command)
    }

    /// Starts a daemon with a command of the test's own and waits until it is ready.
    ///
    /// # Panics
    /// With its log, if it ends instead.
    #[must_use]
    pub fn start_with(&self, mut command: Command) -> Daemon {
        let log = self.path(&format!("log-{}", self.starts.fetch_add(1, Ordering::SeqCst)));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap()).spawn();
        let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        // From here on it is killed whatever happens.
        let mut daemon = Daemon { child, log, http: Http { address: (Ipv4Addr::LOCALHOST, 0).into() } };
        daemon.http.address = until("the daemon to be ready", || {
            if let Some(status) = daemon.child.try_wait().unwrap() {
                panic!("the daemon ended with {status}: {}", daemon.log());
            }
            let ready = daemon.logged("ready").pop()?;
            text(&ready["http"]).strip_prefix("http://").and_then(|address| address.parse().ok())
        });
        daemon
    }

    /// A CNI configuration of the network `net1` that asks this daemon, with more keys in `ipam`.
    #[must_use]
    pub fn config(&self, version: &str, ipam: &Value) -> Value {
        let mut merged = json!({ "type": "berth-cni", "socket": self.socket() });
        for (key, value) in ipam.as_object().into_iter().flatten() {
            merged[key] = value.clone();
        }
        json!({ "cniVersion": version, "name": "net1", "type": "bridge", "ipam": merged })
    }

    /// ADD of a container through the plugin with nothing special; its addresses.
    #[must_use]
    #[track_caller]
    pub fn add(&self, container: &str) -> Vec<String> {
        Call::new("ADD", container).run(&self.config("1.0.0", &json!({}))).addresses()
    }

    /// DEL of a container through the plugin.
    #[track_caller]
    pub fn del(&self, container: &str) {
        Call::new("DEL", container).run(&self.config("1.0.0", &json!({}))).silent();
    }

    /// Makes the socket's directory as a service manager would.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn make_run_dir(&self) {
        fs::DirBuilder::new().mode(0o700).create(self.path("run")).unwrap();
    }
}

fn log_lines(log: &str) -> impl Iterator<Item = Value> {
    log.lines().filter_map(|line| serde_json::from_str(line).ok())
}

/// A running `berth serve`, killed when dropped.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    log: PathBuf,
    /// Its HTTP API.
    pub http: Http,
}

impl Daemon {
    /// Its process ID.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written so far: log lines, and what is for a person.
    ///
    /// # Panics
    /// If the log cannot be read.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// The log lines with this message.
    #[must_use]
    pub fn logged(&self, message: &str) -> Vec<Value> {
        log_lines(&self.log()).filter(|line| line["message"] == message).collect()
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// If the process is gone.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Asks it to stop, and waits until it has.
    ///
    /// # Panics
    /// If it does not.
    pub fn stop(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Waits until it has ended.
    ///
    /// # Panics
    /// If it does not.
    pub fn wait(&mut self) -> ExitStatus {
        until("the daemon to end", || self.child.try_wait().unwrap())
    }

    /// Kills it where it stands.
    pub fn kill(self) {
        drop(self);
    }

    /// What is held, in this state: address and holder ID, in order of address.
    ///
    /// # Panics
    /// If the API does not answer.
    #[must_use]
    #[track_caller]
    pub fn held(&self, state: &str) -> Vec<(String, String)> {
        let answer = self.http.get(&format!("/v1alpha1/addresses?state={state}")).ok();
        assert_eq!(answer["continue"], Value::Null, "one page is enough for a test");
        let items = answer["items"].as_array().unwrap();
        let id = |item: &Value| item["holder"]["id"].as_str().unwrap_or_default().to_owned();
        items.iter().map(|item| (text(&item["address"]).to_owned(), id(item))).collect()
    }

    /// The IDs of those who have an address in this state, in order of address.
    #[must_use]
    #[track_caller]
    pub fn holders(&self, state: &str) -> Vec<String> {
        self.held(state).into_iter().map(|(_, id)| id).collect()
    }

    /// Checks that the state is consistent.
    ///
    /// # Panics
    /// With the findings, if not.
    #[track_caller]
    pub fn check(&self) {
        assert_eq!(self.http.get("/v1alpha1/check").ok()["findings"], json!([]));
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
