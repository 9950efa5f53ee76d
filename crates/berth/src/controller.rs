//! `berth controller` and `berth reclaim`.

use crate::serve::log_format;
use crate::spiderpool;
use berth_cli::args::{ControllerArgs, ExportArgs, ReclaimArgs, SpiderpoolArgs, UninstallArgs};
use berth_cli::ui::Ui;
use berth_controller::{Class, ControllerOptions, Times, WebhookOptions};
use berth_kube::Connect;
use std::time::Duration;

/// How often everything is looked at, whatever has happened.
const AUDIT: Duration = Duration::from_secs(600);

pub(crate) fn run(args: &ControllerArgs, ui: &mut Ui) -> u8 {
    let settings = match spiderpool::settings(args.spiderpool_config.as_deref(), ui) {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    let mut times = Times::default();
    settings.set_times(&mut times);
    for given in &args.reclaim {
        let Some(class) = Class::named(&given.class) else {
            let known: Vec<&str> = Class::ALL.iter().map(|class| class.name()).collect();
            let hint = format!("there are {}", known.join(", "));
            ui.fail(&format!("--reclaim: there is no class {:?}", given.class), Some(&hint));
            return 2;
        };
        times.set(class, given.time);
    }
    let options = ControllerOptions {
        connect: Connect { kubeconfig: args.kubeconfig.clone(), server: args.api_server.clone() },
        namespace: args.namespace.clone(),
        replica: args.replica.clone().unwrap_or_else(|| format!("{}-{}", hostname(), std::process::id())),
        listen: args.listen.0,
        webhook: args.webhook.0.map(|listen| WebhookOptions { listen, names: args.webhook_name.clone() }),
        times,
        audit: args.audit.or(settings.audit).unwrap_or(AUDIT),
        spiderpool: settings,
        log_format: log_format(args.log.log_format),
        log_level: args.log.log_level.clone(),
    };
    match berth_controller::run(&options) {
        Ok(()) => 0,
        Err(error) => {
            ui.fail(&format!("{error:#}"), None);
            1
        }
    }
}

fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

pub(crate) fn reclaim(args: &ReclaimArgs, ui: &mut Ui) -> u8 {
    let connect = Connect::as_kubectl(args.kubeconfig.clone());
    match berth_controller::reclaim_now(&connect, args.dry_run) {
        Ok(answer) => berth_cli::reclaimed(answer, args, ui),
        Err(error) => {
            ui.fail(&format!("{error:#}"), None);
            1
        }
    }
}

pub(crate) fn import_spiderpool(args: &SpiderpoolArgs, ui: &mut Ui) -> u8 {
    match berth_controller::import_spiderpool(&Connect::as_kubectl(args.kubeconfig.clone()), args.apply) {
        Ok(answer) => berth_cli::taken_over(answer, args, ui),
        Err(error) => {
            ui.fail(&format!("{error:#}"), None);
            1
        }
    }
}

pub(crate) fn export_spiderpool(args: &ExportArgs, ui: &mut Ui) -> u8 {
    match berth_controller::export_spiderpool(&Connect::as_kubectl(args.kubeconfig.clone()), args.apply) {
        Ok(answer) => berth_cli::exported(answer, args, ui),
        Err(error) => {
            ui.fail(&format!("{error:#}"), None);
            1
        }
    }
}

pub(crate) fn uninstall(args: &UninstallArgs, ui: &mut Ui) -> u8 {
    let connect = Connect { kubeconfig: args.kubeconfig.clone(), server: args.api_server.clone() };
    match berth_controller::uninstall(&connect) {
        Ok(changed) => {
            ui.note(&format!("Took the webhook's registrations away, and the finalizer off {changed} objects."));
            0
        }
        Err(error) => {
            ui.fail(&format!("{error:#}"), None);
            1
        }
    }
}
