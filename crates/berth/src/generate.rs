//! `berth generate`: the documents under `docs/reference/`, from the code that they describe.

use berth_cli::args::Generated;
use berth_cli::ui::Ui;

pub(crate) fn run(what: Generated, ui: &mut Ui) -> u8 {
    let text = match what {
        Generated::Cli => berth_cli::markdown(),
        Generated::Openapi => berth_server::openapi_json(),
        Generated::Metrics => berth_server::metrics_markdown(),
        Generated::Schemas => schemas(),
        Generated::Webhook => berth_dialects::crd::webhook_yaml().unwrap_or_default(),
    };
    berth_cli::print(&text, ui)
}

/// The schemas of the objects are a part of the API's description.
fn schemas() -> String {
    let api: serde_json::Value = serde_json::from_str(&berth_server::openapi_json()).unwrap_or_default();
    format!("{:#}", api["components"]["schemas"])
}
