//! `berth leases`: which runs of pools are lent to which node; `berth leases return`: take one back.

use super::each;
use crate::Result;
use crate::api::Items;
use crate::args::{Format, LeasesAction, LeasesArgs, ReturnArgs};
use crate::client::Client;
use crate::table;
use crate::ui::Ui;
use jiff::Timestamp;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Lease {
    network: String,
    range: String,
    pool: String,
    node: String,
    since: Option<Timestamp>,
    in_use: String,
    size: String,
}

pub(super) fn run(args: &LeasesArgs, client: &Client, ui: &mut Ui) -> Result<()> {
    match &args.action {
        None => list(args, client, ui),
        Some(LeasesAction::Return(args)) => give_back(args, client, ui),
    }
}

fn list(args: &LeasesArgs, client: &Client, ui: &mut Ui) -> Result<()> {
    let query = [("network", args.network.as_deref()), ("pool", args.pool.as_deref()), ("node", args.node.as_deref())];
    let answer = client.get(&["leases"], &query)?;
    let format = args.output.format;
    if ui.raw(format, &answer)? {
        return Ok(());
    }
    let leases = client.read::<Items<Lease>>(answer)?.items;
    if format == Format::Name {
        return leases.iter().try_for_each(|lease| ui.line(&lease.range));
    }
    if leases.is_empty() {
        ui.note("Nothing is lent. Pools with a blockSize lend runs to nodes.");
        return Ok(());
    }
    let wide = format == Format::Wide;
    let more = wide.then_some(["POOL", "SINCE"]).into_iter().flatten();
    let mut rows = table::table(["NETWORK", "RANGE", "NODE", ">IN USE", ">SIZE"].into_iter().chain(more));
    for lease in &leases {
        let mut cells = Vec::from([
            table::text(&lease.network),
            table::text(&lease.range),
            table::text(&lease.node),
            table::count(&lease.in_use),
            table::count(&lease.size),
        ]);
        if wide {
            cells.extend([table::text(&lease.pool), table::relative(lease.since, ui.now())]);
        }
        rows.add_row(cells);
    }
    ui.table(&mut rows)
}

fn give_back(args: &ReturnArgs, client: &Client, ui: &mut Ui) -> Result<()> {
    each(&args.ranges, ui, |range, ui| {
        let answer = client.delete(&["leases", range], &[("network", args.network.as_deref())])?;
        if ui.raw(args.output.format, &answer)? {
            return Ok(());
        }
        let lease = client.read::<Lease>(answer)?;
        match args.output.format {
            Format::Name => ui.line(&lease.range),
            _ => ui.line(&format!("{} of {} returned", lease.range, lease.node)),
        }
    })
}
