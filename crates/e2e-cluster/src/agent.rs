//! `berth agent` as a process.

use crate::proxy::Proxy;
use crate::world::Pod;
use berth_e2e::{Call, Instead, Ran, binaries, seeing};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The agent of one node: its files outlive its process.
pub struct Agent {
    node: String,
    kubeconfig: PathBuf,
    dir: PathBuf,
    child: Mutex<Option<Child>>,
    /// The way to the API server, if it is one that can fail.
    proxy: Option<Proxy>,
    /// Arguments beyond those that every agent here has.
    arguments: Vec<String>,
    /// What the plugin's configuration says unless a call says otherwise.
    ipam: Value,
    /// The boot that the machine seems to be in, if it is not the real one.
    boot: Mutex<Option<String>>,
    /// Files that it and its plugin see in the place of others.
    sees: Mutex<Vec<Instead>>,
}

impl Agent {
    pub(crate) fn new(node: &str, kubeconfig: &Path, dir: &Path) -> Self {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir.join("run")).unwrap();
        let (node, kubeconfig, dir) = (node.to_owned(), kubeconfig.to_owned(), dir.to_owned());
        let (child, boot, sees) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (proxy, arguments, ipam) = (None, Vec::new(), json!({}));
        Self { node, kubeconfig, dir, child, proxy, arguments, ipam, boot, sees }
    }

    /// The same with more arguments, and keys that the plugin's configuration has.
    pub(crate) fn with(mut self, arguments: &[&str], ipam: Value) -> Self {
        self.arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        self.ipam = ipam;
        self
    }

    /// The same behind a proxy.
    pub(crate) fn behind_proxy(mut self) -> Self {
        self.proxy = Some(Proxy::start(&self.kubeconfig));
        self
    }

    /// Its way to the API server.
    ///
    /// # Panics
    /// If it is not behind a proxy.
    #[must_use]
    pub fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().unwrap()
    }

    /// Its node.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The process, for signals.
    ///
    /// # Panics
    /// If it does not run.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_child(self.child.lock().unwrap().as_ref().unwrap())
    }

    /// Starts it again if something has ended it; whether it had.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn revive(&self) -> bool {
        let ended = match &mut *self.child.lock().unwrap() {
            Some(child) => child.try_wait().unwrap().is_some(),
            None => true,
        };
        if ended {
            self.start();
        }
        ended
    }

    /// Lets the machine boot, as far as the next start can tell. Needs root.
    ///
    /// # Panics
    /// Never.
    pub fn boot(&self, id: &str) {
        *self.boot.lock().unwrap() = Some(id.to_owned());
    }

    /// Shows it, from its next start on, and its plugin these files in the place of others. Needs root.
    ///
    /// # Panics
    /// Never.
    pub fn see(&self, files: &[Instead]) {
        *self.sees.lock().unwrap() = files.to_vec();
    }

    /// Loses what it keeps on disk. It must not run.
    ///
    /// # Panics
    /// If that fails.
    pub fn lose_state(&self) {
        fs::remove_dir_all(self.dir.join("state")).unwrap();
    }

    /// What its queue of deletions has.
    #[must_use]
    pub fn queued(&self) -> usize {
        fs::read_dir(self.dir.join("run/queue")).map_or(0, Iterator::count)
    }

    /// Starts it and waits until it answers.
    ///
    /// # Panics
    /// If it does not.
    pub fn start(&self) {
        self.spawn();
        // On a machine with much else to do the API server takes its time.
        let since = Instant::now();
        while !self.answers() {
            assert!(since.elapsed() < Duration::from_secs(120), "the agent of {} does not answer", self.node);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts it, without waiting.
    ///
    /// # Panics
    /// If it cannot be executed.
    pub fn spawn(&self) {
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        let mut sees = self.sees.lock().unwrap().clone();
        if let Some(boot) = &*self.boot.lock().unwrap() {
            let file = self.dir.join("boot_id");
            fs::write(&file, format!("{boot}\n")).unwrap();
            sees.push((file, "/proc/sys/kernel/random/boot_id".into()));
        }
        let words = seeing(binaries::berth(), &sees);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.args(["agent", "--node-name", &self.node, "--missing-for", "2", "--empty-for", "3"]);
        if !self.arguments.iter().any(|argument| argument == "--listen") {
            command.args(["--listen", "none"]);
        }
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--socket").arg(self.socket());
        command.arg("--state-dir").arg(self.dir.join("state")).args(&self.arguments);
        if let Some(proxy) = &self.proxy {
            command.arg("--api-server").arg(proxy.url());
        }
        command.arg("--spiderpool-socket").arg(self.spiderpool_socket());
        command.env("BERTH_LOG_LEVEL", "debug,kube=info,hyper=info,tower=info,rustls=info");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        *self.child.lock().unwrap() = Some(command.spawn().unwrap());
    }

    /// Its log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// Its socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.dir.join("run/berth.sock")
    }

    /// The socket on which it speaks as spiderpool-agent does.
    #[must_use]
    pub fn spiderpool_socket(&self) -> PathBuf {
        self.dir.join("run/spiderpool.sock")
    }

    /// Whether it takes requests, though it may not answer them yet.
    #[must_use]
    pub fn listens(&self) -> bool {
        UnixStream::connect(self.socket()).is_ok()
    }

    /// Whether it answers a request at all.
    fn answers(&self) -> bool {
        let config = json!({"cniVersion": "1.1.0", "name": "net", "type": "x", "ipam": self.ipam()});
        let ran = Call::new("CHECK", "probe").run(&config.to_string().parse::<Value>().map_or(config, |mut c| {
            c["prevResult"] = json!({"cniVersion": "1.1.0", "ips": []});
            c
        }));
        // Nobody holds anything: refused, but by the agent.
        self.socket().exists() && !ran.stdout.contains("cannot reach") && ran.json()["code"] != 11
    }

    fn ipam(&self) -> Value {
        json!({"type": "berth-cni", "socket": self.socket()})
    }

    /// Asks it to stop, and waits.
    ///
    /// # Panics
    /// If it does not run.
    pub fn stop(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills it.
    ///
    /// # Panics
    /// If it does not run.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        let mut child = self.child.lock().unwrap().take().unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        child.wait().unwrap();
    }

    /// The plugin as the runtime calls it for an interface of a pod.
    #[must_use]
    pub fn call(&self, verb: &str, pod: &Pod, container: &str, ifname: &str) -> Call {
        let Pod { namespace, name, uid, .. } = pod;
        let args = format!(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name};K8S_POD_INFRA_CONTAINER_ID={container};K8S_POD_UID={uid}"
        );
        Call::new(verb, container).ifname(ifname).env("CNI_ARGS", args).seeing(&self.sees.lock().unwrap())
    }

    /// What the plugin is configured with.
    #[must_use]
    pub fn config(&self, extra: &Value) -> Value {
        let mut ipam = self.ipam();
        for (key, value) in self.ipam.as_object().into_iter().flatten() {
            ipam[key] = value.clone();
        }
        for (key, value) in extra.as_object().into_iter().flatten() {
            ipam[key] = value.clone();
        }
        json!({"cniVersion": "1.1.0", "name": "net", "type": "bridge", "ipam": ipam})
    }

    /// ADD of a pod's `eth0`, with these keys in the configuration.
    #[must_use]
    pub fn add_with(&self, pod: &Pod, container: &str, extra: &Value) -> Ran {
        self.call("ADD", pod, container, "eth0").run(&self.config(extra))
    }

    /// ADD of a pod's `eth0`.
    #[must_use]
    pub fn add(&self, pod: &Pod, container: &str) -> Ran {
        self.add_with(pod, container, &json!({}))
    }

    /// ADD that must succeed; its first address.
    ///
    /// # Panics
    /// If it fails.
    #[track_caller]
    #[must_use]
    pub fn address(&self, pod: &Pod, container: &str) -> IpAddr {
        let ran = self.add(pod, container);
        if ran.code != 0 {
            let log = fs::read_to_string(self.log()).unwrap_or_default();
            panic!("{}\n{log}", ran.stdout);
        }
        let first = ran.addresses().remove(0);
        first.split('/').next().unwrap_or_default().parse().unwrap()
    }

    /// DEL of a pod's `eth0`.
    #[must_use]
    pub fn del(&self, pod: &Pod, container: &str) -> Ran {
        self.call("DEL", pod, container, "eth0").run(&self.config(&json!({})))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.lock().unwrap().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let log = fs::read_to_string(self.log()).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(40).collect();
            eprintln!("--- the agent of {}:", self.node);
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}
