//! `berth agent`: the node agent with the options of the command line.

use crate::serve::log_format;
use berth_agent::AgentOptions;
use berth_cli::args::AgentArgs;
use berth_cli::ui::Ui;
use berth_kube::Connect;
use std::time::Duration;

pub(crate) fn run(args: &AgentArgs, ui: &mut Ui) -> u8 {
    let options = AgentOptions {
        node_name: args.node_name.clone(),
        connect: Connect { kubeconfig: args.kubeconfig.clone(), server: args.api_server.clone() },
        socket: args.socket.clone(),
        state_dir: args.state_dir.clone(),
        listen: args.listen.0,
        missing_for: Some(Duration::from_secs(args.missing_for)),
        log_format: log_format(args.log_format),
        log_level: args.log_level.clone(),
    };
    match berth_agent::run(&options) {
        Ok(()) => 0,
        Err(error) => {
            ui.fail(&format!("{error:#}"), None);
            1
        }
    }
}
