//! A node: a machine of its own, as far as Kubernetes can tell.
//!
//! A node has its own network, mounts and processes, so that three of them on one machine get in nobody's way: each has
//! its `/etc/cni/net.d`, `/opt/cni/bin`, `/run` and `/var/lib`, and a DaemonSet that mounts those from its host runs
//! here unchanged. `/etc`, `/opt` and `/var` are the machine's, with an overlay in memory that takes what the node
//! writes. The sysctls that a kubelet sets are covered by files, so that those of the machine stay as they are.
//!
//! The namespaces hang on the node's first process. Its death is a power cut: the kernel kills kubelet, containerd,
//! shims and containers, and then interfaces and mounts go. Teardown is therefore one kill, and happens also if this
//! process is killed.

use crate::cgroups;
use crate::control_plane::ControlPlane;
use crate::error::{Context, Error, Result, make_dir, write};
use crate::node_files;
use crate::process::{Process, mortal, only_child, output, run, until};
use crate::sandbox::{self, Sandbox};
use crate::tools::Tool;
use crate::underlay::Underlay;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

/// Makes the node's file system, says so, and then reaps orphans, as the first process must. `$0` is a directory for what it
/// keeps in memory, and `$1` the one for containerd's tasks (see [`cgroups`]).
const INIT: &str = r#"set -e
mount -t tmpfs -o mode=0755 tmpfs "$0"
for dir in etc opt var; do
    mkdir -p "$0/$dir/upper" "$0/$dir/work"
    mount -t overlay -o "lowerdir=/$dir,upperdir=$0/$dir/upper,workdir=$0/$dir/work" overlay "/$dir"
done
# Nothing of the machine's own containers may show through; and an overlay cannot be under an overlay.
mount -t tmpfs -o mode=0755 tmpfs /run
for dir in /etc/cni /opt/cni /var/lib/cni /var/lib/containerd /var/lib/kubelet /var/log/pods /var/log/containers; do
    mkdir -p "$dir"
    mount -t tmpfs -o mode=0755 tmpfs "$dir"
done
mkdir -p /etc/cni/net.d /opt/cni/bin /run/netns /run/containerd/io.containerd.runtime.v2.task
mount --bind "$1" /run/containerd/io.containerd.runtime.v2.task
for file in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys \
    kernel/keys/root_maxbytes; do
    [ -e "/proc/sys/$file" ] || continue
    copy="$0/sysctl-${file##*/}"
    cat "/proc/sys/$file" > "$copy"
    mount --bind "$copy" "/proc/sys/$file"
done
touch /run/node-is-up
while :; do sleep 1000; done
"#;

/// Where containerd's tasks are, in the node's directory.
pub(crate) const TASKS: &str = "tasks";

/// A running node; all of it ends when it is dropped.
#[derive(Debug)]
pub struct Node {
    // In the order in which they are dropped.
    kubelet: Option<Process>,
    containerd: Option<Process>,
    init: Process,
    inside: u32,
    name: String,
    address: IpAddr,
    dir: PathBuf,
}

impl Node {
    /// Makes the machine and puts it into the underlay; nothing runs on it yet. Nodes count from 1.
    pub(crate) fn new(plane: &ControlPlane, underlay: &Underlay, number: u8) -> Result<Self> {
        let name = format!("node-{number}");
        let dir = plane.dir().join(&name);
        make_dir(&dir.join("disk"))?;
        make_dir(&dir.join(TASKS))?;
        let mut command = mortal("unshare");
        command.args([
            "--net",
            "--mount",
            "--propagation",
            "private",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ]);
        command.args(["--", "sh", "-c", INIT]).arg(dir.join("disk")).arg(dir.join(TASKS));
        let mut init = Process::start(&name, command, &dir.join("init.log"))?;
        let inside = until("the node's first process", || {
            init.check()?;
            let up = |pid: &u32| Path::new(&format!("/proc/{pid}/root/run/node-is-up")).exists();
            Ok(only_child(init.pid()).filter(up).ok_or_else(|| crate::error::tail(init.log(), 5)))
        })?;
        let address = underlay.node_address(number);
        let node = Self { kubelet: None, containerd: None, init, inside, name, address, dir };
        node.join(underlay, number)?;
        node.write_files(plane)?;
        Ok(node)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address in the underlay.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// A path on the node, such as `/etc/cni/net.d`, as one that can be opened from here.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.inside)).join(path.trim_start_matches('/'))
    }

    /// Where its CNI plugins are.
    #[must_use]
    pub fn cni_bin_dir(&self) -> PathBuf {
        self.path("/opt/cni/bin")
    }

    /// Where its CNI configurations are.
    #[must_use]
    pub fn cni_conf_dir(&self) -> PathBuf {
        self.path("/etc/cni/net.d")
    }

    /// The process that the node hangs on, for `nsenter --target PID --all`.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.inside
    }

    /// The log of `kubelet` or `containerd`.
    #[must_use]
    pub fn log(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.log"))
    }

    /// A command that runs on the node and dies with this process.
    #[must_use]
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg("--target").arg(self.inside.to_string()).args(["--net", "--mount", "--pid", "--"]);
        // nsenter forks to get into the process namespace; who kills it must also end what it started.
        command.args(["setpriv", "--pdeathsig", "KILL", "--"]).arg(program.as_ref());
        command
    }

    /// Starts containerd and waits until it answers.
    ///
    /// # Errors
    /// With the end of its log, if it ends instead.
    pub fn start_containerd(&mut self) -> Result<()> {
        let mut command = self.command("containerd");
        command.args(["--config", node_files::CONTAINERD_PATH]);
        let mut containerd = Process::start("containerd", command, &self.log("containerd"))?;
        let answers = until("containerd to answer", || {
            containerd.check()?;
            let output = output(&mut self.ctr(&["version"]))?;
            Ok(if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) })
        });
        self.containerd = Some(containerd);
        answers
    }

    /// Kills containerd; pods run on.
    pub fn stop_containerd(&mut self) {
        self.containerd = None;
    }

    /// Starts the kubelet, which registers the node. The API server says when it is ready.
    ///
    /// # Errors
    /// If it cannot be built.
    pub fn start_kubelet(&mut self) -> Result<()> {
        let mut command = self.command(Tool::Kubelet.path()?);
        command.args(["--config", node_files::KUBELET_PATH, "--kubeconfig", node_files::KUBECONFIG_PATH]);
        command.args(["--hostname-override", &self.name, "--node-ip", &self.address.to_string()]);
        self.kubelet = Some(Process::start("kubelet", command, &self.log("kubelet"))?);
        Ok(())
    }

    /// Kills the kubelet; pods run on.
    pub fn stop_kubelet(&mut self) {
        self.kubelet = None;
    }

    /// An error if something that should run has ended.
    ///
    /// # Errors
    /// With the end of its log.
    pub fn check(&mut self) -> Result<()> {
        let running = [Some(&mut self.init), self.containerd.as_mut(), self.kubelet.as_mut()];
        running.into_iter().flatten().try_for_each(Process::check)
    }

    /// Imports an image archive.
    ///
    /// # Errors
    /// If containerd refuses it.
    pub fn load_image(&self, archive: &Path) -> Result<()> {
        // The node has its own /var, and may not see the file; a copy it does.
        let copy = self.path("/run/image.tar");
        std::fs::copy(archive, &copy).context(|| format!("cannot copy {}", archive.display()))?;
        run(&mut self.ctr(&["images", "import", "/run/image.tar"]))?;
        std::fs::remove_file(&copy).context(|| format!("cannot remove {}", copy.display()))
    }

    /// Gives an image that was imported another name too.
    ///
    /// # Errors
    /// If there is no such image.
    pub fn tag_image(&self, name: &str, other: &str) -> Result<()> {
        run(&mut self.ctr(&["images", "tag", "--force", name, other])).map(drop)
    }

    /// The addresses in a pod's own network namespace, loopback and link-local ones left out; whatever the API server
    /// says about them.
    ///
    /// # Errors
    /// If no such pod runs here.
    pub fn pod_addresses(&self, namespace: &str, name: &str) -> Result<Vec<IpAddr>> {
        self.addresses_in(&self.sandbox(namespace, name)?.netns)
    }

    fn addresses_in(&self, netns: &str) -> Result<Vec<IpAddr>> {
        sandbox::addresses(
            run(self.command("nsenter").arg(format!("--net={netns}")).args(["--", "ip", "-json", "addr"]))?.as_bytes(),
        )
    }

    /// The same of all pods of a namespace that run here, by their names.
    ///
    /// # Errors
    /// If one of them goes meanwhile.
    pub fn pods_addresses(&self, namespace: &str) -> Result<BTreeMap<String, Vec<IpAddr>>> {
        let sandboxes = sandbox::all(&self.tasks(), namespace)?;
        let addresses = |sandbox: &Sandbox| self.addresses_in(&sandbox.netns);
        sandboxes.iter().map(|(name, sandbox)| Ok((name.clone(), addresses(sandbox)?))).collect()
    }

    /// Runs a program of the machine in a pod's network namespace.
    ///
    /// # Errors
    /// If no such pod runs here.
    pub fn in_pod(&self, namespace: &str, name: &str, words: &[&str]) -> Result<Output> {
        let netns = self.sandbox(namespace, name)?.netns;
        output(self.command("nsenter").arg(format!("--net={netns}")).arg("--").args(words))
    }

    /// Kills the process that holds a pod's namespaces. The kubelet then makes the pod again: another container for the
    /// runtime and its plugins, the same pod for Kubernetes.
    ///
    /// # Errors
    /// If no such pod runs here.
    pub fn kill_sandbox(&self, namespace: &str, name: &str) -> Result<()> {
        let pid = self.sandbox(namespace, name)?.pid()?;
        run(self.command("kill").args(["-KILL", &pid.to_string()])).map(drop)
    }

    /// The path of a pod's network namespace on the node; another one after the sandbox was made again.
    ///
    /// # Errors
    /// If no such pod runs here.
    pub fn pod_netns(&self, namespace: &str, name: &str) -> Result<String> {
        Ok(self.sandbox(namespace, name)?.netns)
    }

    fn tasks(&self) -> PathBuf {
        self.dir.join(TASKS).join("k8s.io")
    }

    fn sandbox(&self, namespace: &str, name: &str) -> Result<Sandbox> {
        let found = sandbox::all(&self.tasks(), namespace)?.remove(name);
        found.ok_or_else(|| Error::Invalid(format!("{}: no pod {namespace}/{name} runs here", self.name)))
    }

    /// Whether it has power.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.path("/run/node-is-up").exists()
    }

    /// Cuts the power, and waits until the lights are out: the first process is gone only after all others are. The
    /// node does not come back.
    pub fn power_off(&mut self) {
        if let Some(first) = i32::try_from(self.inside).ok().and_then(Pid::from_raw) {
            // It may be gone already; its ID is not reused before unshare, its parent, has waited for it.
            let _ = kill_process(first, Signal::KILL);
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.init.exited().is_none() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn ctr(&self, args: &[&str]) -> Command {
        let mut command = self.command("ctr");
        command.args(["--namespace", "k8s.io"]).args(args);
        command
    }

    /// Two interfaces: `eth0` with the node's addresses, and one that makes a bridge for pods part of the underlay.
    fn join(&self, underlay: &Underlay, number: u8) -> Result<()> {
        underlay.plug(number, "eth0", self.init.pid())?;
        underlay.plug(number, "eth1", self.init.pid())?;
        for arguments in [
            "link set lo up".to_owned(),
            format!("addr add {}/16 dev eth0", self.address),
            format!("-6 addr add {}/64 dev eth0 nodad", underlay.node_address_v6(number)),
            "link set eth0 up".to_owned(),
            format!("route add default via {}", underlay.gateway()),
            "link add cni0 type bridge".to_owned(),
            "link set eth1 master cni0 up".to_owned(),
            "link set cni0 up".to_owned(),
        ] {
            run(self.command("ip").args(arguments.split(' ')))?;
        }
        // cni0 hears what is asked of eth0, and must not answer for it.
        write(&self.path("/proc/sys/net/ipv4/conf/all/arp_ignore"), "1")
    }

    fn write_files(&self, plane: &ControlPlane) -> Result<()> {
        make_dir(&self.path("/etc/berth-node"))?;
        let user = format!("system:node:{}", self.name);
        let kubeconfig = plane.kubeconfig_for_user(&self.name, &user, Some("system:nodes"))?;
        // The file names others in the cluster's directory, which the node can read: it shares the file system.
        std::fs::copy(kubeconfig, self.path(node_files::KUBECONFIG_PATH)).context(|| "cannot copy".to_owned())?;
        write(&self.path(node_files::CONTAINERD_PATH), node_files::CONTAINERD)?;
        let kubelet = node_files::kubelet(&plane.certificate_authority(), self.address);
        write(&self.path(node_files::KUBELET_PATH), format!("{kubelet:#}"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.init.exited().is_none() {
            self.power_off();
        }
        cgroups::remove(&self.dir.join(TASKS));
    }
}
