//! Running one case for one version.

use crate::answer::{Addresses, Answer};
use crate::case::{By, Case, Implementation, Step};
use crate::check::{self, Problems};
use crate::daemon::Daemon;
use crate::plugin::{Output, Plugin};
use crate::template::{self, Unknown, Vars};
use crate::version::Version;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

/// The programs a suite is run with.
#[derive(Debug)]
pub struct Bench {
    /// The plugin under test.
    pub plugin: Plugin,
    /// Whose behaviour is expected of it.
    pub implementation: Implementation,
    /// The versions the plugin supports.
    pub versions: Vec<String>,
    /// The reference plugin, for cases that hand over from one to the other.
    pub reference: Option<Plugin>,
    /// The `berth` binary, for cases that need a daemon.
    pub berth: Option<PathBuf>,
}

/// How a case went.
#[derive(Debug)]
pub enum Verdict {
    /// As expected, in this many versions.
    Passed(usize),
    /// Not as expected: the step and what differed, with the versions in which it did.
    Failed(Vec<String>),
    /// A program it needs is not there.
    Skipped(&'static str),
    /// It is about the other implementation, or about versions that this plugin does not know.
    NotApplicable,
}

impl Bench {
    /// Runs a case for every version it applies to.
    ///
    /// # Errors
    /// If the case is malformed; whatever the plugin does is a verdict, not an error.
    pub fn run(&self, case: &Case) -> Result<Verdict> {
        if case.only.is_some_and(|only| only != self.implementation) {
            return Ok(Verdict::NotApplicable);
        }
        if case.setup.is_some() && self.berth.is_none() {
            return Ok(Verdict::Skipped("needs the daemon: give --berth"));
        }
        if self.reference.is_none() && case.steps.iter().any(|step| step.by == By::Reference) {
            return Ok(Verdict::Skipped("needs the reference: give --reference"));
        }
        let (mut passed, mut failures) = (0, BTreeMap::<String, Vec<&str>>::new());
        for version in &self.versions {
            if !case.versions.allow(Version::parse(version)?)? {
                continue;
            }
            match Trial::start(self, case, version)?.run()? {
                None => passed += 1,
                Some(failure) => failures.entry(failure).or_default().push(version),
            }
        }
        Ok(match (passed, failures.is_empty()) {
            (0, true) => Verdict::NotApplicable,
            (_, true) => Verdict::Passed(passed),
            (_, false) => Verdict::Failed(
                failures.iter().map(|(failure, versions)| format!("[{}] {failure}", versions.join(" "))).collect(),
            ),
        })
    }
}

/// One case in one version, with a data directory of its own.
struct Trial<'a> {
    bench: &'a Bench,
    case: &'a Case,
    version: &'a str,
    dir: tempfile::TempDir,
    /// Stopped when the trial ends.
    _daemon: Option<Daemon>,
    vars: Vars,
    last_result: Value,
}

impl<'a> Trial<'a> {
    fn start(bench: &'a Bench, case: &'a Case, version: &'a str) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let mut vars = Vars::from_iter([
            ("dataDir".to_owned(), Value::from(dir.path().to_string_lossy())),
            ("version".to_owned(), Value::from(version)),
        ]);
        let daemon = match (&case.setup, &bench.berth) {
            (Some(setup), Some(berth)) => {
                let daemon = Daemon::start(berth, &dir.path().join("berth"), &setup.apply)?;
                vars.insert("socket".to_owned(), Value::from(daemon.socket().to_string_lossy()));
                Some(daemon)
            }
            _ => None,
        };
        Ok(Self { bench, case, version, dir, _daemon: daemon, vars, last_result: Value::Null })
    }

    /// The first step that went wrong, if one did.
    fn run(mut self) -> Result<Option<String>> {
        for (index, step) in self.case.steps.iter().enumerate() {
            let problems = self.step(step).with_context(|| format!("case {:?}, step {index}", self.case.name))?;
            if !problems.is_empty() {
                let Step { command, container, .. } = step;
                let text = format!("step {} {command} {container}: {}", index + 1, problems.join("; "));
                // The directory is new in every version; by its own name the same failure reads the same.
                return Ok(Some(text.replace(&*self.dir.path().to_string_lossy(), "${dataDir}")));
            }
        }
        Ok(None)
    }

    fn step(&mut self, step: &Step) -> Result<Problems> {
        for (name, content) in &step.write {
            write(&self.dir.path().join(name), content.as_deref())?;
        }
        let config = self.config(step)?;
        let network = config["name"].as_str().unwrap_or_default().to_owned();
        let stdin = match &step.stdin {
            Some(text) => template::expand_text(text, &self.vars, Unknown::Refuse)?,
            None => config.to_string(),
        };
        let expect = step.expected_of(self.bench.implementation);
        let version = Version::parse(self.version)?;

        let outputs = self.call(step, stdin.as_bytes())?;
        let mut problems = Problems::new();
        let mut held = BTreeSet::new();
        for output in &outputs {
            let answer = Answer::of(output);
            problems.extend(check::answer(expect, &step.command, version, &answer));
            if let (Answer::Success(stdout), "ADD") = (&answer, step.command.as_str()) {
                self.last_result = serde_json::from_slice(stdout).unwrap_or_default();
                let ips = Addresses::of(&self.last_result).ips;
                problems.extend(
                    ips.into_iter()
                        .filter_map(|ip| (!held.insert(ip.clone())).then(|| format!("{ip} was given twice"))),
                );
            }
            if let Some(text) = expect.stderr_lacks.as_ref().filter(|text| output.stderr.contains(text.as_str())) {
                problems.push(format!("stderr says {text:?}"));
            }
        }
        problems.extend(check::disk(expect, self.dir.path(), &network));
        Ok(problems)
    }

    fn config(&self, step: &Step) -> Result<Value> {
        let mut config = self.case.config.clone();
        if !step.config.is_null() {
            template::merge(&mut config, &step.config);
        }
        let mut config = template::expand(&config, &self.vars, Unknown::Refuse)?;
        if step.prev_result {
            config["prevResult"] = self.last_result.clone();
        }
        Ok(config)
    }

    fn call(&self, step: &Step, stdin: &[u8]) -> Result<Vec<Output>> {
        let plugin = match step.by {
            By::Plugin => &self.bench.plugin.named(self.case.program.as_deref()),
            By::Reference => self.bench.reference.as_ref().context("checked before the case began")?,
        };
        let Some(calls) = step.parallel else {
            return Ok(vec![plugin.call(&environment(step, &step.container), stdin)?]);
        };
        thread::scope(|scope| {
            let calls: Vec<_> = (0..calls)
                .map(|n| {
                    let env = environment(step, &format!("{}-{n}", step.container));
                    scope.spawn(move || plugin.call(&env, stdin))
                })
                .collect();
            calls.into_iter().map(|call| call.join().map_err(|_| anyhow::anyhow!("a call panicked"))?).collect()
        })
    }
}

fn environment(step: &Step, container: &str) -> BTreeMap<String, String> {
    let mut env: BTreeMap<String, String> = [
        ("CNI_COMMAND", step.command.as_str()),
        ("CNI_CONTAINERID", container),
        ("CNI_IFNAME", &step.ifname),
        ("CNI_ARGS", &step.args),
        ("CNI_NETNS", "/var/run/netns/conformance"),
        ("CNI_PATH", "/opt/cni/bin"),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect();
    for (key, value) in &step.env {
        match value {
            Some(value) => env.insert(key.clone(), value.clone()),
            None => env.remove(key),
        };
    }
    env
}

fn write(path: &Path, content: Option<&str>) -> Result<()> {
    match content {
        Some(content) => {
            fs::create_dir_all(path.parent().context("a file has a directory")?)?;
            fs::write(path, content)
        }
        None => fs::remove_file(path),
    }
    .with_context(|| format!("cannot prepare {}", path.display()))
}
