//! `berth import spiderpool`: what became of the addresses that Spiderpool gave out.

use crate::Result;
use crate::args::{Format, SpiderpoolArgs};
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
    address: String,
    pod: String,
    outcome: String,
    reason: String,
}

/// Prints what was taken over, or would be.
pub(crate) fn print(answer: Value, args: &SpiderpoolArgs, ui: &mut Ui) -> Result<()> {
    let format = args.output.format;
    if ui.raw(format, &answer)? {
        return Ok(());
    }
    let rows = serde_json::from_value::<Answer>(answer).unwrap_or_default().addresses;
    if format == Format::Name {
        return rows.iter().filter(|row| !row.address.is_empty()).try_for_each(|row| ui.line(&row.address));
    }
    if rows.is_empty() {
        ui.note("Spiderpool has given out nothing that is still in use.");
        return Ok(());
    }
    let mut printed = table::table(["ADDRESS", "POD", "OUTCOME", "REASON"]);
    for row in &rows {
        printed.add_row([&row.address, &row.pod, &row.outcome, &row.reason].map(table::text));
    }
    ui.table(&mut printed)?;
    if !args.apply {
        ui.note("Nothing was recorded. With --apply it is.");
    }
    Ok(())
}
