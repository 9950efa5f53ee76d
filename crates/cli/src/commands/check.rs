//! `berth check`: whether the state is consistent.

use crate::args::{CheckArgs, Format};
use crate::client::Client;
use crate::table;
use crate::ui::Ui;
use crate::{Error, Result};
use serde::Deserialize;
use serde_json::Value;

#[derive(Default, Deserialize)]
struct Report {
    findings: Vec<Finding>,
}

#[derive(Deserialize)]
struct Finding {
    object: String,
    message: String,
}

pub(super) fn run(args: &CheckArgs, client: &Client, ui: &mut Ui) -> Result<()> {
    print(client.get(&["check"], &[])?, args, ui)
}

/// Prints what was found, whoever looked.
pub(crate) fn print(answer: Value, args: &CheckArgs, ui: &mut Ui) -> Result<()> {
    let printed = ui.raw(args.output.format, &answer)?;
    let findings = serde_json::from_value::<Report>(answer).unwrap_or_default().findings;
    if findings.is_empty() {
        ui.note("The state is consistent.");
        return Ok(());
    }
    if !printed && args.output.format == Format::Name {
        findings.iter().try_for_each(|finding| ui.line(&finding.object))?;
    } else if !printed {
        let mut rows = table::table(["OBJECT", "FINDING"]);
        for Finding { object, message } in &findings {
            rows.add_row([table::text(object), table::text(message)]);
        }
        ui.table(&mut rows)?;
    }
    Err(Error::Inconsistent(findings.len()))
}
