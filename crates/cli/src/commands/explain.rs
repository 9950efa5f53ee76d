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
use serde_json::Value;

#[derive(Default, Deserialize)]
struct Explanation {
    /// The pod it is about, and where it runs.
    #[serde(default)]
    pod: Option<String>,
    #[serde(default)]
    node: Option<String>,
    /// Which rule decided, in words.
    #[serde(default)]
    rule: Option<String>,
    /// The pod's other interfaces: which rule decides for those that are served along, and what of the rest.
    #[serde(default)]
    along: Vec<String>,
    /// What it has already.
    #[serde(default)]
    holds: Vec<String>,
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
    let answer = client.post(&["explain"], &allocate::request(&args.request))?;
    print(answer, args.output.format, ui)
}

/// Prints an explanation, whoever gave it.
pub(crate) fn print(answer: Value, format: Format, ui: &mut Ui) -> Result<()> {
    let printed = ui.raw(format, &answer)?;
    let explanation: Explanation = serde_json::from_value(answer).unwrap_or_default();
    let addresses = explanation.addresses.unwrap_or_default();
    if !printed && format == Format::Name {
        addresses.iter().try_for_each(|picked| ui.line(&picked.name()))?;
    } else if !printed {
        for (title, text) in [("POD", &explanation.pod), ("NODE", &explanation.node), ("RULE", &explanation.rule)] {
            text.iter().try_for_each(|text| ui.line(&format!("{title}\t{text}")))?;
        }
        explanation.along.iter().try_for_each(|text| ui.line(&format!("ALONG\t{text}")))?;
        if explanation.pod.is_some() {
            let holds = explanation.holds.join(", ");
            ui.line(&format!("HOLDS\t{}\n", if holds.is_empty() { "nothing" } else { &holds }))?;
        }
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
