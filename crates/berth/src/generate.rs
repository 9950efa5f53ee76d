//! `berth generate`: the documents under `docs/reference/`, from the code that they describe.

use berth_cli::args::Generated;
use berth_cli::ui::Ui;

pub(crate) fn run(what: Generated, ui: &mut Ui) -> u8 {
    let text = match what {
        Generated::Cli => berth_cli::markdown(),
        Generated::Openapi => berth_server::openapi_json(),
        Generated::Metrics => metrics(),
        Generated::Schemas => schemas(),
        Generated::Webhook => berth_dialects::crd::webhook_yaml().unwrap_or_default(),
    };
    berth_cli::print(&text, ui)
}

fn metrics() -> String {
    let daemon = berth_server::metrics_table(&berth_server::sample_metrics());
    let agent = berth_server::metrics_table(&berth_agent::sample_metrics());
    let controller = berth_server::metrics_table(&berth_controller::sample_metrics());
    format!(
        "# Metrics\n\nServed at `/metrics`, in Prometheus' text format. A dashboard for Grafana and alert rules are in \
         `deploy/monitoring`.\n\n## `berth serve`\n\n{daemon}\n## `berth agent`\n\n{agent}\n## `berth controller`\n\n{controller}"
    )
}

/// The schemas of the objects are a part of the API's description.
fn schemas() -> String {
    let api: serde_json::Value = serde_json::from_str(&berth_server::openapi_json()).unwrap_or_default();
    format!("{:#}", api["components"]["schemas"])
}
