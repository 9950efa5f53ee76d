//! `berth export spiderpool`: a cluster in Spiderpool's words.

use crate::args::{ExportArgs, Format};
use crate::ui::Ui;
use crate::{Error, Result};
use serde::Deserialize;
use serde_json::Value;
use std::io;

#[derive(Deserialize)]
struct Answer {
    objects: Vec<Value>,
    refused: Vec<Remark>,
    remarks: Vec<Remark>,
}

#[derive(Deserialize)]
struct Remark {
    object: String,
    reason: String,
}

/// Prints the objects, and says what is not among them.
pub(crate) fn print(answer: Value, args: &ExportArgs, ui: &mut Ui) -> Result<()> {
    let format = args.output.format;
    let whole = (format == Format::Json).then(|| answer.clone());
    let Answer { objects, refused, remarks } = serde_json::from_value(answer).map_err(io::Error::other)?;
    match whole {
        Some(answer) => {
            ui.raw(format, &answer)?;
        }
        None if format == Format::Name => {
            let name = |object: &Value, field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            for object in &objects {
                let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
                let namespace = Some(name(object, "namespace")).filter(|own| !own.is_empty());
                let namespace = namespace.map(|own| format!("{own}/")).unwrap_or_default();
                ui.line(&format!("{kind}/{namespace}{}", name(object, "name")))?;
            }
        }
        None => {
            for object in &objects {
                let text = serde_saphyr::to_string(object).map_err(io::Error::other)?;
                ui.data(&format!("---\n{text}"))?;
            }
        }
    }
    for Remark { object, reason } in &remarks {
        ui.note(&format!("{object} {reason}"));
    }
    for Remark { object, reason } in &refused {
        ui.fail(&format!("{object} is left out: {reason}"), None);
    }
    if !args.apply {
        ui.note("Nothing was made. With --apply it is.");
    }
    if refused.is_empty() { Ok(()) } else { Err(Error::NotExported(refused.len())) }
}
