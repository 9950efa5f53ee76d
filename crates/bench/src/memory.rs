//! Memory for a million held addresses: the growth of the resident set of a process that does nothing else.

use crate::holders::{container, pod, request};
use anyhow::{Context, Result, bail};
use berth_bench::rows::Rows;
use berth_core::addr::Cidr;
use berth_core::ipam::{Config, Entropy, Ipam};
use berth_core::model::Pool;
use berth_core::time::Time;
use std::process::Command;

const HELD: u64 = 1_000_000;

/// Prints one row per kind of holder.
pub(crate) fn report() -> Result<()> {
    let table = Rows::begin("engine: memory for one million held addresses", &[("holders", 46), ("resident MB", 11)]);
    for (name, flag) in [
        ("containers (64-digit ID, eth0, \"podman\")", None),
        ("pods (also namespace, name, UID, node)", Some("--pods")),
    ] {
        // A process of its own: what another measurement left behind in the heap would be counted or reused.
        let run = Command::new(std::env::current_exe()?).arg("hold").args(flag).output()?;
        if !run.status.success() {
            bail!("holding a million addresses failed: {}", String::from_utf8_lossy(&run.stderr));
        }
        table.print(&[name.to_owned(), String::from_utf8(run.stdout)?.trim().to_owned()]);
    }
    Ok(())
}

/// Holds a million addresses and prints by how many megabytes (of a million bytes) the resident set grew.
pub(crate) fn hold(pods: bool) -> Result<()> {
    let mut ipam = Ipam::new();
    let pool = Pool::new("pool", vec!["10.0.0.0/8".parse::<Cidr>()?.range()]);
    ipam.configure(Config { pools: [("pool".to_owned(), pool)].into(), ..Config::default() });
    let mut entropy = Entropy(1);
    let before = resident()?;
    for n in 0..HELD {
        let holder = if pods { pod(n) } else { container(n) };
        ipam.allocate(&request(holder), Time(1_790_000_000_000_000 + n * 10), &mut entropy)?;
        ipam.commit();
    }
    let grown = resident()?.saturating_sub(before);
    let now = Time(1_790_000_000_000_000 + HELD * 10);
    let in_use = ipam.pool_usage("pool", now).context("no such pool")?.in_use.saturating_u64();
    if in_use != HELD {
        bail!("{in_use} addresses are in use, not {HELD}");
    }
    println!("{:.1}", grown as f64 / 1e6);
    Ok(())
}

/// The resident set of this process, in bytes.
fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    let kilobytes: u64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
    Ok(kilobytes * 1024)
}
