//! `berth controller` as a process.

use berth_cluster::process::{mortal, spawn};
use berth_e2e::{Instead, binaries, seeing};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// One replica of the controller.
pub struct Controller {
    child: Option<Child>,
    log: PathBuf,
    arguments: Vec<OsString>,
    /// Files that it sees in the place of others.
    sees: Vec<Instead>,
}

impl Controller {
    pub(crate) fn start(replica: &str, kubeconfig: &Path, (dir, sees): (&Path, &[Instead]), args: &[&str]) -> Self {
        let silent: &[&str] = if args.contains(&"--listen") { &[] } else { &["--listen", "none"] };
        let own = ["controller", "--replica", replica];
        let mut arguments: Vec<OsString> = own.iter().chain(silent).chain(args).map(OsString::from).collect();
        arguments.extend(["--kubeconfig".into(), kubeconfig.into()]);
        let mut controller =
            Self { child: None, log: dir.join(format!("controller-{replica}.log")), arguments, sees: sees.to_vec() };
        controller.launch();
        controller
    }

    fn launch(&mut self) {
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        let words = seeing(binaries::berth(), &self.sees);
        let mut command = mortal(&words[0]);
        command.args(&words[1..]).args(&self.arguments);
        command.env("BERTH_LOG_LEVEL", "debug,kube=info,hyper=info,tower=info,rustls=info");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.child = Some(spawn(command).unwrap());
    }

    /// Starts it again if it has ended, as Kubernetes would.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn restart_if_ended(&mut self) {
        if self.has_ended() {
            self.launch();
        }
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends it a signal; whether it ended, [`Self::wait`] tells.
    ///
    /// # Panics
    /// If it does not run.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.child.as_ref().unwrap()), signal).unwrap();
    }

    /// Its process.
    ///
    /// # Panics
    /// If it does not run.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().unwrap())
    }

    /// Whether it has ended.
    ///
    /// # Panics
    /// If that cannot be told.
    pub fn has_ended(&mut self) -> bool {
        self.child.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    /// Waits until it ends; its exit code, if it was not killed.
    ///
    /// # Panics
    /// If it cannot be waited for.
    pub fn wait(&mut self) -> Option<i32> {
        self.child.take().unwrap().wait().unwrap().code()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(40).collect();
            eprintln!("--- {}:", self.log.display());
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}
