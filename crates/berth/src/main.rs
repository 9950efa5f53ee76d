//! `berth`: the daemon and its command line, wired together.

mod agent;
mod controller;
mod generate;
mod serve;
mod spiderpool;

use berth_cli::args::{ClientCommand, Command, ExplainArgs, ExplainWhat, ExportTarget, ImportSource};
use berth_cli::ui::Ui;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = berth_cli::parse(std::env::args_os()).unwrap_or_else(|error| error.exit());
    let mut ui = Ui::of_process(&cli.global);
    ExitCode::from(match &cli.command {
        Command::Client(ClientCommand::Explain(ExplainArgs { what: Some(ExplainWhat::Pod(args)), .. })) => {
            agent::explain(args, &mut ui)
        }
        Command::Client(ClientCommand::Check(args)) if args.cluster || args.kubeconfig.is_some() => {
            agent::check(args, &mut ui)
        }
        Command::Import(ImportSource::HostLocal(args)) => berth_cli::import_host_local(args, &cli.global, &mut ui),
        Command::Import(ImportSource::Spiderpool(args)) => controller::import_spiderpool(args, &mut ui),
        Command::Export(ExportTarget::Spiderpool(args)) => controller::export_spiderpool(args, &mut ui),
        Command::Client(command) => berth_cli::run(command, &cli.global, &mut ui),
        Command::Generate(args) => generate::run(args.what, &mut ui),
        Command::Serve(args) => serve::run(args, &mut ui),
        Command::Agent(args) => agent::run(args, &mut ui),
        Command::Controller(args) => controller::run(args, &mut ui),
        Command::Reclaim(args) => controller::reclaim(args, &mut ui),
        Command::Uninstall(args) => controller::uninstall(args, &mut ui),
    })
}
