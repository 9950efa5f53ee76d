//! `berth apply`: send manifests as they are written; the daemon reads them.

use crate::args::{ApplyArgs, Format};
use crate::client::Client;
use crate::ui::Ui;
use crate::{Result, manifest};
use serde::Deserialize;

#[derive(Deserialize)]
struct Applied {
    results: Vec<Outcome>,
}

#[derive(Deserialize)]
struct Outcome {
    kind: String,
    namespace: Option<String>,
    name: String,
    action: String,
}

pub(super) fn run(args: &ApplyArgs, client: &Client, ui: &mut Ui) -> Result<()> {
    let text = manifest::read(&args.files)?;
    let dry_run = args.dry_run.then_some("true");
    let answer = client.post_yaml(&["apply"], &[("dryRun", dry_run)], text)?;
    if ui.raw(args.output.format, &answer)? {
        return Ok(());
    }
    for Outcome { kind, namespace, name, action } in client.read::<Applied>(answer)?.results {
        let kind = kind.to_lowercase();
        let namespace = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let line = match args.output.format {
            Format::Name => format!("{kind}/{name}"),
            _ => format!("{kind} {namespace}{name} {action}{}", if args.dry_run { " (dry run)" } else { "" }),
        };
        ui.line(&line)?;
    }
    Ok(())
}
