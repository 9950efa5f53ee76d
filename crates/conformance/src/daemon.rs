//! A daemon of our own for the cases that need one.

use anyhow::{Context, Result, bail};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Starting is a matter of milliseconds; anything near this is a failure.
const START: Duration = Duration::from_secs(10);

/// A running `berth serve`, killed when dropped.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    socket: PathBuf,
    server: String,
}

impl Daemon {
    /// Starts a daemon whose state lives in `dir`, and applies manifests to it.
    ///
    /// # Errors
    /// If it does not come up, or refuses the manifests.
    pub fn start(berth: &Path, dir: &Path, manifests: &str) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let socket = dir.join("berth.sock");
        let log = fs::File::create(dir.join("log"))?;
        let child = Command::new(berth)
            .arg("serve")
            .arg("--socket")
            .arg(&socket)
            .arg("--state-dir")
            .arg(dir.join("state"))
            .args(["--listen", "127.0.0.1:0", "--log-format", "json"])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot run {}", berth.display()))?;
        let mut daemon = Self { child, socket, server: String::new() };
        daemon.wait_until_up(dir)?;
        daemon.apply(berth, manifests)?;
        Ok(daemon)
    }

    /// The socket it listens on.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Where its HTTP API listens.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// It says on which port it listens in the line that says that it is ready.
    fn wait_until_up(&mut self, dir: &Path) -> Result<()> {
        let deadline = Instant::now() + START;
        loop {
            let log = fs::read_to_string(dir.join("log"))?;
            let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
            let ready = lines.into_iter().find(|line| line["message"] == "ready");
            if let Some(server) = ready.and_then(|line| line["http"].as_str().map(str::to_owned)) {
                self.server = server;
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("berth serve ended with {status}: {}", fs::read_to_string(dir.join("log"))?);
            }
            if Instant::now() > deadline {
                bail!("berth serve was not ready in {START:?}");
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn apply(&self, berth: &Path, manifests: &str) -> Result<()> {
        let mut child = Command::new(berth)
            .args(["--server", &self.server, "apply", "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        child.stdin.take().context("stdin was asked for")?.write_all(manifests.as_bytes())?;
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("berth apply refused the case's manifests: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Nothing is to be done about a daemon that is already gone.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
