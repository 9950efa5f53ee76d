//! `berth import host-local`: take over the leases of the plugin that Berth replaces. Shows first, does on `--apply`.

use crate::args::{Format, Global, HostLocalArgs};
use crate::client::Client;
use crate::table;
use crate::ui::Ui;
use crate::{Error, Result, human};
use berth_host_local::{Lease, read_leases};
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// How many leases the daemon takes at once.
const CHUNK: usize = 1000;

#[derive(Deserialize)]
struct Chunk {
    imported: Vec<String>,
    known: Vec<String>,
    refused: Vec<Refused>,
}

#[derive(Deserialize, Serialize)]
struct Refused {
    address: String,
    reason: String,
}

/// What became of one network.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    cni_network: String,
    imported: Vec<String>,
    known: Vec<String>,
    refused: Vec<Refused>,
    /// Files that are no lease.
    skipped: usize,
    /// Leases of an earlier boot, whose containers are gone.
    stale: usize,
    /// Leases of old versions, which did not write the interface.
    without_interface: usize,
}

pub(crate) fn run(args: &HostLocalArgs, global: &Global, ui: &mut Ui) -> Result<()> {
    let client = &Client::new(&global.server)?;
    let mut outcomes = Vec::new();
    for (name, dir) in networks(args)? {
        let found = read_leases(&dir).map_err(|error| Error::file(&dir, &error))?;
        let (stale, live): (Vec<_>, Vec<_>) = found.leases.into_iter().partition(|lease| lease.stale);
        let progress = progress(live.len(), &name, ui);
        let mut outcome = Outcome {
            cni_network: name,
            skipped: found.skipped,
            stale: stale.len(),
            without_interface: live.iter().filter(|lease| lease.ifname.is_none()).count(),
            ..Outcome::default()
        };
        for leases in live.chunks(CHUNK) {
            let answer = client.post(&["import"], &request(args, &outcome.cni_network, leases))?;
            let Chunk { imported, known, refused } = client.read(answer)?;
            outcome.imported.extend(imported);
            outcome.known.extend(known);
            outcome.refused.extend(refused);
            progress.inc(leases.len() as u64);
        }
        progress.finish_and_clear();
        outcomes.push(outcome);
    }
    let refused = outcomes.iter().map(|outcome| outcome.refused.len()).sum();
    report(&outcomes, args, ui)?;
    if refused > 0 { Err(Error::LeasesRefused(refused)) } else { Ok(()) }
}

fn request(args: &HostLocalArgs, cni_network: &str, leases: &[Lease]) -> Value {
    let lease = |lease: &Lease| {
        // Old versions of host-local did not write the interface; an empty one stands for whichever the container has.
        let mut value = json!({
            "address": lease.address,
            "container": lease.container,
            "ifname": lease.ifname.as_deref().unwrap_or_default(),
        });
        if let Ok(since) = Timestamp::try_from(lease.modified) {
            value["since"] = json!(since);
        }
        value
    };
    json!({
        "source": "host-local",
        "cniNetwork": cni_network,
        "pools": args.pools,
        "dryRun": !args.apply,
        "leases": leases.iter().map(lease).collect::<Vec<_>>(),
    })
}

/// The networks to import with their directories: the one asked for, those in the data directory, or, if there are no
/// directories in it, the directory itself.
fn networks(args: &HostLocalArgs) -> Result<Vec<(String, PathBuf)>> {
    if let Some(name) = &args.network {
        return Ok(vec![(name.clone(), args.dir.join(name))]);
    }
    let unreadable = |error| Error::file(&args.dir, &error);
    let mut found = Vec::new();
    for entry in fs::read_dir(&args.dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = name_of(&path);
        // No network has a name that begins with a dot; `.berth` is where Berth's own host-local keeps its index.
        if path.is_dir() && !name.starts_with('.') {
            found.push((name, path));
        }
    }
    found.sort();
    if found.is_empty() {
        found.push((name_of(&args.dir), args.dir.clone()));
    }
    Ok(found)
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn progress(leases: usize, network: &str, ui: &Ui) -> ProgressBar {
    if !ui.shows_progress() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(leases as u64).with_message(network.to_owned());
    match ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len} leases, {eta} left") {
        Ok(style) => bar.with_style(style.progress_chars("█▒·")),
        Err(_) => bar,
    }
}

fn report(outcomes: &[Outcome], args: &HostLocalArgs, ui: &mut Ui) -> Result<()> {
    if !ui.raw(args.output.format, &json!({ "dryRun": !args.apply, "networks": outcomes }))? {
        match args.output.format {
            Format::Name => outcomes.iter().flat_map(|o| &o.imported).try_for_each(|address| ui.line(address))?,
            _ => tables(outcomes, args.apply, ui)?,
        }
    }
    let mut note = |count: fn(&Outcome) -> usize, noun, what| {
        let count = outcomes.iter().map(count).sum();
        if count > 0 {
            ui.note(&format!("{} {what}", human::counted(count, noun)));
        }
    };
    note(|o| o.skipped, "file", "passed over: empty, or not named after an address.");
    note(|o| o.stale, "lease", "of an earlier boot left out.");
    note(|o| o.without_interface, "lease", "without an interface, which stands for any of the container's.");
    if !args.apply {
        ui.note("Nothing was changed. Run again with --apply to take these leases over.");
    }
    Ok(())
}

fn tables(outcomes: &[Outcome], apply: bool, ui: &mut Ui) -> Result<()> {
    let mut rows = table::table(["CNI NETWORK", if apply { ">IMPORTED" } else { ">TO IMPORT" }, ">KNOWN", ">REFUSED"]);
    for Outcome { cni_network, imported, known, refused, .. } in outcomes {
        let counts = [imported.len(), known.len(), refused.len()].map(|count| table::count(&count.to_string()));
        rows.add_row([table::text(cni_network)].into_iter().chain(counts).collect::<Vec<_>>());
    }
    ui.table(&mut rows)?;
    if outcomes.iter().all(|outcome| outcome.refused.is_empty()) {
        return Ok(());
    }
    ui.line("")?;
    let mut rows = table::table(["REFUSED", "CNI NETWORK", "WHY"]);
    for outcome in outcomes {
        for Refused { address, reason } in &outcome.refused {
            rows.add_row([address, &outcome.cni_network, reason]);
        }
    }
    ui.table(&mut rows)
}
