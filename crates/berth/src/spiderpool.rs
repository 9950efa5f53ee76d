//! Spiderpool's switches, from the environment and the file that is named.

use berth_cli::ui::Ui;
use berth_dialects::spiderpool::settings::Settings;
use std::path::Path;

/// Reads them; the exit code if they make no sense.
pub(crate) fn settings(file: Option<&Path>, ui: &mut Ui) -> Result<Settings, u8> {
    let mut fail = |message: String, hint: Option<&str>| {
        ui.fail(&message, hint);
        2
    };
    let text = match file.map(|path| (path, std::fs::read_to_string(path))) {
        None => None,
        Some((_, Ok(text))) => Some(text),
        Some((path, Err(error))) => {
            let hint = Some("it is to have what spiderpool-conf has under conf.yml");
            return Err(fail(format!("--spiderpool-config {}: {error}", path.display()), hint));
        }
    };
    Settings::read(std::env::vars(), text.as_deref()).map_err(|error| fail(error.to_string(), None))
}
