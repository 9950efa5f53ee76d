//! `berth serve`: the daemon with the options of the command line.

use berth_cli::args::{Durability, LogFormat, ServeArgs};
use berth_cli::ui::Ui;
use berth_server::ServeOptions;

pub(crate) fn run(args: &ServeArgs, ui: &mut Ui) -> u8 {
    match berth_server::serve(&options(args)) {
        Ok(()) => 0,
        Err(error) => {
            ui.fail(&format!("{error:#}"), None);
            1
        }
    }
}

fn options(args: &ServeArgs) -> ServeOptions {
    ServeOptions {
        socket: args.daemon.socket.clone(),
        state_dir: args.daemon.state_dir.clone(),
        listen: args.listen.0,
        durability: match args.durability {
            Durability::Boot => berth_store::Durability::Boot,
            Durability::Always => berth_store::Durability::Always,
        },
        audit_days: args.audit_days,
        log_format: log_format(args.daemon.log.log_format),
        log_level: args.daemon.log.log_level.clone(),
        node_name: args.node_name(),
    }
}

pub(crate) const fn log_format(format: LogFormat) -> berth_server::LogFormat {
    match format {
        LogFormat::Text => berth_server::LogFormat::Text,
        LogFormat::Json => berth_server::LogFormat::Json,
    }
}
