//! `berth status`: how full everything is, as bars.

use crate::Result;
use crate::api::{UsageReport, UsageRow};
use crate::args::{Format, StatusArgs};
use crate::client::Client;
use crate::table;
use crate::ui::Ui;
use std::time::Duration;

const LEGEND: &str = "\n█ in use   ▒ held, cooling, quarantined or reserved   · free";

pub(super) fn run(args: &StatusArgs, client: &Client, ui: &mut Ui) -> Result<()> {
    let Some(seconds) = args.watch else {
        return once(args.output.format, client, ui);
    };
    // Nothing on the terminal needs undoing, so Ctrl-C may end the process where it stands.
    loop {
        ui.clear()?;
        once(args.output.format, client, ui)?;
        std::thread::sleep(Duration::from_secs(seconds));
    }
}

fn once(format: Format, client: &Client, ui: &mut Ui) -> Result<()> {
    let answer = client.get(&["usage"], &[])?;
    if ui.raw(format, &answer)? {
        return Ok(());
    }
    let UsageReport { pools, subnets, networks } = client.read(answer)?;
    if format == Format::Name {
        return pools.iter().try_for_each(|pool| ui.line(&pool.name));
    }
    if pools.is_empty() && subnets.is_empty() {
        ui.note("There are no pools yet. Describe one with `berth apply -f FILE`; see `berth apply --help`.");
        return Ok(());
    }
    let sections = [("POOL", pools), ("SUBNET", subnets), ("NETWORK", networks)];
    for (i, (title, rows)) in sections.into_iter().filter(|(_, rows)| !rows.is_empty()).enumerate() {
        if i > 0 {
            ui.line("")?;
        }
        section(title, &rows, format == Format::Wide, ui)?;
    }
    ui.note(LEGEND);
    Ok(())
}

fn section(title: &str, rows: &[UsageRow], wide: bool, ui: &mut Ui) -> Result<()> {
    let mut headers = Vec::from([title, "GIVES", "USED", ">IN USE", ">FREE", ">CAPACITY"]);
    if wide {
        headers.extend([">HELD", ">COOLING", ">QUARANTINED", ">RESERVED", "IN NETWORK"]);
    }
    let mut table = table::table(headers);
    for row in rows {
        let usage = &row.usage;
        let mut cells = Vec::from([
            table::text(&row.name),
            table::text(gives(row)),
            table::fullness(usage),
            table::count(&usage.in_use),
            table::count(&usage.free),
            table::count(&usage.capacity),
        ]);
        if wide {
            let counts = [&usage.held, &usage.cooling, &usage.quarantined, &usage.reserved];
            cells.extend(counts.map(|digits| table::count(digits)));
            cells.push(table::text(row.network.as_deref().unwrap_or_default()));
        }
        table.add_row(cells);
    }
    ui.table(&mut table)
}

/// `IPv4`, or `IPv6 /64` for a pool that gives out prefixes.
fn gives(row: &UsageRow) -> String {
    let family = row.family.as_deref().unwrap_or_default();
    match row.unit {
        Some(unit @ ..=127) if unit != 32 || family != "IPv4" => format!("{family} /{unit}"),
        _ => family.to_owned(),
    }
}
