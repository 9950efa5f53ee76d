//! `berth reclaim`: what comes back, and why.

use crate::Result;
use crate::args::{Format, ReclaimArgs};
use crate::table;
use crate::ui::Ui;
use serde::Deserialize;
use serde_json::Value;

#[derive(Default, Deserialize)]
struct Answer {
    addresses: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    network: String,
    address: String,
    holder: String,
    class: String,
    because: String,
    after: String,
}

/// Prints what came back, or would.
pub(crate) fn print(answer: Value, args: &ReclaimArgs, ui: &mut Ui) -> Result<()> {
    let format = args.output.format;
    if ui.raw(format, &answer)? {
        return Ok(());
    }
    let rows = serde_json::from_value::<Answer>(answer).unwrap_or_default().addresses;
    if format == Format::Name {
        return rows.iter().try_for_each(|row| ui.line(&row.address));
    }
    if rows.is_empty() {
        ui.note("Nothing is to come back: every address has a user that lives, or is kept for one.");
        return Ok(());
    }
    let mut printed = table::table(["NETWORK", "ADDRESS", "HOLDER", "CLASS", "AFTER", "BECAUSE"]);
    for row in &rows {
        let cells = [&row.network, &row.address, &row.holder, &row.class, &row.after, &row.because];
        printed.add_row(cells.map(table::text));
    }
    ui.table(&mut printed)?;
    if args.dry_run {
        ui.note("Nothing was freed. Without --dry-run it is, but for what never comes back; a controller does it by itself.");
    }
    Ok(())
}
