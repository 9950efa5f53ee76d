//! Processes that end when we do.
//!
//! A cluster is a dozen daemons, and a test can be killed at any moment. So each child asks the kernel to be killed when
//! its parent is (`setpriv --pdeathsig`; the same from Rust would take unsafe code between fork and exec). The kernel
//! takes *the thread that forked* for the parent, and a test's thread ends with the test: all children are started by
//! one thread that stays.

use crate::error::{Context, Error, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender, SyncSender};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Long enough for anything on a loaded machine, short enough to be waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A running child with a log; killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program. What it writes is added to the log.
    ///
    /// # Errors
    /// If the program or the log cannot be opened.
    pub(crate) fn start(name: &str, mut command: Command, log: &Path) -> Result<Self> {
        let open = || File::options().create(true).append(true).open(log);
        let file = open().and_then(|file| Ok((file.try_clone()?, file)));
        let (out, err) = file.context(|| format!("cannot write {}", log.display()))?;
        // A group of its own: Ctrl-C in a terminal is for us, and we end the children in order.
        command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
        let child = spawn(command).context(|| format!("cannot start {name}"))?;
        Ok(Self { name: name.to_owned(), child, log: log.to_owned() })
    }

    /// Its process ID.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal).context(|| format!("cannot signal {}", self.name))
    }

    /// An error if it has ended.
    ///
    /// # Errors
    /// With the end of its log.
    pub fn check(&mut self) -> Result<()> {
        match self.exited() {
            Some(status) => Err(Error::ended(&self.name, status, &self.log)),
            None => Ok(()),
        }
    }

    /// Ends it, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A command for a program that is killed when the thread that starts it ends, which is when this process does.
#[must_use]
pub fn mortal(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program.as_ref());
    command
}

/// The first process inside a process that has forked once and waits, such as `unshare --fork`.
pub(crate) fn only_child(pid: u32) -> Option<u32> {
    fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?.split_whitespace().next()?.parse().ok()
}

/// Runs a command to its end; anything but success is an error. Returns what it printed.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let output = output(command)?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(Error::command(command, output.status, &output.stdout, &output.stderr)),
    }
}

/// Runs a command to its end, whatever that is.
pub(crate) fn output(command: &mut Command) -> Result<Output> {
    command.stdin(Stdio::null()).output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::Missing(format!("{:?} is not installed", command.get_program())),
        _ => Error::Io { what: format!("cannot run {}", crate::error::line(command)), error },
    })
}

/// Asks until the answer is `Ok(Some)`; an error ends the waiting. `Err` of the inner result says how things stand.
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Result<std::result::Result<T, String>>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let state = match ask()? {
            Ok(answer) => return Ok(answer),
            Err(state) => state,
        };
        if Instant::now() > deadline {
            return Err(Error::Timeout { what: what.to_owned(), patience: PATIENCE, state });
        }
        thread::sleep(Duration::from_millis(50));
    }
}

type Request = (Command, SyncSender<io::Result<Child>>);

/// Has the thread that stays start a child.
///
/// # Errors
/// If the program cannot be executed.
pub fn spawn(command: Command) -> io::Result<Child> {
    static KEEPER: OnceLock<io::Result<Sender<Request>>> = OnceLock::new();
    let keeper = KEEPER.get_or_init(|| {
        let (sender, receiver) = mpsc::channel::<Request>();
        let serve = move || {
            for (mut command, answer) in receiver {
                // Who asked has gone away if nobody listens; then the child is dropped, and dies with us.
                let _ = answer.send(command.spawn());
            }
        };
        thread::Builder::new().name("keeper of processes".to_owned()).spawn(serve)?;
        Ok(sender)
    });
    let gone = || io::Error::other("the thread that starts processes is gone");
    let keeper = keeper.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
    let (sender, receiver) = mpsc::sync_channel(1);
    keeper.send((command, sender)).map_err(|_| gone())?;
    receiver.recv().map_err(|_| gone())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_outlives_the_thread_that_asked_for_it_and_dies_when_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let start = move || {
            let mut command = mortal("sh");
            command.args(["-c", "echo started; exec sleep 100"]);
            Process::start("sleep", command, &log).unwrap()
        };
        let mut process = thread::spawn(start).join().unwrap();
        let started = |process: &Process| fs::read_to_string(process.log()).unwrap() == "started\n";
        until("the child to start", || Ok(started(&process).then_some(()).ok_or_else(String::new))).unwrap();
        process.check().unwrap();
        let pid = process.pid();
        drop(process);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_child_that_ended_shows_the_end_of_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = mortal("sh");
        command.args(["-c", "echo out of luck; exit 3"]);
        let mut process = Process::start("luckless", command, &dir.path().join("log")).unwrap();
        let error = until("it to end", || Ok(process.check().err().ok_or_else(String::new))).unwrap();
        let text = error.to_string();
        assert!(text.contains("luckless ended with exit status: 3") && text.contains("out of luck"), "{text}");
    }

    #[test]
    fn a_program_that_is_not_there_is_missing() {
        assert!(run(&mut Command::new("no-such-program")).unwrap_err().is_missing());
    }
}
