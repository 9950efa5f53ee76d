//! `berth get`: objects as tables, JSON or YAML.

use super::show;
use crate::args::{Format, GetArgs};
use crate::client::Client;
use crate::ui::Ui;
use crate::{Error, Result, columns};
use berth_dialects::kinds;
use serde_json::Value;

pub(super) fn run(args: &GetArgs, client: &Client, ui: &mut Ui) -> Result<()> {
    let namespace = args.scope.namespace.as_deref();
    if is_endpoints(&args.kind) {
        return endpoints(args, namespace, client, ui);
    }
    let query = [("namespace", namespace)];
    let answer = match &args.name {
        Some(name) => client.get(&["objects", &args.kind, name], &query)?,
        None => client.get(&["objects", &args.kind], &query)?,
    };
    if ui.raw(args.output.format, &answer)? {
        return Ok(());
    }
    let objects = match answer.get("items") {
        Some(items) => client.read::<Vec<Value>>(items.clone())?,
        None => vec![answer],
    };
    if objects.is_empty() {
        let place = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
        ui.note(&format!("No {} found{place}.", args.kind));
        return Ok(());
    }
    if args.output.format == Format::Name {
        return objects.iter().try_for_each(|object| ui.line(&columns::name(object)));
    }
    let all = args.output.format == Format::Wide;
    let now = ui.now();
    ui.table(&mut columns::table(&objects, all, now))
}

/// Endpoints are no objects of the daemon: what is held is read from the blocks, as addresses.
fn is_endpoints(kind: &str) -> bool {
    kinds::find(kind).is_some_and(|info| info.kind == "IPEndpoint")
}

fn endpoints(args: &GetArgs, namespace: Option<&str>, client: &Client, ui: &mut Ui) -> Result<()> {
    if args.name.is_some() {
        let message = "endpoints have no names of their own".to_owned();
        return Err(Error::Usage { message, hint: "use `berth show --holder NAME` or `berth show ADDRESS`" });
    }
    let mut answer = show::list(client, &[("namespace", namespace)])?;
    // Quarantined and cooling addresses are nobody's.
    if let Some(items) = answer["items"].as_array_mut() {
        items.retain(|item| {
            !item["holder"].is_null() && ["Active", "Held"].contains(&item["state"].as_str().unwrap_or(""))
        });
    }
    show::print(answer, args.output.format, client, ui)
}
