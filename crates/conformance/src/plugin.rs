//! Executing a plugin as a container runtime does.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any call may take; a plugin that hangs fails its case rather than the suite.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A plugin binary.
#[derive(Clone, Debug)]
pub struct Plugin {
    path: PathBuf,
    name: Option<String>,
}

/// What the process did.
#[derive(Clone, Debug)]
pub struct Output {
    /// Exit status; absent if a signal ended it.
    pub status: Option<i32>,
    /// Everything on stdout.
    pub stdout: Vec<u8>,
    /// Everything on stderr.
    pub stderr: String,
}

impl Plugin {
    /// A plugin at a path.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), name: None }
    }

    /// The same binary, executed under another name.
    #[must_use]
    pub fn named(&self, name: Option<&str>) -> Self {
        Self { path: self.path.clone(), name: name.map(str::to_owned).or_else(|| self.name.clone()) }
    }

    /// Runs the plugin with exactly these variables and this input.
    ///
    /// # Errors
    /// If it cannot be started or does not end in time.
    pub fn call(&self, env: &BTreeMap<String, String>, stdin: &[u8]) -> Result<Output> {
        let mut command = Command::new(&self.path);
        if let Some(name) = &self.name {
            command.arg0(name);
        }
        let mut child = command
            .env_clear()
            .envs(env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", self.path.display()))?;
        let (input, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        thread::scope(|scope| {
            scope.spawn(move || {
                // A plugin may refuse a call before it has read everything; the broken pipe is its right.
                input.map(|mut pipe| pipe.write_all(stdin))
            });
            let stdout = scope.spawn(|| drain(stdout));
            let stderr = scope.spawn(|| drain(stderr));
            let deadline = Instant::now() + TIMEOUT;
            let status = loop {
                if let Some(status) = child.try_wait()? {
                    break status;
                }
                if Instant::now() > deadline {
                    child.kill()?;
                    anyhow::bail!("still running after {TIMEOUT:?}: killed");
                }
                thread::sleep(Duration::from_micros(300));
            };
            Ok(Output {
                status: status.code(),
                stdout: stdout.join().unwrap_or_default(),
                stderr: String::from_utf8_lossy(&stderr.join().unwrap_or_default()).into_owned(),
            })
        })
    }

    /// The CNI versions that the plugin says it supports.
    ///
    /// # Errors
    /// If VERSION fails or answers anything but the specified object.
    pub fn versions(&self) -> Result<Vec<String>> {
        let env = BTreeMap::from([("CNI_COMMAND".to_owned(), "VERSION".to_owned())]);
        let output = self.call(&env, b"")?;
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("{} does not answer VERSION", self.path.display()))?;
        serde_json::from_value(answer["supportedVersions"].clone()).context("VERSION lists no supportedVersions")
    }
}

fn drain(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What was read before an error is still worth reporting.
    pipe.map(|mut pipe| pipe.read_to_end(&mut bytes).ok());
    bytes
}
