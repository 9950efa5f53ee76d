//! What each command does, one file each.

mod allocate;
mod apply;
pub(crate) mod check;
mod completions;
mod crds;
mod delete;
pub(crate) mod explain;
pub(crate) mod export;
mod get;
mod history;
pub(crate) mod import;
mod install_cni;
mod leases;
mod man;
mod quarantine;
pub(crate) mod reclaim;
mod release;
mod show;
mod status;
pub(crate) mod takeover;
mod version;

use crate::args::{ClientCommand, Global};
use crate::client::Client;
use crate::ui::Ui;
use crate::{Error, Result};

pub(crate) fn run(command: &ClientCommand, global: &Global, ui: &mut Ui) -> Result<()> {
    let client = || Client::new(&global.server);
    match command {
        ClientCommand::Apply(args) => apply::run(args, &client()?, ui),
        ClientCommand::Get(args) => get::run(args, &client()?, ui),
        ClientCommand::Delete(args) => delete::run(args, &client()?, ui),
        ClientCommand::Allocate(args) => allocate::run(args, &client()?, ui),
        ClientCommand::Release(args) => release::run(args, &client()?, ui),
        ClientCommand::Show(args) => show::run(args, &client()?, ui),
        ClientCommand::History(args) => history::run(args, &client()?, ui),
        ClientCommand::Quarantine(args) => quarantine::run(args, &client()?, ui),
        ClientCommand::Explain(args) => explain::run(args, &client()?, ui),
        ClientCommand::Leases(args) => leases::run(args, &client()?, ui),
        ClientCommand::Status(args) => status::run(args, &client()?, ui),
        ClientCommand::Check(args) => check::run(args, &client()?, ui),
        ClientCommand::Crds(args) => crds::run(args, ui),
        ClientCommand::InstallCni(args) => install_cni::run(args, ui),
        ClientCommand::Completions(args) => completions::run(args, ui),
        ClientCommand::Man(args) => man::run(args, ui),
        ClientCommand::Version => version::run(ui),
    }
}

/// Does something to each item and goes on when one fails: what can be taken down is. All failures are reported, the
/// last one as the result.
fn each<T>(items: &[T], ui: &mut Ui, mut act: impl FnMut(&T, &mut Ui) -> Result<()>) -> Result<()> {
    let mut failure: Option<Error> = None;
    for item in items {
        if let Err(error) = act(item, ui)
            && let Some(earlier) = failure.replace(error)
        {
            ui.report(&earlier);
        }
    }
    failure.map_or(Ok(()), Err)
}
