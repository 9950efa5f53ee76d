//! etcd, the API server and, where wanted, the controllers and the scheduler.
//!
//! Every control plane has an address of its own in 127.0.0.0/8, made from the process ID, and ports counted within
//! the process. So nothing is probed for a free port and lost to somebody else a moment later, and the API server can
//! be stopped and started on the same port. For nodes, which cannot reach the machine's loopback, the API server
//! listens where it is told.

use crate::certificates::{Authority, secret};
use crate::daemons::{apiserver_command, own_loopback, secret_token, start_etcd};
use crate::error::{Context, Error, Result};
use crate::kubeconfig::{self, Identity};
use crate::process::{self, Process, mortal, until};
use crate::scratch;
use crate::tools::{self, Tool};
use rustix::process::Signal;
use serde_json::json;
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

const ADMINISTRATOR: &str = "administrator";
/// Not one that a Kubernetes on this machine would already listen on, on every address.
const FIRST_PORT: u16 = 16_400;

/// What a control plane is made of.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where the API server listens; by default at an address in loopback.
    pub address: Option<IpAddr>,
    /// Run the controllers. Without them there are no service accounts either, so pods need none.
    pub controllers: bool,
    /// Run the scheduler.
    pub scheduler: bool,
    /// More flags for the API server, such as `--feature-gates=…`.
    pub apiserver_flags: Vec<String>,
    /// More flags for the controller manager.
    pub controller_manager_flags: Vec<String>,
    /// More flags for the scheduler.
    pub scheduler_flags: Vec<String>,
}

/// A running control plane; all of it ends when it is dropped.
#[derive(Debug)]
pub struct ControlPlane {
    // In the order in which they are dropped: clients before servers, the directory last.
    // Behind locks, because others use the control plane while a test restarts them.
    scheduler: Mutex<Option<Process>>,
    controller_manager: Mutex<Option<Process>>,
    apiserver: Mutex<Option<Process>>,
    etcd: Mutex<Process>,
    etcd_url: String,
    address: IpAddr,
    port: u16,
    kubectl: PathBuf,
    apiserver_command: Vec<String>,
    controller_manager_flags: Vec<String>,
    scheduler_flags: Vec<String>,
    authority: Authority,
    dir: TempDir,
}

impl ControlPlane {
    /// Starts one and waits until it is ready.
    ///
    /// # Errors
    /// [`Error::Missing`] if the programs are not there and cannot be built.
    pub fn start(options: &Options) -> Result<Self> {
        let [etcd, apiserver, kubectl] = tools::ensure([Tool::Etcd, Tool::Apiserver, Tool::Kubectl])?;
        let dir = scratch::directory()?;
        let path = |name: &str| dir.path().join(name);
        let (loopback, ports) = (own_loopback(), FIRST_PORT + 3 * scratch::number());
        let address = options.address.unwrap_or(loopback);
        let authority = Authority::new(&path("pki"))?;
        let token = secret_token()?;
        secret(&path("tokens.csv"), &format!("{token},{ADMINISTRATOR},1,\"system:masters\"\n"))?;

        let etcd_url = format!("http://{loopback}:{}", ports + 1);
        let etcd = start_etcd(&etcd, &etcd_url, &format!("http://{loopback}:{}", ports + 2), dir.path())?;
        let apiserver_command =
            apiserver_command(&apiserver, options, &authority, dir.path(), address, ports, &etcd_url)?;
        let plane = Self {
            scheduler: Mutex::default(),
            controller_manager: Mutex::default(),
            apiserver: Mutex::default(),
            etcd: Mutex::new(etcd),
            etcd_url,
            address,
            port: ports,
            kubectl,
            apiserver_command,
            controller_manager_flags: options.controller_manager_flags.clone(),
            scheduler_flags: options.scheduler_flags.clone(),
            authority,
            dir,
        };
        let kubeconfig = plane.kubeconfig();
        kubeconfig::write(&kubeconfig, &plane.url(), &plane.authority.file(), &Identity::Token(&token))?;
        plane.start_apiserver()?;
        if options.controllers {
            plane.start_controller_manager()?;
        }
        if options.scheduler {
            plane.start_scheduler()?;
        }
        if options.controllers {
            plane.wait_for("the default service account", &["get", "serviceaccount", "default"])?;
        }
        Ok(plane)
    }

    /// Where the API server is.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", std::net::SocketAddr::from((self.address, self.port)))
    }

    /// Where etcd is, which also serves its `/metrics` there.
    #[must_use]
    pub fn etcd_url(&self) -> &str {
        &self.etcd_url
    }

    /// The kubeconfig of the administrator, who may do everything.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// The built `kubectl`.
    #[must_use]
    pub fn kubectl_path(&self) -> &Path {
        &self.kubectl
    }

    /// The certificate that the API server's is signed with.
    #[must_use]
    pub fn certificate_authority(&self) -> PathBuf {
        self.authority.file()
    }

    /// Where everything of this control plane is; logs are called `NAME.log`.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The log of `etcd`, `kube-apiserver`, `kube-controller-manager` or `kube-scheduler`.
    #[must_use]
    pub fn log(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.log"))
    }

    /// `kubectl` as the administrator, to add arguments to.
    #[must_use]
    pub fn kubectl_command(&self) -> Command {
        let mut command = Command::new(&self.kubectl);
        // Its cache of what the API server offers is per home directory, and would outlive this cluster.
        command.arg("--kubeconfig").arg(self.kubeconfig()).arg("--cache-dir").arg(self.dir.path().join("cache"));
        command
    }

    /// Runs `kubectl` to its end, whatever that is.
    ///
    /// # Errors
    /// If it cannot be run.
    pub fn kubectl(&self, args: &[&str]) -> Result<Output> {
        process::output(self.kubectl_command().args(args))
    }

    /// Runs `kubectl`, which must succeed, and returns what it printed.
    ///
    /// # Errors
    /// With what it said.
    pub fn kubectl_ok(&self, args: &[&str]) -> Result<String> {
        process::run(self.kubectl_command().args(args))
    }

    /// Applies manifests, on the server's side.
    ///
    /// # Errors
    /// With what `kubectl` said.
    pub fn apply(&self, yaml: &str) -> Result<()> {
        let mut command = self.kubectl_command();
        command.args(["apply", "--server-side", "--filename", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context(|| "cannot run kubectl".to_owned())?;
        // If it ends without reading, what it says is more telling than a broken pipe.
        let _ = child.stdin.take().map(|mut stdin| stdin.write_all(yaml.as_bytes()));
        let output = child.wait_with_output().context(|| "cannot run kubectl".to_owned())?;
        match output.status.success() {
            true => Ok(()),
            false => Err(Error::command(&command, output.status, &output.stdout, &output.stderr)),
        }
    }

    /// Runs `kubectl` until it succeeds and prints something.
    ///
    /// # Errors
    /// With what it said last, if that does not happen.
    pub fn wait_for(&self, what: &str, args: &[&str]) -> Result<String> {
        until(what, || {
            let output = self.kubectl(args)?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let done = output.status.success() && !output.stdout.is_empty();
            Ok(if done { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) })
        })
    }

    /// Freezes the API server: connections stay, answers do not come.
    ///
    /// # Errors
    /// If it is not running.
    pub fn pause(&self) -> Result<()> {
        self.signal_apiserver(Signal::STOP)
    }

    /// Lets a frozen API server go on.
    ///
    /// # Errors
    /// If it is not running.
    pub fn resume(&self) -> Result<()> {
        self.signal_apiserver(Signal::CONT)
    }

    /// Kills the API server. What it has acknowledged is in etcd.
    pub fn stop_apiserver(&self) {
        *lock(&self.apiserver) = None;
    }

    /// Kills etcd and starts it again on what it has written. The API server stays, and finds it again.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn restart_etcd(&self) -> Result<()> {
        let [program] = tools::ensure([Tool::Etcd])?;
        // Gone before the next one wants its ports.
        let mut etcd = lock(&self.etcd);
        etcd.kill();
        let peers = format!("http://{}:{}", own_loopback(), self.port + 2);
        *etcd = start_etcd(&program, &self.etcd_url, &peers, self.dir.path())?;
        Ok(())
    }

    /// Starts the API server where it was, and waits until it is ready.
    ///
    /// # Errors
    /// With the end of its log, if it ends instead.
    pub fn start_apiserver(&self) -> Result<()> {
        let (program, flags) = self.apiserver_command.split_first().map_or(("", &[][..]), |(p, f)| (p.as_str(), f));
        let mut command = mortal(program);
        command.args(flags);
        let mut apiserver = Process::start("kube-apiserver", command, &self.log("kube-apiserver"))?;
        let ready = until("the API server to be ready", || {
            lock(&self.etcd).check()?;
            apiserver.check()?;
            let output = self.kubectl(&["get", "--raw", "/readyz"])?;
            Ok(if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) })
        });
        *lock(&self.apiserver) = Some(apiserver);
        ready
    }

    /// Makes it know network attachment definitions, as an installation of Multus does.
    ///
    /// # Errors
    /// If they are refused.
    pub fn define_attachments(&self) -> Result<()> {
        let config = json!({"type": "object", "properties": {"config": {"type": "string"}}});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": config}}});
        let names = json!({"plural": "network-attachment-definitions", "singular": "network-attachment-definition",
            "kind": "NetworkAttachmentDefinition", "shortNames": ["net-attach-def"]});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "network-attachment-definitions.k8s.cni.cncf.io"},
            "spec": {"group": "k8s.cni.cncf.io", "scope": "Namespaced", "names": names, "versions": [version]}});
        self.apply(&definition.to_string())?;
        self.kubectl_ok(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"]).map(drop)
    }

    /// Kills the controllers and the scheduler that run, and starts them again: after an API server that was away they may
    /// take minutes to look again.
    ///
    /// # Errors
    /// If they cannot be started.
    pub fn restart_controllers(&self) -> Result<()> {
        let (manager, scheduler) = (lock(&self.controller_manager).take(), lock(&self.scheduler).take());
        if let Some(mut running) = manager {
            running.kill();
            self.start_controller_manager()?;
        }
        if let Some(mut running) = scheduler {
            running.kill();
            self.start_scheduler()?;
        }
        Ok(())
    }

    /// A kubeconfig with a token of a service account, which must exist. A token bound to a node carries that node's
    /// name, as one in a pod does, and dies with the node.
    ///
    /// # Errors
    /// If the API server refuses the token.
    pub fn kubeconfig_for_service_account(&self, namespace: &str, name: &str, node: Option<&str>) -> Result<PathBuf> {
        let mut args = vec!["create", "token", name, "--namespace", namespace, "--duration", "24h"];
        args.extend(node.into_iter().flat_map(|node| ["--bound-object-kind", "Node", "--bound-object-name", node]));
        let token = self.kubectl_ok(&args)?;
        let node = node.map_or_else(String::new, |node| format!("-{node}"));
        let path = self.dir.path().join(format!("kubeconfig-{namespace}-{name}{node}"));
        kubeconfig::write(&path, &self.url(), &self.authority.file(), &Identity::Token(token.trim()))?;
        Ok(path)
    }

    /// A kubeconfig with a client certificate of a user in a group.
    ///
    /// # Errors
    /// If the files cannot be written.
    pub fn kubeconfig_for_user(&self, file: &str, user: &str, group: Option<&str>) -> Result<PathBuf> {
        let pair = self.authority.client(file, user, group)?;
        let path = self.dir.path().join(format!("kubeconfig-{file}"));
        kubeconfig::write(&path, &self.url(), &self.authority.file(), &Identity::Certificate(&pair))?;
        Ok(path)
    }

    fn signal_apiserver(&self, signal: Signal) -> Result<()> {
        let stopped = || Error::Invalid("the API server is stopped".to_owned());
        lock(&self.apiserver).as_ref().ok_or_else(stopped)?.signal(signal)
    }

    fn start_controller_manager(&self) -> Result<()> {
        let name = Tool::ControllerManager.name();
        let kubeconfig = self.kubeconfig_for_user(name, "system:kube-controller-manager", None)?;
        let mut command = mortal(Tool::ControllerManager.path()?);
        let pki = self.dir.path().join("pki");
        command.arg("--kubeconfig").arg(kubeconfig).arg("--root-ca-file").arg(self.authority.file());
        command.arg("--service-account-private-key-file").arg(pki.join("service-accounts.key"));
        // Each controller with its own rights, as in a real cluster.
        command.args(["--use-service-account-credentials", "--leader-elect=false", "--secure-port=0"]);
        command.args(&self.controller_manager_flags);
        *lock(&self.controller_manager) = Some(Process::start(name, command, &self.log(name))?);
        Ok(())
    }

    fn start_scheduler(&self) -> Result<()> {
        let name = Tool::Scheduler.name();
        let kubeconfig = self.kubeconfig_for_user(name, "system:kube-scheduler", None)?;
        let mut command = mortal(Tool::Scheduler.path()?);
        command.arg("--kubeconfig").arg(kubeconfig).args(["--leader-elect=false", "--secure-port=0"]);
        command.args(&self.scheduler_flags);
        *lock(&self.scheduler) = Some(Process::start(name, command, &self.log(name))?);
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
