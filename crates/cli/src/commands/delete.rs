//! `berth delete`: by name, or what a file describes.

use super::each;
use crate::Result;
use crate::args::DeleteArgs;
use crate::client::Client;
use crate::manifest::{self, ObjectRef};
use crate::ui::Ui;

pub(super) fn run(args: &DeleteArgs, client: &Client, ui: &mut Ui) -> Result<()> {
    each(&targets(args)?, ui, |ObjectRef { kind, namespace, name }, ui| {
        client.delete(&["objects", kind, name], &[("namespace", namespace.as_deref())])?;
        let place = namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        ui.line(&format!("{} {place}{name} deleted", kind.to_lowercase()))
    })
}

fn targets(args: &DeleteArgs) -> Result<Vec<ObjectRef>> {
    let Some(kind) = &args.kind else {
        // What was made last may stand on what was made first: pools on their subnet.
        let mut objects = manifest::objects(&manifest::read(&args.files)?)?;
        objects.reverse();
        return Ok(objects);
    };
    let target =
        |name: &String| ObjectRef { kind: kind.clone(), namespace: args.namespace.clone(), name: name.clone() };
    Ok(args.names.iter().map(target).collect())
}
