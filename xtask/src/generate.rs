//! Generated files. They are committed, so that a review shows what a change does to them, and checked, so that they
//! are never stale.

use crate::sh;
use anyhow::{Context, Result, bail};
use std::fs;

/// Each file, and the arguments to `berth` that print it.
const FILES: &[(&str, &[&str])] = &[
    ("docs/reference/cli.md", &["generate", "cli"]),
    ("docs/reference/openapi.json", &["generate", "openapi"]),
    ("docs/reference/metrics.md", &["generate", "metrics"]),
    ("docs/reference/schemas.json", &["generate", "schemas"]),
    ("deploy/kubernetes/webhook.yaml", &["generate", "webhook"]),
    ("deploy/kubernetes/crds/ippools.yaml", &["crds", "ippools"]),
    ("deploy/kubernetes/crds/ipsubnets.yaml", &["crds", "ipsubnets"]),
    ("deploy/kubernetes/crds/ipreservations.yaml", &["crds", "ipreservations"]),
    ("deploy/kubernetes/crds/ipclaims.yaml", &["crds", "ipclaims"]),
    ("deploy/kubernetes/crds/ipendpoints.yaml", &["crds", "ipendpoints"]),
    ("deploy/kubernetes/crds/ipblocks.yaml", &["crds", "ipblocks"]),
    ("deploy/kubernetes/spiderpool/crds.yaml", &["crds", "spiderpool"]),
];

/// What the Helm chart has from the manifests that are applied without it: a chart reads only what is inside it.
const COPIES: &[&str] = &[
    "crds/ippools.yaml",
    "crds/ipsubnets.yaml",
    "crds/ipreservations.yaml",
    "crds/ipclaims.yaml",
    "crds/ipendpoints.yaml",
    "crds/ipblocks.yaml",
    "agent-rbac.yaml",
    "agent-policy.yaml",
    "controller-rbac.yaml",
    "webhook.yaml",
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Change nothing; fail if a file is not what would be generated
    #[arg(long)]
    pub(crate) check: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    sh::run(&mut sh::cargo(&["build", "--quiet", "--package", "berth"]))?;
    let berth = sh::target_dir().join("debug/berth");
    let mut stale = Vec::new();
    for (path, arguments) in FILES {
        let fresh = sh::output(&mut sh::command(&berth, arguments)).with_context(|| format!("generating {path}"))?;
        stale.extend(put(path, &fresh, args.check)?);
    }
    for name in COPIES {
        let source = format!("deploy/kubernetes/{name}");
        let fresh = fs::read_to_string(sh::root().join(&source)).with_context(|| format!("reading {source}"))?;
        stale.extend(put(&format!("deploy/helm/berth/files/{name}"), &fresh, args.check)?);
    }
    if !stale.is_empty() {
        bail!("{} out of date; run: cargo xtask generate", stale.join(", "));
    }
    Ok(())
}

/// Writes a file, or says that it is to be written.
fn put(path: &str, fresh: &str, check: bool) -> Result<Option<String>> {
    let file = sh::root().join(path);
    let current = fs::read_to_string(&file).unwrap_or_default();
    if current == fresh {
        println!("{path}: up to date");
        return Ok(None);
    }
    println!("{path}: {}", difference(&current, fresh));
    if check {
        return Ok(Some(path.to_owned()));
    }
    fs::create_dir_all(file.parent().context("a generated file has a directory")?)?;
    fs::write(&file, fresh)?;
    Ok(None)
}

/// Where two texts part, and how much of each lies between their common beginning and end.
fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let same_head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[same_head..], &new[same_head..]);
    let same_tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[..old.len() - same_tail], &new[..new.len() - same_tail]);
    let mut text = format!("line {}: {} lines become {}", same_head + 1, old.len(), new.len());
    for (mark, lines) in [('-', old), ('+', new)] {
        if let Some(line) = lines.first() {
            text.push_str(&format!("\n  {mark} {line}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn a_difference_is_narrowed_from_both_ends() {
        assert_eq!(difference("a\nb\nc\n", "a\nx\ny\nc\n"), "line 2: 1 lines become 2\n  - b\n  + x");
        assert_eq!(difference("", "a\n"), "line 1: 0 lines become 1\n  + a");
        assert_eq!(difference("a\na\n", "a\n"), "line 2: 1 lines become 0\n  - a");
    }
}
