//! Formatting, lints, dependencies, and the rules of the house that no tool knows.

use crate::repo;
use crate::sh;
use crate::steps::{Outcome, Step};
use anyhow::{Result, bail};

/// The plugin is executed per container: none of these may reach it, not even unused.
const NOT_IN_THE_PLUGIN: &[&str] = &["tokio", "rustls", "kube", "hyper", "openssl", "async-io", "smol"];

/// Past this a file is a design question.
const MOST_LINES: usize = 600;

/// The only source a dependency may come from, as Cargo.lock spells it.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Hosts that serve downloads, and ways to redirect to one. Where to download from is the machine's business, not the
/// repository's. Each is in two pieces so that this file does not trip over itself.
const DOWNLOADS: &[&str] = &[
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("registry.", "npmjs.org"),
    concat!("proxy.", "golang.org"),
    concat!("deb.", "debian.org"),
    concat!("files.", "pythonhosted.org"),
    concat!("replace-", "with"),
];

pub(crate) fn steps() -> Vec<Step> {
    vec![
        Step { name: "format", run: format },
        Step { name: "clippy", run: clippy },
        Step { name: "cargo-deny", run: deny },
        Step { name: "the plugin stays light", run: plugin_dependencies },
        Step { name: "no download addresses", run: downloads },
        Step { name: "no long files", run: long_files },
    ]
}

fn format() -> Result<Outcome> {
    sh::run(&mut sh::cargo(&["fmt", "--all", "--check"]))?;
    Ok(Outcome::Passed)
}

fn clippy() -> Result<Outcome> {
    sh::run(&mut sh::cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    Ok(Outcome::Passed)
}

fn deny() -> Result<Outcome> {
    if !sh::installed("cargo-deny") {
        return Ok(Outcome::Nothing(
            "cargo-deny is not installed; deny.toml was not checked (cargo install cargo-deny)",
        ));
    }
    sh::run(&mut sh::cargo(&["deny", "check", "licenses", "bans", "sources"]))?;
    Ok(Outcome::Passed)
}

fn plugin_dependencies() -> Result<Outcome> {
    let tree = sh::output(&mut sh::cargo(&["tree", "-p", "berth-cni", "-e", "normal", "--prefix", "none"]))?;
    let names = tree.lines().filter_map(|line| line.split_whitespace().next());
    let mut heavy: Vec<_> = names.filter(|name| NOT_IN_THE_PLUGIN.contains(name)).collect();
    heavy.sort_unstable();
    heavy.dedup();
    if !heavy.is_empty() {
        bail!("berth-cni depends on {}; find out why with: cargo tree -p berth-cni -i {}", heavy.join(", "), heavy[0]);
    }
    Ok(Outcome::Passed)
}

fn downloads() -> Result<Outcome> {
    let mut found = Vec::new();
    for (path, text) in repo::text_files()? {
        for (number, line) in text.lines().enumerate() {
            let foreign = line.strip_prefix("source = ").is_some_and(|source| source.trim_matches('"') != CRATES_IO);
            let locked = path.file_name().is_some_and(|name| name == "Cargo.lock");
            if DOWNLOADS.iter().any(|needle| line.contains(needle)) || (locked && foreign) {
                found.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    none("a download address has no place in the repository", &found)
}

fn long_files() -> Result<Outcome> {
    let mut found = Vec::new();
    for (path, text) in repo::text_files()? {
        let lines = text.lines().count();
        if path.extension().is_some_and(|extension| extension == "rs") && lines > MOST_LINES {
            found.push(format!("{}: {lines} lines", path.display()));
        }
    }
    none("a file past 600 lines wants to be two", &found)
}

fn none(rule: &str, found: &[String]) -> Result<Outcome> {
    if !found.is_empty() {
        bail!("{rule}:\n{}", found.join("\n"));
    }
    Ok(Outcome::Passed)
}
