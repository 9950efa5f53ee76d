//! `berth explain`: which pools were considered, which rule kept or dropped each, what was picked and why.

use super::allocate;
use crate::api::Allocation;
use crate::args::{ExplainArgs, Format};
use crate::client::Client;
use crate::error::Problem;
use crate::table;
use crate::ui::Ui;
use crate::{Error, Result};
use comfy_table::{Cell, Color};
use serde::Deserialize;

#[derive(Deserialize)]
struct Explanation {
    #[serde(default)]
    considered: Vec<Considered>,
    #[serde(default)]
    addresses: Option<Vec<Allocation>>,
    error: Option<Problem>,
}

#[derive(Deserialize)]
struct Considered {
    pool: String,
    #[serde(default)]
    family: String,
    /// The rule that dropped it, if any did.
    dropped: Option<String>,
}

pub(super) fn run(args: &ExplainArgs, client: &Client, ui: &mut Ui) -> Result<()> {
    let format = args.output.format;
    let answer = client.post(&["explain"], &allocate::request(&args.request))?;
    let printed = ui.raw(format, &answer)?;
    let explanation: Explanation = client.read(answer)?;
    let addresses = explanation.addresses.unwrap_or_default();
    if !printed && format == Format::Name {
        addresses.iter().try_for_each(|picked| ui.line(&picked.name()))?;
    } else if !printed {
        considered(&explanation.considered, ui)?;
        if !addresses.is_empty() {
            ui.line("")?;
            // Here the reason is what was asked for.
            allocate::print(&addresses, true, ui)?;
        }
    }
    // What `allocate` would say, as the result: a script can tell by the exit code.
    explanation.error.map_or(Ok(()), |problem| Err(Error::Refused(Box::new(problem))))
}

fn considered(pools: &[Considered], ui: &mut Ui) -> Result<()> {
    if pools.is_empty() {
        ui.note("No pool was considered.");
        return Ok(());
    }
    let mut rows = table::table(["POOL", "FAMILY", "VERDICT", "WHY"]);
    for Considered { pool, family, dropped } in pools {
        let (verdict, color) = if dropped.is_some() { ("dropped", Color::DarkRed) } else { ("kept", Color::DarkGreen) };
        let why = dropped.as_deref().unwrap_or("may be used");
        rows.add_row([table::text(pool), table::text(family), Cell::new(verdict).fg(color), table::text(why)]);
    }
    ui.table(&mut rows)
}
