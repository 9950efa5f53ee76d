//! What needs the cluster's API: `berth agent`, `berth explain pod`, `berth check --cluster`.

use crate::serve::log_format;
use crate::spiderpool;
use berth_agent::AgentOptions;
use berth_cli::args::{AgentArgs, CheckArgs, ExplainPodArgs};
use berth_cli::ui::Ui;
use berth_kube::Connect;
use std::time::Duration;

pub(crate) fn run(args: &AgentArgs, ui: &mut Ui) -> u8 {
    let spiderpool = match spiderpool::settings(args.spiderpool_config.as_deref(), ui) {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    let options = AgentOptions {
        node_name: args.node_name.clone(),
        connect: Connect { kubeconfig: args.kubeconfig.clone(), server: args.api_server.clone() },
        socket: args.daemon.socket.clone(),
        state_dir: args.daemon.state_dir.clone(),
        listen: args.listen.0,
        missing_for: Some(Duration::from_secs(args.missing_for)),
        empty_for: Some(Duration::from_secs(args.empty_for)),
        idle_lease_for: Some(Duration::from_secs(args.idle_lease_for)),
        write_block_every: Some(Duration::from_secs(args.write_block_every)),
        promise_for: Some(Duration::from_secs(args.promise_for)),
        spiderpool_socket: args.spiderpool_socket.clone(),
        spiderpool,
        log_format: log_format(args.daemon.log.log_format),
        log_level: args.daemon.log.log_level.clone(),
    };
    match berth_agent::run(&options) {
        Ok(()) => 0,
        Err(error) => {
            ui.fail(&format!("{error:#}"), None);
            1
        }
    }
}

pub(crate) fn explain(args: &ExplainPodArgs, ui: &mut Ui) -> u8 {
    let pod = args.pod.split_once('/').unwrap_or(("default", &args.pod));
    let spiderpool = match spiderpool::settings(args.spiderpool_config.as_deref(), ui) {
        Ok(settings) => settings.conf,
        Err(code) => return code,
    };
    let connect = Connect::as_kubectl(args.kubeconfig.clone());
    match berth_agent::explain_pod(&connect, pod, &args.interface, &spiderpool) {
        Ok(answer) => berth_cli::explain(answer, args, ui),
        Err(error) => {
            ui.fail(&format!("{error:#}"), None);
            1
        }
    }
}

pub(crate) fn check(args: &CheckArgs, ui: &mut Ui) -> u8 {
    match berth_agent::check_cluster(&Connect::as_kubectl(args.kubeconfig.clone())) {
        Ok(answer) => berth_cli::check(answer, args, ui),
        Err(error) => {
            ui.fail(&format!("{error:#}"), None);
            1
        }
    }
}
