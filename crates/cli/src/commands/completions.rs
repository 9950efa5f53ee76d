//! `berth completions`: the completion script of a shell.

use crate::Result;
use crate::args::CompletionsArgs;
use crate::ui::Ui;

pub(super) fn run(args: &CompletionsArgs, ui: &mut Ui) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::command(), "berth", &mut script);
    ui.data(&String::from_utf8_lossy(&script))
}
