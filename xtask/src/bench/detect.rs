//! What asking on the wire costs an ADD: `berth-cni` alone, on an interface that hangs on a bridge, with nobody else on it
//! or with a stranger. Everything is in namespaces of its own.

use super::call::{Target, Verb, container_id, finish};
use super::stats::Samples;
use crate::{dist, sh};
use anyhow::{Result, bail, ensure};
use berth_conformance::daemon::Daemon;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(super) struct Args {
    /// ADDs per row
    #[arg(long, default_value_t = 90)]
    adds: u32,
    /// The daemon to use; one is built if absent
    #[arg(long)]
    daemon: Option<PathBuf>,
}

/// What a row measures.
struct Row {
    name: &'static str,
    /// `detect` of the pool; none if empty.
    detect: &'static str,
    /// How many ADDs at a time.
    at_once: u32,
    /// A pause before each, longer than silence is remembered for; then there are fewer of them.
    alone: bool,
    /// Whether somebody has every second address.
    strangers: bool,
}

const fn row(name: &'static str, detect: &'static str, at_once: u32, alone: bool, strangers: bool) -> Row {
    Row { name, detect, at_once, alone, strangers }
}

const ROWS: [Row; 8] = [
    row("off", "", 1, false, false),
    row("gateway only", "{conflicts: Ignore, gateway: Require}", 1, false, false),
    row("conflicts, one pod in a while", "{gateway: Ignore}", 1, true, false),
    row("conflicts, one pod after another", "{gateway: Ignore}", 1, false, false),
    row("conflicts and gateway, likewise", "{gateway: Require}", 1, false, false),
    row("conflicts and gateway, 8 at once", "{gateway: Require}", 8, false, false),
    row("off, 8 at once", "", 8, false, false),
    row("conflicts, every second address a stranger's", "{gateway: Ignore}", 1, false, true),
];

pub(super) fn run(args: &Args) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("namespaces are made by root");
    }
    let (plugin, daemon) = (dist::plugin()?, args.daemon.clone().map_or_else(dist::daemon, Ok)?);
    println!("{:<48} {:>5} {:>9} {:>9} {:>9} {:>9}", "ADD with detection", "ADDs", "mean ms", "p50", "p90", "longest");
    for row in &ROWS {
        let (mean, samples) = measure(row, args.adds, &plugin, &daemon)?;
        let cell = |time: Duration| format!("{:9.2}", time.as_secs_f64() * 1e3);
        let [p50, p90, longest] = [50, 90, 100].map(|percent| cell(samples.percentile(percent)));
        println!("{:<48} {:>5} {} {p50} {p90} {longest}", row.name, samples.len(), cell(mean));
    }
    Ok(())
}

fn measure(row: &Row, adds: u32, plugin: &Path, daemon: &Path) -> Result<(Duration, Samples)> {
    let dir = tempfile::tempdir()?;
    let (host, pod, other) = (Netns::new("host")?, Netns::new("pod")?, Netns::new("other")?);
    host.ip("link add br0 type bridge")?;
    host.ip("link set br0 up")?;
    host.plug(&pod)?;
    host.plug(&other)?;
    other.ip("link set eth0 up")?;
    other.ip("addr add 10.0.0.1/16 dev eth0")?;
    for n in (2..200).step_by(2).filter(|_| row.strangers) {
        other.ip(&format!("addr add 10.0.0.{n}/16 dev eth0"))?;
    }
    let detect = if row.detect.is_empty() { String::new() } else { format!(", detect: {}", row.detect) };
    let head = "apiVersion: berth.io/v1alpha1\nkind: IPPool\nmetadata: {name: bench}\n";
    let pool = format!("{head}spec: {{ranges: [10.0.0.0/16], pick: Sequential{detect}}}");
    let running = Daemon::start(daemon, dir.path(), &pool)?;
    let ipam = json!({"type": "berth-cni", "socket": running.socket()});
    let config = json!({"cniVersion": "1.0.0", "name": "bench", "type": "bridge", "ipam": ipam}).to_string();
    let target = Target { program: plugin, stdin: config.as_bytes() };
    let add = |n: u32| -> Result<Duration> {
        let mut command = target.command(&[], Verb::Add, &container_id(n.into()));
        command.env("CNI_NETNS", pod.path());
        let begun = Instant::now();
        finish(&mut command, target.stdin)?;
        Ok(begun.elapsed())
    };
    // The first one finds the interface down.
    add(u32::MAX)?;
    let mut times: Vec<Duration> = Vec::new();
    for n in 0..if row.alone { adds.min(5) } else { adds / row.at_once } {
        if row.alone {
            thread::sleep(Duration::from_secs(31));
        }
        let batch: Result<Vec<Duration>> = thread::scope(|scope| {
            let add = &add;
            let calls: Vec<_> = (0..row.at_once).map(|k| scope.spawn(move || add(n * row.at_once + k))).collect();
            calls.into_iter().map(|call| call.join().unwrap_or_else(|_| bail!("a call panicked"))).collect()
        });
        times.extend(batch?);
    }
    ensure!(!times.is_empty(), "nothing was measured");
    let mean = times.iter().sum::<Duration>() / u32::try_from(times.len())?;
    let mut samples = Samples::default();
    samples.add_round(times);
    Ok((mean, samples))
}

/// A network namespace, removed when dropped.
struct Netns(String);

impl Netns {
    fn new(name: &str) -> Result<Self> {
        let name = format!("berth-bench-{name}-{}", std::process::id());
        sh::output(&mut sh::command("ip", &["netns", "add", &name]))?;
        Ok(Self(name))
    }

    fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.0)
    }

    fn ip(&self, arguments: &str) -> Result<()> {
        sh::output(sh::command("ip", &["-n", &self.0]).args(arguments.split(' '))).map(drop)
    }

    /// A cable from the bridge here to `eth0` there.
    fn plug(&self, other: &Self) -> Result<()> {
        let name = other.0.split('-').nth(2).unwrap_or_default();
        self.ip(&format!("link add {name} type veth peer name eth0 netns {}", other.0))?;
        self.ip(&format!("link set {name} master br0 up"))
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        let _ = sh::output(&mut sh::command("ip", &["netns", "delete", &self.0]));
    }
}
