//! `berth crds`: the custom resource definitions, for `kubectl apply -f -`.

use crate::args::CrdsArgs;
use crate::ui::Ui;
use crate::{Error, Result};
use berth_dialects::crd;
use berth_dialects::kinds::{self, Dialect, KindInfo};
use std::io;

/// What stands for all kinds of Spiderpool.
const SPIDERPOOL: &str = "spiderpool";

pub(super) fn run(args: &CrdsArgs, ui: &mut Ui) -> Result<()> {
    let wanted: Vec<&KindInfo> = match &args.kind {
        None => crd::kinds().collect(),
        Some(typed) if typed == SPIDERPOOL => crd::kinds_of(Dialect::Spiderpool).collect(),
        Some(typed) => vec![find(typed)?],
    };
    ui.data(&crd::yaml(wanted).map_err(io::Error::other)?)
}

fn find(typed: &str) -> Result<&'static KindInfo> {
    let known = kinds::find(typed);
    known.filter(|info| crd::definition(info).is_some()).ok_or_else(|| Error::Usage {
        message: match known {
            Some(info) => format!("{} is another system's kind, which brings its own definition", info.kind),
            None => format!("there is no kind {typed:?}"),
        },
        hint: "`berth crds` without a kind prints every definition there is",
    })
}
