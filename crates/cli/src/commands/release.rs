//! `berth release`: give back addresses, or everything that a holder or a node has.

use super::each;
use crate::Result;
use crate::args::{Format, ReleaseArgs};
use crate::client::Client;
use crate::ui::Ui;
use serde::Deserialize;
use serde_json::Value;
use std::net::IpAddr;

#[derive(Deserialize)]
struct Released {
    released: Vec<IpAddr>,
}

pub(super) fn run(args: &ReleaseArgs, client: &Client, ui: &mut Ui) -> Result<()> {
    if args.addresses.is_empty() {
        let query = [("holder", args.holder.as_deref()), ("node", args.node.as_deref())];
        let answer = client.delete(&["addresses"], &query)?;
        let whose = match (&args.holder, &args.node) {
            (_, Some(node)) => format!("Nothing is held on {node}."),
            (holder, None) => format!("{} holds nothing.", holder.as_deref().unwrap_or_default()),
        };
        return print(answer, args.output.format, &whose, client, ui);
    }
    each(&args.addresses, ui, |address, ui| {
        let query = [("network", args.network.as_deref())];
        let answer = client.delete(&["addresses", &address.to_string()], &query)?;
        print(answer, args.output.format, &format!("{address} is not in use."), client, ui)
    })
}

fn print(answer: Value, format: Format, nothing: &str, client: &Client, ui: &mut Ui) -> Result<()> {
    if ui.raw(format, &answer)? {
        return Ok(());
    }
    let released = client.read::<Released>(answer)?.released;
    if released.is_empty() {
        ui.note(nothing);
    }
    let suffix = if format == Format::Name { "" } else { " released" };
    released.iter().try_for_each(|address| ui.line(&format!("{address}{suffix}")))
}
