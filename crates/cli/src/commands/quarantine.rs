//! `berth quarantine`: keep an address from being given out.

use super::show;
use crate::Result;
use crate::args::QuarantineArgs;
use crate::client::Client;
use crate::ui::Ui;
use serde_json::json;

pub(super) fn run(args: &QuarantineArgs, client: &Client, ui: &mut Ui) -> Result<()> {
    let mut request = json!({ "address": args.address });
    for (field, value) in [("network", &args.network), ("for", &args.duration)] {
        if let Some(value) = value {
            request[field] = json!(value);
        }
    }
    let answer = client.post(&["quarantine"], &request)?;
    show::in_full(json!({ "items": [answer] }), args.output.format, client, ui)
}
