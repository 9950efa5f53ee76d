//! `berth history`: who had an address, and when.

use crate::Result;
use crate::api::{Holder, Items};
use crate::args::{Format, HistoryArgs};
use crate::client::Client;
use crate::table;
use crate::ui::Ui;
use jiff::Timestamp;
use serde::Deserialize;

#[derive(Deserialize)]
struct Event {
    at: Timestamp,
    state: String,
    #[serde(default)]
    network: String,
    holder: Option<Holder>,
}

pub(super) fn run(args: &HistoryArgs, client: &Client, ui: &mut Ui) -> Result<()> {
    let query = [("network", args.network.as_deref()), ("since", args.since.as_deref())];
    let answer = client.get(&["addresses", &args.address.to_string(), "history"], &query)?;
    if ui.raw(args.output.format, &answer)? {
        return Ok(());
    }
    let events = client.read::<Items<Event>>(answer)?.items;
    if events.is_empty() {
        ui.note(&format!("Nothing is recorded about {}.", args.address));
        return Ok(());
    }
    let wide = args.output.format == Format::Wide;
    let mut rows = table::table(
        ["WHEN", "STATE", "HOLDER", "INTERFACE", "NODE"]
            .into_iter()
            .chain(wide.then_some(["NETWORK", "AT"]).into_iter().flatten()),
    );
    for event in &events {
        let none = Holder::default();
        let holder = event.holder.as_ref().unwrap_or(&none);
        let mut cells = Vec::from([
            table::relative(Some(event.at), ui.now()),
            table::state(&event.state),
            table::text(event.holder.as_ref().map(Holder::title).unwrap_or_default()),
            table::text(&holder.ifname),
            table::text(&holder.node),
        ]);
        if wide {
            cells.extend([table::text(&event.network), table::text(event.at.to_string())]);
        }
        rows.add_row(cells);
    }
    ui.table(&mut rows)
}
