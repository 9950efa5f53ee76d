//! `berth show`: who has which address; one address in full.

use crate::api::{Address, Holder, Items};
use crate::args::{Format, ShowArgs, State};
use crate::client::{Client, Query};
use crate::table;
use crate::ui::Ui;
use crate::{Result, human};
use comfy_table::Cell;
use jiff::Timestamp;
use serde_json::{Value, json};

/// How many addresses are asked for at once.
const PAGE: &str = "1000";

pub(super) fn run(args: &ShowArgs, client: &Client, ui: &mut Ui) -> Result<()> {
    let network = ("network", args.network.as_deref());
    if let Some(address) = &args.address {
        let answer = client.get(&["addresses", &address.to_string()], &[network])?;
        return in_full(answer, args.output.format, client, ui);
    }
    let query = [
        network,
        ("pool", args.pool.as_deref()),
        ("namespace", args.namespace.as_deref()),
        ("node", args.node.as_deref()),
        ("holder", args.holder.as_deref()),
        ("state", args.state.map(state_name)),
    ];
    print(list(client, &query)?, args.output.format, client, ui)
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Active => "Active",
        State::Held => "Held",
        State::Quarantined => "Quarantined",
        State::Cooling => "Cooling",
        State::Released => "Released",
    }
}

/// All addresses that a query finds, page by page.
pub(super) fn list(client: &Client, query: &Query<'_>) -> Result<Value> {
    let mut items = Vec::new();
    let mut token: Option<String> = None;
    loop {
        let page = [query, &[("limit", Some(PAGE)), ("continue", token.as_deref())]].concat();
        let mut answer = client.get(&["addresses"], &page)?;
        items.extend(client.read::<Vec<Value>>(answer["items"].take())?);
        token = answer["continue"].as_str().filter(|token| !token.is_empty()).map(str::to_owned);
        if token.is_none() {
            return Ok(json!({ "items": items }));
        }
    }
}

/// Prints addresses, one per line.
pub(super) fn print(answer: Value, format: Format, client: &Client, ui: &mut Ui) -> Result<()> {
    let addresses = for_people(answer, format, "No addresses found.", client, ui)?;
    if addresses.is_empty() {
        return Ok(());
    }
    let wide = format == Format::Wide;
    let mut headers = Vec::from(["ADDRESS", "STATE", "HOLDER", "INTERFACE", "NODE", "POOL", "SINCE"]);
    if wide {
        headers.extend(["UNTIL", "NETWORK", "CONTAINER", "KEEP"]);
    }
    let mut rows = table::table(headers);
    for address in &addresses {
        rows.add_row(row(address, wide, ui.now()));
    }
    ui.table(&mut rows)
}

fn row(address: &Address, wide: bool, now: Timestamp) -> Vec<Cell> {
    let none = Holder::default();
    let holder = address.holder.as_ref().unwrap_or(&none);
    let mut cells = Vec::from([
        table::text(address.title()),
        table::state(&address.state),
        table::text(address.holder.as_ref().map(Holder::title).unwrap_or_default()),
        table::text(&holder.ifname),
        table::text(&holder.node),
        table::text(address.pool.as_deref().unwrap_or_default()),
        table::relative(address.since, now),
    ]);
    if wide {
        let container = if holder.kind == "named" { String::new() } else { holder.short_id() };
        cells.extend([
            table::relative(address.until, now),
            table::text(&address.network),
            table::text(container),
            table::text(&holder.keep),
        ]);
    }
    cells
}

/// Prints one address, as each network knows it, in full.
pub(super) fn in_full(answer: Value, format: Format, client: &Client, ui: &mut Ui) -> Result<()> {
    let addresses = for_people(answer, format, "No pool has this address.", client, ui)?;
    addresses.iter().try_for_each(|address| describe(address, ui))
}

/// What is left to show after the formats for programs have been served: nothing if one of them was asked for.
fn for_people(answer: Value, format: Format, none: &str, client: &Client, ui: &mut Ui) -> Result<Vec<Address>> {
    if ui.raw(format, &answer)? {
        return Ok(Vec::new());
    }
    let addresses = client.read::<Items<Address>>(answer)?.items;
    if format == Format::Name {
        addresses.iter().try_for_each(|address| ui.line(&address.title()))?;
        return Ok(Vec::new());
    }
    if addresses.is_empty() {
        ui.note(none);
    }
    Ok(addresses)
}

fn describe(address: &Address, ui: &mut Ui) -> Result<()> {
    let now = ui.now();
    let time = |time: Option<Timestamp>| time.map(|time| format!("{time} ({})", human::relative(time, now)));
    let none = Holder::default();
    let holder = address.holder.as_ref().unwrap_or(&none);
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let pod = Some(format!("{}/{}", holder.namespace, holder.pod)).filter(|_| !holder.pod.is_empty());
    let id_name = if holder.kind == "named" { "holder" } else { "container" };
    let facts = [
        ("state", text(&address.state)),
        ("since", time(address.since)),
        ("until", time(address.until)),
        ("network", text(&address.network)),
        ("pool", address.pool.as_deref().and_then(text)),
        ("pod", pod),
        ("pod UID", text(&holder.uid)),
        (id_name, text(&holder.id)),
        ("interface", text(&holder.ifname)),
        ("CNI network", text(&holder.network)),
        ("node", text(&holder.node)),
        ("kept for", text(&holder.identity)),
        ("keep", text(&holder.keep)),
    ];
    ui.line(&address.title())?;
    for (name, value) in facts {
        if let Some(value) = value {
            ui.line(&format!("  {name:<12} {value}"))?;
        }
    }
    Ok(())
}
