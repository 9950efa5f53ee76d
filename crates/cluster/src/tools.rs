//! The programs a cluster is made of, built once from their pinned Go modules.
//!
//! The versions stand in the `go.mod` of each directory of `tools` and nowhere else. What is built goes to a
//! cache outside the source tree, into a directory named by version and by a checksum of all that decides what the
//! build gives; so a `git clean` costs nothing, two work trees share, and a new version is never mistaken for the old.
//! A file lock keeps parallel tests from building twice, and a binary appears under its name only when it is whole.

use crate::error::{Context, Error, Result, make_dir};
use crate::process::{output, run};
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// A program built from source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// The store of the API server.
    Etcd,
    /// The API server.
    Apiserver,
    /// The command line.
    Kubectl,
    /// The controllers: deployments, service accounts, garbage.
    ControllerManager,
    /// The scheduler.
    Scheduler,
    /// The node's agent.
    Kubelet,
    /// The CNI plugin that calls others, one for each interface of a pod. Not part of every cluster.
    Multus,
    /// Installs charts. Not part of a cluster.
    Helm,
}

/// Those of a cluster, the ones a control plane needs first.
pub const ALL: [Tool; 6] =
    [Tool::Etcd, Tool::Apiserver, Tool::Kubectl, Tool::ControllerManager, Tool::Scheduler, Tool::Kubelet];

/// A Go module that pins versions.
struct Module {
    name: &'static str,
    go_mod: &'static str,
    go_sum: &'static str,
    /// The requirement whose version is that of the module's programs.
    requires: &'static str,
}

const ETCD: Module = Module {
    name: "etcd",
    go_mod: include_str!("../../../tools/etcd/go.mod"),
    go_sum: include_str!("../../../tools/etcd/go.sum"),
    requires: "go.etcd.io/etcd/server/v3",
};
const KUBERNETES: Module = Module {
    name: "kubernetes",
    go_mod: include_str!("../../../tools/kubernetes/go.mod"),
    go_sum: include_str!("../../../tools/kubernetes/go.sum"),
    requires: "k8s.io/kubernetes",
};
const MULTUS: Module = Module {
    name: "multus",
    go_mod: include_str!("../../../tools/multus/go.mod"),
    go_sum: include_str!("../../../tools/multus/go.sum"),
    requires: "gopkg.in/k8snetworkplumbingwg/multus-cni.v4",
};

const HELM: Module = Module {
    name: "helm",
    go_mod: include_str!("../../../tools/helm/go.mod"),
    go_sum: include_str!("../../../tools/helm/go.sum"),
    requires: "helm.sh/helm/v3",
};

/// Goes into the checksum: a change of the flags below must change this.
const RECIPE: &str = "static, trimmed, stripped, version stamped; 1";

impl Tool {
    /// Its name, which is also its file name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Apiserver => "kube-apiserver",
            Self::Kubectl => "kubectl",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kubelet => "kubelet",
            Self::Multus => "multus",
            Self::Helm => "helm",
        }
    }

    /// Where it is, built first if it is not there yet, which takes minutes.
    ///
    /// # Errors
    /// [`Error::Missing`] if Go is not installed or the modules cannot be downloaded.
    pub fn path(self) -> Result<PathBuf> {
        let [path] = ensure([self])?;
        Ok(path)
    }

    fn module(self) -> &'static Module {
        match self {
            Self::Etcd => &ETCD,
            Self::Multus => &MULTUS,
            Self::Helm => &HELM,
            _ => &KUBERNETES,
        }
    }

    fn package(self) -> String {
        match self {
            Self::Etcd => ETCD.requires.to_owned(),
            _ => format!("{}/cmd/{}", self.module().requires, self.name()),
        }
    }
}

/// The Kubernetes version that is built, such as `v1.35.4`.
///
/// # Errors
/// If `tools/kubernetes/go.mod` does not name it.
pub fn kubernetes_version() -> Result<&'static str> {
    KUBERNETES.version()
}

/// Where the programs are, in the order asked for; those that are missing are built, and it is said how it goes.
///
/// # Errors
/// [`Error::Missing`] if Go is not installed or the modules cannot be downloaded.
pub fn ensure<const N: usize>(tools: [Tool; N]) -> Result<[PathBuf; N]> {
    let cache = cache()?;
    let mut paths = [const { PathBuf::new() }; N];
    for (tool, path) in tools.iter().zip(&mut paths) {
        *path = cache.join(tool.module().directory()?).join(tool.name());
    }
    if paths.iter().all(|path| path.exists()) {
        return Ok(paths);
    }
    make_dir(&cache)?;
    let lock = cache.join("lock");
    let file = File::create(&lock).context(|| format!("cannot write {}", lock.display()))?;
    file.lock().context(|| format!("cannot lock {}", lock.display()))?;
    // Another process may have built some while we waited for the lock.
    let missing: Vec<_> = tools.iter().zip(&paths).filter(|(_, path)| !path.exists()).collect();
    for module in [&ETCD, &KUBERNETES, &MULTUS, &HELM] {
        if missing.iter().any(|(tool, _)| tool.module().name == module.name) {
            download(module)?;
        }
    }
    for (index, (tool, path)) in missing.iter().enumerate() {
        let (name, version, count) = (tool.name(), tool.module().version()?, missing.len());
        eprintln!("building {name} {version} ({} of {count}) into {}", index + 1, cache.display());
        let began = Instant::now();
        build(**tool, path)?;
        eprintln!("built {name} in {} s", began.elapsed().as_secs());
    }
    Ok(paths)
}

/// `$BERTH_CACHE`, else `$XDG_CACHE_HOME/berth`, else `~/.cache/berth`.
fn cache() -> Result<PathBuf> {
    let given = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let found = given("BERTH_CACHE")
        .or_else(|| given("XDG_CACHE_HOME").map(|dir| dir.join("berth")))
        .or_else(|| given("HOME").map(|dir| dir.join(".cache/berth")));
    found.ok_or_else(|| Error::Missing("no place for what is built: set BERTH_CACHE to a directory".to_owned()))
}

/// Fetches what a module needs. Apart from the build, so that a machine without network is told from a broken build.
fn download(module: &Module) -> Result<()> {
    let mut go = go(module);
    go.args(["mod", "download"]);
    let output = output(&mut go).map_err(|error| match error {
        Error::Missing(_) => Error::Missing(format!(
            "Go is not installed; {} is built with {} or newer (https://go.dev/doc/install; Debian's may be older)",
            module.name,
            module.go_version()
        )),
        error => error,
    })?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it does not say why");
    let what = format!("the Go modules of {} {} cannot be had: {last}", module.name, module.version()?);
    Err(Error::Missing(format!("{what}; run this once with network, or set GOMODCACHE to a copy that has them")))
}

fn build(tool: Tool, path: &Path) -> Result<()> {
    let dir = path.parent().ok_or_else(|| Error::Invalid(format!("{} has no directory", path.display())))?;
    make_dir(dir)?;
    let half = path.with_extension("part");
    let flags = tool.module().linker_flags()?;
    // Static: a kubelet in another namespace, or a machine with another libc, must not care.
    let mut go = go(tool.module());
    go.args(["build", "-trimpath", "-buildvcs=false", "-ldflags", &flags, "-o"]).arg(&half).arg(tool.package());
    run(go.stdin(Stdio::null()))?;
    fs::rename(&half, path).context(|| format!("cannot rename {} to {}", half.display(), path.display()))
}

fn go(module: &Module) -> Command {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools").join(module.name);
    let mut go = Command::new("go");
    go.current_dir(dir).env("CGO_ENABLED", "0").env("GOWORK", "off");
    go
}

impl Module {
    fn version(&self) -> Result<&'static str> {
        let mut words = self.go_mod.lines().map(|line| line.trim().trim_start_matches("require "));
        let version = words.find_map(|line| line.strip_prefix(self.requires)?.trim().split(' ').next());
        version.ok_or_else(|| Error::Invalid(format!("tools/{}/go.mod does not require {}", self.name, self.requires)))
    }

    /// The oldest Go that will do, as `go.mod` says it.
    fn go_version(&self) -> &'static str {
        self.go_mod.lines().find(|line| line.starts_with("go ")).unwrap_or("Go")
    }

    fn directory(&self) -> Result<String> {
        let checksum =
            [self.go_mod, self.go_sum, RECIPE].iter().fold(0, |crc, text| crc32c::crc32c_append(crc, text.as_bytes()));
        Ok(format!("{}-{}-{checksum:08x}", self.name, self.version()?))
    }

    /// Strips, and for Kubernetes stamps the version, which clients compare with the server's.
    fn linker_flags(&self) -> Result<String> {
        if self.name != KUBERNETES.name {
            return Ok("-s -w".to_owned());
        }
        let version = self.version()?;
        let mut numbers = version.trim_start_matches('v').split('.');
        let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        let stamp = [("gitVersion", version), ("gitMajor", major), ("gitMinor", minor), ("gitTreeState", "clean")];
        let stamps = stamp.map(|(name, value)| format!("-X k8s.io/component-base/version.{name}={value}"));
        Ok(format!("-s -w {}", stamps.join(" ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_modules() {
        assert!(kubernetes_version().unwrap().starts_with("v1."));
        assert!(ETCD.version().unwrap().starts_with("v3."));
        assert!(MULTUS.version().unwrap().starts_with("v4."));
        assert!(HELM.version().unwrap().starts_with("v3."));
        let flags = KUBERNETES.linker_flags().unwrap();
        assert!(flags.contains(&format!("gitVersion={} ", kubernetes_version().unwrap())), "{flags}");
    }

    #[test]
    fn a_directory_says_version_and_checksum() {
        let directory = KUBERNETES.directory().unwrap();
        let rest = directory.strip_prefix(&format!("kubernetes-{}-", kubernetes_version().unwrap())).unwrap();
        assert_eq!(rest.len(), 8, "{directory}");
    }
}
