//! Which sandbox is a pod's: its network namespace, and the process that holds it.
//!
//! Asked of the files that containerd keeps for its shims, not of its API: a test that has stopped containerd may ask
//! too, and what the runtime was told is what there is.

use crate::error::{Context, Error, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// A pod's sandbox.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sandbox {
    /// The path of its network namespace, as the node sees it.
    pub(crate) netns: String,
    /// Where containerd keeps it.
    dir: PathBuf,
}

impl Sandbox {
    /// Its process, as the node counts.
    pub(crate) fn pid(&self) -> Result<u32> {
        let path = self.dir.join("init.pid");
        let text = fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))?;
        text.trim().parse().map_err(|_| Error::Invalid(format!("{}: {text:?} is no process", path.display())))
    }
}

/// The sandboxes of a namespace's pods, by the names of the pods. `tasks` has a directory for each container.
pub(crate) fn all(tasks: &Path, namespace: &str) -> Result<BTreeMap<String, Sandbox>> {
    let entries = fs::read_dir(tasks).context(|| format!("cannot read {}", tasks.display()))?;
    let mut found: BTreeMap<String, Option<(_, Sandbox)>> = BTreeMap::new();
    for entry in entries.flatten() {
        // A container may go while we look; then it is not the one.
        let Ok(text) = fs::read_to_string(entry.path().join("config.json")) else { continue };
        let Ok(spec) = serde_json::from_str::<Value>(&text) else { continue };
        let about = |key: &str| spec["annotations"][format!("io.kubernetes.cri.{key}")].as_str().unwrap_or_default();
        if (about("container-type"), about("sandbox-namespace")) != ("sandbox", namespace) {
            continue;
        }
        let changed = entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let netns = spec["linux"]["namespaces"].as_array().into_iter().flatten();
        let netns = netns.filter(|it| it["type"] == "network").find_map(|it| it["path"].as_str().map(str::to_owned));
        // A pod of the host's network has none, and of two sandboxes the newer one is the pod's.
        let fresh = netns.map(|netns| (changed, Sandbox { netns, dir: entry.path() }));
        let known = found.entry(about("sandbox-name").to_owned()).or_default();
        *known = fresh.max(known.take());
    }
    Ok(found.into_iter().filter_map(|(name, found)| Some((name, found?.1))).collect())
}

/// The addresses that `ip -json addr` printed, without loopback and link-local ones.
pub(crate) fn addresses(json: &[u8]) -> Result<Vec<IpAddr>> {
    let links: Value = serde_json::from_slice(json).map_err(|error| Error::Invalid(format!("ip -json: {error}")))?;
    let all =
        links.as_array().into_iter().flatten().flat_map(|link| link["addr_info"].as_array().into_iter().flatten());
    let global = all.filter(|address| address["scope"] == "global");
    Ok(global.filter_map(|address| address["local"].as_str()?.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn global_addresses_are_found_and_others_left_out() {
        let json = br#"[{"ifname":"lo","addr_info":[{"local":"127.0.0.1","scope":"host"}]},{},
            {"ifname":"eth0","addr_info":[{"local":"10.0.0.5","scope":"global"},{"local":"fe80::1","scope":"link"},
            {"local":"fd00::5","scope":"global"}]}]"#;
        let expected: Vec<IpAddr> = vec!["10.0.0.5".parse().unwrap(), "fd00::5".parse().unwrap()];
        assert_eq!(addresses(json).unwrap(), expected);
    }

    #[test]
    fn a_pod_is_found_by_its_sandbox_and_a_container_of_it_is_not_asked() {
        let dir = tempfile::tempdir().unwrap();
        for (id, kind, name) in [("a", "sandbox", "web"), ("b", "container", "web"), ("c", "sandbox", "other")] {
            let spec = serde_json::json!({
                "annotations": {
                    "io.kubernetes.cri.container-type": kind,
                    "io.kubernetes.cri.sandbox-namespace": "default",
                    "io.kubernetes.cri.sandbox-name": name,
                },
                "linux": { "namespaces": [{ "type": "pid" }, { "type": "network", "path": format!("/run/netns/{id}") }] },
            });
            fs::create_dir(dir.path().join(id)).unwrap();
            fs::write(dir.path().join(id).join("config.json"), spec.to_string()).unwrap();
        }
        fs::write(dir.path().join("a/init.pid"), "17").unwrap();
        let found = all(dir.path(), "default").unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["other", "web"]);
        assert_eq!((&*found["web"].netns, found["web"].pid().unwrap()), ("/run/netns/a", 17));
        assert!(all(dir.path(), "kube-system").unwrap().is_empty());
    }
}
